#include "autotune/spaces/stage_sketch.h"

#include "dsl/extern.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Relative cost of reading one vector along the axis: 1 for dense reads, less for a broadcast.
double cost_of(const SketchRead &read, const std::string &axis, int lanes, bool packable) {
    if (!read.uses(axis)) return 0.3;
    const auto step = read.step(axis);
    if (step == 1) return 1;
    if (packable && read.plain(axis)) return 1.5;
    if (step && std::abs(*step) <= 4) return 2;
    return lanes;
}

// Time factor for the unused lanes of partial vectors.
double waste_of(int64_t extent, int lanes) {
    const int64_t vectors = (extent + lanes - 1) / lanes;
    return static_cast<double>(vectors * lanes) / static_cast<double>(std::max<int64_t>(extent, 1));
}

} // namespace

std::optional<size_t> SketchRead::plain(const std::string &axis) const {
    std::optional<size_t> found;
    for (size_t d = 0; d < indices.size(); d++) {
        if (!expr_uses_var(indices[d], axis)) continue;
        const auto *v = indices[d].as<Variable>();
        if (found || !v) return std::nullopt;
        found = d;
    }
    return found;
}

std::optional<int64_t> SketchRead::step(const std::string &axis) const {
    for (size_t d = 0; d + 1 < indices.size(); d++) {
        if (expr_uses_var(indices[d], axis)) return std::nullopt;
    }
    return indices.empty() ? 0 : slope_of(indices.back(), axis);
}

bool StageSketch::reduces(const std::string &axis) const {
    return std::any_of(stage->reduction_axes.begin(), stage->reduction_axes.end(),
                       [&](const Axis &a) { return a.name() == axis; });
}

int64_t extent_of(const Axis &axis) { return library::constant_extent(axis).value_or(sketched_extent); }

int64_t extent_of(const Stage &stage, const std::string &axis) { return extent_of(*find_axis(stage, axis)); }

StageSketch sketch_stage(const Stage &stage, const Machine &machine) {
    StageSketch s;
    s.stage = &stage;
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) s.steps *= extent_of(a);
    }
    for (const Expr &e : stage.expressions()) {
        for (const Call *call : tensor_reads(e)) {
            const auto same = [&](const SketchRead &r) {
                return r.tensor == call->name &&
                       std::equal(r.indices.begin(), r.indices.end(), call->args.begin(), call->args.end(),
                                  [](const Expr &a, const Expr &b) { return equal(a, b); });
            };
            if (std::any_of(s.reads.begin(), s.reads.end(), same)) continue;
            SketchRead read{call->name, call->args, {}};
            for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
                for (const Axis &a : *axes) {
                    const auto here = [&](const Expr &index) { return expr_uses_var(index, a.name()); };
                    if (std::any_of(read.indices.begin(), read.indices.end(), here)) read.axes.insert(a.name());
                }
            }
            s.reads.push_back(std::move(read));
        }
    }
    const bool ordered = stage.is_reduction() && (!stage.properties.associative || !stage.properties.commutative);
    const bool empty = s.steps == 0 || (stage.axes.empty() && !stage.is_reduction());
    if (is_extern(stage) || stage.reads_itself() || scattered(stage) || ordered || empty) return s;
    s.kind = stage.is_reduction() ? StageSketch::Kind::Reduction : StageSketch::Kind::Points;

    const int lanes = library::vector_lanes(machine, stage.type);
    std::vector<std::pair<double, std::string>> vectors;
    const auto candidate = [&](const Axis &a, bool packable, double store) {
        if (lanes < 2 || extent_of(a) < std::min(lanes, 4)) return;
        double cost = store;
        for (const SketchRead &r : s.reads) cost += cost_of(r, a.name(), lanes, packable);
        vectors.emplace_back(cost * waste_of(extent_of(a), lanes), a.name());
    };
    for (const Axis &a : stage.axes) {
        const bool last = a.name() == stage.axes.back().name();
        candidate(a, stage.is_reduction(), last ? 0.5 : stage.is_reduction() ? 1.5 : lanes / 2.0);
    }
    if (stage.is_reduction()) {
        const Axis &last = stage.reduction_axes.back();
        const auto across = [&](const SketchRead &r) { return r.uses(last.name()) && r.step(last.name()) != 1; };
        if (std::none_of(s.reads.begin(), s.reads.end(), across)) candidate(last, false, 0.7);
        for (const Axis &k : stage.reduction_axes) {
            if (s.depth.empty() || extent_of(k) > extent_of(stage, s.depth)) s.depth = k.name();
        }
        for (const Axis &k : stage.reduction_axes) {
            if (k.name() != s.depth) s.window.push_back(k.name());
        }
    }
    std::stable_sort(vectors.begin(), vectors.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    constexpr size_t max_vectors = 3, max_tiles = 3;
    for (const auto &[cost, axis] : vectors) {
        if (s.vector_axes.size() < max_vectors) s.vector_axes.push_back(axis);
    }

    std::vector<std::pair<int64_t, std::string>> tiles; // − number of reads that it helps
    for (const Axis &a : stage.axes) {
        if (extent_of(a) < 2) continue;
        const auto helped = std::count_if(s.reads.begin(), s.reads.end(),
                                          [&](const SketchRead &r) { return !r.uses(a.name()) && !r.axes.empty(); });
        // Axes along which neighbours read overlapping elements, as in windows, count half.
        const auto near = std::count_if(s.reads.begin(), s.reads.end(),
                                        [&](const SketchRead &r) { return r.uses(a.name()) && !r.plain(a.name()); });
        if (2 * helped + near > 0) tiles.emplace_back(-(2 * helped + near), a.name());
    }
    std::stable_sort(tiles.begin(), tiles.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    for (const auto &[helped, axis] : tiles) {
        if (s.tiles.size() < max_tiles) s.tiles.push_back(axis);
    }
    return s;
}

} // namespace kumiko

#include "schedules/library/rolled_stages.h"

#include "dsl/extern.h"
#include "dsl/halide_passes.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "schedules/library/anchor.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <map>

namespace kumiko::library {

namespace {

namespace ir = Halide::Internal;

// How the planes of a stage that one iteration of the output's loop needs move with that loop.
struct Moving {
    size_t axis = 0;    // of the stage
    int64_t step = 1;   // elements along that axis
    int64_t planes = 1; // read by one iteration of a reader
    int64_t border = 0; // planes of the output's loop by which a strip of the stage is larger
};

// The stages that roll, consumers first, with the output at the front.
struct Rings {
    std::vector<std::string> stages;
    std::map<std::string, Moving> moving;
    bool overlap = false;
    int64_t border = 0; // the largest border of the stages
};

// The least and the greatest value of the index at moving = 0, over all steps of the reader's
// reductions; nothing if they depend on another axis.
std::optional<std::pair<int64_t, int64_t>> window_of(const Stage &reader, const Expr &index,
                                                     const std::string &moving) {
    Expr low = ir::substitute(moving, 0, index), high = low;
    for (const Axis &k : reader.reduction_axes) {
        const auto n = constant_extent(k), slope = slope_of(index, k.name());
        if (!n || !slope) return std::nullopt;
        const int last = static_cast<int>(*n - 1);
        low = ir::substitute(k.name(), *slope < 0 ? last : 0, low);
        high = ir::substitute(k.name(), *slope < 0 ? 0 : last, high);
    }
    const auto from = ir::as_const_int(ir::simplify(low)), to = ir::as_const_int(ir::simplify(high));
    return from && to ? std::optional(std::pair(*from, *to)) : std::nullopt;
}

bool is_plain(const Stage &stage) {
    return !is_extern(stage) && !stage.reads_itself() && stage.strides.empty() && !scattered(stage) && !stage.bounded;
}

// The stage that the padding pads, if the padding must roll in its place and nothing else reads
// that stage; "" otherwise. Padding with a number reads the stage at equal indices, so it stays
// inlined.
std::string padded_stage(const Schedule &s, const Stage &padding, const std::set<std::string> &apart) {
    const auto reads = tensor_reads(padding.value);
    const StageState *of = reads.empty() ? nullptr : s.state().producer(reads.front()->name);
    const auto equal = [&](const ir::Call *read) { return reads_at(read, padding.axes); };
    if (!of || std::all_of(reads.begin(), reads.end(), equal) || of->def.kind != Stage::Kind::Pointwise ||
        !is_plain(of->def) || !of->def.components.empty() || of->placement.kind != Placement::Kind::Root ||
        s.op().is_output(of->name()) || apart.count(of->name()) || holds_stages(s, of->name()) ||
        s.state().readers(of->name()).size() != 1)
        return "";
    return of->name();
}

// Whether the stage's loops can be divided by planes: it gets no register tile and no partial
// results in lanes. Stages in `apart` cannot.
bool has_planes(const Schedule &s, const Stage &stage, const std::set<std::string> &apart) {
    return stage.axes.size() > 1 && is_plain(stage) && !apart.count(stage.name) && !holds_stages(s, stage.name) &&
           !(stage.is_reduction() &&
             (gets_tile(s.op(), stage, s.machine()) || has_instruction(s.op(), stage, s.machine()) ||
              reads_along(stage, stage.reduction_axes.back().name())));
}

class Search {
public:
    Search(const Schedule &s, const Stage &host, const std::set<std::string> &apart) : s_(s), host_(host) {
        kept_ = kept_tensors(s.state());
        for (const Stage &stage : s.op().stages()) {
            if (stage.kind != Stage::Kind::Padding || apart.count(stage.name)) continue;
            const std::string of = padded_stage(s, stage, apart);
            if (of.empty()) continue;
            padded_[stage.name] = of;
            kept_.insert(stage.name);
            kept_.erase(of);
        }
        for (const Stage &stage : s.op().stages()) {
            if (!kept_.count(stage.name)) continue;
            const std::string padded = padded_by(stage.name);
            const Stage &body = padded.empty() ? stage : s.op().stage(padded);
            for (auto &[tensor, indices] : reads_of(s.op(), body, kept_)) {
                if (const StageState *of = s.state().producer(tensor))
                    read_by_[of->name()].push_back({stage.name, indices});
            }
            const StageState &state = s.state().stage(stage.name);
            const bool root = state.placement.kind == Placement::Kind::Root || !padded.empty();
            if (root && !s.op().is_output(stage.name) && state.finished_by.empty() && has_planes(s, stage, apart))
                may_roll_.insert(stage.name);
        }
    }

    // The stages that roll along an axis of the output.
    Rings along(size_t axis) const {
        Rings all;
        all.stages.push_back(host_.name);
        all.moving[host_.name].axis = axis;
        const auto &stages = s_.op().stages();
        for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
            if (!may_roll_.count(stage->name)) continue;
            const auto moving = moving_of(*stage, all);
            if (!moving) continue;
            all.overlap = all.overlap || moving->planes > moving->step;
            all.border = std::max(all.border, moving->border);
            all.moving[stage->name] = *moving;
            all.stages.push_back(stage->name);
        }
        return all;
    }

    // The stage that the padding pads, if it rolls in place of that stage; "" otherwise.
    std::string padded_by(const std::string &padding) const {
        const auto of = padded_.find(padding);
        return of == padded_.end() ? "" : of->second;
    }

private:
    struct Read {
        std::string reader;
        std::vector<Expr> indices;
    };
    const Schedule &s_;
    const Stage &host_;
    std::set<std::string> kept_, may_roll_;
    std::map<std::string, std::string> padded_;
    std::map<std::string, std::vector<Read>> read_by_;

    std::optional<Moving> moving_of(const Stage &stage, const Rings &all) const {
        const auto reads = read_by_.find(stage.name);
        if (reads == read_by_.end()) return std::nullopt;
        std::optional<Moving> moving;
        int64_t first = 0, last = 0;
        for (const auto &[name, indices] : reads->second) {
            const auto found = all.moving.find(name);
            if (found == all.moving.end() || padded_.count(name)) return std::nullopt;
            const Stage &reader = s_.op().stage(name);
            const std::string &axis = reader.axes[found->second.axis].name();
            std::optional<size_t> along;
            for (size_t d = 0; d < indices.size(); d++) {
                const auto slope = slope_of(indices[d], axis);
                if (!slope || (*slope != 0 && along) || *slope < 0) return std::nullopt;
                if (*slope == 0) continue;
                along = d;
                const auto window = window_of(reader, indices[d], axis);
                const int64_t step = *slope * found->second.step;
                if (!window || (moving && (moving->axis != d || moving->step != step))) return std::nullopt;
                first = moving ? std::min(first, window->first) : window->first;
                last = moving ? std::max(last, window->second) : window->second;
                if (!moving) moving = Moving{d, step, 1, 0};
                moving->border = std::max(moving->border, found->second.border);
            }
            if (!along) return std::nullopt;
        }
        if (!moving || moving->axis + 1 == stage.axes.size()) return std::nullopt;
        // If all reads are behind, the first iterations need no plane but the border.
        if (last < 0) return std::nullopt;
        moving->planes = last - first + 1;
        moving->border += (moving->planes - 1) / moving->step;
        return moving;
    }
};

// Bytes of stages and of their rings, for one iteration of the loops outside of the planes.
struct Sizes {
    int64_t largest = 0; // all planes of the largest stage
    int64_t rings = 0;   // of all rings
};

Sizes sizes_of(const Op &op, const Rings &rings) {
    constexpr int64_t unknown = 1 << 10; // elements of an extent that is not known
    Sizes sizes;
    for (size_t n = 1; n < rings.stages.size(); n++) {
        const Stage &stage = op.stage(rings.stages[n]);
        const Moving &moving = rings.moving.at(stage.name);
        const int64_t values = static_cast<int64_t>(std::max<size_t>(1, stage.components.size()));
        sizes.largest = std::max(sizes.largest, values * bytes_of(stage.type, stage.axes, moving.axis, unknown));
        sizes.rings += values * bytes_of(stage.type, stage.axes, moving.axis + 1, unknown) * moving.planes;
    }
    return sizes;
}

} // namespace

bool roll_stages(Schedule &s, const std::set<std::string> &apart, bool parallel) {
    constexpr int64_t min_planes = 8; // per border plane of a strip
    constexpr int64_t strips_of_thread = 4;
    const Op op = s.op();
    if (op.stages().size() < 2 || op.stages().size() > most_stages) return false;
    const auto &outputs = op.outputs();
    const auto unread =
        std::find_if(outputs.begin(), outputs.end(), [&](const auto &o) { return s.state().readers(o).empty(); });
    if (unread == outputs.end()) return false;
    const Stage host = op.stage(*unread); // directives replace the state
    if (s.state().stage(host.name).placement.kind != Placement::Kind::Root || !has_planes(s, host, apart)) return false;
    const Search search(s, host, apart);
    for (size_t axis = 0; axis + 1 < host.axes.size(); axis++) {
        const Rings rings = search.along(axis);
        if (!rings.overlap) continue;
        const Sizes sizes = sizes_of(op, rings);
        const int64_t l2 = cache_bytes(s.machine(), "L2", 512 << 10), l3 = cache_bytes(s.machine(), "L3", 0);
        if (2 * sizes.largest <= l2) return false; // the next stage finds it in L2
        const int64_t planes = std::max<int64_t>(1, constant_extent(host.axes[axis]).value_or(1 << 10)),
                      least = min_planes * rings.border;
        StageHandle H = s.stage(host.name);
        LoopName kept = host.axes[axis].name(), computed = kept;
        int64_t bytes = sizes.rings;
        std::optional<int64_t> strip; // of the next axis
        if (const auto across = constant_extent(host.axes[axis + 1]);
            bytes > l2 && across && axis + 2 < host.axes.size()) {
            const int64_t border = search.along(axis + 1).border, fewest = std::max<int64_t>(1, min_planes * border),
                          shared = parallel ? *across / (strips_of_thread * threads_of(s.machine())) : *across,
                          most = std::max(std::min(*across * l2 / bytes - border, shared), fewest);
            if (most < *across) {
                strip = balanced_block(*across, most, 1);
                bytes = bytes / *across * (*strip + border);
            }
        }
        if (bytes > std::max(l2, l3 / 4)) return false;
        if (strip) {
            LoopName inside = kept;
            std::tie(kept, inside) = H.split(host.axes[axis + 1].name(), *strip);
            H.reorder({kept, computed, inside});
        } else {
            const int64_t shared = parallel ? planes / (strips_of_thread * threads_of(s.machine())) : planes;
            std::tie(kept, computed) =
                H.split(host.axes[axis].name(), std::clamp(shared, std::min(least, planes), planes));
        }
        for (size_t n = 1; n < rings.stages.size(); n++) {
            const std::string &name = rings.stages[n];
            if (const std::string of = search.padded_by(name); !of.empty()) s.stage(of).inline_into();
            s.stage(name).store_at(host.name, kept).compute_at(host.name, computed);
        }
        return true;
    }
    return false;
}

} // namespace kumiko::library

#include "schedules/library/chip_window.h"

#include "dsl/reads.h"
#include "dsl/types.h"
#include "schedules/library/chip_product.h"

#include <algorithm>
#include <numeric>

namespace kumiko::library {

namespace {

// Coefficient of `axis` in the image's index that uses it; 0 if there is none or it is not affine.
int64_t step_of(const Operand &image, const std::string &axis) {
    for (const Expr &e : image.indices) {
        const auto step = slope_of(e, axis);
        if (!step) return 0;
        if (*step != 0) return *step;
    }
    return 0;
}

std::string padded_input(const Stage &padding) {
    const auto reads = tensor_reads(padding.value);
    return reads.empty() ? "" : reads.back()->name;
}

// Finds the role of each axis of the sum from the operands that use it. Windows move along
// `pixels`, and `taps` are the axes of the window. Returns false if two axes have one role.
bool assign_axes(ChipConvolution &r, const Stage &sum, std::vector<std::string> &pixels,
                 std::vector<std::string> &taps) {
    const auto plain_in_image = [&](const std::string &axis) {
        return std::any_of(r.image.indices.begin(), r.image.indices.end(), [&](const Expr &e) {
            const auto *v = e.as<Halide::Internal::Variable>();
            return v && v->name == axis;
        });
    };
    const auto assign = [](std::string &role, const std::string &axis) {
        if (!role.empty()) return false;
        role = axis;
        return true;
    };
    for (const Axis &a : sum.axes) {
        const std::string name = a.name();
        const bool in_image = r.image.axes.count(name), in_weights = r.weights.axes.count(name);
        if (in_image && in_weights) {
            if (!plain_in_image(name)) return false;
            r.groups.push_back(name);
            r.G *= *constant_extent(a);
        } else if (in_weights) {
            if (!assign(r.o, name)) return false;
        } else if (in_image && plain_in_image(name)) {
            if (!assign(r.n, name)) return false;
        } else {
            pixels.push_back(name);
        }
    }
    for (const Axis &a : sum.reduction_axes) {
        const std::string name = a.name();
        if (!r.image.axes.count(name) || !r.weights.axes.count(name)) return false;
        if (!plain_in_image(name))
            taps.push_back(name);
        else if (!assign(r.c, name))
            return false;
    }
    return true;
}

} // namespace

int64_t ChipDirection::reach(int64_t outputs) const {
    const int64_t a = stride * (outputs - 1), b = dilation * (taps - 1);
    const int64_t lattice = (a + b) / std::gcd(stride, dilation) + 1; // for which a copy needs room
    // windows do not overlap
    return stride > b || dilation > a ? std::max(lattice, outputs * taps) : lattice;
}

std::optional<ChipConvolution> find_chip_convolution(const Op &op) {
    const auto found = find_contraction(op);
    if (!found || found->sum->type != f32) return std::nullopt;
    const Stage &sum = *found->sum;
    for (const auto *axes : {&sum.axes, &sum.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (!constant_extent(a)) return std::nullopt;
        }
    }
    // Weights are read at taps, the image at sums of taps with rows and columns.
    const size_t image = is_plain(found->operands[0]) ? 1 : 0;
    ChipConvolution r;
    r.contraction = *found;
    r.image = found->operands[image];
    r.weights = found->operands[1 - image];
    if (!is_plain(r.weights) || is_plain(r.image)) return std::nullopt;
    const Input *weights = op.find_input(r.weights.tensor);
    r.input = r.image.tensor;
    if (const Stage *s = op.find_stage(r.input)) {
        if (s->kind != Stage::Kind::Padding) return std::nullopt;
        r.input = padded_input(*s);
    }
    const Input *input = op.find_input(r.input);
    if (!input || !weights || input->type != weights->type) return std::nullopt;
    if (input->type != f16 && input->type != f32) return std::nullopt;
    r.single = input->type == f32;
    std::vector<std::string> pixels, taps;
    if (!assign_axes(r, sum, pixels, taps)) return std::nullopt;
    if (pixels.size() != 2 || taps.size() != 2 || r.n.empty() || r.o.empty() != r.c.empty()) return std::nullopt;
    const auto extent = [&](const std::string &axis) { return *constant_extent(*find_axis(sum, axis)); };
    for (const int d : {0, 1}) {
        ChipDirection &to = d ? r.x : r.y;
        to = {pixels[size_t(d)],
              taps[size_t(d)],
              extent(pixels[size_t(d)]),
              extent(taps[size_t(d)]),
              step_of(r.image, pixels[size_t(d)]),
              step_of(r.image, taps[size_t(d)])};
        if (to.stride < 1 || to.dilation < 1) return std::nullopt;
    }
    r.N = extent(r.n);
    if (!r.o.empty()) r.O = extent(r.o), r.C = extent(r.c);
    r.out_bytes = op.stage(op.outputs().front()).type.bytes();
    if (r.single && r.out_bytes != 4) return std::nullopt;
    r.end = has_end(op, *found);
    return r;
}

ChipDistribution distribute_tiles(std::array<int64_t, 3> tiles, const std::array<int64_t, 4> &counts) {
    ChipDistribution d;
    for (size_t level = 0; level < 4; level++) {
        int64_t least = INT64_MAX;
        std::array<int64_t, 3> best{}, rest{};
        for (const int64_t a : divisors(counts[level])) {
            for (const int64_t b : divisors(counts[level] / a)) {
                const std::array<int64_t, 3> u = {a, b, counts[level] / a / b};
                std::array<int64_t, 3> left;
                for (size_t i = 0; i < 3; i++) left[i] = ceil_div(tiles[i], u[i]);
                const int64_t n = left[0] * left[1] * left[2];
                if (n <= least) least = n, best = u, rest = left; // images first
            }
        }
        d.units[level] = best;
        tiles = rest;
    }
    d.left = tiles;
    return d;
}

std::vector<int64_t> even_sizes(int64_t extent, int64_t most) {
    std::vector<int64_t> all;
    for (int64_t parts = 1; parts <= extent; parts++) {
        const int64_t b = ceil_div(extent, parts);
        if (b <= most && (all.empty() || all.back() != b)) all.push_back(b);
    }
    return {all.rbegin(), all.rend()};
}

} // namespace kumiko::library

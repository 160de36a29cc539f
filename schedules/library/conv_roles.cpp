#include "schedules/library/conv_roles.h"

#include "dsl/reads.h"
#include "machine/machine.h"

namespace kumiko::library {

namespace {

// Whether the index is that axis, ignoring window axes of one element.
bool is_variable(Expr e, const std::string &name, const Stage &sum) {
    for (const Axis &a : sum.reduction_axes) {
        if (constant_extent(a) == 1) e = Halide::Internal::substitute(a.name(), 0, e);
    }
    e = Halide::Internal::simplify(e);
    const auto *v = e.as<Halide::Internal::Variable>();
    return v && v->name == name;
}

bool is_one(const Axis &a) { return constant_extent(a) == 1; }

const std::vector<Axis> &axes_of(const Op &op, const std::string &tensor) {
    const auto *input = op.find_input(tensor);
    return input ? input->axes : op.stage(tensor).axes;
}

} // namespace

bool is_dense(const Operand &o, const std::string &axis) {
    return std::all_of(o.indices.begin(), o.indices.end(), [&](const Expr &e) {
        const auto step = slope_of(e, axis);
        return step && *step <= 1;
    });
}

bool shifts(const Operand &o, const std::string &axis) {
    return std::any_of(o.indices.begin(), o.indices.end(), [&](const Expr &e) {
        return Halide::Internal::expr_uses_var(e, axis) && !e.as<Halide::Internal::Variable>();
    });
}

std::optional<ConvRoles> conv_roles(const Op &op) {
    auto c = find_contraction(op, true);
    if (!c || c->sum->axes.size() < 3 || c->sum->reduction_axes.size() < 2) return std::nullopt;
    ConvRoles r;
    r.contraction = *c;
    const Stage &sum = *c->sum;
    // The image is the operand with an index that combines two axes. If weights have one too, as in
    // a transposed convolution, it is the operand with the axis of images.
    int image = -1;
    for (int o = 0; o < 2; o++) {
        if (!is_plain(c->operands[o]) && (image < 0 || c->has(o, sum.axes[0].name()))) image = o;
    }
    // a 1×1 window: the operand whose rank is the output's
    for (int o = 0; o < 2 && image < 0; o++) {
        if (c->operands[o].indices.size() == sum.axes.size()) image = o;
    }
    if (image < 0) return std::nullopt;
    r.image = c->operands[image];
    r.weights = c->operands[1 - image];
    for (const Operand *o : {&r.image, &r.weights}) {
        const Stage *s = op.find_stage(o->tensor);
        if (s && s->kind != Stage::Kind::Padding) return std::nullopt;
        if (s) (o == &r.image ? r.padding : r.weights_padding) = s->name;
    }
    r.vector = sum.axes.back().name();
    r.dense = is_dense(r.image, r.vector);
    r.nhwc = !r.image.axes.count(r.vector) || r.weights.axes.count(r.vector);
    if (r.nhwc) { // n, y, x, o; without y for sequences
        const size_t rows = sum.axes.size() == 3 ? 0 : 1;
        r.other = sum.axes[sum.axes.size() - 2].name();
        if (rows) r.row = sum.axes[sum.axes.size() - 3].name();
        for (size_t d = 0; d + 2 + rows < sum.axes.size(); d++) r.outside.push_back(sum.axes[d].name());
    } else { // n, o, y, x, or n, o, x
        const size_t rows = r.image.axes.count(sum.axes[sum.axes.size() - 2].name());
        if (rows) r.row = sum.axes[sum.axes.size() - 2].name();
        if (rows && is_one(sum.axes.back()) && is_one(axes_of(op, r.image.tensor).back())) {
            std::swap(r.row, r.vector);
            r.dense = is_dense(r.image, r.vector);
        }
        for (size_t d = 0; d + 1 + rows < sum.axes.size(); d++) {
            const std::string &axis = sum.axes[d].name();
            if (r.other.empty() && !r.image.axes.count(axis))
                r.other = axis;
            else
                r.outside.push_back(axis);
        }
        const size_t n = r.image.indices.size();
        r.fusable = rows && n >= 2 && is_variable(r.image.indices[n - 2], r.row, sum) &&
                    is_variable(r.image.indices[n - 1], r.vector, sum);
        if (r.fusable) { // a window of one element over an image that is as large as the output
            for (const Axis &a : sum.reduction_axes) {
                const auto e = constant_extent(a);
                const bool channel = r.image.axes.count(a.name()) && !shifts(r.image, a.name());
                if (!channel && !(e && *e == 1)) r.fusable = false;
            }
            const auto &axes = op.find_input(r.image.tensor) ? op.find_input(r.image.tensor)->axes : sum.axes;
            r.fusable = r.fusable && Halide::Internal::can_prove(axes.back().extent() == sum.axes.back().extent());
        }
    }
    for (const Axis &a : sum.reduction_axes) r.window.push_back(a.name());
    return r;
}

std::string channels_of(const ConvRoles &r) {
    for (const std::string &w : r.window) {
        if (r.image.axes.count(w) && !shifts(r.image, w)) return w;
    }
    return "";
}

int64_t extent_of(const Stage &s, const std::string &axis, int64_t otherwise) {
    const Axis *a = find_axis(s, axis);
    return a ? constant_extent(*a).value_or(otherwise) : 1;
}

void vectorize_innermost(StageHandle S, int64_t lanes) {
    const std::vector<Axis> axes = S.state().def.axes;
    const auto found = std::find_if_not(axes.rbegin(), axes.rend(), is_one);
    const LoopName last = found == axes.rend() ? axes.back().name() : found->name();
    if (last.name != S.state().order.back()) S.reorder({S.state().order.back(), last});
    S.vectorize(last, lanes);
}

std::vector<int64_t> up_to(int64_t n, int64_t extent) {
    std::vector<int64_t> all;
    for (int64_t k = 1; k <= std::min(n, std::max<int64_t>(extent, 1)); k++) all.push_back(k);
    return all;
}

void distribute_over_cores(StageHandle S, const std::vector<LoopName> &order, int64_t threads) {
    int64_t most = 1;
    std::string best;
    for (const LoopName &l : order) {
        const LoopState loop = S.state().loop(l.name);
        if (loop.reduction || loop.kind != LoopKind::Serial) break;
        const int64_t n = Halide::Internal::as_const_int(loop.extent).value_or(INT32_MAX);
        if (n > most && most < threads) most = n, best = l.name;
    }
    if (!best.empty()) S.parallel(best);
}

void pad_image(Schedule &s, const ConvRoles &r, int64_t lanes, int64_t threads) {
    StageHandle X = s.stage(r.padding);
    X.compute_root();
    const std::vector<Axis> axes = X.state().def.axes;
    if (threads > 1) distribute_over_cores(X, {axes[0].name(), axes[1].name()}, threads);
    if (lanes <= 1) return;
    const LoopName pixel = axes[axes.size() - 2].name();
    const bool few = r.nhwc && 4 * constant_extent(axes.back()).value_or(lanes) <= lanes;
    if (few && X.state().loop(pixel.name).kind == LoopKind::Serial)
        X.vectorize(X.fuse(pixel, axes.back().name()), lanes);
    else
        vectorize_innermost(X, lanes);
}

} // namespace kumiko::library

#include "dsl/tensor.h"

#include "dsl/definition.h"
#include "dsl/legal.h"
#include "dsl/padding.h"
#include "dsl/print.h"
#include "support/error.h"

namespace kumiko {

using Halide::Internal::Call;

namespace {

void check_axes(const std::string &name, const std::vector<Axis> &axes, const std::source_location &where) {
    for (size_t a = 0; a < axes.size(); a++) {
        for (size_t b = 0; b < a; b++) {
            if (axes[a].name() == axes[b].name()) {
                throw UserError(where,
                                "axis \"" + axes[a].name() + "\" occurs twice in the axes of tensor \"" + name + "\"");
            }
        }
    }
}

void check_strides(const char *what, const std::string &name, const std::vector<Axis> &axes,
                   const std::vector<Expr> &strides, const std::source_location &where) {
    if (strides.empty()) return;
    if (strides.size() != axes.size()) {
        throw UserError(where, std::string(what) + " \"" + name + "\" has " + std::to_string(axes.size()) +
                                   " axes but " + std::to_string(strides.size()) +
                                   " strides; state one per axis, in elements");
    }
    for (size_t d = 0; d < axes.size(); d++) {
        const std::string which = "the stride of axis \"" + axes[d].name() + "\" of " + what + " \"" + name + "\"";
        if (!strides[d].defined()) throw UserError(where, which + " is undefined");
        check_size_expression(strides[d], which, where);
        if (const auto n = Halide::Internal::as_const_int(Halide::Internal::simplify(strides[d])); n && *n < 0)
            throw UserError(where, which + " is " + std::to_string(*n) + "; legal is 0 or more");
    }
}

// Which positions of x are in `axes`; all if it is empty.
std::vector<bool> chosen_axes(const Tensor &x, const std::vector<Axis> &axes, const std::source_location &where) {
    std::vector<bool> chosen(x.rank(), axes.empty());
    for (const Axis &a : axes) {
        bool found = false;
        for (size_t d = 0; d < x.rank(); d++) {
            if (x.axes()[d].name() == a.name()) chosen[d] = found = true;
        }
        if (!found) throw UserError(where, "tensor \"" + x.name() + "\" has no axis \"" + a.name() + "\"");
    }
    return chosen;
}

Tensor make(TensorContents contents) { return Tensor(std::make_shared<const TensorContents>(std::move(contents))); }

} // namespace

const TensorContents &Tensor::contents() const {
    if (!contents_) throw UserError("this tensor is undefined; make it with input(…) or compute(…)");
    return *contents_;
}
const std::string &Tensor::name() const { return contents().name; }
Type Tensor::type() const { return contents().type; }
const std::vector<Axis> &Tensor::axes() const { return contents().axes; }

Element Tensor::at(const std::vector<Expr> &indices, std::source_location where) const {
    if (!defined()) throw UserError(where, "a tensor that is undefined is read; make it with input(…) or compute(…)");
    const TensorContents &c = contents();
    if (indices.size() != c.axes.size()) {
        throw UserError(where, "tensor \"" + c.name + "\" has " + std::to_string(c.axes.size()) +
                                   " axes but is read with " + std::to_string(indices.size()) + " indices");
    }
    std::vector<Expr> args;
    for (size_t d = 0; d < indices.size(); d++) {
        if (!indices[d].defined())
            throw UserError(where, "index " + std::to_string(d) + " of tensor \"" + c.name + "\" is undefined");
        Type t = indices[d].type();
        if (!t.is_int_or_uint() || t.bits() > 32 || (t.is_uint() && t.bits() == 32)) {
            throw UserError(where, "index " + std::to_string(d) + " of tensor \"" + c.name + "\" has type " +
                                       type_name(t) + "; an index is an int32 expression: cast it");
        }
        args.push_back(t == Int(32) ? indices[d] : Halide::cast(Int(32), indices[d]));
    }
    args.push_back(encode_definition(c));
    return Element(Call::make(c.type, reference_prefix + c.name, args, Call::PureIntrinsic), where);
}

Tensor input(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options,
             std::source_location where) {
    check_name(name, "input", where);
    check_axes(name, axes, where);
    check_element_type(type, "input \"" + name + "\"", where);
    check_strides("input", name, axes, options.strides, where);
    return make({TensorContents::Kind::Input, name, type, axes, options.strides, Expr()});
}

Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value, std::source_location where) {
    return compute(name, axes, value, ComputeOptions(), where);
}

Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value, const ComputeOptions &options,
               std::source_location where) {
    check_name(name, "tensor", where);
    check_axes(name, axes, where);
    check_strides("tensor", name, axes, options.strides, where);
    if (!value.defined()) throw UserError(where, "the value of tensor \"" + name + "\" is undefined");
    check_depth(value, name, where);
    check_element_type(value.type(), "tensor \"" + name + "\"", where);
    return make({TensorContents::Kind::Compute, name, value.type(), axes, options.strides, value});
}

Tensor zero_padded(const Tensor &x, const std::vector<Axis> &axes, std::source_location where) {
    return constant_padded(x, Halide::Internal::make_zero(x.type()), axes, where);
}

Tensor constant_padded(const Tensor &x, const Expr &value, const std::vector<Axis> &axes, std::source_location where) {
    if (!value.defined() || !Halide::Internal::is_const(value))
        throw UserError(where, "the padding value of \"" + x.name() + "\" is not a constant; legal is a number");
    const std::vector<bool> chosen = chosen_axes(x, axes, where);
    Expr inside;
    std::vector<Expr> index;
    for (size_t d = 0; d < x.rank(); d++) {
        const Axis &a = x.axes()[d];
        index.push_back(a);
        if (!chosen[d]) continue;
        const Expr here = Expr(0) <= a && a < a.extent();
        inside = inside.defined() ? inside && here : here;
    }
    if (!inside.defined()) inside = Halide::Internal::const_true(); // a tensor without axes
    const Expr around = value.type() == x.type() ? value : typed::adapted(value, x.type(), "constant_padded");
    const Expr filled = Call::make(x.type(), Call::if_then_else, {inside, x.at(index), around}, Call::PureIntrinsic);
    return make({TensorContents::Kind::Padding, x.name() + ".padded", x.type(), x.axes(), {}, filled});
}

Tensor clamped(const Tensor &x, const std::vector<Axis> &axes, std::source_location where) {
    const std::vector<bool> chosen = chosen_axes(x, axes, where);
    std::vector<Expr> index;
    for (size_t d = 0; d < x.rank(); d++) {
        const Axis &a = x.axes()[d];
        if (const auto n = Halide::Internal::as_const_int(a.extent()); chosen[d] && n && *n == 0)
            throw UserError(where, "clamped(" + x.name() + ") has no element to clamp indices to: axis " + a.name() +
                                       " has no elements; legal is 1 or more");
        index.push_back(chosen[d] ? Halide::clamp(a, 0, a.extent() - 1) : Expr(a));
    }
    return make({TensorContents::Kind::Padding, x.name() + ".clamped", x.type(), x.axes(), {}, x.at(index)});
}

} // namespace kumiko

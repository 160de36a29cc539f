#include "dsl/definition.h"

#include "support/error.h"

namespace kumiko {

using Halide::Internal::Call;
using Halide::Internal::IntImm;
using Halide::Internal::StringImm;
using Halide::Internal::Variable;

namespace {

constexpr const char *definition_name = "kumiko.definition";

// Axis has no constructor from a bare variable, so an axis is rebuilt from its name and extent.
Axis rebuilt_axis(const Expr &variable, const Expr &extent) { return Axis(variable.as<Variable>()->name, extent); }

} // namespace

// {name, kind, a zero of the element type, rank, variables…, extents…, has strides, strides…, value if any}
Expr encode_definition(const TensorContents &c) {
    std::vector<Expr> args = {StringImm::make(c.name), Expr(static_cast<int>(c.kind)),
                              Halide::Internal::make_zero(c.type), Expr(static_cast<int>(c.axes.size()))};
    for (const Axis &a : c.axes) args.push_back(a);
    for (const Axis &a : c.axes) args.push_back(a.extent());
    args.push_back(Expr(static_cast<int>(c.strides.size())));
    for (const Expr &s : c.strides) args.push_back(s);
    if (c.value.defined()) args.push_back(c.value);
    return Call::make(Halide::Handle(), definition_name, args, Call::PureIntrinsic);
}

TensorContents decode_definition(const Expr &definition) {
    const Call *call = definition.as<Call>();
    if (!call || call->name != definition_name) throw InternalError("not a tensor definition");
    const auto &args = call->args;
    auto number = [&](size_t i) { return static_cast<size_t>(args[i].as<IntImm>()->value); };
    TensorContents c;
    c.name = args[0].as<StringImm>()->value;
    c.kind = static_cast<TensorContents::Kind>(number(1));
    c.type = args[2].type();
    const size_t rank = number(3);
    for (size_t d = 0; d < rank; d++) c.axes.push_back(rebuilt_axis(args[4 + d], args[4 + rank + d]));
    const size_t n_strides = number(4 + 2 * rank);
    for (size_t d = 0; d < n_strides; d++) c.strides.push_back(args[5 + 2 * rank + d]);
    if (const size_t last = 5 + 2 * rank + n_strides; last < args.size()) c.value = args[last];
    return c;
}

bool is_reference(const Call *call) {
    if (call->call_type != Call::PureIntrinsic || call->args.empty()) return false;
    const Call *last = call->args.back().as<Call>();
    return last && last->name == definition_name;
}

} // namespace kumiko

#include "dsl/nested.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr const char *nested_name = "kumiko.nested";
constexpr size_t first_axis = 3; // arguments before: name, value, number of axes

size_t rank_of(const Call *call) { return static_cast<size_t>(call->args[2].as<IntImm>()->value); }

} // namespace

// {name, value, number of axes, variables…, extents…, indices…}
Expr NestedTensor::at(const std::vector<Expr> &indices) const {
    std::vector<Expr> args = {StringImm::make(name), value, static_cast<int>(axes.size())};
    for (const Axis &a : axes) args.push_back(a);
    for (const Axis &a : axes) args.push_back(a.extent());
    args.insert(args.end(), indices.begin(), indices.end());
    return Call::make(value.type(), nested_name, args, Call::PureIntrinsic);
}

bool is_nested(const Call *call) { return call->name == nested_name; }

NestedTensor decode_nested(const Call *call) {
    NestedTensor t{call->args[0].as<StringImm>()->value, {}, call->args[1]};
    const size_t rank = rank_of(call);
    for (size_t d = 0; d < rank; d++)
        t.axes.emplace_back(call->args[first_axis + d].as<Variable>()->name, call->args[first_axis + rank + d]);
    return t;
}

std::vector<Expr> nested_indices(const Call *call) {
    return {call->args.begin() + static_cast<std::ptrdiff_t>(first_axis + 2 * rank_of(call)), call->args.end()};
}

} // namespace kumiko

// Extern stages: one call with the arrays of its inputs and outputs.
#include "targets/lower/extern_calls.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

Stmt NestBuilder::extern_stage(const StageState &s) {
    const Call *call = extern_call(s.def);
    std::vector<std::string> tensors = extern_takes(s.def);
    for (const ExternResult &m : extern_makes(s.def)) tensors.push_back(m.name);
    std::vector<Expr> args = {call->args[0], call->args[1], StringImm::make(s.name()),
                              Expr(static_cast<int>(tensors.size()))};
    for (const std::string &t : tensors) {
        const std::string &buffer = buffers_.at(t);
        const Storage &storage = l_.storage.at(buffer);
        const size_t rank = storage.region.extent.size();
        args.push_back(StringImm::make(buffer));
        args.push_back(Expr(static_cast<int>(rank)));
        for (const Axis &a : state_.axes_of(t)) args.push_back(l_.facts.apply(a.extent()));
        std::vector<Expr> strides(rank);
        Expr dense = Halide::cast(Int(64), 1);
        for (size_t d = rank; d-- > 0;) {
            strides[d] = storage.external ? Halide::cast(Int(64), storage.strides[d]) : dense;
            dense = dense * Halide::cast(Int(64), storage.region.extent[d]);
        }
        args.insert(args.end(), strides.begin(), strides.end());
    }
    return Evaluate::make(Call::make(Int(32), extern_call_name, args, Call::Extern));
}

} // namespace kumiko

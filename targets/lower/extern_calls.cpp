#include "targets/lower/extern_calls.h"

#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

ExternUse extern_use(const Call *call) {
    const ExternFunction f = extern_function(call);
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(f.call));
    return {call->args[2].as<StringImm>()->value,
            f.symbol.empty() ? fmt::format("kumiko_extern_{:x}", address) : f.symbol, f};
}

std::vector<ExternUse> extern_uses(const Nest &nest) {
    struct Find : IRVisitor {
        using IRVisitor::visit;
        std::vector<ExternUse> uses;
        void visit(const Call *op) override {
            IRVisitor::visit(op);
            if (op->name != extern_call_name) return;
            const ExternUse use = extern_use(op);
            for (const ExternUse &known : uses) {
                if (known.symbol == use.symbol) return;
            }
            uses.push_back(use);
        }
    } find;
    nest.body.accept(&find);
    return find.uses;
}

} // namespace kumiko

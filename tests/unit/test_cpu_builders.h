// Short names for building nests by hand.
#pragma once

#include "targets/cpu/jit.h"

namespace kumiko::test {

using namespace Halide::Internal;

inline Expr var(const std::string &name) { return Variable::make(Int(32), name); }

inline Expr load(Type t, const std::string &name, Expr index, Expr predicate = Expr()) {
    if (!predicate.defined()) {
        predicate = const_true(t.lanes());
    }
    return Load::make(t, name, index, Halide::Buffer<>(), Halide::Parameter(), predicate, ModulusRemainder());
}

inline Stmt store(const std::string &name, Expr value, Expr index, Expr predicate = Expr()) {
    if (!predicate.defined()) {
        predicate = const_true(value.type().lanes());
    }
    return Store::make(name, value, index, Halide::Parameter(), predicate, ModulusRemainder());
}

inline Stmt loop(const std::string &name, Expr min, Expr extent, Stmt body, ForType type = ForType::Serial) {
    return For::make(name, min, extent, type, Halide::Partition::Never, Halide::DeviceAPI::None, body);
}

inline Stmt allocate(const std::string &name, Type t, Halide::MemoryType where, std::vector<Expr> extents, Stmt body) {
    return Allocate::make(name, t, where, extents, const_true(), body);
}

inline TensorArgument tensor(const std::string &name, Type t, bool output, Expr extent) {
    return {name, t, output, {extent}, {Expr(1)}};
}

inline Expr ramp(Expr base, int lanes, int stride = 1) { return Ramp::make(base, stride, lanes); }

inline int run(const JitModule &m, const std::string &name, std::vector<void *> tensors,
               std::vector<int64_t> sizes = {}) {
    return m.packed(name)(tensors.data(), sizes.data());
}

} // namespace kumiko::test

// Compiles the plain loops of ops, which are C++ text, with the machine's compiler.
#pragma once

#include "bench/own_ops/own_ops.h"

#include <filesystem>
#include <memory>

namespace kumiko::bench {

// The loops of some ops in one shared object, compiled with -Ofast -march=native. The destructor
// unloads and deletes it.
class CompiledLoops {
public:
    using Function = void (*)(void **arrays); // inputs, then outputs

    // The compiler is $CXX, or c++. If it is missing or fails, failure() returns its message and
    // there are no functions.
    explicit CompiledLoops(const std::vector<const OwnOp *> &ops);
    ~CompiledLoops();
    CompiledLoops(const CompiledLoops &) = delete;

    Function find(const std::string &name) const; // null for an unknown name
    const std::string &failure() const { return failure_; }

private:
    std::filesystem::path folder_;
    void *object_ = nullptr;
    std::string failure_;
};

// The whole function: declarations of sizes and arrays, then `own.loop`.
std::string loop_source(const OwnOp &own);

} // namespace kumiko::bench

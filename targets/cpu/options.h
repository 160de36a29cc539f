// Options of code generation, shared by the just-in-time compiler and objects.
#pragma once

#include "targets/cpu/cpu_target.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

class EmitterRegistry; // targets/cpu/emit.h

struct CodegenOptions {
    CpuTarget target = CpuTarget::host();
    // Allow a*b+c to round once (FMA). Nothing else about floating point is ever relaxed.
    bool contract = true;
    // Emit the entry checks: sizes are in range, assumptions hold and outputs overlap no other
    // tensor. Null pointers are always checked.
    bool check_arguments = true;
    // The prefix of the runtime functions that kernels call (KUMIKO_PREFIX of
    // runtime/kumiko_runtime.h).
    std::string runtime_prefix = "kumiko";
    // Prefix of the names of C library math functions. The just-in-time compiler sets it, so that a
    // kernel may be named "exp"; an object needs the true names.
    std::string libm_prefix;
    // Suffix of the kernels' functions, which are then hidden and have no packed form: the
    // implementations behind an entry (targets/cpu/entry.h).
    std::string symbol_suffix;
    // For kernels that models call, with sizes that are numbers. They take two more pointers: a
    // workspace of workspace_bytes(body, model_threads) bytes, aligned to 64
    // (targets/cpu/workspace.h), and a kumiko_context or null (runtime/kumiko_context.h). They
    // allocate nothing. At most so many threads run a loop whose iterations have workspaces.
    // 0: for other kernels.
    int model_threads = 0;
    // How tensor instructions are emitted; empty: the built-in ones.
    std::shared_ptr<const EmitterRegistry> emitters;
};

// Wall time of each phase, in milliseconds.
struct CompileTimes {
    double generate = 0, optimize = 0, machine = 0, link = 0;
    double total() const { return generate + optimize + machine + link; }
};

} // namespace kumiko

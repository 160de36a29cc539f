// Kernels compiled into this process.
#pragma once

#include "targets/cpu/options.h"
#include "targets/lower/nest.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

struct JitOptions {
    CodegenOptions codegen; // the target must be one that this processor runs
    // Functions that kernels may call, by name. They take precedence over the defaults: this
    // process's runtime/ functions and the C library's math functions.
    std::map<std::string, void *> symbols;
    // Tell debuggers that follow the GDB JIT interface about the code.
    bool debugger = false;
    // Append the functions' addresses to /tmp/perf-<pid>.map, so that `perf report` names them.
    bool perf_map = false;
    // Keep the optimised LLVM IR and make assembly text on request; costs a copy of the module.
    bool keep_text = true;
};

class JitModule {
public:
    // Throws Unsupported for what code generation does not implement, UserError for a duplicate
    // kernel name or a target that this process cannot run.
    explicit JitModule(const std::vector<Nest> &nests, const JitOptions &options = {});
    ~JitModule();
    JitModule(JitModule &&) noexcept;
    JitModule &operator=(JitModule &&) noexcept;

    // The address of a kernel ("NAME" or "NAME_packed"), valid as long as this object. Throws
    // UserError for an unknown name.
    void *symbol(const std::string &name) const;

    // The packed form: int f(void *const *tensors, const int64_t *sizes).
    using Packed = int (*)(void *const *, const int64_t *);
    Packed packed(const std::string &kernel) const { return reinterpret_cast<Packed>(symbol(kernel + "_packed")); }

    std::string llvm_ir() const;  // after optimisation
    std::string assembly() const; // made on request
    const std::vector<std::string> &warnings() const;
    const CompileTimes &times() const;

private:
    struct Contents;
    std::unique_ptr<Contents> contents_;
};

} // namespace kumiko

// Private to targets/cpu: LLVM functions while they are filled.
#pragma once

#include "targets/cpu/options.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace kumiko::cpu {

using llvm::Value;

// The status codes of runtime/kumiko_runtime.h that generated code returns.
enum Status { null_pointer = 1, bad_size = 2, failed_assumption = 3, out_of_memory = 4, bad_overlap = 6 };

// The module, the current function, its exits and its workspaces. The layers of the code generator
// derive from each other, each from the one that it uses, and this is the lowest (codegen.h).
class FunctionBuilder {
protected:
    FunctionBuilder(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name);

    std::unique_ptr<llvm::Module> module;

    // Warnings for the user, for example an accumulator array that exceeds the registers.
    std::vector<std::string> warnings;

    // Returns `code` with a text unless the condition holds.
    void fail_unless(Value *ok, int code, const std::string &text);
    // The same for a code that is computed.
    void fail_unless(Value *ok, Value *code, const std::string &text);
    // Returns from the kernel, and frees its workspaces.
    void return_code(Value *code);
    void set_attributes(llvm::Function *function);
    // Emits into this function from now on.
    void begin_function(llvm::Function *function);
    // A function of the runtime, declared.
    llvm::Function *hook(const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args);
    // An allocation at the begin of the function.
    Value *stack_slot(llvm::Type *t, unsigned align, const std::string &name);
    // A new basic block.
    llvm::BasicBlock *block(const std::string &name);
    Value *i64(int64_t v) const;

    llvm::LLVMContext &context_;
    const CodegenOptions &options_;
    llvm::IRBuilder<> ir_;
    llvm::Function *function_ = nullptr;
    std::string kernel_;
    // Live heap blocks, freed on every exit. `exit` is a block that frees the workspace; `code`
    // carries the status code to the return.
    struct Workspace {
        Value *pointer;
        llvm::BasicBlock *exit = nullptr;
        llvm::PHINode *code = nullptr;
    };
    std::vector<Workspace> workspaces_;
};

} // namespace kumiko::cpu

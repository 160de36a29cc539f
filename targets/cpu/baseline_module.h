// An LLVM module of functions that run on every processor of an architecture. Only sources of
// targets/cpu include it.
#pragma once

#include "support/error.h"
#include "targets/cpu/codegen.h"
#include "targets/cpu/object.h"
#include "targets/cpu/optimize.h"

#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

namespace kumiko::cpu {

struct BaselineModule {
    llvm::LLVMContext context;
    const CpuTarget target; // the least capable processor
    std::unique_ptr<llvm::TargetMachine> machine;
    llvm::Module module;

    BaselineModule(const CpuTarget &of, const std::string &name)
        : target(of.baseline()), machine(make_target_machine(target)), module(name, context) {
        module.setTargetTriple(target.triple);
        module.setDataLayout(machine->createDataLayout());
        module.setPICLevel(llvm::PICLevel::BigPIC);
    }

    void set_attributes(llvm::Function &f) const {
        f.addFnAttr(llvm::Attribute::NoUnwind);
        f.setUWTableKind(llvm::UWTableKind::Async);
        f.addFnAttr("target-cpu", target.cpu);
        f.addFnAttr("target-features", target.features);
        f.addFnAttr("frame-pointer", "all");
    }

    ObjectFile emit() {
        std::string problems;
        llvm::raw_string_ostream stream(problems);
        if (llvm::verifyModule(module, &stream))
            throw InternalError(module.getName().str() + ": invalid code was generated: " + problems);
        optimize(module, *machine);
        return {emit_object(module, *machine), {}, {}};
    }
};

} // namespace kumiko::cpu

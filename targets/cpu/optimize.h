// Private to targets/cpu: from LLVM IR to machine code.
#pragma once

#include "targets/cpu/options.h"

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace kumiko::cpu {

// Throws UserError when LLVM does not know the target.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const CpuTarget &target);

// Runs a short pipeline for nests whose loops are already scheduled: no loop is vectorised,
// unrolled or interchanged.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

// Appends a warning for each array that was requested in registers but stayed in memory.
void report_spilled_arrays(const llvm::Module &module, std::vector<std::string> &warnings);

// An object file, or assembly text.
std::string emit_object(llvm::Module &module, llvm::TargetMachine &machine);
std::string emit_assembly(llvm::Module &module, llvm::TargetMachine &machine);

std::string print(const llvm::Module &module);

} // namespace kumiko::cpu

#include "targets/cpu/optimize.h"

#include "support/error.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace kumiko::cpu {

namespace {

void initialize_targets() {
    // LLVM keeps its table of targets for the whole process.
    static const bool once = [] {
        llvm::InitializeAllTargetInfos();
        llvm::InitializeAllTargets();
        llvm::InitializeAllTargetMCs();
        llvm::InitializeAllAsmPrinters();
        llvm::InitializeAllAsmParsers();
        return true;
    }();
    (void)once;
}

// InstCombine turns a comparison of widened f16 values into one of f16, which x86 without
// avx512fp16 computes one lane at a time.
void widen_half_comparisons(llvm::Function &f, const llvm::TargetMachine &machine) {
    if (!machine.getTargetTriple().isX86() || machine.getMCSubtargetInfo()->checkFeatures("+avx512fp16")) return;
    for (llvm::Instruction &i : llvm::instructions(f)) {
        auto *comparison = llvm::dyn_cast<llvm::FCmpInst>(&i);
        if (!comparison || !comparison->getOperand(0)->getType()->getScalarType()->isHalfTy()) continue;
        llvm::IRBuilder<> ir(comparison);
        for (llvm::Use &operand : comparison->operands()) {
            llvm::Type *wide = operand->getType()->getWithNewType(ir.getFloatTy());
            operand.set(ir.CreateFPExt(operand.get(), wide));
        }
    }
}

} // namespace

std::unique_ptr<llvm::TargetMachine> make_target_machine(const CpuTarget &target) {
    initialize_targets();
    std::string problem;
    const llvm::Target *found = llvm::TargetRegistry::lookupTarget(target.triple, problem);
    if (!found) {
        throw UserError("no code can be generated for \"" + target.triple + "\": " + problem);
    }
    llvm::TargetOptions options;
    // Contraction follows the flags on each instruction.
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
    options.NoTrappingFPMath = true;
    options.FunctionSections = true;
    if (target.architecture() == "riscv64") {
        options.MCOptions.ABIName = "lp64d";
    }
    std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(target.triple, target.cpu, target.features,
                                                                            options, llvm::Reloc::PIC_, std::nullopt,
                                                                            llvm::CodeGenOptLevel::Default));
    if (!machine) {
        throw UserError("no code can be generated for \"" + target.triple + "\"");
    }
    return machine;
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
    using namespace llvm;
    module.setDataLayout(machine.createDataLayout());
    LoopAnalysisManager lam;
    FunctionAnalysisManager fam;
    CGSCCAnalysisManager cgam;
    ModuleAnalysisManager mam;
    PassBuilder builder(&machine);
    builder.registerModuleAnalyses(mam);
    builder.registerCGSCCAnalyses(cgam);
    builder.registerFunctionAnalyses(fam);
    builder.registerLoopAnalyses(lam);
    builder.crossRegisterProxies(lam, fam, cgam, mam);

    FunctionPassManager passes;
    passes.addPass(SROAPass(SROAOptions::ModifyCFG));
    passes.addPass(EarlyCSEPass(true));
    passes.addPass(SimplifyCFGPass());
    passes.addPass(InstCombinePass());
    passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), true));
    passes.addPass(EarlyCSEPass(true));
    passes.addPass(InstCombinePass());
    passes.addPass(SimplifyCFGPass());
    passes.addPass(ADCEPass());
    for (llvm::Function &f : module) {
        if (!f.isDeclaration()) {
            passes.run(f, fam);
            widen_half_comparisons(f, machine);
        }
    }
}

void report_spilled_arrays(const llvm::Module &module, std::vector<std::string> &warnings) {
    const std::string mark = "registers.";
    std::set<std::string> seen;
    for (const llvm::Function &f : module) {
        for (const llvm::Instruction &i : llvm::instructions(f)) {
            if (auto *slot = llvm::dyn_cast<llvm::AllocaInst>(&i); slot && slot->getName().starts_with(mark)) {
                std::string array = slot->getName().substr(mark.size()).str();
                if (seen.insert(f.getName().str() + "/" + array).second) {
                    warnings.push_back(
                        fmt::format("kernel {}: {} was requested in registers but stays in memory, because an access "
                                    "has an index that is not constant after unrolling",
                                    f.getName().str(), array));
                }
            }
        }
    }
}

namespace {

std::string emit(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type) {
    module.setDataLayout(machine.createDataLayout());
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
        throw Unsupported("LLVM cannot write object files for \"" + machine.getTargetTriple().str() + "\"");
    }
    passes.run(module);
    return std::string(bytes.begin(), bytes.end());
}

} // namespace

std::string emit_object(llvm::Module &module, llvm::TargetMachine &machine) {
    machine.Options.EmitStackSizeSection = true; // for targets/cpu/stack_usage.h
    return emit(module, machine, llvm::CodeGenFileType::ObjectFile);
}

std::string emit_assembly(llvm::Module &module, llvm::TargetMachine &machine) {
    return emit(module, machine, llvm::CodeGenFileType::AssemblyFile);
}

std::string print(const llvm::Module &module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream, nullptr);
    return text;
}

} // namespace kumiko::cpu

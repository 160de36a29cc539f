#include "autotune/model/cost_model.h"

// The file's bytes, between two symbols.
asm(".pushsection .rodata\n"
    ".balign 16\n"
    "kumiko_shipped_cost_model:\n"
    ".incbin \"" KUMIKO_COST_MODEL "\"\n"
    "kumiko_shipped_cost_model_end:\n"
    ".byte 0\n"
    ".globl kumiko_shipped_cost_model\n"
    ".globl kumiko_shipped_cost_model_end\n"
    ".hidden kumiko_shipped_cost_model\n"
    ".hidden kumiko_shipped_cost_model_end\n"
    ".popsection\n");

extern "C" const char kumiko_shipped_cost_model[], kumiko_shipped_cost_model_end[];

namespace kumiko {

std::shared_ptr<const CostModel> CostModel::shipped() {
    // Never destroyed: XGBoost's trees need what belongs to the thread, which ends before what is static.
    static const auto *const model = [] {
        const std::string bytes(kumiko_shipped_cost_model, kumiko_shipped_cost_model_end);
        return new std::shared_ptr(
            std::make_shared<const CostModel>(load(bytes, "the cost model that comes with Kumiko")));
    }();
    return *model;
}

} // namespace kumiko

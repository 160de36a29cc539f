#include "autotune/features/chip_features.h"
#include "autotune/features/feature_sets.h"
#include "autotune/model/cost_model.h"
#include "support/error.h"

// A file's bytes, between two symbols.
#define KUMIKO_SHIPPED(name, file)                                                                                     \
    asm(".pushsection .rodata\n"                                                                                       \
        ".balign 16\n" #name ":\n"                                                                                     \
        ".incbin \"" file "\"\n" #name "_end:\n"                                                                       \
        ".byte 0\n"                                                                                                    \
        ".globl " #name "\n"                                                                                           \
        ".globl " #name "_end\n"                                                                                       \
        ".hidden " #name "\n"                                                                                          \
        ".hidden " #name "_end\n"                                                                                      \
        ".popsection\n");                                                                                              \
    extern "C" const char name[], name##_end[];

KUMIKO_SHIPPED(kumiko_shipped_cost_model, KUMIKO_COST_MODEL)
KUMIKO_SHIPPED(kumiko_shipped_chip_cost_model, KUMIKO_CHIP_COST_MODEL)

namespace kumiko {

namespace {

// Never destroyed: XGBoost's trees need what belongs to the thread, which ends before what is static.
const auto *load_shipped(const char *begin, const char *end, const char *document) {
    return new std::shared_ptr(std::make_shared<const CostModel>(CostModel::load(std::string(begin, end), document)));
}

} // namespace

std::shared_ptr<const CostModel> CostModel::shipped(int features_version) {
    if (features_version == chip_features_version) {
        static const auto *const model =
            load_shipped(kumiko_shipped_chip_cost_model, kumiko_shipped_chip_cost_model_end,
                         "the cost model of chips that comes with Kumiko");
        return *model;
    }
    if (features_version != kumiko::features_version)
        throw UserError("no cost model comes with Kumiko for features of " + describe_features(features_version));
    static const auto *const model =
        load_shipped(kumiko_shipped_cost_model, kumiko_shipped_cost_model_end, "the cost model that comes with Kumiko");
    return *model;
}

} // namespace kumiko

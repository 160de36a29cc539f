#include "autotune/features/chip_features.h"
#include "autotune/features/feature_sets.h"
#include "autotune/model/cost_model.h"
#include "support/embedded.h"
#include "support/error.h"

KUMIKO_EMBEDDED_FILE(kumiko_shipped_cost_model, KUMIKO_COST_MODEL)
KUMIKO_EMBEDDED_FILE(kumiko_shipped_wide_cost_model, KUMIKO_WIDE_COST_MODEL)
KUMIKO_EMBEDDED_FILE(kumiko_shipped_chip_cost_model, KUMIKO_CHIP_COST_MODEL)

namespace kumiko {

namespace {

// Never destroyed: XGBoost's trees use thread-local objects, which are destroyed before static
// ones.
const auto *load_shipped(const char *begin, const char *end, const char *document) {
    return new std::shared_ptr(std::make_shared<const CostModel>(CostModel::load(std::string(begin, end), document)));
}

} // namespace

std::shared_ptr<const CostModel> CostModel::shipped(const Machine &machine) {
    constexpr double narrow = 512; // bits of FMAs per cycle
    const int version = features_for(machine).version;
    if (version != kumiko::features_version || machine.vector_bits * machine.fmas_per_cycle <= narrow)
        return shipped(version);
    static const auto *const model = load_shipped(kumiko_shipped_wide_cost_model, kumiko_shipped_wide_cost_model_end,
                                                  "the cost model of wide processors that comes with Kumiko");
    return *model;
}

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

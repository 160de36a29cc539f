#include "autotune/spaces/chip_space.h"

#include "autotune/spaces/chip_loops.h"
#include "schedules/library/table.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

std::vector<int64_t> powers_to(int64_t most) {
    std::vector<int64_t> all;
    for (int64_t v = 1; v <= std::max<int64_t>(1, most); v *= 2) all.push_back(v);
    return all;
}

class ChipChainSpace : public Space {
public:
    ChipChainSpace(const Op &op, const Machine &machine) : Space(op, machine), tree_(machine) {
        for (const auto &[name, keep] : keeps()) {
            for (size_t joined = 0; joined <= op.stage(op.outputs().front()).axes.size(); joined++) {
                if (joined == 1) continue;
                if (auto f = chip_formula(this->op(), keep, joined))
                    formulas_.emplace(std::pair(name, joined), std::move(*f));
            }
        }
        add_parameters();
        set_parameters(infos_);
        choose_default();
    }

    Point default_point() const override { return default_; }
    std::string reason_against(const Point &point) const override {
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return kumiko::reason_against(f, tree_, ChipDealing(f, tree_, d), d);
    }
    double estimate(const Point &point) const override {
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return kumiko::estimate(f, tree_, ChipDealing(f, tree_, d), d);
    }
    Schedule schedule(const Point &point) const override {
        if (const std::string why = reason_against(point); !why.empty())
            throw UserError("parameters of " + op().name() + ": " + why);
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return schedule_chain(op(), machine(), f, ChipDealing(f, tree_, d), d);
    }

private:
    static std::vector<std::pair<std::string, ChipKeep>> keeps() {
        return {{"none", ChipKeep::None}, {"scalars", ChipKeep::Scalars}, {"shared", ChipKeep::Shared}};
    }
    const ChipFormula &formula(const Decisions &d) const {
        const auto found = formulas_.find({d.choice("keep", keep_), size_t(d.number("join", 0))});
        return found != formulas_.end() ? found->second : formulas_.at({d.choice("keep", keep_), 0});
    }
    void add(const std::string &name, const Json &values, bool ordered) {
        if (values.size() > 1) infos_.push_back({name, values.get<std::vector<Json>>(), ordered});
    }
    void add_parameters();
    void choose_default();

    ChipTree tree_;
    std::map<std::pair<std::string, size_t>, ChipFormula> formulas_;
    std::string keep_ = "none"; // where it is not decided
    std::vector<ParameterInfo> infos_;
    Point default_;
};

void ChipChainSpace::add_parameters() {
    // Where keeping makes no difference it is no decision.
    std::vector<std::string> ways;
    std::set<std::vector<std::string>> seen;
    for (const auto &[name, keep] : keeps()) {
        if (seen.insert(formulas_.at({name, 0}).inlined).second) ways.push_back(name);
    }
    add("keep", ways, false);
    const ChipFormula &f = formulas_.at({"none", 0});
    std::vector<int64_t> joins;
    for (const auto &[key, formula] : formulas_) {
        if (key.first == "none") joins.push_back(int64_t(key.second));
    }
    add("join", joins, true);
    std::vector<std::string> lanes, names;
    for (const size_t a : f.lane_axes()) lanes.push_back(f.axes[a].name);
    for (const ChipAxis &a : f.axes) names.push_back(a.name);
    add("lanes", lanes, false);
    if (f.axes[f.lane_axes().front()].extent <= f.lanes) add("PE", names, false);
    const int64_t mabs = tree_.of("MAB");
    add("MABs", powers_to(mabs), true);
    if (mabs > 1) add("MAB", names, false);
    if (tree_.of("L1B") > 1) {
        std::vector<std::string> where = names;
        where.push_back("near");
        if (mabs > 2) where.push_back("beyond");
        add("L1B", where, false);
    }
    for (const char *level : {"L2B", "group"}) {
        if (tree_.of(level) > 1) add(level, names, false);
    }
    add("deal", {"near", "far"}, false);
    add("run", {1, 2, 4, 8}, true);
    std::vector<std::string> shared;
    for (const ChipAxis &a : f.axes) {
        if (a.shared && a.extent > 1) shared.push_back(a.name);
        std::vector<int64_t> tiles =
            powers_to(a.shared ? std::min<int64_t>(64, a.extent) : std::min<int64_t>(128, a.extent));
        if (!a.shared) tiles.insert(tiles.begin(), 0);
        add("tile_" + a.name, tiles, true);
    }
    add("innermost", shared, false);
    for (const std::string &input : f.inputs()) {
        add("place_" + input, {"LM0", "LM1"}, false);
        add("copies_" + input, {1, 2}, true);
    }
    if (f.members.size() > 1) add("home", {"GRF1", "LM1"}, false);
}

// The least by the estimate that some walks find.
void ChipChainSpace::choose_default() {
    Random random(1);
    double least = INFINITY;
    for (int walk = 0; walk < 8; walk++) {
        Point at;
        double cost = INFINITY;
        for (int n = 0; n < 400; n++) {
            Point p;
            for (const ParameterInfo &info : infos_) p.push_back(uint32_t(random.below(info.values.size())));
            if (!reason_against(p).empty()) continue;
            if (const double c = estimate(p); c < cost) cost = c, at = p;
        }
        for (bool better = cost < INFINITY; better;) {
            better = false;
            for (size_t n = 0; n < at.size(); n++) {
                for (uint32_t v = 0; v < infos_[n].values.size(); v++) {
                    Point p = at;
                    p[n] = v;
                    if (p == at || !reason_against(p).empty()) continue;
                    if (const double c = estimate(p); c < cost) cost = c, at = p, better = true;
                }
            }
        }
        if (cost < least) least = cost, default_ = at;
    }
    if (default_.empty() && !infos_.empty())
        throw Unsupported("no dealing of op " + op().name() + " that the space made from its formula has fits " +
                          machine().name + "; its tiles are larger than LM or the registers");
}

} // namespace

std::unique_ptr<Space> chip_space(const Op &op, const Machine &machine) {
    library::require_chip_program(op);
    return std::make_unique<ChipChainSpace>(op, machine);
}

} // namespace kumiko

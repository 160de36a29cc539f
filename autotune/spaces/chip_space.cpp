#include "autotune/spaces/chip_space.h"

#include "autotune/spaces/chip_loops.h"
#include "autotune/spaces/chip_product.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/chip_product.h"
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

// The point with the lowest estimate found by a few local searches; empty if every visited point is
// rejected.
Point min_estimate(const Space &space) {
    const std::vector<ParameterInfo> &infos = space.parameters();
    Random random(1);
    double least = INFINITY;
    Point best;
    for (int walk = 0; walk < 8; walk++) {
        Point at;
        double cost = INFINITY;
        const auto look = [&](const Point &p) {
            if (!space.reason_against(p).empty()) return false;
            const double c = space.estimate(p);
            if (c >= cost) return false;
            cost = c, at = p;
            return true;
        };
        for (int n = 0; n < 400; n++) {
            Point p;
            for (const ParameterInfo &info : infos) p.push_back(uint32_t(random.below(info.values.size())));
            look(p);
        }
        for (bool better = cost < INFINITY; better;) {
            better = false;
            for (size_t n = 0; n < at.size(); n++) {
                for (uint32_t v = 0; v < infos[n].values.size(); v++) {
                    Point p = at;
                    p[n] = v;
                    better = look(p) || better;
                }
            }
        }
        if (cost < least) least = cost, best = at;
    }
    return best;
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
        default_ = min_estimate(*this);
    }

    Point default_point() const override { return default_; }
    std::string reason_against(const Point &point) const override {
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return kumiko::reason_against(f, tree_, ChipDistribution(f, tree_, d), d);
    }
    double estimate(const Point &point) const override {
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return kumiko::estimate(f, tree_, ChipDistribution(f, tree_, d), d);
    }
    Schedule schedule(const Point &point) const override {
        if (const std::string why = reason_against(point); !why.empty())
            throw UserError("parameters of " + op().name() + ": " + why);
        const Decisions d(*this, point);
        const ChipFormula &f = formula(d);
        return schedule_chain(op(), machine(), f, ChipDistribution(f, tree_, d), d);
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

    ChipTree tree_;
    std::map<std::pair<std::string, size_t>, ChipFormula> formulas_;
    std::string keep_ = "none"; // default if not decided
    std::vector<ParameterInfo> infos_;
    Point default_;
};

void ChipChainSpace::add_parameters() {
    // If keeping stages makes no difference, it is not a parameter.
    std::vector<std::string> choices;
    std::set<std::vector<std::string>> seen;
    for (const auto &[name, keep] : keeps()) {
        if (seen.insert(formulas_.at({name, 0}).inlined).second) choices.push_back(name);
    }
    add("keep", choices, false);
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

class ChipProductSpace : public Space {
public:
    ChipProductSpace(const Op &op, const Machine &machine, std::vector<ChipProductAxes> choices)
        : Space(op, machine), candidates_(std::move(choices)) {
        if (library::is_chip_matmul(op) && library::chip_matmul_fits(op, machine))
            rows_ = library::template_named("chip_matmul").make_space(op, machine);
        add_parameters();
        set_parameters(infos_);
        default_ = min_estimate(*this);
        if (!rows_ || default_.empty()) return;
        default_[0] = 0; // unpacked operands
        const Point own = rows_->default_point();
        std::copy(own.begin(), own.end(), default_.begin() + 1);
    }

    Point default_point() const override { return default_; }
    std::string reason_against(const Point &point) const override {
        const Decisions d(*this, point);
        return by_rows(d) ? rows_->reason_against(rows_point(point)) : kumiko::reason_against(tiles(d), machine());
    }
    double estimate(const Point &point) const override {
        const Decisions d(*this, point);
        return by_rows(d) ? rows_->estimate(rows_point(point)) : kumiko::estimate(tiles(d), machine());
    }
    Schedule schedule(const Point &point) const override {
        if (const std::string why = reason_against(point); !why.empty())
            throw UserError("parameters of " + op().name() + ": " + why);
        const Decisions d(*this, point);
        return by_rows(d) ? rows_->schedule(rows_point(point)) : schedule_product(op(), machine(), tiles(d));
    }

private:
    bool by_rows(const Decisions &d) const { return rows_ && d.choice("operands", "packed") == "rows"; }
    Point rows_point(const Point &point) const {
        const auto n = static_cast<std::ptrdiff_t>(rows_->parameters().size());
        return {point.begin() + 1, point.begin() + 1 + n};
    }
    ChipProductTiles tiles(const Decisions &d) const {
        const std::string matrix = d.choice("matrix", candidates_.front().inputs[candidates_.front().matrix]);
        const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                        [&](const ChipProductAxes &w) { return w.inputs[w.matrix] == matrix; });
        return {*found, machine(), d};
    }
    void add(const std::string &name, const Json &values, bool ordered) {
        if (values.size() > 1) infos_.push_back({name, values.get<std::vector<Json>>(), ordered});
    }
    void add_parameters();

    std::vector<ChipProductAxes> candidates_;
    std::unique_ptr<Space> rows_; // unpacked operands, the reduction distributed to MABs
    std::vector<ParameterInfo> infos_;
    Point default_;
};

void ChipProductSpace::add_parameters() {
    if (rows_) {
        add("operands", {"rows", "packed"}, false);
        for (ParameterInfo p : rows_->parameters()) {
            p.name = "rows." + p.name;
            infos_.push_back(std::move(p));
        }
    }
    const auto both = [&](auto axes) {
        std::vector<std::string> all;
        for (const ChipProductAxes &w : candidates_) {
            for (const std::string &a : axes(w)) {
                if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
            }
        }
        return all;
    };
    const ChipProductAxes &first = candidates_.front();
    add("matrix", both([](const ChipProductAxes &w) { return std::vector{w.inputs[w.matrix]}; }), false);
    add("row", both([](const ChipProductAxes &w) { return w.rows; }), false);
    add("column", first.columns, false);
    const std::vector<std::string> vectors = both([](const ChipProductAxes &w) { return w.vectors; });
    for (const std::string &v : vectors)
        add("tile_" + v, Tile::sizes(first.extents.at(v), 1, std::min<int64_t>(64, first.extents.at(v))), true);
    add("blocks", powers_to(32), true);
    add("depth", powers_to(8), true);
    std::vector<std::string> places = {"depth"};
    places.insert(places.end(), first.taps.begin(), first.taps.end());
    if (first.columns.size() > 1) places.insert(places.end(), first.columns.begin(), first.columns.end());
    add("matrices", places, false);
    places.insert(places.begin(), "tile");
    add("vectors", places, false);
    std::vector<std::string> others = vectors;
    if (machine().unit("MAB").count > 1) add("MAB", others, false);
    others.insert(others.end(), first.batches.begin(), first.batches.end());
    for (const char *level : {"L1B", "L2B", "group"}) {
        const int64_t count = machine().unit(level).count;
        if (count == 1) continue;
        add(std::string(level) + "_rows", library::divisors(count), true);
        add(level, others, false);
    }
    add("write_back", Json::array({true, false}), false);
}

} // namespace

std::unique_ptr<Space> chip_space(const Op &op, const Machine &machine) {
    library::require_chip_program(op);
    std::unique_ptr<Space> space;
    if (std::vector<ChipProductAxes> choices = chip_product_axes(op); !choices.empty())
        space = std::make_unique<ChipProductSpace>(op, machine, std::move(choices));
    else
        space = std::make_unique<ChipChainSpace>(op, machine);
    if (space->default_point().empty() && !space->parameters().empty())
        throw Unsupported("no point of the space made from the formula of " + op.name() + " is known to fit " +
                          machine.name + "; its tiles are larger than LM, L1BM or the registers");
    return space;
}

} // namespace kumiko

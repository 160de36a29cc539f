#include "autotune/spaces/chip_distribution.h"

#include "schedules/library/chip_product.h"

#include <algorithm>
#include <bit>

namespace kumiko {

namespace {

using library::ceil_div;

// The axis that the decision names; one that is fused into the last axis counts as `otherwise`.
size_t decided_axis(const ChipFormula &f, const Decisions &d, const std::string &name, size_t otherwise) {
    const std::string axis = d.choice(name, f.axes[otherwise].name);
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (f.axes[a].name == axis) return a;
    }
    return otherwise;
}

} // namespace

ChipTree::ChipTree(const Machine &m)
    : lm(m.level("LM0").bytes / 8), grf(m.level("GRF0").bytes / 8), l2bm(m.level("L2BM").bytes / 8),
      dram(m.level("DRAM").bandwidth / (8 * m.clock_ghz) * double(m.unit("group").count)) {
    for (const std::string &level : chip_levels) units[level] = m.unit(level).count;
}

void ChipDistribution::cut(size_t axis, int64_t factor, const std::string &name, const std::string &level, bool inside,
                           bool always) {
    if (!level.empty()) factor = std::min(factor, int64_t(std::bit_ceil(uint64_t(left[axis]))));
    if (factor <= 1 && !always) return;
    size_t number = 0;
    for (const auto &c : cuts) number += c.size();
    cuts[axis].push_back({factor, name, level, inside, number});
    left[axis] = ceil_div(left[axis], factor);
}

// Adjacent elements along the lanes' axis are cut as the tree distributes them: near, two MABs of
// each L1B take 8 LW of a block each; otherwise one L1B takes the whole block.
void ChipDistribution::cut_lanes(const ChipTree &tree, const Decisions &d) {
    const int64_t mabs = tree.of("MAB"), l1bs = tree.of("L1B"), wish = d.number("MABs", mabs);
    const std::string l1b = d.choice("L1B", "");
    int64_t words = 1; // per PE, in a block
    if (l1b == "near") {
        const int64_t pair = std::min<int64_t>(2, wish), missing = std::max<int64_t>(1, dram_block / (4 * pair * l1bs));
        cut(lanes, pair, "MAB", "MAB", true);
        cut(lanes, l1bs, "L1B", "L1B", true);
        const int64_t next = std::min(wish / pair, missing);
        cut(lanes, next, "MABn", "MAB", true);
        words = missing / next;
        cut(lanes, std::min(words, left[lanes]), "b", "", true);
        cut(lanes, wish / (pair * next), "MABf", "MAB", true);
    } else {
        cut(lanes, wish, "MAB", "MAB", true);
        if (wish == mabs) words = std::max<int64_t>(1, dram_block / (4 * mabs));
        cut(lanes, std::min(words, left[lanes]), "b", "", true);
    }
    cut(lanes, std::min(d.number("run", 1), left[lanes]), "run", "", true);
    if (l1b == "beyond") cut(lanes, l1bs, "L1B", "L1B", true);
}

ChipDistribution::ChipDistribution(const ChipFormula &f, const ChipTree &tree, const Decisions &d) {
    cuts.resize(f.axes.size());
    for (const ChipAxis &a : f.axes) left.push_back(a.extent), step.push_back(1);
    lanes = decided_axis(f, d, "lanes", f.lane_axes().front());
    const auto decided = [&](const std::string &name) { return decided_axis(f, d, name, lanes); };
    cut(lanes, f.lanes, "v", "", true, true);
    const size_t pe = left[lanes] > 1 ? lanes : decided("PE");
    if (pe == lanes) cut(lanes, tree.of("PE"), "PE", "PE", true);
    cut_lanes(tree, d);

    // The remaining units are assigned to other axes.
    const std::string l1b = d.choice("L1B", "");
    const int64_t free_mabs = pe == lanes ? tree.of("MAB") / units(lanes, "MAB") : tree.of("MAB");
    UnitShares shares;
    if (free_mabs > 1) shares["MAB"] = {decided("MAB"), free_mabs};
    if (units(lanes, "L1B") == 1 && l1b != "near" && l1b != "beyond") shares["L1B"] = {decided("L1B"), tree.of("L1B")};
    for (const char *level : {"L2B", "group"}) shares[level] = {decided(level), tree.of(level)};
    // Results without the lanes' axis are stored in words along another axis.
    size_t spread = f.axes.size();
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (!f.output().has(lanes) && !f.output().stage->is_reduction() && f.axes[a].shared) spread = a;
    }
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (a == pe && a != lanes) cut(a, tree.of("PE"), "PE", "PE", true);
        const int64_t size = d.number("tile_" + f.axes[a].name, f.axes[a].shared ? 1 : 0);
        if (f.axes[a].shared) {
            const int64_t smallest = a == spread ? f.lanes : 0;
            cut_shared(a, size, smallest, shares, d.choice("deal", "near") == "near");
        } else {
            cut_steps(a, size, shares);
        }
        if (f.axes[a].shared) outer.push_back(a);
    }
    const std::string last = d.choice("innermost", "");
    std::stable_partition(outer.begin(), outer.end(), [&](size_t a) { return f.axes[a].name != last; });
}

void ChipDistribution::cut_units(size_t axis, const UnitShares &shares, const std::string &level, bool inside) {
    const auto share = shares.find(level);
    if (share != shares.end() && share->second.first == axis)
        cut(axis, share->second.second, level + "s", level, inside);
}

// A tile along a shared axis, and the units with different tiles. With `smallest`, a tile has a
// power of two of elements, at least that many.
void ChipDistribution::cut_shared(size_t axis, int64_t tile, int64_t smallest, const UnitShares &shares, bool near) {
    if (near) cut_units(axis, shares, "MAB", true);
    int64_t n = std::min(tile, left[axis]);
    if (smallest > 0) n = std::max<int64_t>(smallest, int64_t(std::bit_ceil(uint64_t(n))));
    cut(axis, n, "t", "", true, axis != lanes);
    const std::vector<std::string> levels =
        near ? std::vector<std::string>{"group", "L1B", "L2B"} : std::vector<std::string>{"MAB", "L1B", "L2B", "group"};
    for (const std::string &level : levels) cut_units(axis, shares, level, false);
}

// The units along another axis, and its elements that are in LM at a time; 0: all.
void ChipDistribution::cut_steps(size_t axis, int64_t most, const UnitShares &shares) {
    for (const char *level : {"MAB", "L1B", "L2B", "group"}) cut_units(axis, shares, level, true);
    const bool all = most == 0 || most >= left[axis];
    // Transfers whole divisors of a tile.
    step[axis] = all ? left[axis] : library::balanced_block(left[axis], most, most >= 8 ? 8 : 1);
}

int64_t ChipDistribution::units(size_t axis, const std::string &level) const {
    int64_t n = 1;
    for (const Cut &c : cuts[axis]) n *= c.level == level ? c.factor : 1;
    return n;
}

int64_t ChipDistribution::inside(size_t axis) const {
    int64_t n = 1;
    for (const Cut &c : cuts[axis]) n *= c.level.empty() && c.name != "v" && c.inside ? c.factor : 1;
    return n;
}

int64_t ChipDistribution::padded(const ChipFormula &f, size_t axis) const {
    int64_t n = f.axes[axis].shared ? left[axis] : tiles(axis) * step[axis];
    for (const Cut &c : cuts[axis]) n *= c.factor;
    return n;
}

bool is_double_buffered(const Decisions &d, const std::string &input) { return d.number("copies_" + input, 2) == 2; }

std::string copy_memory(const Decisions &d, const std::string &input) { return d.choice("place_" + input, "LM0"); }

std::string result_memory(const Decisions &d, const ChipFormula &f, const ChipFormula::Member &m, size_t lanes) {
    const bool row = !m.stage->is_reduction() && m.has(lanes) && !f.axes[lanes].shared;
    return row ? "LM1" : d.choice("home", "GRF1");
}

int64_t points_of(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Member &m, bool reduced) {
    int64_t n = 1;
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (!m.has(a) || (m.reduces(a) && !reduced)) continue;
        n *= d.inside(a) * (f.axes[a].shared ? 1 : d.left[a]);
    }
    return n;
}

bool streams(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Member &m,
             const ChipFormula::Read &r) {
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (m.has(a) && !f.axes[a].shared && r.uses(a) && d.tiles(a) > 1) return true;
    }
    return false;
}

int64_t copy_words(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Read &r) {
    int64_t n = f.lanes * r.bytes / 8;
    for (const auto &a : r.at) n *= a ? d.inside(*a) * d.step[*a] : 1;
    for (const auto &window : r.windows) {
        int64_t reach = 1;
        for (const auto &[a, step] : window) {
            int64_t stride = step; // of a loop
            for (const ChipDistribution::Cut &c : d.cuts[a]) {
                if (c.level.empty() && c.inside) reach += stride * (c.factor - 1);
                stride *= c.factor;
            }
            reach += stride * (d.step[a] - 1);
        }
        n *= reach;
    }
    return std::max<int64_t>(n, 1);
}

} // namespace kumiko

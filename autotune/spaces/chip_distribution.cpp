#include "autotune/spaces/chip_distribution.h"

#include "schedules/library/chip_product.h"

#include <algorithm>
#include <bit>

namespace kumiko {

namespace {

using library::ceil_div;

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

ChipDistribution::ChipDistribution(const ChipFormula &f, const ChipTree &tree, const Decisions &d) {
    cuts.resize(f.axes.size());
    for (const ChipAxis &a : f.axes) left.push_back(a.extent), step.push_back(1);
    const auto decided = [&](const std::string &name, size_t otherwise) {
        const std::string axis = d.choice(name, f.axes[otherwise].name);
        for (size_t a = 0; a < f.axes.size(); a++) {
            if (f.axes[a].name == axis) return a;
        }
        return otherwise; // an axis fused into the last one
    };
    lanes = decided("lanes", f.lane_axes().front());
    const size_t l = lanes;
    cut(l, f.lanes, "v", "", true, true);
    const size_t pe = left[l] > 1 ? l : decided("PE", l);
    if (pe == l) cut(l, tree.of("PE"), "PE", "PE", true);
    // Adjacent elements along the lanes' axis, as the tree distributes them: near, two MABs of each
    // L1B take 8 LW of a block each; otherwise one L1B takes the whole block.
    const int64_t mabs = tree.of("MAB"), l1bs = tree.of("L1B"), wish = d.number("MABs", mabs);
    const std::string l1b = d.choice("L1B", f.axes[l].name);
    const bool near = l1b == "near";
    int64_t words = 1; // per PE, in a block
    if (near) {
        const int64_t pair = std::min<int64_t>(2, wish), missing = std::max<int64_t>(1, dram_block / (4 * pair * l1bs));
        cut(l, pair, "MAB", "MAB", true);
        cut(l, l1bs, "L1B", "L1B", true);
        const int64_t next = std::min(wish / pair, missing);
        cut(l, next, "MABn", "MAB", true);
        words = missing / next;
        cut(l, std::min(words, left[l]), "b", "", true);
        cut(l, wish / (pair * next), "MABf", "MAB", true);
    } else {
        cut(l, wish, "MAB", "MAB", true);
        if (wish == mabs) words = std::max<int64_t>(1, dram_block / (4 * mabs));
        cut(l, std::min(words, left[l]), "b", "", true);
    }
    cut(l, std::min(d.number("run", 1), left[l]), "run", "", true);
    if (l1b == "beyond") cut(l, l1bs, "L1B", "L1B", true);
    // The remaining units are assigned to other axes.
    const bool row_wise = pe == l;
    const int64_t used_mabs = units(l, "MAB"), free_mabs = row_wise ? mabs / used_mabs : mabs;
    std::map<std::string, std::pair<size_t, int64_t>> dealt; // by level
    if (free_mabs > 1) dealt["MAB"] = {decided("MAB", l), free_mabs};
    if (units(l, "L1B") == 1 && !near && l1b != "beyond") dealt["L1B"] = {decided("L1B", l), l1bs};
    for (const char *level : {"L2B", "group"}) dealt[level] = {decided(level, l), tree.of(level)};
    // Results without the lanes' axis are stored in words along another axis.
    size_t spread = f.axes.size();
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (!f.output().has(l) && !f.output().stage->is_reduction() && f.axes[a].shared) spread = a;
    }
    const bool close = d.choice("deal", "near") == "near";
    for (size_t a = 0; a < f.axes.size(); a++) {
        const bool shared = f.axes[a].shared;
        bool inside = true;
        const auto deal = [&](const std::string &level) {
            if (dealt.count(level) && dealt[level].first == a) cut(a, dealt[level].second, level + "s", level, inside);
        };
        const auto tile = [&] {
            int64_t n = std::min(d.number("tile_" + f.axes[a].name, 1), left[a]);
            if (a == spread) n = std::max<int64_t>(f.lanes, int64_t(std::bit_ceil(uint64_t(n))));
            cut(a, n, "t", "", true, a != l);
            inside = false;
        };
        if (a == pe && a != l) cut(a, tree.of("PE"), "PE", "PE", true);
        if (!shared) {
            for (const char *level : {"MAB", "L1B", "L2B", "group"}) deal(level);
            const int64_t most = d.number("tile_" + f.axes[a].name, 0);
            // Transfers whole divisors of a tile.
            step[a] =
                most == 0 || most >= left[a] ? left[a] : library::balanced_block(left[a], most, most >= 8 ? 8 : 1);
            continue;
        }
        if (close) deal("MAB");
        tile();
        if (close) deal("group");
        if (!close) deal("MAB");
        for (const char *level : {"L1B", "L2B"}) deal(level);
        if (!close) deal("group");
    }
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (f.axes[a].shared) outer.push_back(a);
    }
    const std::string last = d.choice("innermost", "");
    std::stable_partition(outer.begin(), outer.end(), [&](size_t a) { return f.axes[a].name != last; });
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

bool kept_twice(const Decisions &d, const std::string &input) { return d.number("copies_" + input, 2) == 2; }

std::string place_of(const Decisions &d, const std::string &input) { return d.choice("place_" + input, "LM0"); }

std::string home_of(const Decisions &d, const ChipFormula &f, const ChipFormula::Member &m, size_t lanes) {
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

// Detects distributions that the chip would reject, from the numbers alone.
#include "autotune/spaces/chip_distribution.h"

#include <algorithm>

namespace kumiko {

namespace {

// Rows shorter than half a block: in a chain, the host packs them, because units would get parts of
// blocks.
bool short_rows(const ChipFormula &f, const ChipDistribution &d) {
    const bool alone = f.members.size() == 1 && !f.output().stage->is_reduction() && f.lanes == 2;
    return !alone && f.axes[d.lanes].extent <= 32 * f.lanes;
}

// Whether each unit of the tree gets 64 adjacent LW of a row.
bool takes_blocks(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d, const ChipFormula::Member &m,
                  const std::vector<std::optional<size_t>> &at) {
    struct Digit {
        int64_t extent, stride; // in LW along the row; 0: along another axis
    };
    std::vector<Digit> pe, mab, l1b, time;
    bool whole = true; // loops outside of a tile step over whole blocks
    const auto has = [&](size_t a) { return std::find(at.begin(), at.end(), std::optional(a)) != at.end(); };
    struct Numbered {
        size_t number;
        Digit digit;
    };
    std::vector<Numbered> mabs, l1bs;
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (!has(a)) continue;
        int64_t stride = 1;
        for (const ChipDistribution::Cut &c : d.cuts[a]) {
            if (c.name == "v") continue;
            const Digit digit{c.factor, a == d.lanes ? stride : 0};
            const bool far = c.level == "L2B" || c.level == "group";
            if (c.level == "PE") pe.push_back(digit);
            if (c.level == "MAB") mabs.push_back({c.number, digit});
            if (c.level == "L1B") l1bs.push_back({c.number, digit});
            if (far && a == d.lanes && c.factor > 1) whole = whole && stride % dram_block == 0;
            stride *= c.factor;
        }
        const int64_t outside = f.axes[a].shared ? d.left[a] : d.tiles(a);
        if (a == d.lanes && outside > 1) whole = whole && stride * (f.axes[a].shared ? 1 : d.step[a]) % dram_block == 0;
    }
    // Loops in time, innermost first: the lanes' axis, then others, which end the row.
    int64_t stride = 1;
    for (const ChipDistribution::Cut &c : d.cuts[d.lanes]) {
        if (c.name != "v" && c.level.empty()) time.push_back({c.factor, stride});
        if (c.name != "v") stride *= c.factor;
    }
    if (!f.axes[d.lanes].shared && m.has(d.lanes)) time.push_back({d.step[d.lanes], stride});
    int64_t others = 1;
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (a != d.lanes && has(a)) others *= d.inside(a) * d.step[a];
    }
    const auto sorted = [](std::vector<Numbered> &all) {
        std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.number < b.number; });
    };
    sorted(mabs), sorted(l1bs);
    int64_t parts = 1; // parts of a word per L1B
    for (const Numbered &n : l1bs) parts *= n.digit.extent;
    const bool dealt = parts == tree.of("L1B"); // L2 scatters 8 LW to each
    const auto walk = [&](bool interleaved) {
        std::vector<Digit> all = pe;
        int64_t pair = 1;
        size_t n = 0;
        for (; n < mabs.size() && (!interleaved || pair * mabs[n].digit.extent <= 2); n++)
            all.push_back(mabs[n].digit), pair *= mabs[n].digit.extent;
        if (interleaved) {
            if (pair != std::min<int64_t>(2, tree.of("MAB"))) return false;
            for (const Numbered &l : l1bs) all.push_back(l.digit);
            for (; n < mabs.size(); n++) all.push_back(mabs[n].digit);
        } else if (pair != tree.of("MAB")) { // some would get the same elements
            return false;
        }
        all.insert(all.end(), time.begin(), time.end());
        int64_t run = 1;
        for (const Digit &digit : all) {
            if (digit.extent == 1) continue;
            if (digit.stride != run) return run % dram_block == 0;
            run *= digit.extent;
        }
        return run % dram_block == 0 || (interleaved && others == 1);
    };
    return whole && ((dealt && walk(true)) || walk(false));
}

// Whether units of a level with parts of axis b are numbered inside those with parts of axis a.
// `all`: includes units outside of the loop at which stages are computed.
bool numbered_inside(const ChipDistribution &d, size_t b, size_t a, bool all) {
    for (const ChipDistribution::Cut &own : d.cuts[a]) {
        for (const ChipDistribution::Cut &c : d.cuts[b]) {
            if (own.level.empty() || c.level != own.level) continue;
            if (own.inside == c.inside ? own.number > c.number : c.inside && all) return true;
        }
    }
    return false;
}

// The checks of a distribution, each with the reason against it or "".

std::string reason_against_reductions(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d) {
    for (size_t a = 0; a < f.axes.size(); a++) {
        if (!f.axes[a].reduced) continue;
        std::map<std::string, int> levels; // number of cuts
        for (const ChipDistribution::Cut &c : d.cuts[a]) {
            if (!c.level.empty()) levels[c.level]++;
        }
        const bool tree_units = levels.size() > levels.count("PE");
        if (tree_units && !f.axes[a].by_tree) return "the tree of units cannot reduce products";
        if (d.padded(f, a) == f.axes[a].extent) continue;
        for (const auto &[level, n] : levels) {
            if (n > 1) return "a reduction ends inside a level that divides two axes";
            if (level == "group" && !levels.count("L2B") && tree.of("L2B") > 1 && tree.of("group") > 1)
                return "a reduction ends inside groups but not inside their L2Bs";
        }
    }
    return "";
}

// Whether units divide an axis of a window inside of its tile.
bool units_inside_window(const ChipDistribution &d, const std::vector<std::pair<size_t, int64_t>> &window) {
    if (window.size() < 2) return false; // loops that share reads
    for (const auto &[a, step] : window) {
        bool unit = false;
        for (const ChipDistribution::Cut &c : d.cuts[a]) {
            if (unit && c.level.empty() && c.factor > 1) return true;
            unit = unit || !c.level.empty();
        }
        if (unit && d.step[a] > 1) return true;
    }
    return false;
}

// Whether the output's last axis runs along the lanes.
bool stored_along_lanes(const ChipFormula &f, const ChipDistribution &d) {
    const ChipFormula::Member &out = f.output();
    return !out.stage->axes.empty() && out.axes.at(out.stage->axes.back().name()) == d.lanes;
}

std::string reason_against_transfers(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d, bool near) {
    for (const ChipFormula::Member &m : f.members) {
        for (const ChipFormula::Read &r : m.reads) {
            if (!host_packs(f, d, r) && !takes_blocks(f, tree, d, m, r.at)) return "units get parts of a block of DRAM";
            for (const auto &window : r.windows) {
                if (units_inside_window(d, window)) return "units inside of a window's tile";
            }
        }
    }
    const ChipFormula::Member &out = f.output();
    const bool blocks = stored_along_lanes(f, d) && f.lanes * out.bytes() == 8 && !short_rows(f, d);
    if (blocks && !takes_blocks(f, tree, d, out, out.indices())) return "units get parts of a block of DRAM";
    if (near && d.units(d.lanes, "L1B") < tree.of("L1B")) return "a row too short for near L1Bs";
    return "";
}

// Units are numbered only by a stage's own loops, which must be the inner ones.
std::string reason_against_owners(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d) {
    const ChipFormula::Member &out = f.output();
    for (const ChipFormula::Member &m : f.members) {
        for (size_t a = 0; a < f.axes.size(); a++) {
            for (size_t b = 0; b < f.axes.size(); b++) {
                const bool own = m.has(a) && !m.reduces(a), other = m.has(b) && !m.reduces(b);
                if (own && !other && numbered_inside(d, b, a, &m == &out))
                    return "units that share a sum are numbered inside of others";
            }
        }
    }
    int64_t mabs = 1;
    for (size_t a = 0; a < f.axes.size(); a++) mabs *= f.axes[a].kept ? d.units(a, "MAB") : 1;
    if (stored_along_lanes(f, d) && mabs < tree.of("MAB") && takes_blocks(f, tree, d, out, out.indices()))
        return "MABs that store the same elements as others";
    for (const char *level : {"MAB", "L1B", "L2B", "group"}) {
        int64_t used = 1;
        for (size_t a = 0; a < f.axes.size(); a++) used *= d.units(a, level);
        if (used > tree.of(level)) return "more iterations than units";
    }
    return "";
}

std::string reason_against_memory(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d,
                                  const Decisions &decisions) {
    const size_t l = d.lanes;
    int64_t lm0 = 0, lm1 = 0, grf1 = 0, sums = 0; // LW
    bool wide = false;
    std::set<ChipFormula::Read> counted;
    for (const ChipFormula::Member &m : f.members) {
        wide = wide || m.operations > 10; // functions and quotients need several temporaries
        for (const ChipFormula::Read &r : m.reads) {
            if (!streams(f, d, m, r) && !counted.insert(r).second) continue;
            const int64_t n = copy_words(f, d, r);
            const std::string place = copy_memory(decisions, r.tensor);
            const bool twice = is_double_buffered(decisions, r.tensor);
            if (twice || place == "LM0") lm0 += n;
            if (twice || place == "LM1") lm1 += n;
        }
        const int64_t parts = f.lanes * m.bytes() / 8 > 1 ? 2 : 1;
        const bool last = &m == &f.output();
        const int64_t results = (points_of(f, d, m, false) + 3) / 4 * 4 * parts;
        if (m.stage->is_reduction()) sums = std::max(sums, results * int64_t(m.values() > 1 ? 2 : 1));
        if (last && !m.stage->is_reduction()) continue;
        const bool row_stage = !m.stage->is_reduction() && m.has(l) && !f.axes[l].shared;
        if (row_stage && d.tiles(l) > 1) return "a stage with several readers is stored whole";
        const std::string home = last ? "GRF1" : result_memory(decisions, f, m, l);
        (home == "LM1" ? lm1 : home == "LM0" ? lm0 : grf1) += results;
    }
    if (lm0 > tree.lm || lm1 > tree.lm) return "more than LM holds";
    const bool two = f.lanes == 4; // words per f32 value
    const int64_t work = !wide ? 16 : std::min<int64_t>(two ? 96 : 48, tree.grf * (two ? 7 : 6) / 8);
    if (sums + work > tree.grf || grf1 + work > tree.grf) return "more sums than registers";
    return "";
}

} // namespace

bool host_packs(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Read &r) {
    return r.last() != d.lanes || !r.windows.empty() || f.lanes * r.bytes != 8 || short_rows(f, d);
}

std::string reason_against(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d,
                           const Decisions &decisions) {
    std::string reason = reason_against_reductions(f, tree, d);
    if (reason.empty()) reason = reason_against_transfers(f, tree, d, decisions.choice("L1B", "") == "near");
    if (reason.empty()) reason = reason_against_owners(f, tree, d);
    if (reason.empty()) reason = reason_against_memory(f, tree, d, decisions);
    return reason;
}

} // namespace kumiko

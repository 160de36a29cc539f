#include "schedules/library/chip_elementwise.h"

#include "machine/machine.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

bool is_chip_elementwise(const Op &op) {
    if (op.outputs().size() != 1) return false;
    for (const Stage &s : op.stages()) {
        if (s.kind != Stage::Kind::Pointwise || s.axes.empty()) return false;
        for (const Axis &a : s.axes) {
            if (!constant_extent(a)) return false;
        }
    }
    return true;
}

namespace {

// Inputs that the stage reads, after inlining.
std::vector<std::string> operands(const Schedule &s, const std::string &stage) {
    std::vector<std::string> all;
    for (const Input &in : s.op().inputs()) {
        const auto readers = s.state().consumers(in.name);
        if (std::find(readers.begin(), readers.end(), stage) != readers.end()) all.push_back(in.name);
    }
    return all;
}

} // namespace

ChipElementwiseParameters chip_elementwise_parameters(const Op &op, const Machine &machine) {
    ChipElementwiseParameters p;
    const int64_t lm = machine.level("LM").bytes / 8;
    const int64_t fits = std::max<int64_t>(4, lm / 2 / std::max<int64_t>(1, 2 * int64_t(op.inputs().size())));
    std::vector<int64_t> legal;
    for (int64_t w = 4; w <= std::min<int64_t>(fits, 256); w *= 2) legal.push_back(w);
    p.words = Tile::nearest(64, legal);
    return p;
}

Schedule schedule_chip_elementwise(const Op &op, const Machine &machine, const ChipElementwiseParameters &p) {
    Schedule s(op, machine);
    const std::string out = op.outputs().front();
    for (const Stage &stage : op.stages()) {
        if (stage.name != out) s.stage(stage.name).inline_into();
    }
    StageHandle C = s.stage(out);
    const Stage &stage = op.stage(out);
    // Time loops by axis, outermost first, with what is left of them; the last axis gives the lanes.
    std::vector<std::string> rest;
    std::vector<int64_t> extent;
    for (const Axis &a : stage.axes) {
        rest.push_back(a.name());
        extent.push_back(*constant_extent(a));
    }
    const auto cut = [&](size_t axis, int64_t factor, const std::string &name) {
        const std::string base = stage.axes[axis].name();
        C.split(rest[axis], factor, {base + "." + name + ".o", base + "." + name});
        rest[axis] = base + "." + name + ".o";
        extent[axis] = (extent[axis] + factor - 1) / factor;
        return base + "." + name;
    };
    const size_t last = rest.size() - 1;
    // Neighbours along the last axis as the tree deals them out: lanes, PEs, two MABs, L1Bs; then, up to blocks of 64 LW, more MABs, and
    // words of a PE. What MABs are left take neighbouring blocks, and groups take 16 of those in turns, as DRAM has them.
    const int64_t mabs = machine.unit("MAB").count, l1bs = machine.unit("L1B").count;
    const int64_t pair = std::min<int64_t>(2, mabs), others = mabs / pair;
    const std::string lanes = cut(last, 8 / stage.type.bytes(), "v");
    std::vector<std::pair<std::string, std::string>> bound; // loop, level; innermost first
    const auto bind = [&](size_t axis, int64_t count, const std::string &level, const std::string &name) {
        bound.push_back({cut(axis, count, name), level});
    };
    bind(last, machine.unit("PE").count, "PE", "PE");
    bind(last, pair, "MAB", "MAB");
    bind(last, l1bs, "L1B", "L1B");
    const int64_t missing = std::max<int64_t>(1, 64 / (4 * pair * l1bs)), near = std::min(others, missing);
    bind(last, near, "MAB", "MABn");
    std::vector<std::string> words; // of a PE, innermost first
    if (missing > near) words.push_back(cut(last, missing / near, "b"));
    // Rows go to the groups; a tensor of one axis, or of few rows, has blocks in their place.
    size_t turns = last;
    for (size_t d = 0; d < last; d++) {
        if (extent[d] >= 4 && (turns == last || extent[d] > extent[turns])) turns = d;
    }
    const int64_t groups = machine.unit("group").count, far = others / near;
    const bool along = turns == last || extent[last] >= far; // blocks beside each other in a row, not below each other
    bind(along ? last : turns, far, "MAB", "MABf");
    const auto at_most = [&](int64_t n, int64_t limit) { // a power of 2 as n is
        while (n > 4 && n / 2 >= limit) n /= 2;
        return std::max<int64_t>(n, 1);
    };
    int64_t left = p.words / (words.empty() ? 1 : missing / near);
    // What a group has of a row tile, then the next in the group's memory.
    const bool rows = along && turns != last;
    const int64_t turn = groups == 1 ? 1
                         : rows      ? at_most(std::min<int64_t>(16, left), extent[turns])
                                     : std::min<int64_t>(std::max<int64_t>(1, 16 / far), left / 4);
    const std::string in_turn = turn > 1 ? cut(turns, turn, "t") : "";
    left = at_most(left / std::max<int64_t>(turn, 1), extent[turns]);
    bind(turns, groups, "group", "group");
    const std::string word = left > 1 ? cut(turns, left, "w") : "";
    bind(turns, machine.unit("L2B").count, "L2B", "L2B");
    for (const std::string &w : rows ? std::vector{in_turn, word} : std::vector{word, in_turn}) {
        if (!w.empty()) words.push_back(w);
    }
    std::vector<LoopName> order;
    for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
        for (size_t b = bound.size(); b-- > 0;) {
            if (bound[b].second == level) order.push_back(bound[b].first);
        }
    }
    for (const std::string &r : rest) order.push_back(r);
    const std::string at = rest.back();
    order.insert(order.end(), words.rbegin(), words.rend());
    order.push_back(lanes);
    C.reorder(order);
    for (const auto &[loop, level] : bound) C.bind(loop, level);
    C.vectorize(lanes);
    int n = 0;
    for (const std::string &in : operands(s, out)) s.place_in(in, n++ % 2 ? "LM1" : "LM0", out, at).double_buffer();
    return s;
}

} // namespace kumiko::library

#include "schedules/library/chip_elementwise.h"

#include "machine/machine.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace kumiko::library {

bool is_chip_elementwise(const Op &op) {
    if (op.outputs().size() != 1) return false;
    for (const Stage &s : op.stages()) {
        if (s.kind != Stage::Kind::Pointwise || s.axes.empty()) return false;
        for (const Axis &a : s.axes) {
            if (!constant_extent(a)) return false;
        }
        // at axes or constants only
        for (const Halide::Internal::Call *read : tensor_reads(s.value)) {
            for (const Expr &e : read->args) {
                if (!e.as<Halide::Internal::Variable>() && !Halide::Internal::is_const(e)) return false;
            }
        }
    }
    return true;
}

namespace {

// The inputs that are read.
std::vector<std::string> operands(const Reads &reads, const Op &op) {
    std::vector<std::string> all;
    for (const Input &in : op.inputs()) {
        if (std::any_of(reads.begin(), reads.end(), [&](const auto &r) { return r.first == in.name; }))
            all.push_back(in.name);
    }
    return all;
}

// Bytes of the narrowest element, which determines the lanes per word.
int64_t narrowest(const Op &op) {
    int bytes = 4;
    for (const Input &in : op.inputs()) bytes = std::min(bytes, in.type.bytes());
    for (const Stage &s : op.stages()) bytes = std::min(bytes, s.type.bytes());
    return std::max(2, bytes); // the chip has no 8-bit elements
}

// Whether rows (the last axis) fill at least 15/16 of their 64-LW blocks in DRAM, and each group
// has at least 16 rows.
bool fills_rows(const std::vector<int64_t> &extents, Type type, const Machine &machine) {
    const int64_t words = (extents.back() * type.bytes() + 7) / 8, blocks = (words + 63) / 64;
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < extents.size(); d++) rows *= extents[d];
    return 16 * words >= 15 * 64 * blocks && rows >= 16 * machine.unit("group").count;
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
    const Stage &stage = op.stage(out);
    std::set<std::string> kept = kept_stages(op, stage);
    const auto has_row = [&](const std::string &name) {
        const auto &axes = op.stage(name).axes;
        return std::any_of(axes.begin(), axes.end(),
                           [&](const Axis &a) { return a.name() == stage.axes.back().name(); });
    };
    // Kept stages with the row axis and kept stages without it distribute units differently: keep
    // one kind.
    const bool along_row = std::any_of(kept.begin(), kept.end(), has_row);
    std::erase_if(kept, [&](const std::string &name) { return has_row(name) != along_row; });
    for (const Stage &other : op.stages()) {
        if (other.name != out && !kept.contains(other.name)) s.stage(other.name).inline_into();
    }
    StageHandle C = s.stage(out);
    // Remaining time loops by axis, outermost first, and their extents; the last axis gives the
    // lanes.
    std::vector<std::string> axes, rest;
    std::vector<int64_t> extent;
    for (const Axis &a : stage.axes) {
        axes.push_back(a.name());
        extent.push_back(*constant_extent(a));
    }
    const Reads reads = reads_of(op, stage, kept);
    // Rows that do not fill their blocks in DRAM are fused with the axis outside. A row that all
    // rows read is then needed at as many phases as there are block starts within it. That many
    // tiles pass before the same words are needed again, and LM must have room for them.
    int64_t phases = 1, most_words = p.words;
    for (size_t d = stage.axes.size(); d-- > 1 && !fills_rows(extent, stage.type, machine);) {
        const Join how = joins(op, stage, reads, d - 1);
        if (how == Join::No || (how == Join::Rows && !kept.empty())) break;
        if (how == Join::Rows) {
            for (phases = extent[d]; phases % 2 == 0; phases /= 2) {
            }
            int64_t all = extent[d] * extent[d - 1]; // rounds of one word per unit
            for (const char *level : {"PE", "MAB", "L1B", "L2B", "group"}) all /= machine.unit(level).count;
            if (phases * 8 / narrowest(op) > all) phases = int64_t(1) << 32;
            while (most_words > 4 && phases * most_words > machine.level("LM0").bytes / 8 / 2) most_words /= 2;
            if (phases * most_words > machine.level("LM0").bytes / 8 / 2) {
                phases = 1, most_words = p.words;
                break;
            }
        }
        C.fuse(axes[d - 1], axes[d], axes[d - 1] + "_" + axes[d]);
        axes[d - 1] += "_" + axes[d];
        extent[d - 1] *= extent[d];
        axes.pop_back();
        extent.pop_back();
        if (phases > 1 && d > 1) break; // the outer rows stay apart
    }
    rest = axes;
    const auto cut = [&](size_t axis, int64_t factor, const std::string &name) {
        const std::string base = axes[axis];
        C.split(rest[axis], factor, {base + "." + name + ".o", base + "." + name});
        rest[axis] = base + "." + name + ".o";
        extent[axis] = (extent[axis] + factor - 1) / factor;
        return base + "." + name;
    };
    const size_t last = rest.size() - 1;
    // The order in which the tree distributes neighbours along the last axis: lanes, PEs, two MABs,
    // L1Bs; then, up to blocks of 64 LW, more MABs and words of a PE. The remaining MABs take
    // neighbouring blocks. Groups take 16 blocks each in turn, as DRAM interleaves them.
    const int64_t mabs = machine.unit("MAB").count, l1bs = machine.unit("L1B").count;
    const int64_t pair = std::min<int64_t>(2, mabs), others = mabs / pair;
    const std::string lanes = cut(last, 8 / narrowest(op), "v");
    std::vector<std::pair<std::string, std::string>> bound; // (loop, level), innermost first
    const auto bind = [&](size_t axis, int64_t count, const std::string &level, const std::string &name) {
        bound.push_back({cut(axis, count, name), level});
    };
    bind(last, machine.unit("PE").count, "PE", "PE");
    bind(last, pair, "MAB", "MAB");
    bind(last, l1bs, "L1B", "L1B");
    const int64_t missing = std::max<int64_t>(1, 64 / (4 * pair * l1bs)), near = std::min(others, missing);
    bind(last, near, "MAB", "MABn");
    std::vector<std::string> words; // loops over words of a PE, innermost first
    if (missing > near) words.push_back(cut(last, missing / near, "b"));
    // Groups divide rows; for a tensor of one axis, or of few rows, they divide blocks.
    size_t turns = last;
    for (size_t d = 0; d < last; d++) {
        if (extent[d] >= 4 && (turns == last || extent[d] > extent[turns])) turns = d;
    }
    int64_t groups = machine.unit("group").count;
    const int64_t far = others / near;
    // With few long rows, each group takes the rows in its own DRAM, so that all groups work; the
    // units below share a row.
    std::string row_of_group;
    for (size_t d = 0; d < last && kept.empty(); d++) {
        const int64_t rows =
            std::accumulate(extent.begin(), extent.begin() + int64_t(last), int64_t(1), std::multiplies());
        if (extent[d] == 1 || extent[d] != rows || rows >= 16 * groups || extent[last] < 2 * far) continue;
        int64_t together = 1; // rows in the same group, as in DRAM
        while (2 * together * groups <= rows) together *= 2;
        if (together > 1) row_of_group = cut(d, together, "s");
        bind(d, std::min(groups, extent[d]), "group", "group");
        turns = last;
        groups = 1;
    }
    // MABs prefer blocks of the same row over blocks of different rows. If kept stages hold values
    // per row, as many blocks are taken as waste at most an eighth.
    int64_t beside = turns == last || extent[last] >= far ? far : 1;
    if (!kept.empty() && turns != last) {
        for (beside = far; beside > 1; beside /= 2) {
            if (8 * ((extent[last] + beside - 1) / beside * beside) <= 9 * extent[last]) break;
        }
    }
    const bool along = beside == far;
    bind(last, beside, "MAB", "MABf");
    bind(turns, far / beside, "MAB", "MABg");
    const auto at_most = [&](int64_t n, int64_t limit) { // n is a power of 2
        while (n > 4 && n / 2 >= limit) n /= 2;
        return std::max<int64_t>(n, 1);
    };
    int64_t left = most_words / (words.empty() ? 1 : missing / near);
    // First the blocks of a row tile that one group owns, then the next tile in the memory of that
    // group.
    const bool rows = along && turns != last;
    const int64_t turn =
        groups == 1 ? 1
        : rows      ? at_most(std::min<int64_t>(16, left), extent[turns])
                    : std::min<int64_t>(std::max<int64_t>(1, 16 / (turns == last ? far : far / beside)), left / 4);
    if (!kept.empty() && !along_row && left / turn > 1 &&
        extent[last] > 1) { // more of a row, whose blocks share the kept values
        const int64_t tiles = (extent[last] + left / turn - 1) / (left / turn);
        words.push_back(cut(last, (extent[last] + tiles - 1) / tiles, "r"));
    }
    const std::string deinterleaved = turn > 1 ? cut(turns, turn, "t") : "";
    left = kept.empty() ? at_most(left / std::max<int64_t>(turn, 1), extent[turns]) : 1;
    if (turns == last) { // leave work for all units
        const int64_t units = phases * groups * machine.unit("L2B").count;
        while (left > 1 && left / 2 * units >= extent[turns]) left /= 2;
    }
    if (groups > 1) bind(turns, groups, "group", "group");
    const std::string word = left > 1 ? cut(turns, left, "w") : "";
    size_t above = turns; // L2Bs divide it further, or another axis if it is used up
    for (size_t d = 0; d < last; d++) {
        if (!kept.empty() && extent[above] == 1 && extent[d] > 1) above = d;
    }
    bind(above, machine.unit("L2B").count, "L2B", "L2B");
    for (const std::string &w : rows ? std::vector{deinterleaved, word} : std::vector{word, deinterleaved}) {
        if (!w.empty()) words.push_back(w);
    }
    const std::string phase = phases > 1 ? cut(last, phases, "phase") : "";
    // A kept stage distributes the last axis in the same way, inside the loop at which it is
    // computed.
    std::vector<LoopName> order, along_last;
    for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
        for (size_t b = bound.size(); b-- > 0;) {
            if (bound[b].second != level) continue;
            (along_row && bound[b].first.starts_with(axes[last] + ".") ? along_last : order).push_back(bound[b].first);
        }
    }
    if (!row_of_group.empty()) order.push_back(row_of_group);
    for (const std::string &r : rest) order.push_back(r);
    const std::string at = phase.empty() ? rest.back() : phase;
    if (!phase.empty()) order.push_back(phase);
    order.insert(order.end(), along_last.begin(), along_last.end());
    order.insert(order.end(), words.rbegin(), words.rend());
    order.push_back(lanes);
    C.reorder(order);
    for (const auto &[loop, level] : bound) C.bind(loop, level);
    C.vectorize(lanes);
    for (size_t n = op.stages().size(); n-- > 0;) { // consumers before producers
        const Stage &other = op.stages()[n];
        if (!kept.contains(other.name)) continue;
        StageHandle S = s.stage(other.name);
        S.compute_at(out, at);
        S.place_in("LM1");
        std::string dealt;
        for (const Axis &a : other.axes) {
            if (a.name() == axes[last]) dealt = a.name();
        }
        for (const Axis &a : other.axes) { // its operands are copied around this loop
            const int64_t reach = (turn - 1) * (far / beside) + 1;
            if (a.name() == axes[turns] && a.name() != dealt && reach > 1) S.split(a.name(), reach);
        }
        if (dealt.empty()) continue;
        std::vector<LoopName> own;
        std::string left_over = dealt;
        const std::vector<Relation> relations = C.state().relations;
        for (const auto &r : relations) { // split as the output, from the lanes on
            const auto *split = std::get_if<SplitRelation>(&r);
            if (!split || (split->parent != dealt && !split->parent.starts_with(dealt + "."))) continue;
            S.split(left_over, split->factor, {split->outer, split->inner});
            left_over = split->outer;
            own.insert(own.begin(), split->inner);
        }
        own.insert(own.begin(), left_over);
        for (size_t l = own.size(); l-- > 0;) {
            for (const auto &[loop, level] : bound) {
                if (own[l].name == loop) S.bind(loop, level);
            }
        }
        S.vectorize(lanes);
    }
    int n = 0;
    for (const std::string &in : operands(reads, op)) {
        const char *level = n++ % 2 ? "LM1" : "LM0";
        // one copy for all phases
        const bool row = phases > 1 && op.find_input(in)->axes.size() == 1;
        row ? s.place_in(in, level, out, rest.back()) : s.place_in(in, level, out, at).double_buffer();
    }
    for (const Stage &other : op.stages()) {
        if (!kept.contains(other.name)) continue;
        for (const std::string &in : operands(reads_of(op, other, kept), op))
            s.place_in(in, "LM0", other.name, s.state().stage(other.name).order.front());
    }
    return s;
}

} // namespace kumiko::library

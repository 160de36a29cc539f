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

// The loops of the output over the units of the chip, and the stages that are kept beside it.
// schedule() calls the steps in the order of their declaration; each reads members that the steps
// before it have set.
class ChipElementwiseLoops {
public:
    ChipElementwiseLoops(const Op &op, const Machine &machine, const ChipElementwiseParameters &p)
        : op_(op), machine_(machine), s_(op, machine), out_(op.outputs().front()), stage_(op.stage(out_)),
          kept_(kept_stages(op, stage_)), max_words_(p.words) {}

    Schedule schedule() {
        inline_other_stages();
        name_axes();
        fuse_short_rows();
        last_ = axes_.size() - 1;
        rest_ = axes_;
        bind_blocks_of_row();
        choose_axis_of_groups();
        give_rows_to_groups();
        bind_other_mabs();
        cut_words_and_groups();
        bind_l2bs();
        if (phases_ > 1) phase_ = cut(last_, phases_, "phase");
        order_loops();
        for (size_t n = op_.stages().size(); n-- > 0;) { // consumers before producers
            if (kept_.contains(op_.stages()[n].name)) schedule_kept(op_.stages()[n]);
        }
        place_inputs();
        return std::move(s_);
    }

private:
    StageHandle output() { return s_.stage(out_); }

    bool has_row(const std::string &name) const {
        const auto &axes = op_.stage(name).axes;
        return std::any_of(axes.begin(), axes.end(),
                           [&](const Axis &a) { return a.name() == stage_.axes.back().name(); });
    }

    // Kept stages with the row axis and kept stages without it distribute units differently, so
    // only one kind is kept.
    void inline_other_stages() {
        along_row_ = std::any_of(kept_.begin(), kept_.end(), [&](const std::string &name) { return has_row(name); });
        std::erase_if(kept_, [&](const std::string &name) { return has_row(name) != along_row_; });
        for (const Stage &other : op_.stages()) {
            if (other.name != out_ && !kept_.contains(other.name)) s_.stage(other.name).inline_into();
        }
    }

    void name_axes() {
        for (const Axis &a : stage_.axes) {
            axes_.push_back(a.name());
            extent_.push_back(*constant_extent(a));
        }
        reads_ = reads_of(op_, stage_, kept_);
    }

    // If all rows read row d of a tensor, its words are needed at as many phases as there are block
    // starts within the row. That many tiles pass before the same words are needed again, and LM
    // must have room for them. Sets phases_ and max_words_; false if LM has no room.
    bool choose_phases(size_t d, int64_t words) {
        for (phases_ = extent_[d]; phases_ % 2 == 0; phases_ /= 2) {
        }
        int64_t all = extent_[d] * extent_[d - 1]; // rounds of one word per unit
        for (const char *level : {"PE", "MAB", "L1B", "L2B", "group"}) all /= machine_.unit(level).count;
        if (phases_ * 8 / narrowest(op_) > all) phases_ = int64_t(1) << 32;
        const int64_t room = machine_.level("LM0").bytes / 8 / 2;
        while (max_words_ > 4 && phases_ * max_words_ > room) max_words_ /= 2;
        if (phases_ * max_words_ <= room) return true;
        phases_ = 1, max_words_ = words;
        return false;
    }

    // Rows that do not fill their blocks in DRAM are fused with the axis outside.
    void fuse_short_rows() {
        const int64_t words = max_words_;
        for (size_t d = stage_.axes.size(); d-- > 1 && !fills_rows(extent_, stage_.type, machine_);) {
            const Join how = joins(op_, stage_, reads_, d - 1);
            if (how == Join::No || (how == Join::Rows && !kept_.empty())) break;
            if (how == Join::Rows && !choose_phases(d, words)) break;
            output().fuse(axes_[d - 1], axes_[d], axes_[d - 1] + "_" + axes_[d]);
            axes_[d - 1] += "_" + axes_[d];
            extent_[d - 1] *= extent_[d];
            axes_.pop_back();
            extent_.pop_back();
            if (phases_ > 1 && d > 1) break; // the outer rows stay apart
        }
    }

    // Splits `factor` iterations off what remains of an axis; returns the name of their loop.
    std::string cut(size_t axis, int64_t factor, const std::string &name) {
        const std::string base = axes_[axis];
        output().split(rest_[axis], factor, {base + "." + name + ".o", base + "." + name});
        rest_[axis] = base + "." + name + ".o";
        extent_[axis] = (extent_[axis] + factor - 1) / factor;
        return base + "." + name;
    }

    void bind(size_t axis, int64_t count, const std::string &level, const std::string &name) {
        bound_.push_back({cut(axis, count, name), level});
    }

    // The tree distributes neighbours along the last axis in this order: lanes, PEs, two MABs,
    // L1Bs; then, up to blocks of 64 LW, more MABs and words of a PE.
    void bind_blocks_of_row() {
        const int64_t mabs = machine_.unit("MAB").count, l1bs = machine_.unit("L1B").count;
        const int64_t pair = std::min<int64_t>(2, mabs), others = mabs / pair;
        lanes_ = cut(last_, 8 / narrowest(op_), "v");
        bind(last_, machine_.unit("PE").count, "PE", "PE");
        bind(last_, pair, "MAB", "MAB");
        bind(last_, l1bs, "L1B", "L1B");
        const int64_t missing = std::max<int64_t>(1, 64 / (4 * pair * l1bs)), near = std::min(others, missing);
        bind(last_, near, "MAB", "MABn");
        words_per_block_ = missing / near;
        if (missing > near) words_.push_back(cut(last_, words_per_block_, "b"));
        far_ = others / near;
    }

    // Groups divide rows; for a tensor of one axis, or of few rows, they divide blocks.
    void choose_axis_of_groups() {
        group_axis_ = last_;
        for (size_t d = 0; d < last_; d++) {
            if (extent_[d] >= 4 && (group_axis_ == last_ || extent_[d] > extent_[group_axis_])) group_axis_ = d;
        }
        groups_ = machine_.unit("group").count;
    }

    // With few long rows, each group takes the rows in its own DRAM, so that all groups work; the
    // units below share a row.
    void give_rows_to_groups() {
        for (size_t d = 0; d < last_ && kept_.empty(); d++) {
            const int64_t rows =
                std::accumulate(extent_.begin(), extent_.begin() + int64_t(last_), int64_t(1), std::multiplies());
            if (extent_[d] == 1 || extent_[d] != rows || rows >= 16 * groups_ || extent_[last_] < 2 * far_) continue;
            int64_t together = 1; // rows in the same group, as in DRAM
            while (2 * together * groups_ <= rows) together *= 2;
            if (together > 1) row_of_group_ = cut(d, together, "s");
            bind(d, std::min(groups_, extent_[d]), "group", "group");
            group_axis_ = last_;
            groups_ = 1;
        }
    }

    // The remaining MABs take neighbouring blocks of the same row rather than blocks of different
    // rows. If kept stages hold values per row, as many blocks are taken as waste at most an
    // eighth.
    void bind_other_mabs() {
        beside_ = group_axis_ == last_ || extent_[last_] >= far_ ? far_ : 1;
        if (!kept_.empty() && group_axis_ != last_) {
            for (beside_ = far_; beside_ > 1; beside_ /= 2) {
                if (8 * ((extent_[last_] + beside_ - 1) / beside_ * beside_) <= 9 * extent_[last_]) break;
            }
        }
        bind(last_, beside_, "MAB", "MABf");
        bind(group_axis_, far_ / beside_, "MAB", "MABg");
    }

    // Halves n, a power of 2, while the half still covers `limit`; at least 4 if n is.
    static int64_t at_most(int64_t n, int64_t limit) {
        while (n > 4 && n / 2 >= limit) n /= 2;
        return std::max<int64_t>(n, 1);
    }

    // Cuts the words of a PE: first the blocks of a row tile that one group owns, then the next
    // tile in the memory of that group. Runs of 16 blocks go to the groups round-robin, as DRAM
    // interleaves them.
    void cut_words_and_groups() {
        int64_t left = max_words_ / (words_.empty() ? 1 : words_per_block_);
        const bool rows = beside_ == far_ && group_axis_ != last_;
        group_run_ = groups_ == 1 ? 1
                     : rows       ? at_most(std::min<int64_t>(16, left), extent_[group_axis_])
                                  : std::min<int64_t>(
                                  std::max<int64_t>(1, 16 / (group_axis_ == last_ ? far_ : far_ / beside_)), left / 4);
        if (!kept_.empty() && !along_row_ && left / group_run_ > 1 &&
            extent_[last_] > 1) { // more of a row, whose blocks share the kept values
            const int64_t tiles = (extent_[last_] + left / group_run_ - 1) / (left / group_run_);
            words_.push_back(cut(last_, (extent_[last_] + tiles - 1) / tiles, "r"));
        }
        const std::string runs = group_run_ > 1 ? cut(group_axis_, group_run_, "t") : "";
        left = kept_.empty() ? at_most(left / std::max<int64_t>(group_run_, 1), extent_[group_axis_]) : 1;
        if (group_axis_ == last_) { // leave work for all units
            const int64_t units = phases_ * groups_ * machine_.unit("L2B").count;
            while (left > 1 && left / 2 * units >= extent_[group_axis_]) left /= 2;
        }
        if (groups_ > 1) bind(group_axis_, groups_, "group", "group");
        const std::string word = left > 1 ? cut(group_axis_, left, "w") : "";
        for (const std::string &w : rows ? std::vector{runs, word} : std::vector{word, runs}) {
            if (!w.empty()) words_.push_back(w);
        }
    }

    // L2Bs divide the axis of the groups further, or another axis if that one is used up.
    void bind_l2bs() {
        size_t above = group_axis_;
        for (size_t d = 0; d < last_; d++) {
            if (!kept_.empty() && extent_[above] == 1 && extent_[d] > 1) above = d;
        }
        bind(above, machine_.unit("L2B").count, "L2B", "L2B");
    }

    // A kept stage distributes the last axis as the output does, inside the loop at which it is
    // computed; the output's loops along that axis therefore follow the others.
    void order_loops() {
        std::vector<LoopName> order, along_last;
        for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
            for (size_t b = bound_.size(); b-- > 0;) {
                if (bound_[b].second != level) continue;
                (along_row_ && bound_[b].first.starts_with(axes_[last_] + ".") ? along_last : order)
                    .push_back(bound_[b].first);
            }
        }
        if (!row_of_group_.empty()) order.push_back(row_of_group_);
        for (const std::string &r : rest_) order.push_back(r);
        if (!phase_.empty()) order.push_back(phase_);
        order.insert(order.end(), along_last.begin(), along_last.end());
        order.insert(order.end(), words_.rbegin(), words_.rend());
        order.push_back(lanes_);
        output().reorder(order);
        for (const auto &[loop, level] : bound_) output().bind(loop, level);
        output().vectorize(lanes_);
    }

    // The loop of the output at which kept stages are computed and inputs copied.
    std::string loop_of_tile() const { return phase_.empty() ? rest_.back() : phase_; }

    void schedule_kept(const Stage &other) {
        StageHandle S = s_.stage(other.name);
        S.compute_at(out_, loop_of_tile());
        S.place_in("LM1");
        std::string distributed; // its axis that is the output's last one
        for (const Axis &a : other.axes) {
            if (a.name() == axes_[last_]) distributed = a.name();
        }
        for (const Axis &a : other.axes) { // its operands are copied around this loop
            const int64_t reach = (group_run_ - 1) * (far_ / beside_) + 1;
            if (a.name() == axes_[group_axis_] && a.name() != distributed && reach > 1) S.split(a.name(), reach);
        }
        if (!distributed.empty()) distribute_as_output(S, distributed);
    }

    // Splits and binds the axis as the output does, from the lanes on.
    void distribute_as_output(StageHandle S, const std::string &axis) {
        std::vector<LoopName> own;
        std::string left_over = axis;
        const std::vector<Relation> relations = output().state().relations;
        for (const auto &r : relations) {
            const auto *split = std::get_if<SplitRelation>(&r);
            if (!split || (split->parent != axis && !split->parent.starts_with(axis + "."))) continue;
            S.split(left_over, split->factor, {split->outer, split->inner});
            left_over = split->outer;
            own.insert(own.begin(), split->inner);
        }
        own.insert(own.begin(), left_over);
        for (size_t l = own.size(); l-- > 0;) {
            for (const auto &[loop, level] : bound_) {
                if (own[l].name == loop) S.bind(loop, level);
            }
        }
        S.vectorize(lanes_);
    }

    void place_inputs() {
        int n = 0;
        for (const std::string &in : operands(reads_, op_)) {
            const char *level = n++ % 2 ? "LM1" : "LM0";
            // one copy for all phases
            const bool row = phases_ > 1 && op_.find_input(in)->axes.size() == 1;
            row ? s_.place_in(in, level, out_, rest_.back())
                : s_.place_in(in, level, out_, loop_of_tile()).double_buffer();
        }
        for (const Stage &other : op_.stages()) {
            if (!kept_.contains(other.name)) continue;
            for (const std::string &in : operands(reads_of(op_, other, kept_), op_))
                s_.place_in(in, "LM0", other.name, s_.state().stage(other.name).order.front());
        }
    }

    const Op &op_;
    const Machine &machine_;
    Schedule s_;
    const std::string out_;
    const Stage &stage_;
    std::set<std::string> kept_; // stages whose values a PE keeps beside the output
    Reads reads_;
    bool along_row_ = false; // whether the kept stages have the row axis
    // By axis, outermost first: its name, the loop over time that remains of it, and its extent.
    std::vector<std::string> axes_, rest_;
    std::vector<int64_t> extent_;
    size_t last_ = 0; // the axis of the lanes
    // Phases of a fused row; words of a PE per operand and tile.
    int64_t phases_ = 1, max_words_;
    std::string lanes_, phase_, row_of_group_; // loops
    // (loop, level), innermost first.
    std::vector<std::pair<std::string, std::string>> bound_;
    std::vector<std::string> words_; // loops over words of a PE, innermost first
    int64_t words_per_block_ = 1;    // words of a PE in one block of 64 LW
    size_t group_axis_ = 0;          // the axis that groups divide
    int64_t groups_ = 1;             // groups that are left to divide it
    int64_t far_ = 1, beside_ = 1;   // MABs that take other blocks; of the same row
    int64_t group_run_ = 1;          // blocks or rows that a group takes before the next group
};

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
    return ChipElementwiseLoops(op, machine, p).schedule();
}

} // namespace kumiko::library

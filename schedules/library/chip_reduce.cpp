#include "schedules/library/chip_reduce.h"

#include "machine/machine.h"
#include "schedules/library/chip_product.h"

#include <algorithm>
#include <bit>

namespace kumiko::library {

namespace {

namespace ir = Halide::Internal;

struct Fold {
    const Stage *reduction = nullptr, *output = nullptr; // output: the reduction or its consumer
    std::string last;                                    // last axis of the tensor read
    bool over_units = true;                              // the tree supports the combiner
    int64_t lanes = 2;
    bool reduces(const std::string &axis) const {
        const auto &all = reduction->reduction_axes;
        return std::any_of(all.begin(), all.end(), [&](const Axis &a) { return a.name() == axis; });
    }
};

std::vector<const ir::Call *> reads_of(const Stage &stage) {
    return tensor_reads(stage.is_reduction() ? stage.components.back().term : stage.value);
}

std::optional<Fold> find_fold(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() > 2) return std::nullopt;
    Fold f;
    f.output = &op.stage(op.outputs().front());
    for (const Stage &s : op.stages()) {
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                if (!constant_extent(a)) return std::nullopt;
            }
        }
        if (s.is_reduction() && !f.reduction)
            f.reduction = &s;
        else if (&s != f.output || s.kind != Stage::Kind::Pointwise)
            return std::nullopt;
        if ((s.is_reduction() ? s.components.back().type : s.type).bytes() == 2) f.lanes = 4;
    }
    if (!f.reduction) return std::nullopt;
    const Stage &r = *f.reduction;
    const bool index = r.reduction_kind == "argmax" || r.reduction_kind == "argmin";
    if (!r.properties.associative || !r.properties.commutative || r.components.size() != (index ? 2 : 1) ||
        (index && &r != f.output))
        return std::nullopt;
    f.over_units = r.reduction_kind != "product";
    const ir::Call *widest = nullptr;
    for (const ir::Call *read : reads_of(r)) {
        const bool plain = std::all_of(read->args.begin(), read->args.end(),
                                       [](const Expr &e) { return e.as<ir::Variable>() != nullptr; });
        if (!plain || read->args.empty() || !op.find_input(read->name)) return std::nullopt;
        if (!widest || read->args.size() > widest->args.size()) widest = read;
        if (read->type.bytes() == 2) f.lanes = 4;
    }
    if (!widest) return std::nullopt;
    f.last = widest->args.back().as<ir::Variable>()->name;
    if (f.output == f.reduction) return f;
    for (const ir::Call *read : reads_of(*f.output)) { // at its own axes
        if (read->name != r.name || r.axes.size() != f.output->axes.size()) return std::nullopt;
        for (size_t d = 0; d < r.axes.size(); d++) {
            const ir::Variable *v = read->args[d].as<ir::Variable>();
            if (!v || v->name != f.output->axes[d].name() || v->name != r.axes[d].name()) return std::nullopt;
        }
    }
    return f;
}

int64_t power(int64_t most, int64_t extent) { // the smallest power of 2 >= extent, at most `most`
    return std::min<int64_t>(most, int64_t(std::bit_ceil(uint64_t(extent))));
}

// Distribution of axes over units and time.
struct ReduceDistribution {
    struct Cut {
        int64_t factor;
        std::string name, level; // of the new loop; level "": in time
        bool inside;             // inside the loop at which sums are kept
    };
    std::map<std::string, std::vector<Cut>> cuts; // by axis, innermost first
    std::map<std::string, int64_t> left;
    std::vector<std::string> kept, reduced; // axes
    std::string run;                        // reduced axis of which a unit has neighbours,
    int64_t of_run = 1;                     // this many
    std::string row;                        // kept axis (not the last) of which a PE has several
    int64_t of_row = 1, points = 1;

    int64_t all(const std::vector<std::string> &axes) const {
        int64_t n = 1;
        for (const std::string &a : axes) n *= left.at(a);
        return n;
    }
    const std::string *longest(const std::vector<std::string> &axes) const {
        const std::string *best = nullptr;
        for (const std::string &a : axes) {
            if (!best || left.at(a) > left.at(*best)) best = &a;
        }
        return best && left.at(*best) > 1 ? best : nullptr;
    }
    void cut(const std::string &axis, int64_t factor, const std::string &name, const std::string &level, bool inside) {
        cuts[axis].push_back({factor, axis + "." + name, level, inside});
        left[axis] = ceil_div(left[axis], factor);
    }
    // Distributes the units of a level over the axes, longest first, each axis once.
    void distribute(std::vector<std::string> axes, int64_t units, const std::string &level, bool inside) {
        while (units > 1) {
            const std::string *axis = longest(axes);
            if (!axis) return;
            const int64_t n = power(units, left.at(*axis));
            const std::string name = *axis;
            cut(name, n, level, level, inside);
            units /= n;
            std::erase(axes, name);
        }
    }
};

ReduceDistribution distribute(const Fold &f, const Machine &machine, int64_t points) {
    ReduceDistribution d;
    for (const Axis &a : f.reduction->axes) d.kept.push_back(a.name());
    for (const Axis &a : f.reduction->reduction_axes) d.reduced.push_back(a.name());
    for (const auto *axes : {&f.reduction->axes, &f.reduction->reduction_axes}) {
        for (const Axis &a : *axes) d.left[a.name()] = std::max<int64_t>(1, *constant_extent(a));
    }
    const int64_t pes = machine.unit("PE").count, mabs = machine.unit("MAB").count, l1bs = machine.unit("L1B").count,
                  l2bs = machine.unit("L2B").count, groups = machine.unit("group").count;
    const bool keeps_last = !f.reduces(f.last);
    d.cut(f.last, f.lanes, "v", "", true);
    // PEs: a rotation combines two or four.
    if (d.left[f.last] > 1)
        d.cut(f.last, pes, "PE", "PE", true);
    else if (const std::string *axis = d.longest(d.reduced))
        d.distribute({*axis}, pes, "PE", true);
    const int64_t far = groups * l2bs;
    const bool folds = f.over_units && d.longest(d.reduced);
    if (keeps_last && d.left[f.last] >= mabs && (!folds || d.all(d.kept) >= 4 * mabs * far)) {
        d.cut(f.last, mabs, "MAB", "MAB", true);
    } else if (folds) {
        int64_t units = mabs;
        std::vector<std::string> others = d.reduced;
        if (!keeps_last && d.left[f.last] > 1) {
            d.cut(f.last, power(units, d.left[f.last]), "MAB", "MAB", true);
            units /= d.cuts[f.last].back().factor;
            std::erase(others, f.last);
        }
        d.distribute(others, units, "MAB", true);
    }
    // Results per PE: enough to keep it busy, few enough that all units have some.
    while (points > 1 && points / 2 * far >= d.all(d.kept)) points /= 2;
    if (keeps_last) {
        d.points = std::min(points, d.left[f.last]);
        d.cut(f.last, d.points, "t", "", true);
    }
    std::vector<std::string> rows = d.kept;
    std::erase(rows, f.last);
    if (const std::string *axis = d.longest(rows); axis || (!keeps_last && !rows.empty())) {
        d.row = axis ? *axis : rows.back();
        d.of_row = std::min(std::max<int64_t>(1, points / d.points), d.left[d.row]);
        d.points *= d.of_row;
        d.cut(d.row, d.of_row, "row", "", true);
    }
    const bool l1bs_keep = d.all(d.kept) >= far * l1bs || !f.over_units || !d.longest(d.reduced);
    std::vector<std::string> far_axes;
    if (!l1bs_keep) {
        // Neighbours go to one unit: fewer, longer moves.
        if (const std::string *axis = d.longest(d.reduced);
            axis && (*axis == f.last || d.left[f.last] * pes * mabs >= 64)) {
            const int64_t run = std::min<int64_t>(8, 2 * d.left[*axis] / (l1bs * far));
            if (run > 1) {
                d.run = *axis, d.of_run = int64_t(std::bit_floor(uint64_t(run)));
                d.cut(d.run, d.of_run, "run", "", true);
            }
        }
        far_axes = d.run.empty() ? d.reduced : std::vector<std::string>{d.run};
        d.distribute(far_axes, l1bs, "L1B", true);
    }
    // Groups and L2Bs that the results leave idle divide the reduction.
    const bool groups_keep = l1bs_keep || d.longest(d.kept);
    d.distribute(d.kept, groups, "group", false);
    const bool l2bs_keep = l1bs_keep || d.longest(d.kept);
    d.distribute(d.kept, l2bs, "L2B", false);
    if (!l2bs_keep) d.distribute(far_axes, l2bs, "L2B", true);
    if (!groups_keep) d.distribute(far_axes, groups, "group", true);
    if (l1bs_keep) d.distribute(d.kept, l1bs, "L1B", false);
    bool mabs_used = false;
    for (const auto &[axis, cuts] : d.cuts) {
        for (const auto &c : cuts) mabs_used = mabs_used || c.level == "MAB";
    }
    if (!mabs_used) d.distribute(d.kept, mabs, "MAB", false);
    return d;
}

} // namespace

bool is_chip_reduce(const Op &op) { return find_fold(op).has_value(); }

ChipReduceParameters chip_reduce_parameters(const Op &op, const Machine &machine) {
    const Fold f = *find_fold(op);
    const Component &sum = f.reduction->components.back();
    // Sums take at most a quarter of the registers.
    const int64_t words = f.lanes * (sum.type.bytes() == 2 && f.reduction->components.size() == 1 ? 2 : 4) / 8;
    ChipReduceParameters p;
    const std::vector<int64_t> points =
        powers(f.lanes, std::max<int64_t>(4, std::min<int64_t>(16, machine.level("GRF0").bytes / 8 / 4 / words)));
    p.points = Tile::nearest(16, points);
    int64_t of_step = 0;
    for (const Input &in : op.inputs()) of_step += f.lanes * in.type.bytes() / 8;
    const ReduceDistribution d = distribute(f, machine, p.points);
    of_step = std::max<int64_t>(1, of_step * d.points * d.of_run);
    const int64_t room = std::max<int64_t>(1, machine.level("LM0").bytes / 8 / of_step);
    p.steps = Tile::nearest(room, powers(1, std::max<int64_t>(1, room)));
    // In a small L2BM, a move waits until the words of the previous one have left; two tiles then
    // take half of it.
    const int64_t l2bm = machine.level("L2BM").bytes / 8;
    if (l2bm >= 8192) return p;
    for (const char *level : {"L1B", "MAB", "PE"}) of_step *= machine.unit(level).count;
    p.steps = Tile::nearest(l2bm / 4 / of_step, p.steps.legal());
    return p;
}

namespace {

// The loops of the reduction and, if it is another stage, of the output.
class ChipReduceLoops {
public:
    ChipReduceLoops(const Op &op, const Fold &f, const ReduceDistribution &d, const Machine &machine, int64_t steps)
        : op_(op), f_(f), d_(d), steps_(steps), s_(op, machine) {}

    Schedule schedule() {
        std::vector<LoopName> order = bound(d_.kept, false);
        for (const std::string &a : d_.kept) {
            split(output(), a, true);
            order.push_back(rest_[a]);
            at_ = rest_[a];
        }
        if (f_.output == f_.reduction) {
            append_reduction(order);
            output().reorder(order).vectorize(lanes_);
            if (!at_.empty()) s_.accumulate_in(f_.output->name, "GRF0", at_);
        } else {
            finish_output(order);
            schedule_reduction();
        }
        for (const Input &in : op_.inputs()) {
            const auto readers = s_.state().consumers(in.name);
            if (std::find(readers.begin(), readers.end(), f_.reduction->name) != readers.end())
                s_.place_in(in.name, "LM0", f_.reduction->name, tile_).double_buffer();
        }
        return std::move(s_);
    }

private:
    StageHandle output() { return s_.stage(f_.output->name); }
    StageHandle reduction() { return s_.stage(f_.reduction->name); }

    // Splits an axis of the stage over the units; rest_ gets the loop that remains. Without `all`,
    // only the cuts inside the loop at which the reduction is computed.
    void split(StageHandle S, const std::string &axis, bool all) {
        rest_[axis] = axis;
        const auto cuts = d_.cuts.find(axis);
        if (cuts == d_.cuts.end()) return;
        for (const ReduceDistribution::Cut &c : cuts->second) {
            if (!all && !c.inside) continue;
            S.split(rest_[axis], c.factor, {c.name + ".o", c.name});
            rest_[axis] = c.name + ".o";
            if (!c.level.empty()) S.bind(c.name, c.level);
        }
    }

    // The loops of these axes that are bound to units, outermost first.
    std::vector<LoopName> bound(const std::vector<std::string> &axes, bool inside) const {
        std::vector<LoopName> loops;
        for (const char *level : {"group", "L2B", "L1B", "MAB", "PE"}) {
            for (const std::string &axis : axes) {
                const auto cuts = d_.cuts.find(axis);
                for (size_t c = cuts == d_.cuts.end() ? 0 : cuts->second.size(); c-- > 0;) {
                    if (cuts->second[c].level == level && cuts->second[c].inside == inside)
                        loops.push_back(cuts->second[c].name);
                }
            }
        }
        return loops;
    }

    // Appends the reduction loops and the loops over their results: tiles in time, then elements in
    // LM.
    void append_reduction(std::vector<LoopName> &loops) {
        std::vector<std::string> axes = d_.kept;
        axes.insert(axes.end(), d_.reduced.begin(), d_.reduced.end());
        append(loops, bound(axes, true));
        std::vector<std::string> outer, inner;
        split_reduction_axes(outer, inner);
        tile_ = outer.back();
        for (const std::string &l : outer) loops.push_back(l);
        if (!d_.run.empty()) {
            const auto step = std::find_if(inner.begin(), inner.end(), [&](const std::string &l) {
                return l == d_.run + ".step" || l == rest_[d_.run];
            });
            inner.insert(step == inner.end() ? step : step + 1, d_.run + ".run");
        }
        for (const std::string &l : inner) loops.push_back(l);
        if (!row_.empty()) loops.push_back(row_);
        if (keeps_last_) loops.push_back(column_);
        loops.push_back(lanes_);
    }

    // Splits the reduction axes into loops over tiles and loops inside of a tile, of `steps_`
    // iterations together.
    void split_reduction_axes(std::vector<std::string> &outer, std::vector<std::string> &inner) {
        int64_t steps = steps_;
        for (size_t n = d_.reduced.size(); n-- > 0;) {
            const std::string &a = d_.reduced[n];
            split(reduction(), a, true);
            const int64_t left = d_.left.at(a), tiles = ceil_div(left, steps);
            if (n > 0 && tiles == 1) {
                inner.insert(inner.begin(), rest_[a]);
                steps /= left;
                continue;
            }
            if (steps == 1 && !outer.empty()) {
                outer.insert(outer.begin(), rest_[a]);
                continue;
            }
            // Whole parts of a tile, of 8 steps, are moved at a time.
            const int64_t unit = steps >= 8 ? 8 : 1;
            const int64_t block = tiles == 1 ? left : balanced_block(left, steps / unit * unit, unit);
            reduction().split(rest_[a], block, {a + ".tile", a + ".step"});
            outer.insert(outer.begin(), a + ".tile");
            inner.insert(inner.begin(), a + ".step");
            steps = 1;
        }
    }

    // The loops of an output that reads the results of the reduction.
    void finish_output(std::vector<LoopName> &order) {
        if (keeps_last_) {
            append(order, bound(d_.kept, true));
            if (!row_.empty()) order.push_back(row_);
            order.push_back(column_);
            order.push_back(lanes_);
        } else if (!row_.empty()) { // all lanes and PEs hold the results: each stores some
            output().split(row_, f_.lanes, {row_ + ".w", row_ + ".v"});
            order.push_back(row_ + ".w");
            order.push_back(row_ + ".v");
        }
        if (!order.empty()) output().reorder(order).vectorize(keeps_last_ ? lanes_ : row_ + ".v");
    }

    // The loops of a reduction whose results the output reads.
    void schedule_reduction() {
        StageHandle R = reduction();
        if (!at_.empty()) R.compute_at(f_.output->name, at_);
        std::vector<LoopName> own;
        for (const std::string &a : d_.kept) {
            split(R, a, false);
            own.push_back(rest_[a]);
        }
        append_reduction(own);
        R.reorder(own).vectorize(lanes_);
        if (!at_.empty()) R.place_in("GRF1");
    }

    static void append(std::vector<LoopName> &to, const std::vector<LoopName> &more) {
        to.insert(to.end(), more.begin(), more.end());
    }

    const Op &op_;
    const Fold &f_;
    const ReduceDistribution &d_;
    const int64_t steps_;
    Schedule s_;
    const std::string lanes_ = f_.last + ".v", column_ = f_.last + ".t", row_ = d_.row.empty() ? "" : d_.row + ".row";
    const bool keeps_last_ = !f_.reduces(f_.last);
    std::map<std::string, std::string> rest_; // axis to the loop that remains after its splits
    std::string at_;   // the output's loop at which the reduction is computed; "" if there is none
    std::string tile_; // the reduction's loop at which inputs are copied
};

} // namespace

Schedule schedule_chip_reduce(const Op &op, const Machine &machine, const ChipReduceParameters &p) {
    const Fold f = *find_fold(op);
    const ReduceDistribution d = distribute(f, machine, p.points);
    return ChipReduceLoops(op, f, d, machine, p.steps).schedule();
}

} // namespace kumiko::library

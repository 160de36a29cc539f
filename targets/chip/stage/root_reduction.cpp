#include "targets/chip/stage/root_reduction.h"

#include "machine/machine.h"
#include "sim/config.h"
#include "support/error.h"

#include <algorithm>
#include <limits>

namespace kumiko::chip {

namespace ir = Halide::Internal;

namespace {

int64_t extent_of(const StageState &s, const std::string &loop) {
    const auto n = Halide::Internal::as_const_int(Halide::Internal::simplify(s.loop(loop).extent));
    if (!n) throw UserError("stage " + s.name() + ": the extent of loop " + loop + " is known only at run time");
    return *n;
}

int64_t lanes_of(const StageState &s) {
    int64_t lanes = 1;
    for (const std::string &l : s.order) {
        if (s.loop(l).kind == LoopKind::Vectorized) lanes *= extent_of(s, l);
    }
    return lanes;
}

// Makes the single element of a stage without axes the first of a long word. Returns the loop
// around it.
std::string one_word(StageState &s, int64_t lanes) {
    const std::string axis = "one", word = axis + ".word", lane = axis + ".lane";
    s.def.axes = {Axis(axis, 1)};
    s.loops = {{axis, 1}, {word, 1}, {lane, Expr(int(lanes))}};
    s.relations = {SplitRelation{axis, word, lane, lanes, Tail::Auto}};
    s.order = {word, lane};
    s.loop(lane).kind = LoopKind::Vectorized;
    return word;
}

// The two stages of `s`: the reducing one first.
std::pair<StageState, StageState> divided(const StageState &s) {
    const bool one = s.def.axes.empty();
    if (!s.accumulate && !one)
        throw UserError("stage " + s.name() +
                        " is a reduction at the root, but its sums have no memory level; use accumulate_in(\"GRF0\", "
                        "…) at the loop "
                        "around those that reduce");
    const std::string at = one ? "" : s.accumulate->loop;
    const size_t inside = one ? 0 : s.position(at) + 1;
    StageState reduced = s, stored = s;
    for (size_t l = 0; l < inside; l++) {
        if (s.loop(s.order[l]).reduction)
            throw Unsupported(
                "stage " + s.name() + ": reduction loop " + s.order[l] + " is outside of " + at +
                ", so incomplete sums would be stored and reloaded; the chip keeps sums until they are complete");
    }
    reduced.def.name += ".reduced";
    for (Component &c : reduced.def.components) c.tensor = reduced.def.name;
    reduced.order.assign(s.order.begin() + int64_t(inside), s.order.end());
    reduced.accumulate.reset();
    reduced.placement = {Placement::Kind::At, s.name(), at};

    stored.accumulate.reset();
    stored.def.kind = Stage::Kind::Pointwise;
    stored.def.type = s.def.components.front().type;
    std::vector<Expr> indices(s.def.axes.begin(), s.def.axes.end());
    stored.def.value = read_tensor(stored.def.type, reduced.def.name, indices);
    stored.def.components.clear();
    stored.def.reduction_axes.clear();
    if (one) {
        reduced.placement.loop = one_word(stored, lanes_of(s));
        return {reduced, stored};
    }
    const auto reduces = [&](const std::string &loop) { return s.find_loop(loop)->reduction; };
    std::erase_if(stored.order, reduces);
    std::erase_if(stored.relations, [&](const Relation &r) {
        const auto *split = std::get_if<SplitRelation>(&r);
        return split ? reduces(split->inner) : reduces(std::get<FuseRelation>(r).fused);
    });
    const int64_t lanes = lanes_of(s);
    bool kept_lanes = false;
    std::string last;
    for (size_t l = inside; l < s.order.size(); l++) {
        const LoopState &loop = s.loop(s.order[l]);
        kept_lanes = kept_lanes || (loop.kind == LoopKind::Vectorized && !loop.reduction);
        if (loop.kind == LoopKind::Serial && !loop.reduction) last = loop.name;
    }
    if (kept_lanes || lanes == 1) return {reduced, stored};
    if (last.empty())
        throw Unsupported("stage " + s.name() + " has one result below loop " + at +
                          ", the same in all lanes; a loop of results inside it fills words");
    const auto cut = [&](const std::string &loop, int64_t factor, const std::string &outer, const std::string &inner) {
        const int64_t n = extent_of(stored, loop);
        stored.relations.push_back(SplitRelation{loop, outer, inner, factor, Tail::Auto});
        LoopState o{outer, Expr(int((n + factor - 1) / factor))}, i{inner, Expr(int(factor))};
        stored.loops.push_back(o);
        stored.loops.push_back(i);
        const auto place = std::find(stored.order.begin(), stored.order.end(), loop);
        *place = outer;
        return extent_of(stored, outer);
    };
    const int64_t words = cut(last, lanes, last + ".word", last + ".lane");
    stored.order.push_back(last + ".lane");
    stored.loop(last + ".lane").kind = LoopKind::Vectorized;
    if (words < sim::pes_per_mab) return {reduced, stored};
    cut(last + ".word", sim::pes_per_mab, last + ".step", last + ".PE");
    stored.order.insert(stored.order.end() - 1, last + ".PE");
    stored.loop(last + ".PE").kind = LoopKind::Bound;
    stored.loop(last + ".PE").unit = "PE";
    return {reduced, stored};
}

// argmax and argmin as two reductions: the extreme element, ignoring NaN, and the first position at
// which an element equals it. Both read the copies of the original stage.
void add_index_of_extreme(std::vector<StageState> &stages, const std::string &name, const StageState &both,
                          StageState stored) {
    const std::string kind = both.def.reduction_kind;
    if (kind != "argmax" && kind != "argmin")
        throw Unsupported("stage " + name + " reduces " + std::to_string(both.def.components.size()) +
                          " values together; the chip's reductions have one, or are argmax and argmin");
    const kumiko::Type f = Float(32);
    Expr position; // row-major
    int64_t positions = 1;
    for (const Axis &along : both.def.reduction_axes) {
        const auto extent = ir::as_const_int(ir::simplify(along.extent()));
        if (!extent || (positions *= *extent) > 1 << 24)
            throw Unsupported(
                "stage " + name +
                ": positions are computed in f32, and up to 16777216 are exact; its axes have more together");
        const Expr own = read_tensor(f, position_tensor, {along});
        position = position.defined() ? position * ir::make_const(f, double(*extent)) + own : own;
    }
    const Component &value = both.def.components.back();
    std::vector<Expr> own(both.def.axes.begin(), both.def.axes.end());
    StageState extreme = both, index = both;
    extreme.def.name = name + ".value";
    extreme.def.type = value.type;
    extreme.def.reduction_kind = kind == "argmax" ? "maximum" : "minimum";
    extreme.def.components = {value};
    Component &greatest = extreme.def.components.front();
    greatest.tensor = extreme.def.name;
    if (value.type.is_float())
        greatest.term = ir::Select::make(ir::EQ::make(value.term, value.term), value.term, value.identity);

    // The index stage reads its own copies, which are merged with the others later.
    const auto renamed = [](const std::string &copy) { return copy + ".index"; };
    std::set<std::string> copies;
    const size_t before = stages.size();
    for (size_t i = 0; i < before; i++) {
        if (!stages[i].is_copy || stages[i].placement.consumer != name) continue;
        StageState copy = stages[i];
        for (StageState *c : {&stages[i], &copy}) {
            // A loop of the outer stage.
            if (!both.has_loop(c->placement.loop)) c->placement.loop = name + " " + c->placement.loop;
        }
        stages[i].placement.consumer = extreme.def.name;
        copy.placement.consumer = index.def.name;
        copies.insert(copy.def.name);
        copy.def.name = renamed(copy.def.name);
        stages.push_back(copy);
    }
    struct Rename : ir::IRGraphMutator {
        using IRGraphMutator::visit;
        const std::set<std::string> *copies;
        std::function<std::string(const std::string &)> to;
        Expr visit(const ir::Call *op) override {
            if (op->call_type != ir::Call::Image || !copies->contains(op->name)) return IRGraphMutator::visit(op);
            return read_tensor(op->type, to(op->name), op->args);
        }
    } rename;
    rename.copies = &copies;
    rename.to = renamed;
    const kumiko::Type wide = value.type.is_float() ? f : Int(32);
    const auto widened = [&](const Expr &e) { return e.type() == wide ? e : ir::Cast::make(wide, e); };
    const Expr nowhere = ir::FloatImm::make(f, std::numeric_limits<double>::infinity());
    index.def.type = f;
    index.def.reduction_kind = "minimum";
    index.def.components = {{index.def.name, f, nowhere,
                             ir::Select::make(ir::EQ::make(widened(rename.mutate(value.term)),
                                                           widened(read_tensor(value.type, extreme.def.name, own))),
                                              position, nowhere),
                             Expr()}};
    const Expr found = read_tensor(f, index.def.name, own);
    stored.def.type = Int(32);
    stored.def.value =
        ir::Select::make(ir::LT::make(found, nowhere), ir::Cast::make(Int(32), found), ir::make_const(Int(32), -1));
    stages.push_back(std::move(extreme));
    stages.push_back(std::move(index));
    stages.push_back(std::move(stored));
}

} // namespace

ScheduleState with_results_stored(const ScheduleState &state) {
    ScheduleState made = state;
    made.stages.clear();
    for (const StageState &s : state.stages) {
        if (!s.def.is_reduction() || s.tensorize || s.placement.kind != Placement::Kind::Root ||
            !s.finished_into.empty() || !state.op.is_output(s.name())) {
            made.stages.push_back(s);
            continue;
        }
        auto [reduced, stored] = divided(s);
        if (s.def.components.size() == 2) {
            add_index_of_extreme(made.stages, s.name(), reduced, stored);
            continue;
        }
        for (StageState &copy : made.stages) { // its operands are copied for the reducing part
            if (!copy.is_copy || copy.placement.consumer != s.name()) continue;
            copy.placement.consumer = reduced.name();
            // A loop of the outer stage.
            if (!reduced.has_loop(copy.placement.loop)) copy.placement.loop = s.name() + " " + copy.placement.loop;
        }
        for (StageState &other : made.stages) { // stages computed at it
            if (!other.is_copy && other.placement.kind == Placement::Kind::At && other.placement.consumer == s.name() &&
                other.placement.loop != reduced.placement.loop)
                throw Unsupported("stage " + other.name() + " is computed at loop " + other.placement.loop + " of " +
                                  s.name() + ", which accumulates at " + reduced.placement.loop +
                                  "; on the chip both are one loop");
        }
        made.stages.push_back(std::move(reduced));
        made.stages.push_back(std::move(stored));
    }
    // Stages before one without axes have no loop of it to be computed at.
    for (StageState &s : made.stages) {
        if (s.is_copy || !s.def.axes.empty() || !state.op.is_output(s.name())) continue;
        int64_t lanes = 1;
        for (const StageState &before : made.stages) lanes = std::max(lanes, lanes_of(before));
        const std::string at = one_word(s, lanes);
        for (StageState &before : made.stages) {
            if (!before.is_copy && &before != &s && before.placement.kind == Placement::Kind::Root)
                before.placement = {Placement::Kind::At, s.name(), at};
        }
    }
    return made;
}

} // namespace kumiko::chip

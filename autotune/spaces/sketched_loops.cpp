#include "autotune/spaces/sketched_loops.h"

#include "dsl/types.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/structure.h"

#include <algorithm>

namespace kumiko {

namespace {

using library::vector_lanes;

// The loops of a stage under construction.
class Loops {
public:
    Loops(Schedule &schedule, const LoopsPlan &plan)
        : schedule_(schedule), plan_(plan), sketch_(plan.sketch), stage_(*plan.sketch.stage),
          S_(schedule.stage(stage_.name)), vector_(decided_vectors(plan.sketch, plan.decisions)),
          lanes_(vector_lanes(schedule.machine(), stage_.type)) {
        for (const auto *axes : {&stage_.axes, &stage_.reduction_axes}) {
            for (const Axis &a : *axes) loop_.emplace(a.name(), a.name());
        }
        if (const std::string strategy = choice("multiply", "plain"); plan.product && strategy != "plain") {
            const library::MatrixProduct &p = *plan.product;
            product_ = library::product(strategy, p.contraction, schedule.op(), p.a, p.b, schedule.machine());
            if (product_.group > 1) lanes_ = product_.lanes;
        }
    }

    std::string make() {
        hold();
        const bool along = !vector_.empty() && sketch_.reduces(vector_);
        if (sketch_.kind == StageSketch::Kind::Whole)
            keep_order();
        else if (along)
            reduce_along();
        else if (sketch_.kind == StageSketch::Kind::Reduction)
            reduce_tiles();
        else
            points();
        if (plan_.parallel) share();
        return held_;
    }

private:
    int64_t number(const std::string &what, int64_t otherwise) const {
        return plan_.decisions.number(stage_.name + "." + what, otherwise);
    }
    std::string choice(const std::string &what, const std::string &otherwise) const {
        return plan_.decisions.choice(stage_.name + "." + what, otherwise);
    }

    void push(const std::string &loop, const std::string &axis) {
        order_.push_back(loop);
        axes_.push_back(axis);
    }

    // The loops that hold others come first.
    void hold() {
        for (size_t d = 0; d < plan_.held.size(); d++) {
            const std::string &a = plan_.held[d];
            if (d + 1 < plan_.held.size() || plan_.held_block == 1) {
                push(a, a);
                loop_.erase(a);
            } else {
                auto [o, i] = S_.split(a, plan_.held_block, {a + ".f", a + ".r"});
                push(o, a);
                loop_[a] = i.name;
            }
            held_ = order_.back();
        }
    }

    // Leaves the loops unchanged.
    void keep_order() {
        if (order_.empty()) return;
        for (const std::string &l : S_.state().order) {
            if (std::find(order_.begin(), order_.end(), l) == order_.end()) order_.push_back(l);
        }
        reorder(order_);
    }

    void reorder(const std::vector<std::string> &order) {
        if (order != S_.state().order) S_.reorder({order.begin(), order.end()});
    }

    void reduce_along() {
        keep_order();
        library::reduce_row(schedule_, stage_.name, lanes_, number("accumulators", 4), held_);
    }

    void points() {
        if (vector_.empty()) {
            keep_order();
            return;
        }
        int64_t vectors = number("tile_" + vector_, 1);
        std::string run = loop_.count(vector_) ? loop_.at(vector_) : "";
        std::optional<int64_t> extent = library::constant_extent(*find_axis(stage_, vector_));
        if (!plan_.held.empty() && plan_.held.back() == vector_) extent = plan_.held_block;
        std::string rows; // side by side, if elements of adjacent rows are read together
        for (const std::string &t : sketch_.tiles) {
            if (t != vector_ && loop_.count(t) && number("tile_" + t, 1) > 1) rows = t;
        }
        if (run.empty() || (extent && *extent < 2)) {
            keep_order();
            return;
        }
        if (rows.empty() && plan_.held.empty() && vector_ == stage_.axes.back().name()) {
            const Op op = schedule_.op(); // directives replace the schedule's op
            std::tie(run, extent) = library::join_last_axes(op, schedule_, S_, stage_, lanes_ * vectors);
        }
        const int lanes = library::fitting_lanes(stage_.type, lanes_, extent);
        if (extent) vectors = std::clamp<int64_t>(*extent / lanes, 1, vectors);
        std::string inner = run;
        if (!extent || *extent > lanes * vectors) {
            auto [o, i] = S_.split(run, lanes * vectors);
            run = o.name, inner = i.name;
        } else {
            run.clear();
        }
        std::string row_in;
        if (!rows.empty()) {
            auto [o, i] = S_.split(loop_.at(rows), number("tile_" + rows, 1));
            loop_[rows] = o.name, row_in = i.name;
        }
        std::vector<std::string> order = order_;
        for (const std::string &l : S_.state().order) {
            if (l != inner && l != row_in && l != run && std::find(order.begin(), order.end(), l) == order.end())
                order.push_back(l);
        }
        if (!run.empty()) order.push_back(run);
        if (!row_in.empty()) order.push_back(row_in);
        order.push_back(inner);
        reorder(order);
        S_.vectorize(inner, lanes);
        if (vectors > 1) S_.unroll(inner + ".o");
        if (!row_in.empty()) S_.unroll(row_in);
    }

    void reduce_tiles();
    void pack();
    void pack_read(const SketchRead &read, const std::string &where);
    // The type in which the product reads the operand.
    Type held_as(const SketchRead &read) const {
        const bool operand = product_.a.bits() != 0 && plan_.product;
        if (operand && read.tensor == plan_.product->a.tensor) return product_.a;
        if (operand && read.tensor == plan_.product->b.tensor) return product_.b;
        return schedule_.state().type_of(read.tensor);
    }
    size_t place_of_copy(const SketchRead &read, const std::string &where) const;
    void pack_in_groups(StageHandle copy, const SketchRead &read, bool panels);
    void share();

    bool tiled(const std::string &axis) const {
        return loop_.count(axis) &&
               (axis == vector_ || std::find(sketch_.tiles.begin(), sketch_.tiles.end(), axis) != sketch_.tiles.end());
    }
    // Elements of an axis per tile.
    int64_t width(const std::string &axis) const {
        const int64_t n = number("tile_" + axis, 1);
        return axis == vector_ ? n * lanes_ : n;
    }

    Schedule &schedule_;
    const LoopsPlan &plan_;
    const StageSketch &sketch_;
    const Stage &stage_;
    StageHandle S_;
    const std::string vector_;
    int lanes_;
    library::Product product_;                // of the sum's own type, unless another is decided
    std::map<std::string, std::string> loop_; // by axis: the loop over what remains
    // Loops outside of the tile, outermost first, with their axes.
    std::vector<std::string> order_, axes_;
    std::string held_;
};

void Loops::reduce_tiles() {
    std::vector<std::string> tiles; // axes
    for (const Axis &a : stage_.axes) {
        if (tiled(a.name()))
            tiles.push_back(a.name());
        else if (loop_.count(a.name()))
            push(loop_.at(a.name()), a.name());
    }
    for (const std::string &a : tiles) {
        const int64_t block = number("block_" + a, 0), w = width(a);
        if (block == 0) continue;
        auto [o, i] = S_.split(loop_.at(a), (block + w - 1) / w * w, {a + ".c", a + ".t"});
        push(o, a);
        loop_[a] = i.name;
    }
    const std::string &k = sketch_.depth;
    bool rounds = false;
    if (const int64_t depth = number("depth", 0); depth > 0) {
        auto [o, i] = S_.split(loop_.at(k), depth, {k + ".o", k + ".r"});
        push(o, k);
        loop_[k] = i.name;
        rounds = true;
    }
    // Loops over tiles; the one along the decided axis is innermost.
    const std::string innermost = choice("inner", "");
    std::stable_partition(tiles.begin(), tiles.end(), [&](const std::string &a) { return a != innermost; });
    std::vector<std::string> inside;
    std::string lanes_loop;
    for (const std::string &a : tiles) {
        const int64_t w = width(a);
        if (w == 1) {
            push(loop_.at(a), a);
            continue;
        }
        auto [o, i] = S_.split(loop_.at(a), w, {a + ".b", a + ".i"});
        push(o, a);
        if (a == vector_)
            lanes_loop = i.name;
        else
            inside.push_back(i.name);
    }
    std::vector<std::string> order = order_;
    const bool window_inside = choice("window", "outside") == "inside";
    if (!window_inside) order.insert(order.end(), sketch_.window.begin(), sketch_.window.end());
    std::string copies, taken;
    const int group = product_.group;
    if (const int64_t n = number("unroll", 1); n > 1) {
        auto [o, i] = S_.split(loop_.at(k), n * group, {k + ".s", k + ".u"});
        loop_[k] = o.name, copies = i.name;
    }
    if (group > 1) { // steps that the instruction takes at once
        std::string &stepped = copies.empty() ? loop_[k] : copies;
        auto [p, g] = S_.split(stepped, group, {k + ".p", k + ".g"});
        stepped = p.name, taken = g.name;
    }
    order.push_back(loop_.at(k));
    if (window_inside) order.insert(order.end(), sketch_.window.begin(), sketch_.window.end());
    if (!copies.empty()) order.push_back(copies);
    order.insert(order.end(), inside.begin(), inside.end());
    std::string vectors;
    if (group > 1) {
        auto [v, l] = S_.split(lanes_loop, lanes_, {vector_ + ".v", vector_ + ".l"});
        vectors = v.name, lanes_loop = l.name;
        order.push_back(vectors);
    }
    if (!lanes_loop.empty()) order.push_back(lanes_loop);
    if (group > 1) order.push_back(taken);
    reorder(order);
    if (group > 1) S_.unroll(vectors);
    if (!copies.empty()) S_.unroll(copies);
    if (window_inside && plan_.decisions.yes(stage_.name + ".unroll_window")) S_.unroll(sketch_.window.back());
    for (const std::string &l : inside) S_.unroll(l);
    if (!lanes_loop.empty() && group == 1) S_.vectorize(lanes_loop, lanes_);
    pack();
    if (!order_.empty() && (!inside.empty() || !lanes_loop.empty()))
        S_.accumulate_in("registers", order_.back(), rounds ? choice("rounds", "reload") : "reload");
    if (group > 1) S_.tensorize(lanes_loop, product_.instruction);
}

// Makes packed copies of the tile's operands, in consumption order.
void Loops::pack() {
    if (order_.empty()) return;
    for (const SketchRead *read : packable_reads(sketch_)) {
        const std::string where = choice("pack_" + read->tensor, "none");
        // Steps that an instruction takes at once are interleaved in rows along the reduction.
        const bool grouped = product_.group > 1 && (read->uses(plan_.product->j) || read->step(plan_.product->k) != 1);
        const bool needed = grouped || held_as(*read) != schedule_.state().type_of(read->tensor);
        if (where != "none" || needed) pack_read(*read, where == "far" ? "far" : "near");
    }
}

// Position in order_ of the loop at which a copy is made. "near": the innermost loop in which the
// copy is reused; "far": further out, where a larger copy is reused again.
size_t Loops::place_of_copy(const SketchRead &read, const std::string &where) const {
    const auto unused = [&](size_t d) { return !read.uses(axes_[d]); };
    // The loop around the next outer one that reuses the copy.
    const auto outside_of_reuse = [&](size_t from, size_t otherwise) {
        size_t d = from;
        while (d > 0 && !unused(d)) d--;
        if (d == 0) return otherwise;
        while (d > 0 && unused(d)) d--;
        return d;
    };
    // Stages may be computed only in loops that hold others.
    const bool stage = schedule_.state().producer(read.tensor) != nullptr;
    const size_t least = stage && !plan_.held.empty() ? plan_.held.size() - 1 : 0;
    const size_t near = outside_of_reuse(order_.size() - 1, order_.size() - 1);
    return std::max(least, where == "far" ? outside_of_reuse(near, 0) : near);
}

// Interleaves the steps that an instruction takes at once; groups of its lanes follow each other.
void Loops::pack_in_groups(StageHandle copy, const SketchRead &read, bool panels) {
    const library::MatrixProduct &p = *plan_.product;
    const bool columns = read.uses(p.j);
    const std::vector<Axis> axes = copy.state().def.axes;
    const std::string k = axes[*read.plain(p.k)].name(), x = axes[*read.plain(columns ? p.j : p.i)].name();
    const std::string g = std::to_string(product_.group);
    const int64_t w = width(columns ? p.j : p.i);
    std::vector<std::string> layout;
    std::vector<LoopName> loops;
    for (const Axis &a : axes) {
        if (a.name() == k || a.name() == x) continue;
        layout.push_back(a.name());
        loops.push_back(a.name());
    }
    const bool blocked = columns ? panels : w > 1;
    if (blocked) layout.push_back(x + "/" + std::to_string(w));
    layout.insert(layout.end(), {k + "/" + g, blocked ? x + "%" + std::to_string(w) : x, k + "%" + g});
    copy.layout(layout);
    if (columns && axes.back().name() == x && lanes_ > 1) {
        auto [kp, kg] = copy.split(k, product_.group, {k + ".p", k + ".g"});
        auto [v, l] = copy.split(x, lanes_, {x + ".v", x + ".l"});
        loops.insert(loops.end(), {kp, v, kg, l});
        copy.reorder(loops).unroll(kg).vectorize(l);
    } else if (!columns && w > 1) {
        auto [o, i] = copy.split(x, w);
        loops.insert(loops.end(), {o, k, i});
        copy.reorder(loops).unroll(i);
    }
}

void Loops::pack_read(const SketchRead &read, const std::string &where) {
    const std::vector<Axis> axes = schedule_.state().axes_of(read.tensor);
    const auto along = [&](const std::string &axis) {
        const auto d = read.plain(axis);
        return d ? axes[*d].name() : std::string();
    };
    const std::string v = vector_.empty() ? "" : along(vector_), last = axes.back().name();
    std::string t; // a tile of scalars that are broadcast
    for (const std::string &a : sketch_.tiles) {
        if (a != vector_ && t.empty() && width(a) > 1 && !along(a).empty()) t = a;
    }
    const std::string rows = t.empty() ? "" : along(t);
    const size_t at = place_of_copy(read, where);
    bool panels = false; // several panels per copy
    for (size_t d = at + 1; d < order_.size(); d++) panels = panels || axes_[d] == (v.empty() ? t : vector_);
    const Type own = schedule_.state().type_of(read.tensor), held = held_as(read);
    StageHandle B = schedule_.place_in(read.tensor, where == "far" ? "L3" : "L2", stage_.name, order_[at]);
    if (held != own) B.hold_as(type_name(held));
    if (product_.group > 1) return pack_in_groups(B, read, panels);
    std::vector<std::string> layout;
    const std::string &blocked = v.empty() ? rows : v;
    const std::string w = std::to_string(v.empty() ? (t.empty() ? 1 : width(t)) : width(vector_));
    std::vector<std::string> loops;
    for (const Axis &a : axes) {
        if (a.name() == blocked) continue;
        layout.push_back(a.name());
        loops.push_back(a.name());
    }
    if (!blocked.empty()) {
        if (panels) layout.insert(layout.begin(), blocked + "/" + w);
        layout.push_back(panels ? blocked + "%" + w : blocked);
        B.layout(layout);
    }
    if (v.empty() && !rows.empty() && last != rows) {
        auto [o, i] = B.split(rows, width(t));
        loops.insert(loops.begin(), o.name);
        loops.push_back(i.name);
        B.reorder({loops.begin(), loops.end()}).unroll(i);
    } else if (!blocked.empty()) {
        loops.push_back(blocked);
        B.reorder({loops.begin(), loops.end()});
        if (last == blocked && lanes_ > 1) B.vectorize(blocked, lanes_);
    } else if (lanes_ > 1) {
        B.vectorize(last, lanes_);
    }
}

void Loops::share() {
    for (const std::string &l : S_.state().order) {
        const LoopState &loop = S_.state().loop(l);
        if (loop.reduction || loop.kind != LoopKind::Serial) return;
        if (Halide::Internal::is_const_one(loop.extent)) continue;
        S_.parallel(l);
        return;
    }
}

} // namespace

std::string decided_vectors(const StageSketch &sketch, const Decisions &decisions) {
    if (sketch.vector_axes.empty()) return "";
    return decisions.choice(sketch.stage->name + ".vector", sketch.vector_axes.front());
}

int64_t decided_accumulators(const StageSketch &sketch, const Decisions &decisions) {
    const std::string vector = decided_vectors(sketch, decisions);
    if (sketch.kind != StageSketch::Kind::Reduction || (!vector.empty() && sketch.reduces(vector))) return 0;
    std::set<std::string> axes(sketch.tiles.begin(), sketch.tiles.end());
    if (!vector.empty()) axes.insert(vector);
    int64_t n = 1;
    for (const std::string &a : axes) n *= decisions.number(sketch.stage->name + ".tile_" + a, 1);
    return n * static_cast<int64_t>(sketch.stage->components.size());
}

std::vector<const SketchRead *> packable_reads(const StageSketch &sketch) {
    std::vector<const SketchRead *> all;
    if (sketch.kind != StageSketch::Kind::Reduction) return all;
    for (const SketchRead &r : sketch.reads) {
        const auto same = [&](const SketchRead &o) { return o.tensor == r.tensor; };
        if (std::count_if(sketch.reads.begin(), sketch.reads.end(), same) > 1) continue;
        const auto plain = [&](const std::string &axis) { return r.plain(axis).has_value(); };
        if (std::any_of(sketch.vector_axes.begin(), sketch.vector_axes.end(), plain) ||
            std::any_of(sketch.tiles.begin(), sketch.tiles.end(), plain))
            all.push_back(&r);
    }
    return all;
}

std::string schedule_loops(Schedule &schedule, const LoopsPlan &plan) { return Loops(schedule, plan).make(); }

} // namespace kumiko

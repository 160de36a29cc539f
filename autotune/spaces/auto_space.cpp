// The space of an op's formula. One file, because it is one class: the decisions, their legality
// and their default depend on each other.
#include "autotune/spaces/auto_space.h"

#include "autotune/choice.h"
#include "autotune/spaces/chip_space.h"
#include "autotune/spaces/sketched_loops.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/reads.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/functions.h"
#include "schedules/library/structure.h"
#include "schedules/library/table.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko {

namespace {

using library::accumulator_registers;
using library::cache_bytes;
using library::balanced_block;
using library::vector_lanes;

// Whether the directives of `apply` are legal.
bool legal(const Op &op, const Machine &machine, const std::function<void(Schedule &)> &apply) {
    try {
        Schedule s(op, machine);
        apply(s);
        s.require_applied();
        return true;
    } catch (const UserError &) {
    } catch (const Unsupported &) {
    }
    return false;
}

// The ascending `values` that are at most `limit`.
std::vector<int64_t> up_to(std::vector<int64_t> values, int64_t limit) {
    std::erase_if(values, [&](int64_t v) { return v > limit; });
    return values;
}

// Inserts a value into ascending ones if they lack it.
void insert_sorted(std::vector<int64_t> &values, int64_t value) {
    const auto at = std::lower_bound(values.begin(), values.end(), value);
    if (at == values.end() || *at != value) values.insert(at, value);
}

// Rows of a tile: at most `most`, and a divisor of the extent if that costs little.
int64_t rows_in(int64_t extent, int64_t most) {
    for (int64_t rows = std::min(most, extent); rows >= 1 && 5 * rows >= 3 * most; rows--) {
        if (extent % rows == 0) return rows;
    }
    return std::min(most, balanced_block(extent, most, 1));
}

// The axis of a tile's rows: the one that minimises loads per multiply.
std::string rows_of_tile(const StageSketch &s, const std::string &v, int64_t vectors, int64_t registers) {
    std::string best;
    double least = 0;
    for (const std::string &a : s.tiles) {
        if (a == v) continue;
        const int64_t rows = rows_in(extent_of(*s.stage, a), std::max<int64_t>(1, registers / vectors));
        double loads = 0;
        for (const SketchRead &r : s.reads)
            loads += static_cast<double>((r.uses(a) ? rows : 1) * (!v.empty() && r.uses(v) ? vectors : 1));
        loads /= static_cast<double>(rows * vectors);
        if (best.empty() || loads < least) best = a, least = loads;
    }
    return best;
}

// Estimated copies of a result vector in the code: the remainder of an axis duplicates the code
// inside it.
constexpr int64_t max_code = 360;
int64_t code_of(const StageSketch &s, const Decisions &d, const Machine &machine) {
    const std::string name = s.stage->name + ".", v = decided_vectors(s, d);
    int64_t n = decided_accumulators(s, d);
    if (n == 0) return 0;
    n *= d.number(name + "unroll", 1);
    if (d.yes(name + "unroll_window")) n *= extent_of(*s.stage, s.window.back());
    for (const Axis &a : s.stage->axes) {
        const int64_t lanes = a.name() == v ? vector_lanes(machine, s.stage->type) : 1;
        if (extent_of(a) % (lanes * d.number(name + "tile_" + a.name(), 1))) n *= 2;
    }
    const int64_t K = extent_of(*s.stage, s.depth), unroll = d.number(name + "unroll", 1),
                  depth = d.number(name + "depth", 0);
    if (K % unroll || (depth > 0 && (K % depth || depth % unroll))) n *= 2;
    return n;
}

class AutoSpace : public Space {
public:
    AutoSpace(const Op &op, const Machine &machine, const LibraryTemplate *other) : Space(op, machine), other_(other) {
        for (const Stage &s : this->op().stages()) sketches_.push_back(sketch_stage(s, machine));
        product_ = library::find_matrix_product(this->op());
        if (product_ && !(library::is_plain(product_->a) && library::is_plain(product_->b))) product_.reset();
        if (other_) add("", "schedule", Json::array({other_->name, by_sketches}), by_sketches, false);
        place_stages();
        for (const StageSketch &s : sketches_) {
            if (!has_loops(s)) continue;
            add(s.stage->name, "loops", Json::array({by_rules, "sketch"}), "sketch", false);
            if (s.kind == StageSketch::Kind::Reduction)
                add_reduction(s);
            else
                add_points(s);
        }
        const auto rules = library::elementwise_parameters(op, machine);
        add_number("", "unroll", rules.unroll.legal(), rules.unroll);
        if (op.stages().size() > 1) add("", "share_loops", Json::array({false, true}), true, false);
        if (rules.parallel) add("", "parallel", Json::array({false, true}), true, false);
        set_parameters(infos_);
        for (const StageSketch &s : sketches_) {
            for (const char *copies : {"unroll", "tile_"}) shorten(s, copies);
        }
        make_legal();
        default_ = rules_ = library_ = sketched_;
        if (other_) default_[0] = library_[0] = 0;
        for (size_t n = 0; n < rules_.size(); n++) {
            if (infos_[n].values[0] == by_rules) rules_[n] = 0;
        }
    }
    void choose_default() {
        if (other_) {
            if (library_leaves_out(op(), machine()))
                default_ =
                    choose_point(*this, default_, {choose_loops(*this, rules_, compared_), sketched_}, compared_);
        } else if (library::find_template(op())->name == "elementwise") {
            default_ = choose_loops(*this, rules_, compared_);
        }
    }

    Point default_point() const override { return default_; }
    std::vector<ComparedPoint> compared() const override { return compared_; }
    std::vector<Point> starts() const override {
        std::vector<Point> points;
        if (sketched_ != default_) points.push_back(sketched_);
        if (other_ && rules_ != default_ && rules_ != sketched_) points.push_back(rules_);
        if (other_ && library_ != default_) points.push_back(library_);
        return points;
    }
    bool matters(const Point &point, size_t parameter) const override;
    std::string reason_against(const Point &point) const override;
    Schedule schedule(const Point &point) const override;

private:
    static constexpr const char *by_rules = "rules", *by_sketches = "sketches";

    static bool has_loops(const StageSketch &s) {
        return s.kind == StageSketch::Kind::Reduction ||
               (s.kind == StageSketch::Kind::Points && !s.vector_axes.empty());
    }
    bool by_other(const Decisions &d) const { return other_ && d.choice("schedule", "") == other_->name; }
    // A stage in whose loops others may be computed, and those of its axes that may hold them.
    struct Holder {
        std::string stage;
        std::vector<std::string> axes;
    };
    // The decided loops that hold others. An empty stage name: none; nullopt: the rules decide.
    std::optional<Holder> holder_of(const Decisions &d) const;
    std::set<std::string> read_by(const std::string &stage) const;
    Holder holder_named(const std::string &stage) const;
    bool may_hold(const StageSketch &s) const;
    bool sketched(const std::string &stage, const Decisions &d) const;
    std::set<std::string> held_in(const std::string &holder, const Decisions &d) const;
    void hold(Schedule &s, const Holder &holder, const Decisions &d) const;
    std::string make_loops(Schedule &s, const StageSketch &stage, const Decisions &d,
                           const std::vector<std::string> &held) const;
    void add(const std::string &stage, const std::string &what, const Json &values, const Json &wish, bool ordered);
    void add_number(const std::string &stage, const std::string &what, std::vector<int64_t> values, int64_t wish);
    // Whether a reduction has several sums in registers.
    bool has_tiles() const {
        return std::any_of(sketches_.begin(), sketches_.end(),
                           [](const StageSketch &s) { return s.stage->is_reduction() && !s.tiles.empty(); });
    }
    void place_stages();
    void find_holder();
    size_t default_depth(const std::vector<std::string> &shared) const;
    void add_holders(const std::vector<std::string> &shared, size_t depth);
    void add_place(const Stage &s, size_t depth);
    void shorten(const StageSketch &s, const std::string &what);
    void make_legal();
    void add_reduction(const StageSketch &s);
    struct RegisterTile;
    RegisterTile register_tile(const StageSketch &s) const;
    void add_multiply(const StageSketch &s);
    void add_tile(const StageSketch &s, const RegisterTile &tile);
    int64_t add_steps(const StageSketch &s, const RegisterTile &tile);
    void add_blocks(const StageSketch &s, const RegisterTile &tile, int64_t depth);
    void add_copies(const StageSketch &s, const RegisterTile &tile);
    void add_points(const StageSketch &s);
    const StageSketch &sketch(const std::string &stage) const {
        return *std::find_if(sketches_.begin(), sketches_.end(),
                             [&](const StageSketch &s) { return s.stage->name == stage; });
    }

    // The stage's matrix product, if it is one.
    const library::MatrixProduct *product_of(const Stage &s) const {
        return product_ && product_->contraction.sum->name == s.name ? &*product_ : nullptr;
    }

    const LibraryTemplate *other_; // library schedule whose default is also a point; null: none
    std::optional<library::MatrixProduct> product_;
    std::vector<StageSketch> sketches_; // in the order of the op's stages
    // The op's final stage; "" if there are several outputs.
    std::string holder_;
    // Value of "hold" → the loops down to that axis.
    std::map<std::string, Holder> holds_;
    // Reduction → consumer that can be fused into its epilogue.
    std::map<std::string, std::string> finished_in_;
    std::map<std::string, std::vector<std::string>> readers_;
    std::vector<ParameterInfo> infos_;
    // Per parameter: the stage ("" for the whole op) and the name of the decision.
    std::vector<std::pair<std::string, std::string>> names_;
    Point sketched_; // sketches decide everything
    Point rules_;    // rules decide wherever possible
    Point library_;  // the library's schedule, if there is another one
    Point default_;
    std::vector<ComparedPoint> compared_;
};

// Adds a parameter: "what" of the op, or "stage.what".
void AutoSpace::add(const std::string &stage, const std::string &what, const Json &values, const Json &wish,
                    bool ordered) {
    if (values.size() < 2) return;
    const auto found = std::find(values.begin(), values.end(), wish);
    infos_.push_back({stage.empty() ? what : stage + "." + what, values.get<std::vector<Json>>(), ordered});
    names_.emplace_back(stage, what);
    sketched_.push_back(found == values.end() ? 0 : static_cast<uint32_t>(found - values.begin()));
}

// The default is the value nearest to the wish.
void AutoSpace::add_number(const std::string &stage, const std::string &what, std::vector<int64_t> values,
                           int64_t wish) {
    if (values.empty()) return;
    const auto nearest = std::min_element(
        values.begin(), values.end(), [&](int64_t a, int64_t b) { return std::abs(a - wish) < std::abs(b - wish); });
    add(stage, what, Json(values), *nearest, true);
}

std::optional<AutoSpace::Holder> AutoSpace::holder_of(const Decisions &d) const {
    const std::string loop = d.choice("hold", by_rules);
    if (loop == by_rules) return std::nullopt;
    const auto found = holds_.find(loop);
    return found == holds_.end() ? Holder() : found->second;
}

// Whether the stage's loops follow its sketch. They do for a stage that holds others.
bool AutoSpace::sketched(const std::string &stage, const Decisions &d) const {
    return d.choice(stage + ".loops", by_rules) == "sketch" || holder_of(d).value_or(Holder()).stage == stage;
}

bool AutoSpace::matters(const Point &point, size_t parameter) const {
    const Decisions d(*this, point);
    const auto &[stage, what] = names_[parameter];
    if (by_other(d)) return what == "schedule";
    if (stage.empty()) return what != "hold_block" || !holder_of(d).value_or(Holder()).stage.empty();
    if (what == "at" || what == "finish") return true;
    return d.choice(stage + ".at", "") != "inline" && (what == "loops" || sketched(stage, d));
}

// Decreases the stage's parameters with this prefix until its code is short enough.
void AutoSpace::shorten(const StageSketch &s, const std::string &what) {
    for (size_t n = 0; n < sketched_.size(); n++) {
        if (names_[n].first != s.stage->name || names_[n].second.rfind(what, 0) != 0) continue;
        while (sketched_[n] > 0 && code_of(s, Decisions(*this, sketched_), machine()) > max_code) sketched_[n]--;
    }
}

// Simplifies decisions until the sketches' point has a schedule, starting with those that other
// stages depend on.
void AutoSpace::make_legal() {
    struct Simpler {
        std::string what; // prefix of the decision's name
        Json from, to;
    };
    const auto is_legal = [&] {
        return reason_against(sketched_).empty() &&
               legal(op(), machine(), [&](Schedule &s) { s = schedule(sketched_); });
    };
    for (const auto &[what, from, to] : {Simpler{"at", "held", "root"}, Simpler{"pack_", "near", "none"},
                                         Simpler{"finish", true, false}, Simpler{"at", "inline", "root"}}) {
        if (is_legal()) return;
        for (size_t n = 0; n < sketched_.size(); n++) {
            const std::vector<Json> &values = infos_[n].values;
            const auto simpler = std::find(values.begin(), values.end(), to);
            if (names_[n].second.rfind(what, 0) != 0 || values[sketched_[n]] != from || simpler == values.end())
                continue;
            sketched_[n] = static_cast<uint32_t>(simpler - values.begin());
        }
    }
}

// The stages that it reads, directly or indirectly.
std::set<std::string> AutoSpace::read_by(const std::string &stage) const {
    std::set<std::string> all;
    for (auto s = op().stages().rbegin(); s != op().stages().rend(); ++s) { // readers first
        const std::vector<std::string> &readers = readers_.at(s->name);
        if (s->name != stage && std::any_of(readers.begin(), readers.end(),
                                            [&](const std::string &r) { return r == stage || all.count(r) != 0; }))
            all.insert(s->name);
    }
    return all;
}

// The axes that the reductions which it reads also have: their loops can hold these without
// recomputation. For the op's final stage: leading axes.
AutoSpace::Holder AutoSpace::holder_named(const std::string &stage) const {
    constexpr size_t max_axes = 3;
    const Stage &h = op().stage(stage);
    const std::set<std::string> read = read_by(stage);
    Holder holder{stage, {}};
    for (size_t d = 0; d < h.axes.size() && holder.axes.size() < max_axes; d++) {
        const std::string &a = h.axes[d].name();
        const auto lacks = [&](const Stage &s) {
            if (!s.is_reduction() || (stage != holder_ && !read.count(s.name))) return false;
            if (stage != holder_)
                return std::none_of(s.axes.begin(), s.axes.end(), [&](const Axis &o) { return o.name() == a; });
            return d >= s.axes.size() || s.axes[d].name() != a;
        };
        const bool left = std::any_of(op().stages().begin(), op().stages().end(), lacks);
        if (left && stage == holder_) break;
        if (!left) holder.axes.push_back(a);
    }
    // The last axis is left to vectors.
    const bool vectors = !h.is_reduction() && (stage == holder_ || h.axes.size() > 1);
    if (vectors && !holder.axes.empty() &&
        (stage == holder_ ? holder.axes.size() == h.axes.size() : holder.axes.back() == h.axes.back().name()))
        holder.axes.pop_back();
    return holder;
}

// Whether the stage has loops in which stages that it reads can be computed.
bool AutoSpace::may_hold(const StageSketch &s) const {
    if (s.kind == StageSketch::Kind::Whole || s.stage->kind == Stage::Kind::Padding || s.stage->axes.empty())
        return false;
    const std::set<std::string> read = read_by(s.stage->name);
    return std::any_of(read.begin(), read.end(),
                       [&](const std::string &r) { return sketch(r).kind != StageSketch::Kind::Whole; });
}

// Finds the stage that holds others, and the consumers that can be fused into reductions.
void AutoSpace::find_holder() {
    if (op().outputs().size() == 1 && !reads_before_update(op()) && !has_extern(op())) holder_ = op().outputs()[0];
    for (const Stage &s : op().stages()) {
        if (!s.is_reduction() || op().is_output(s.name) || readers_[s.name].size() != 1) continue;
        const std::string consumer = readers_[s.name][0];
        if (op().stage(consumer).kind != Stage::Kind::Pointwise) continue;
        if (!legal(op(), machine(), [&](Schedule &t) { t.stage(s.name).finish_in(consumer); })) continue;
        // A consumer is fused into the last reduction that it reads.
        std::erase_if(finished_in_, [&](const auto &entry) { return entry.second == consumer; });
        finished_in_.emplace(s.name, consumer);
    }
    for (const auto &[reduction, consumer] : finished_in_) {
        if (consumer == holder_) holder_ = reduction;
    }
}

// How many of the holder's leading axes hold other stages by default: none if there is nothing to
// hold, and none from the axis of a product's vectors on.
size_t AutoSpace::default_depth(const std::vector<std::string> &shared) const {
    const auto reductions =
        std::count_if(sketches_.begin(), sketches_.end(), [](const StageSketch &s) { return s.stage->is_reduction(); });
    const Stage &last = holder_.empty() ? op().stages().back() : op().stage(holder_);
    if (reductions == 0 || (reductions == 1 && last.is_reduction())) return 0;
    size_t depth = 0;
    for (; depth < shared.size(); depth++) {
        for (const StageSketch &s : sketches_) {
            if (s.stage->is_reduction() && !s.vector_axes.empty() && s.vector_axes[0] == shared[depth]) return depth;
        }
    }
    return depth;
}

// Adds a parameter for the loop at which other stages are computed. Its values are the first axes
// of the stage with that loop. The axes of a second such stage are named "stage.axis".
void AutoSpace::add_holders(const std::vector<std::string> &shared, size_t depth) {
    Json loops = {by_rules, "none"};
    int64_t rows = 0; // of the longest axis
    const auto offer = [&](const Holder &h, const std::string &prefix) {
        Holder down{h.stage, {}};
        for (const std::string &a : h.axes) {
            down.axes.push_back(a);
            loops.push_back(prefix + a);
            holds_[prefix + a] = down;
            rows = std::max(rows, extent_of(op().stage(h.stage), a));
        }
    };
    if (!shared.empty()) offer({holder_, shared}, "");
    for (const StageSketch &s : sketches_) {
        const std::string &name = s.stage->name;
        if (name != holder_ && !has_extern(op()) && may_hold(s)) offer(holder_named(name), name + ".");
    }
    if (holds_.empty()) return;
    const std::string wish = depth > 0 ? shared[depth - 1] : shared.empty() ? by_rules : "none";
    add("", "hold", loops, wish, false);
    const auto blocks = [](int64_t n) { return up_to({1, 4, 8, 16, 32, 64, 128}, std::max<int64_t>(1, n - 1)); };
    const int64_t most = shared.empty() ? 1 : blocks(extent_of(op().stage(holder_), shared.back())).back();
    add_number("", "hold_block", blocks(rows), std::min<int64_t>(most, has_tiles() ? 32 : 1));
}

// Adds the parameter for where a stage is computed.
void AutoSpace::add_place(const Stage &s, size_t depth) {
    if (sketch(s.name).kind == StageSketch::Kind::Whole) return;
    // Computed whole, or where another stage holds it.
    if (op().is_output(s.name) || s.name == holder_) {
        const bool other = std::any_of(holds_.begin(), holds_.end(),
                                       [&](const auto &h) { return read_by(h.second.stage).count(s.name) != 0; });
        if (other) add(s.name, "at", Json::array({by_rules, "held"}), by_rules, false);
        return;
    }
    const std::vector<std::string> &readers = readers_[s.name];
    std::vector<std::string> places = {by_rules};
    std::string wish = depth == 0 ? "root" : "held";
    if (!s.is_reduction() && legal(op(), machine(), [&](Schedule &t) { t.stage(s.name).inline_into(); })) {
        places.push_back("inline");
        const auto heavy = [&](const std::string &r) { return op().stage(r).is_reduction(); };
        const bool again = std::any_of(readers.begin(), readers.end(), heavy) && has_tiles();
        const bool costly = library::calls_functions(s) && readers.size() > 1;
        if (s.kind == Stage::Kind::Padding ? !again : (!again && !costly)) wish = "inline";
        if (wish == "held" && s.kind == Stage::Kind::Padding) wish = "root";
    }
    places.push_back("root");
    if (!holds_.empty()) places.push_back("held");
    add(s.name, "at", places, wish, false);
}

// Adds the parameters for where stages are computed.
void AutoSpace::place_stages() {
    const ScheduleState state = Schedule(op(), machine()).state();
    for (const Stage &s : op().stages()) readers_[s.name] = state.readers(s.name);
    find_holder();
    std::vector<std::string> shared; // leading axes of the holder that can hold other stages
    if (!holder_.empty() && op().stages().size() > 1 && !op().stage(holder_).takes_steps())
        shared = holder_named(holder_).axes;
    const size_t depth = default_depth(shared);
    add_holders(shared, depth);
    for (const Stage &s : op().stages()) add_place(s, depth);
    for (const auto &[reduction, consumer] : finished_in_)
        add(reduction, "finish", Json::array({false, true}), true, false);
}

void AutoSpace::add_points(const StageSketch &s) {
    const std::string &name = s.stage->name;
    add(name, "vector", s.vector_axes, s.vector_axes[0], false);
    const bool functions = library::calls_functions(*s.stage);
    for (const std::string &a : s.vector_axes)
        add_number(name, "tile_" + a, {1, 2, 4, 8}, functions ? library::vectors_of_functions : 2);
}

// The register tile of a reduction: vectors along one axis, rows along the axis that shares the
// most reads. `axes` are those along which a tile may have several elements.
struct AutoSpace::RegisterTile {
    std::string vector, rows;              // axes; "": none
    int64_t vectors = 1;                   // wished
    int64_t registers = 1;                 // of each component's sums
    std::map<std::string, int64_t> wishes; // elements by axis
    std::vector<std::string> axes;
};

AutoSpace::RegisterTile AutoSpace::register_tile(const StageSketch &s) const {
    const Stage &stage = *s.stage;
    const int64_t lanes = vector_lanes(machine(), stage.type);
    RegisterTile tile;
    tile.registers =
        std::max<int64_t>(1, accumulator_registers(machine()) / static_cast<int64_t>(stage.components.size()));
    if (!s.vector_axes.empty() && !s.reduces(s.vector_axes[0])) tile.vector = s.vector_axes[0];
    if (!tile.vector.empty()) {
        const int64_t needed = (extent_of(stage, tile.vector) + lanes - 1) / lanes;
        const bool alone = s.tiles.empty() || (s.tiles.size() == 1 && s.tiles[0] == tile.vector);
        tile.vectors = std::min<int64_t>(needed, alone ? 4 : 2);
        if (!alone && needed % 2 && needed % 3 == 0 && tile.registers / 3 >= 3) tile.vectors = 3;
        tile.wishes[tile.vector] = tile.vectors;
    }
    tile.rows = rows_of_tile(s, tile.vector, tile.vectors, tile.registers);
    if (!tile.rows.empty())
        tile.wishes[tile.rows] =
            rows_in(extent_of(stage, tile.rows), std::max<int64_t>(1, tile.registers / tile.vectors));
    for (const Axis &a : stage.axes) {
        const bool vector = std::find(s.vector_axes.begin(), s.vector_axes.end(), a.name()) != s.vector_axes.end();
        const bool shares = std::find(s.tiles.begin(), s.tiles.end(), a.name()) != s.tiles.end();
        if (vector || shares) tile.axes.push_back(a.name());
    }
    return tile;
}

void AutoSpace::add_multiply(const StageSketch &s) {
    const library::MatrixProduct *p = product_of(*s.stage);
    if (!p) return;
    std::vector<std::string> strategies = library::multiply_strategies(p->contraction, op(), p->a, p->b, machine());
    // Tiles in memory keep nothing in registers.
    std::erase_if(strategies, [&](const std::string &strategy) {
        return library::product(strategy, p->contraction, op(), p->a, p->b, machine()).tiles();
    });
    add(s.stage->name, "multiply", strategies, strategies.front(), false);
}

void AutoSpace::add_tile(const StageSketch &s, const RegisterTile &tile) {
    const std::string &name = s.stage->name;
    for (const std::string &a : tile.axes) {
        const auto wish = tile.wishes.find(a);
        std::vector<int64_t> sizes =
            up_to({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}, std::min(extent_of(*s.stage, a), tile.registers));
        if (wish != tile.wishes.end()) insert_sorted(sizes, wish->second);
        add_number(name, "tile_" + a, sizes, wish == tile.wishes.end() ? 1 : wish->second);
    }
    if (tile.axes.size() > 1) add(name, "inner", tile.axes, tile.rows.empty() ? tile.axes.back() : tile.rows, false);
}

// Adds the parameters of the reduction's loops. Returns the steps of a block by default, such that
// the vectors of a block stay in L1; 0: no blocks.
int64_t AutoSpace::add_steps(const StageSketch &s, const RegisterTile &tile) {
    const Stage &stage = *s.stage;
    const int64_t K = extent_of(stage, s.depth);
    const int64_t panel = tile.vectors * vector_lanes(machine(), stage.type) * stage.type.bytes();
    const int64_t fits =
        std::max<int64_t>(64, cache_bytes(machine(), "L1", 32 << 10) * 3 / 4 / std::max<int64_t>(panel, 1));
    const int64_t depth = !tile.rows.empty() && K > 2 * fits ? balanced_block(K, fits, 8) : 0;
    if (tile.axes.empty()) return depth;
    std::vector<int64_t> depths = up_to({32, 64, 128, 192, 256, 384, 512, 768, 1024}, K - 1);
    if (depth > 0 && depth < K) insert_sorted(depths, depth);
    depths.insert(depths.begin(), 0);
    add_number(stage.name, "depth", depths, depth);
    if (depths.size() > 1) add(stage.name, "rounds", {"reload", "join"}, "reload", false);
    add_number(stage.name, "unroll", up_to({1, 2, 4, 8}, K), K >= 4 ? 4 : 1);
    if (s.window.empty()) return depth;
    add(stage.name, "window", {"outside", "inside"}, "outside", false);
    if (extent_of(stage, s.window.back()) <= 11)
        add(stage.name, "unroll_window", Json::array({false, true}), false, false);
    return depth;
}

// Adds the parameters of blocks along the first two long axes.
void AutoSpace::add_blocks(const StageSketch &s, const RegisterTile &tile, int64_t depth) {
    const Stage &stage = *s.stage;
    const int64_t steps = depth ? depth : extent_of(stage, s.depth);
    size_t blocks = 0;
    for (const std::string &a : tile.axes) {
        if (extent_of(stage, a) < 64 || blocks++ == 2) continue;
        std::vector<int64_t> sizes = up_to({32, 64, 128, 256, 512}, extent_of(stage, a) - 1);
        sizes.insert(sizes.begin(), 0);
        // Rows whose copy fills half of L2.
        const int64_t rows =
            cache_bytes(machine(), "L2", 512 << 10) / 2 / stage.type.bytes() / std::max<int64_t>(1, steps);
        const bool large = a == tile.rows && extent_of(stage, a) > rows;
        add_number(stage.name, "block_" + a, sizes, large ? std::max<int64_t>(rows, 32) : 0);
    }
}

void AutoSpace::add_copies(const StageSketch &s, const RegisterTile &tile) {
    const Stage &stage = *s.stage;
    const std::string &v = tile.vector, &t = tile.rows;
    for (const SketchRead *r : packable_reads(s)) {
        int64_t size = stage.type.bytes();
        for (const std::string &a : r->axes) size *= extent_of(stage, a);
        const bool scattered = !v.empty() && r->plain(v) && r->step(v) != 1;
        const bool often = !t.empty() && !r->uses(t) && extent_of(stage, t) >= 4 * tile.wishes.at(t) &&
                           size > cache_bytes(machine(), "L1", 32 << 10);
        const bool kept = !v.empty() && r->plain(v) && (scattered || often);
        add(stage.name, "pack_" + r->tensor, {"none", "near", "far"}, kept ? "near" : "none", false);
    }
}

void AutoSpace::add_reduction(const StageSketch &s) {
    const std::string &name = s.stage->name;
    add_multiply(s);
    if (s.vector_axes.size() > 1) add(name, "vector", s.vector_axes, s.vector_axes[0], false);
    if (std::any_of(s.vector_axes.begin(), s.vector_axes.end(), [&](const std::string &a) { return s.reduces(a); }))
        add_number(name, "accumulators", {1, 2, 4, 8}, s.stage->axes.empty() ? 8 : 4);
    const RegisterTile tile = register_tile(s);
    add_tile(s, tile);
    const int64_t depth = add_steps(s, tile);
    add_blocks(s, tile, depth);
    add_copies(s, tile);
}

// The stages that are computed in the holder's loops, as far as the decisions determine. A stage
// placed by rules is included if all its readers are.
std::set<std::string> AutoSpace::held_in(const std::string &holder, const Decisions &d) const {
    std::set<std::string> held = {holder};
    const auto end = finished_in_.find(holder);
    for (auto s = op().stages().rbegin(); s != op().stages().rend(); ++s) { // readers first
        const std::string place = d.choice(s->name + ".at", "root");
        const std::vector<std::string> &readers = readers_.at(s->name);
        const auto inside = [&](const std::string &r) { return held.count(r) != 0; };
        // Outputs are stored whole, so later stages may read them too.
        const auto behind = [&](const std::string &r) { return inside(r) || &op().stage(r) > &op().stage(holder); };
        const bool ends = end != finished_in_.end() && end->second == s->name && d.yes(holder + ".finish");
        const bool among =
            !op().is_output(s->name)
                ? place != "root" && !readers.empty() && std::all_of(readers.begin(), readers.end(), inside)
                : place == "held" && std::any_of(readers.begin(), readers.end(), inside) &&
                      std::all_of(readers.begin(), readers.end(), behind);
        if ((ends && place != "inline") || among) held.insert(s->name);
    }
    return held;
}

std::string AutoSpace::reason_against(const Point &point) const {
    const Decisions d(*this, point);
    if (by_other(d)) return point == library_ ? "" : "the library's schedule has no decisions";
    const Holder holder = holder_of(d).value_or(Holder());
    std::set<std::string> held;
    if (!holder.stage.empty()) {
        held = held_in(holder.stage, d);
        const std::string place = d.choice(holder.stage + ".at", "root");
        if (place == "inline" || place == "held") return "the stage that holds others is inlined or in other loops";
    }
    for (const StageSketch &s : sketches_) {
        const std::string name = s.stage->name + ".";
        if (d.choice(name + "at", "") == "held") {
            if (holder.stage.empty()) return "no loop holds other stages";
            if (!held.count(s.stage->name)) return "a stage is read outside of the loops that hold it";
            if (op().is_output(s.stage->name) && d.number("hold_block", 1) > 1)
                return "an output is held one element of an axis at a time";
        }
        if (!sketched(s.stage->name, d)) continue;
        if (decided_accumulators(s, d) > accumulator_registers(machine()) + 3)
            return "more accumulators than registers";
        if (code_of(s, d, machine()) > max_code) return "too many copies of the tile in the code";
        if (d.choice(name + "window", "outside") == "outside" && d.yes(name + "unroll_window"))
            return "unroll_window needs the window inside the tile";
        if (const library::MatrixProduct *p = product_of(*s.stage);
            p && d.choice(name + "multiply", "plain") != "plain" && decided_vectors(s, d) != p->j)
            return "multiply needs vectors along columns";
        if (d.number(name + "depth", 0) == 0 && d.choice(name + "rounds", "reload") == "join")
            return "rounds = join needs more than one round";
    }
    return "";
}

// Makes the stage's loops from its sketch and the decisions, with those along `held` outermost, to
// hold others. Returns the innermost of these, "" if there is none.
std::string AutoSpace::make_loops(Schedule &s, const StageSketch &stage, const Decisions &d,
                                  const std::vector<std::string> &held) const {
    const std::string &name = stage.stage->name;
    LoopsPlan plan{stage, d, product_of(*stage.stage)};
    plan.held = held;
    if (!held.empty()) { // an axis no longer than a block is not split
        const int64_t block = d.number("hold_block", 1);
        plan.held_block = block < extent_of(*stage.stage, held.back()) ? block : 1;
    }
    const bool root = s.state().stage(name).placement.kind == Placement::Kind::Root;
    plan.parallel = d.yes("parallel") && root && stage.kind != StageSketch::Kind::Whole && stage.steps >= (1 << 16);
    const std::string innermost = schedule_loops(s, plan);
    const auto end = finished_in_.find(name);
    if (end == finished_in_.end() || !d.yes(name + ".finish")) return innermost;
    const StageState &consumer = s.state().stage(end->second);
    for (const StageState &other : s.state().stages) { // a stage that holds others keeps its loops
        if (other.placement.kind == Placement::Kind::At && other.placement.consumer == end->second) return innermost;
    }
    if (consumer.placement.kind != Placement::Kind::Inline && consumer.finished_by.empty())
        s.stage(name).finish_in(end->second);
    return innermost;
}

// Computes stages in the holder's loops: those decided so, and those placed by rules that are read
// only there.
void AutoSpace::hold(Schedule &s, const Holder &holder, const Decisions &d) const {
    if (holder.stage.empty()) return;
    const std::string loop = make_loops(s, sketch(holder.stage), d, holder.axes);
    std::set<std::string> inside = {holder.stage, s.stage(holder.stage).state().finished_into};
    for (size_t n = sketches_.size(); n-- > 0;) { // readers before producers
        const std::string &name = sketches_[n].stage->name;
        const StageState &state = s.state().stage(name);
        if (inside.count(name) || state.placement.kind != Placement::Kind::Root) continue;
        const std::string place = d.choice(name + ".at", "root");
        const auto readers = s.state().consumers(name);
        const auto within = [&](const std::string &r) { return inside.count(r) != 0; };
        const bool here = !op().is_output(name) && std::all_of(readers.begin(), readers.end(), within);
        if (place != "held" && !(place == by_rules && here)) continue;
        s.stage(name).compute_at(holder.stage, loop);
        inside.insert(name);
    }
}

Schedule AutoSpace::schedule(const Point &point) const {
    const Decisions d(*this, point);
    if (by_other(d)) {
        const auto space = other_->make_space(op(), machine());
        return space->schedule(space->default_point());
    }
    library::ElementwiseParameters rules = library::elementwise_parameters(op(), machine());
    rules.unroll = Tile(d.number("unroll", rules.unroll), rules.unroll.legal());
    rules.parallel = Flag(d.yes("parallel"));
    library::StageDecisions decided;
    decided.share_nests = d.yes("share_loops");
    const auto holder = holder_of(d);
    if (holder) decided.hold = [&](Schedule &s) { hold(s, *holder, d); };
    if (holder && !holder->stage.empty() && holder->stage != holder_)
        decided.places[holder->stage] = library::StageDecisions::Place::Kept;
    for (const auto &[reduction, consumer] : finished_in_) {
        if (!d.yes(reduction + ".finish")) decided.unfinished.insert(consumer);
    }
    for (const StageSketch &stage : sketches_) {
        const std::string &name = stage.stage->name, place = d.choice(name + ".at", by_rules);
        if (place != by_rules)
            decided.places[name] =
                place == "inline" ? library::StageDecisions::Place::Inline : library::StageDecisions::Place::Kept;
        // `hold` has already made the loops of a stage that holds others.
        const bool done = holder && holder->stage == name;
        if (sketched(name, d))
            decided.loops[name] = [&, done](Schedule &s) {
                if (!done) make_loops(s, stage, d, {});
            };
    }
    Schedule s = library::schedule_by_rules(op(), machine(), rules, decided);
    s.require_applied();
    return s;
}

} // namespace

std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine, const LibraryTemplate *other) {
    if (machine.architecture == "chip") return chip_space(op, machine);
    auto space = std::make_unique<AutoSpace>(op, machine, other);
    space->choose_default();
    return space;
}

} // namespace kumiko

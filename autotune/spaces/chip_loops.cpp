#include "autotune/spaces/chip_loops.h"

#include "dsl/reads.h"
#include "machine/machine.h"

#include <algorithm>

namespace kumiko {

namespace {

class ChainLoops {
public:
    ChainLoops(Schedule &s, const ChipFormula &f, const ChipDistribution &d, const Decisions &decisions)
        : s_(s), f_(f), d_(d), decisions_(decisions) {}

    void output();
    void held(const ChipFormula::Member &m);
    void copies(const std::string &input);

private:
    Schedule &s_;
    const ChipFormula &f_;
    const ChipDistribution &d_;
    const Decisions &decisions_;
    std::string at_; // loop of the output at which the other stages are computed
    // By stage: the innermost loop over tiles, "" if there is none.
    std::map<std::string, std::string> tile_;
    std::map<std::string, std::string> around_;

    struct Loops {
        // Bound loops, by the number of the cut.
        std::vector<std::pair<size_t, LoopName>> outside, inside;
        // By axis: the part that is not distributed to units.
        std::map<size_t, std::string> rest;
        std::map<size_t, std::vector<LoopName>> time; // within a tile, outermost first
        std::vector<LoopName> tiles;
        std::string lanes;
    };
    Loops split(StageHandle &S, const ChipFormula::Member &m, bool output);
    std::vector<LoopName> bound(const StageHandle &S, std::vector<std::pair<size_t, LoopName>> loops) const;
    std::vector<LoopName> in_tile(const Loops &l) const;
    bool alone() const { return f_.members.size() == 1; }
};

// Sorted by level, later cuts outside.
std::vector<LoopName> ChainLoops::bound(const StageHandle &S, std::vector<std::pair<size_t, LoopName>> loops) const {
    std::sort(loops.begin(), loops.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<LoopName> all;
    for (const std::string &level : chip_levels) {
        for (const auto &[number, loop] : loops) {
            if (S.state().loop(loop.name).unit == level) all.push_back(loop);
        }
    }
    return all;
}

ChainLoops::Loops ChainLoops::split(StageHandle &S, const ChipFormula::Member &m, bool output) {
    Loops l;
    std::map<size_t, std::string> own; // by axis: the stage's name for it
    for (const auto &[name, axis] : m.axes) own[axis] = name;
    if (!f_.joined.empty()) {
        std::string whole = f_.joined.front();
        for (size_t n = 1; n < f_.joined.size(); n++) {
            const std::string more = whole + "_" + f_.joined[n];
            S.fuse(whole, f_.joined[n], more);
            whole = more;
        }
        own[m.axes.at(f_.joined.back())] = whole;
    }
    for (const auto &[axis, name] : own) {
        const bool shared = f_.axes[axis].shared;
        std::string rest = name;
        for (const ChipDistribution::Cut &c : d_.cuts[axis]) {
            if (!output && shared && !c.inside) continue;
            const std::string loop = name + "." + c.name;
            S.split(rest, c.factor, {loop + ".o", loop});
            rest = loop + ".o";
            if (!c.level.empty()) {
                S.bind(loop, c.level);
                (shared && !c.inside ? l.outside : l.inside).emplace_back(c.number, loop);
            } else if (c.name == "v") {
                l.lanes = loop;
            } else {
                l.time[axis].insert(l.time[axis].begin(), loop);
            }
        }
        l.rest[axis] = rest;
        if (shared) continue;
        S.split(rest, d_.step[axis], {name + ".tile", name + ".step"});
        l.tiles.push_back(name + ".tile");
        l.time[axis].insert(l.time[axis].begin(), name + ".step");
    }
    return l;
}

// The lanes' axis is innermost, so that words are consecutive.
std::vector<LoopName> ChainLoops::in_tile(const Loops &l) const {
    std::vector<LoopName> all;
    for (const bool shared : {true, false}) {
        for (const auto &[axis, loops] : l.time) {
            if (axis != d_.lanes && f_.axes[axis].shared == shared) all.insert(all.end(), loops.begin(), loops.end());
        }
    }
    if (const auto own = l.time.find(d_.lanes); own != l.time.end())
        all.insert(all.end(), own->second.begin(), own->second.end());
    return all;
}

void ChainLoops::output() {
    const ChipFormula::Member &m = f_.output();
    StageHandle Y = s_.stage(m.stage->name);
    // Epilogue of a single sum.
    if (m.stage->axes.empty() && m.stage->reduction_axes.empty()) return;
    Loops l = split(Y, m, true);
    std::vector<LoopName> order = bound(Y, l.outside);
    for (const size_t axis : d_.outer) {
        order.push_back(l.rest.at(axis));
        at_ = l.rest.at(axis);
    }
    for (const LoopName &loop : bound(Y, l.inside)) order.push_back(loop);
    order.insert(order.end(), l.tiles.begin(), l.tiles.end());
    std::vector<LoopName> inner = in_tile(l);
    if (l.lanes.empty()) { // values that all PEs have: each PE stores some, each lane one
        const std::string last = inner.back().name;
        const size_t spread = *std::max_element(d_.outer.begin(), d_.outer.end());
        const int64_t words = d_.inside(spread) / f_.lanes;
        Y.split(last, f_.lanes, {last + ".w", last + ".v"});
        l.lanes = last + ".v";
        inner.back() = last + ".w";
        if (words >= s_.machine().unit("PE").count) {
            Y.split(last + ".w", s_.machine().unit("PE").count, {last + ".s", last + ".PE"});
            Y.bind(last + ".PE", "PE");
            inner.back() = last + ".PE";
            inner.push_back(last + ".s");
        }
    }
    order.insert(order.end(), inner.begin(), inner.end());
    order.push_back(l.lanes);
    Y.reorder(order);
    Y.vectorize(l.lanes);
    if (m.stage->is_reduction() && !at_.empty()) s_.accumulate_in(Y.name(), "GRF0", at_);
    tile_[Y.name()] = l.tiles.empty() ? "" : l.tiles.back().name;
    around_[Y.name()] = at_.empty() ? tile_[Y.name()] : at_;
}

void ChainLoops::held(const ChipFormula::Member &m) {
    StageHandle S = s_.stage(m.stage->name);
    if (!at_.empty()) S.compute_at(f_.output().stage->name, at_);
    const Loops l = split(S, m, false);
    std::vector<LoopName> order = bound(S, l.inside);
    for (const size_t axis : d_.outer) {
        order.push_back(l.rest.at(axis));
        around_[S.name()] = l.rest.at(axis);
    }
    order.insert(order.end(), l.tiles.begin(), l.tiles.end());
    for (const LoopName &loop : in_tile(l)) order.push_back(loop);
    if (!l.lanes.empty()) order.push_back(l.lanes);
    S.reorder(order);
    if (!l.lanes.empty()) S.vectorize(l.lanes);
    if (!at_.empty()) S.place_in(result_memory(decisions_, f_, m, d_.lanes));
    tile_[S.name()] = l.tiles.empty() ? "" : l.tiles.back().name;
    if (around_[S.name()].empty()) around_[S.name()] = tile_[S.name()];
}

void ChainLoops::copies(const std::string &input) {
    // A chain packs operands implicitly where needed; only elementwise f32 requires a directive.
    std::string source = input;
    bool packed = false;
    for (const ChipFormula::Read &r : f_.output().reads)
        packed = packed || (alone() && r.tensor == input && !f_.output().stage->is_reduction() && f_.lanes == 2 &&
                            host_packs(f_, d_, r));
    if (packed) {
        const Stage *zeros = s_.op().find_stage(input);
        const std::string own = zeros ? tensor_reads(zeros->value)[0]->name : input;
        std::vector<std::string> axes;
        for (const Axis &a : s_.op().find_input(own)->axes) axes.push_back(a.name());
        const std::string made = s_.prepack(own, axes).name();
        if (!zeros) source = made;
    }
    for (const ChipFormula::Member &m : f_.members) {
        const auto readers = s_.state().consumers(source);
        const std::string &stage = m.stage->name;
        if (std::find(readers.begin(), readers.end(), stage) == readers.end()) continue;
        bool along = false;
        for (const ChipFormula::Read &r : m.reads) {
            for (size_t a = 0; a < f_.axes.size(); a++)
                along = along || (r.tensor == input && r.uses(a) && !f_.axes[a].shared);
        }
        auto copy = s_.place_in(source, copy_memory(decisions_, input), stage, along ? tile_[stage] : around_[stage]);
        if (is_double_buffered(decisions_, input)) copy.double_buffer();
    }
}

} // namespace

Schedule schedule_chain(const Op &op, const Machine &machine, const ChipFormula &f, const ChipDistribution &d,
                        const Decisions &decisions) {
    Schedule s(op, machine);
    for (const std::string &stage : f.inlined) s.stage(stage).inline_into();
    ChainLoops loops(s, f, d, decisions);
    loops.output();
    // Readers before producers.
    for (size_t n = f.members.size() - 1; n-- > 0;) loops.held(f.members[n]);
    for (const std::string &input : f.inputs()) loops.copies(input);
    return s;
}

} // namespace kumiko

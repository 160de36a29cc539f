#include "dsl/interpreter/parts.h"

#include "dsl/buffers.h"
#include "dsl/float_casts.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"

#include <algorithm>

namespace kumiko::interpreter {

namespace hi = Halide::Internal;

namespace {

bool empty(const Part &part) {
    return std::any_of(part.begin(), part.end(), [](const Range &r) { return r.begin >= r.end; });
}

class Parts {
public:
    Parts(const Op &op, const std::map<std::string, int64_t> &sizes) : op_(op), sizes_(sizes) {}

    std::map<std::string, Part> needed; // by stage

    // Adds the parts that this stage's part reads. Returns true if its own part grew, as for a
    // scan.
    bool follow(const Stage &stage) {
        Part &own = needed.at(stage.name);
        if (empty(own)) {
            for (const Expr &e : stage.expressions()) visit(e, nullptr);
            return false;
        }
        for (const auto &distance : stage.distances) { // an element depends on earlier ones
            for (size_t d = 0; d < own.size(); d++) {
                if (distance[d] > 0) own[d].begin = 0;
                if (distance[d] < 0) own[d] = whole(stage)[d];
            }
        }
        const Part before = own;
        Ranges scope;
        for (const auto &[name, value] : sizes_) scope.push(name, hi::Interval::single_point(number(value)));
        for (size_t d = 0; d < own.size(); d++) push(scope, stage.axes[d].name(), own[d]);
        for (const Axis &axis : stage.reduction_axes)
            push(scope, axis.name(), {0, evaluate_size(axis.extent(), sizes_)});
        for (const Expr &e : stage.expressions()) visit(e, &scope);
        return !std::equal(own.begin(), own.end(), before.begin(),
                           [](const Range &a, const Range &b) { return a.begin == b.begin && a.end == b.end; });
    }

    // Requires all stages that take steps with a recurrence, whole, if any element of it is needed,
    // and everything that they read.
    void follow_steps(const std::vector<const Stage *> &stages) {
        for (const Stage *s : stages) needed[s->name] = whole(*s);
        for (auto s = stages.rbegin(); s != stages.rend(); ++s) follow(**s);
        for (const Stage *s : stages) needed[s->name] = whole(*s);
    }

    Part whole(const Stage &stage) const {
        Part part;
        for (const int64_t extent : evaluate_extents(stage.axes, sizes_)) part.push_back({0, extent});
        return part;
    }

private:
    const Op &op_;
    const std::map<std::string, int64_t> &sizes_;

    static Expr number(int64_t value) { return hi::IntImm::make(Int(32), value); }
    static void push(Ranges &scope, const std::string &name, Range range) {
        scope.push(name, hi::Interval(number(range.begin), number(range.end - 1)));
    }

    // Without a scope nothing is evaluated, and the tensors that are read need only an empty part.
    void visit(const Expr &e, const Ranges *scope) {
        for (const hi::Call *call : tensor_reads(e)) read(call, scope);
    }

    void read(const hi::Call *call, const Ranges *scope) {
        const Stage *stage = stage_of(op_, call->name);
        if (!stage) return;
        if (stage->kind == Stage::Kind::Padding) {
            std::map<std::string, Expr> at;
            for (size_t d = 0; d < stage->axes.size(); d++) at[stage->axes[d].name()] = call->args[d];
            return visit(hi::substitute(at, stage->value), scope);
        }
        Part part = whole(*stage);
        for (size_t d = 0; scope && d < part.size(); d++) {
            const hi::Interval range = range_of(call->args[d], *scope);
            const auto low = range.has_lower_bound() ? hi::as_const_int(hi::simplify(range.min)) : std::nullopt;
            const auto high = range.has_upper_bound() ? hi::as_const_int(hi::simplify(range.max)) : std::nullopt;
            if (low) part[d].begin = std::max(part[d].begin, *low);
            if (high) part[d].end = std::min(part[d].end, *high + 1);
        }
        // The boundary condition keeps indices outside from being read.
        if (!scope || empty(part)) part.assign(part.size(), {0, 0});
        const auto [found, added] = needed.emplace(stage->name, part);
        if (added || empty(part)) return;
        const bool first = empty(found->second);
        for (size_t d = 0; d < part.size(); d++) {
            Range &r = found->second[d];
            r = first ? part[d] : Range{std::min(r.begin, part[d].begin), std::max(r.end, part[d].end)};
        }
    }
};

} // namespace

const Stage *stage_of(const Op &op, const std::string &tensor) {
    for (const Stage &stage : op.stages()) {
        if (stage.makes(tensor)) return &stage;
    }
    return nullptr;
}

std::map<std::string, Part> parts_of(const Op &op, const std::map<std::string, int64_t> &sizes,
                                     const std::string &output, const std::vector<int64_t> &index) {
    Parts parts(op, sizes);
    Part element;
    for (const int64_t i : index) element.push_back({i, i + 1});
    parts.needed[stage_of(op, output)->name] = element;
    const auto groups = groups_of_steps(op.stages());
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
        if (!group->back()->step_axis.empty()) {
            const auto needed = [&](const Stage *s) { return parts.needed.count(s->name) != 0; };
            if (std::any_of(group->begin(), group->end(), needed)) parts.follow_steps(*group);
            continue;
        }
        const Stage &stage = *group->front();
        if (!parts.needed.count(stage.name)) continue;
        if (!parts.follow(stage)) continue;
        parts.needed.at(stage.name) = parts.whole(stage);
        parts.follow(stage);
    }
    return std::move(parts.needed);
}

} // namespace kumiko::interpreter

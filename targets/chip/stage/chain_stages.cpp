// The stages of a chain: which there are, the regions that they compute, and their formulas.
#include "dsl/reads.h"
#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/root_reduction.h"

#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

Expr Chain::inlined(const Expr &e) const {
    return inline_stages(e, [this](const std::string &name) -> const Stage * {
        const StageState *s = state_.find(name);
        return s && s->placement.kind == Placement::Kind::Inline ? &s->def : nullptr;
    });
}

// The stages that are computed at a loop of the root, all at the same one.
std::vector<const StageState *> Chain::stages_inside(const StageState &root) const {
    std::vector<const StageState *> nested;
    for (const StageState &s : state_.stages) {
        if (s.is_copy || s.placement.kind != Placement::Kind::At || s.name() == root.name()) continue;
        if (s.placement.consumer != root.name())
            throw Unsupported("stage " + s.name() + " is computed at a loop of " + s.placement.consumer +
                              "; on the chip stages are computed at one loop of the stage at the root, " + root.name());
        if (!nested.empty() && nested.front()->placement.loop != s.placement.loop)
            throw Unsupported("stages " + nested.front()->name() + " and " + s.name() + " are computed at loops " +
                              nested.front()->placement.loop + " and " + s.placement.loop + " of " + root.name() +
                              "; the chip computes all stages of a chain at one loop");
        nested.push_back(&s);
    }
    return nested;
}

ChainStage &Chain::add_stage(const StageState &s, std::shared_ptr<StagePlan> plan) {
    ChainStage &made = stages_.emplace_front();
    made.stage = &s;
    made.plan = std::move(plan);
    made.name = s.name();
    made.type = s.def.type;
    if (s.def.is_reduction()) {
        if (s.def.components.size() != 1)
            throw Unsupported("stage " + s.name() + " reduces " + std::to_string(s.def.components.size()) +
                              " values together; the chip's reductions have one");
        made.fold = s.def.components.front();
        made.type = made.fold->type;
    }
    made.value = inlined(made.fold ? made.fold->term : s.def.value);
    return made;
}

// Sets the region of axis `d` that the stages collected so far read in one iteration of the root's
// loop: its first index and its extent.
void Chain::add_region(const StageState &s, size_t d, Nesting &in) const {
    const int64_t whole = *ir::as_const_int(ir::simplify(s.def.axes[d].extent()));
    int64_t most = 0;
    Affine first;
    for (const ChainStage &reader : stages_) {
        for (const Expr &e : reads_in(reader.value)) {
            const ir::Call *call = e.as<ir::Call>();
            if (call->name != s.name()) continue;
            Affine at = reader.plan->affine(call->args[d]);
            for (size_t l = depth_ + 1; l < at.coefficients.size(); l++) {
                if (at.coefficients[l] < 0)
                    throw Unsupported("stage " + reader.name + " reads " + s.name() + " backwards");
            }
            const int64_t reach = reader.plan->reach(at, depth_);
            at.coefficients.resize(depth_ + 1);
            if (most && (at.coefficients != first.coefficients || at.constant != first.constant))
                throw Unsupported("what reads " + s.name() + " at " + s.def.axes[d].name() +
                                  " does not begin at the same index in all stages");
            first = at;
            most = std::max(most, reach);
        }
    }
    if (most == 0) throw Unsupported("no stage of the chain reads " + s.name());
    bool moves = false;
    for (size_t l = 0; l < first.coefficients.size(); l++)
        moves = moves || (first.depends(l) && root_->plan->loops()[l].extent != 1);
    in.first.push_back(first);
    in.extents.push_back(moves ? most : std::min(most, whole));
}

// Sorts the loops of all stages into lanes, time and reductions, and checks the number of lanes.
void Chain::classify_loops(bool nested) {
    int64_t lanes = 0;
    for (ChainStage &s : stages_) {
        const auto &loops = s.plan->loops();
        const TensorAccess own = s.plan->own();
        int64_t n = 1;
        bool across = false;
        for (size_t l = s.plan->first_own(); l < loops.size(); l++) {
            if (loops[l].kind == PlannedLoop::Kind::Lane) {
                s.lanes.push_back(l);
                n *= loops[l].extent;
                (loops[l].reduction ? s.reduced_lanes : across) = true;
            } else if (loops[l].kind == PlannedLoop::Kind::Time && (&s != root_ || l > depth_ || !nested)) {
                (loops[l].reduction ? s.reduced : s.time).push_back(l);
            }
        }
        if (across && s.reduced_lanes)
            throw Unsupported(
                "stage " + s.name +
                " has lanes along a reduction axis and along another axis; on the chip lanes are along one of these");
        if (n > 1 && lanes > 1 && n != lanes)
            throw Unsupported(
                fmt::format("stage {} has {} lanes, and another stage of its chain has {}", s.name, n, lanes));
        if (n > 1) lanes = n;
        for (const size_t l : s.time) s.points *= loops[l].extent;
    }
    if (lanes != 2 && lanes != 4)
        throw UserError(fmt::format("stage {}: its vectorized loops have {} iterations; vectors of the chip have 4, or "
                                    "2 if no element has 16 bits",
                                    root_->name, lanes));
    four_ = lanes == 4;
}

// Collects the stages and the region of each that is needed inside the loop at which it is
// computed: readers precede what they read.
void Chain::collect(const StageState &root) {
    const std::vector<const StageState *> nested = stages_inside(root);
    const auto plan = std::make_shared<StagePlan>(root, c_.config);
    root_ = &add_stage(root, plan);
    if (!nested.empty()) depth_ = plan->loop(nested.front()->placement.loop);
    for (size_t n = nested.size(); n-- > 0;) {
        const StageState &s = *nested[n];
        Nesting in{plan.get(), depth_, {}, {}};
        for (size_t d = 0; d < s.def.axes.size(); d++) add_region(s, d, in);
        add_stage(s, std::make_shared<StagePlan>(s, c_.config, &in));
    }
    classify_loops(!nested.empty());
    for (size_t l = 0; l < plan->loops().size() && !nested.empty() && l <= depth_; l++) {
        if (plan->loops()[l].kind == PlannedLoop::Kind::Time) outer_.push_back(l);
    }
}

// The reads of a stage's formula, their copies, and the formula as a program. A reduction's program
// combines the term with the accumulator, which is the first read.
void Chain::read_all(ChainStage &s) {
    const std::string who = "stage " + s.name;
    for (const Expr &e : reads_in(s.value)) {
        if (is_position(e)) {
            s.uses_position = true;
            continue;
        }
        bool known = false;
        for (const ChainRead &r : s.reads) known = known || ir::equal(r.read, e);
        if (known) continue;
        ChainRead r;
        r.read = e;
        r.access = s.plan->access(state_, e);
        for (const ChainStage &other : stages_) {
            if (other.name == r.access.tensor) r.from = &other;
        }
        if (!r.from) load(s, r);
        s.reads.push_back(r);
    }
    if (s.fold) return; // reduction.cpp builds its programs
    VectorBuilder b;
    const Id value = take_expression(b, s.value, who, [&](const Expr &e) -> Id {
        for (size_t i = 0; i < s.reads.size(); i++) {
            if (ir::equal(s.reads[i].read, e)) return b.read(int(i), vector_type(e.type(), who));
        }
        return -1;
    });
    b.result(value);
    s.program = b.program();
}

} // namespace kumiko::chip

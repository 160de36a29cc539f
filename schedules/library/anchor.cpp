#include "schedules/library/anchor.h"

#include "schedules/library/product.h"
#include "schedules/library/structure.h"
#include "schedules/library/table.h"
#include "schedules/primitive.h"
#include "support/error.h"

#include <set>

namespace kumiko::library {

bool has_instruction(const Op &op, const Stage &stage, const Machine &machine) {
    const bool product = stage.components.size() == 1 && stage.components[0].term.as<Halide::Internal::Mul>();
    if (!stage.is_reduction() || !product) return false;
    const Op alone = op.stage_alone(stage);
    const auto c = find_contraction(alone);
    const auto by_rows_of = [&](size_t rows) {
        const std::string best =
            multiply_strategies(*c, alone, c->operands[rows], c->operands[1 - rows], machine).front();
        return best != "plain" && best != "widened";
    };
    return c && (by_rows_of(0) || by_rows_of(1));
}

namespace {

// Whether the operands of a contraction exceed L2, so that cache blocking and packing pay off.
bool exceeds_l2(const Op &op, const Stage &stage, const Machine &machine) {
    if (!stage.is_reduction() || stage.components.size() != 1) return false;
    const Op alone = op.stage_alone(stage);
    const auto c = find_contraction(alone);
    if (!c) return false;
    int64_t bytes = 0;
    for (const Input &in : alone.inputs()) bytes += bytes_of(in.type, in.axes, 0, 0);
    return bytes > cache_bytes(machine, "L2", 512 << 10);
}

} // namespace

bool schedule_as_alone(Schedule &s, const Stage &stage, bool parallel) {
    std::optional<Schedule> before;
    try {
        const bool instruction = has_instruction(s.op(), stage, s.machine());
        if (!instruction && !exceeds_l2(s.op(), stage, s.machine())) return false;
        const Op alone = s.op().stage_alone(stage);
        const LibraryTemplate *t = find_template(alone);
        static const std::set<std::string> for_others = {"elementwise", "stages", "rows", "reduce"};
        if (for_others.count(t->name)) return false;
        const auto space = t->make_space(alone, s.machine(), PackedBy::Kernel);
        before = s;
        const Schedule scheduled = space->schedule(space->default_point());
        for (const Directive &d : scheduled.directives()) {
            // Conditions over sizes only apply to whole ops.
            if (d.primitive != "specialize" && (parallel || d.primitive != "parallel")) s.apply(d);
        }
        s.require_applied();
        return true;
    } catch (const UserError &) {
    } catch (const Unsupported &) {
    }
    if (before) s = *before;
    return false;
}

} // namespace kumiko::library

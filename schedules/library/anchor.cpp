#include "schedules/library/anchor.h"

#include "schedules/library/product.h"
#include "schedules/library/table.h"
#include "schedules/primitive.h"
#include "support/error.h"

namespace kumiko::library {

bool has_instruction(const Op &op, const Stage &stage, const Machine &machine) {
    const bool product = stage.components.size() == 1 && stage.components[0].term.as<Halide::Internal::Mul>();
    if (!stage.is_reduction() || !product) return false;
    const Op alone = op.stage_alone(stage);
    const auto c = find_contraction(alone);
    const auto by_rows_of = [&](size_t rows) {
        const std::string best = product_ways(*c, alone, c->operands[rows], c->operands[1 - rows], machine).front();
        return best != "plain" && best != "widened";
    };
    return c && (by_rows_of(0) || by_rows_of(1));
}

bool schedule_by_instruction(Schedule &s, const Stage &stage, bool parallel) {
    std::optional<Schedule> before;
    try {
        if (!has_instruction(s.op(), stage, s.machine())) return false;
        const Op alone = s.op().stage_alone(stage);
        const LibraryTemplate *t = find_template(alone);
        if (t->name == "elementwise") return false;
        const auto space = t->make_space(alone, s.machine(), PackedBy::Kernel);
        before = s;
        const Schedule scheduled = space->schedule(space->default_point());
        for (const Directive &d : scheduled.directives()) {
            // Conditions over sizes are of whole ops.
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

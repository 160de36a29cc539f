#include "schedules/library/anchor.h"

#include "schedules/library/product.h"
#include "schedules/library/structure.h"
#include "schedules/library/table.h"
#include "schedules/primitive.h"
#include "support/error.h"

#include <set>

namespace kumiko::library {

namespace {

// A contraction of a larger op as an op of its own.
struct ContractionAlone {
    Op op;
    Contraction contraction;

    bool has_instruction(const Machine &machine) const {
        const std::vector<Operand> &o = contraction.operands;
        const auto by_rows_of = [&](size_t rows) {
            const std::string best = multiply_strategies(contraction, op, o[rows], o[1 - rows], machine).front();
            return best != "plain" && best != "widened";
        };
        return by_rows_of(0) || by_rows_of(1);
    }
    // Beyond L2, cache blocking and packing pay off. Not for weights that batches share and whose
    // columns are not contiguous: the register tile packs these too, and takes one batch after the
    // other.
    bool operands_exceed_l2(const Machine &machine) const {
        if (const auto product = find_matrix_product(op)) {
            const auto *last = product->b.indices.back().as<Halide::Internal::Variable>();
            const bool shared = std::any_of(product->batches.begin(), product->batches.end(),
                                            [&](const std::string &b) { return !product->b.axes.count(b); });
            if (shared && !(last && last->name == product->j)) return false;
        }
        int64_t bytes = 0;
        for (const Input &in : op.inputs()) bytes += bytes_of(in.type, in.axes, 0, 0);
        return bytes > cache_bytes(machine, "L2", 512 << 10);
    }
};

// Nothing if the stage is no sum of products.
std::optional<ContractionAlone> contraction_alone(const Op &op, const Stage &stage) {
    const bool product = stage.components.size() == 1 && stage.components[0].term.as<Halide::Internal::Mul>();
    if (!stage.is_reduction() || !product) return std::nullopt;
    const Op alone = op.stage_alone(stage);
    const auto c = find_contraction(alone);
    return c ? std::optional(ContractionAlone{alone, *c}) : std::nullopt;
}

} // namespace

bool has_instruction(const Op &op, const Stage &stage, const Machine &machine) {
    const auto alone = contraction_alone(op, stage);
    return alone && alone->has_instruction(machine);
}

bool schedule_as_alone(Schedule &s, const Stage &stage, bool parallel) {
    std::optional<Schedule> before;
    try {
        const auto alone = contraction_alone(s.op(), stage);
        if (!alone || !(alone->has_instruction(s.machine()) || alone->operands_exceed_l2(s.machine()))) return false;
        const LibraryTemplate *t = fitting_template(alone->op, s.machine());
        static const std::set<std::string> not_for_contractions = {"elementwise", "stages", "rows", "reduce"};
        if (not_for_contractions.count(t->name)) return false;
        const auto space = t->make_space(alone->op, s.machine(), PackedBy::Kernel);
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

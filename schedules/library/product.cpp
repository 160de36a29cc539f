#include "schedules/library/product.h"

#include "dsl/type_range.h"
#include "machine/instruction.h"

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

// Whether the term only casts each operand to the sum's type.
bool casts_once(const Contraction &c) {
    const auto *product = c.sum->components[0].term.as<Mul>();
    for (const Expr &e : {product->a, product->b}) {
        const auto *cast = e.as<Cast>();
        if (!(cast ? cast->value : e).as<Call>()) return false;
    }
    return true;
}

// The type of an input, or of the stage that pads it; nothing for other stages.
std::optional<Type> type_of(const Op &op, const std::string &tensor) {
    if (const Input *in = op.find_input(tensor)) return in->type;
    const Stage *s = op.find_stage(tensor);
    return s && s->kind == Stage::Kind::Padding ? std::optional(s->type) : std::nullopt;
}

// Whether the instruction computes dot products of neighbours: c(i) = sum over k of a(i, k) * b(i,
// k), with every element in a lane of its own.
bool is_dot_product(const Instruction &i) {
    const Stage &s = i.meaning.stages().front();
    if (i.placed || i.operands.size() != 3 || s.axes.size() != 1 || s.reduction_axes.size() != 1) return false;
    const auto groups = as_const_int(s.axes[0].extent()), depth = as_const_int(s.reduction_axes[0].extent());
    for (const InstructionOperand &o : i.operands) {
        const std::vector<int> dense = o.accumulator ? std::vector<int>{1} : std::vector<int>{int(*depth), 1};
        if (o.lane_strides != dense) return false;
    }
    return *groups > 1;
}

// Whether the instruction multiplies tiles in memory: c(i, j) = sum over k, g of a(i, k, g) * b(k,
// j, g), all row-major.
bool is_tile_product(const Instruction &i) {
    const Stage &s = i.meaning.stages().front();
    if (!i.in_memory || i.operands.size() != 3 || s.axes.size() != 2 || s.reduction_axes.size() != 2) return false;
    const int columns = int(*as_const_int(s.axes[1].extent())),
              groups = int(*as_const_int(s.reduction_axes[0].extent())),
              group = int(*as_const_int(s.reduction_axes[1].extent()));
    return i.operands[0].lane_strides == std::vector<int>{columns, 1} &&
           i.operands[1].lane_strides == std::vector<int>{groups * group, group, 1} &&
           i.operands[2].lane_strides == std::vector<int>{columns * group, group, 1};
}

// Which of the instruction's operands are those of the sum, and the types in which these are read.
struct Fit {
    int a = 0, b = 0; // among the instruction's operands
    Type of_a, of_b;
    int64_t offset = 0; // of the rows' operand
};

// Nothing if the instruction does not compute this product.
std::optional<Fit> fit_of(const Instruction &i, Type sum, Type a, Type b, bool rewritten) {
    if (i.operands[0].type != sum) return std::nullopt;
    if (is_tile_product(i) && i.operands[1].type == a && i.operands[2].type == b) return Fit{1, 2, a, b};
    if (!is_dot_product(i)) return std::nullopt;
    for (const auto &[first, second] : {std::pair(1, 2), std::pair(2, 1)}) {
        const Type x = i.operands[size_t(first)].type, y = i.operands[size_t(second)].type;
        if (has_all_values(x, a) && has_all_values(y, b)) return Fit{first, second, x, y};
    }
    for (const auto &[first, second] : {std::pair(1, 2), std::pair(2, 1)}) {
        const Type x = i.operands[size_t(first)].type, y = i.operands[size_t(second)].type;
        const bool by_offset = a.is_int() && x.is_uint() && x.bits() == a.bits() && a.bits() < 32;
        if (rewritten && by_offset && has_all_values(y, b))
            return Fit{first, second, x, y, int64_t(1) << (a.bits() - 1)};
    }
    return std::nullopt;
}

// Conditions on the operands' values, beyond their types, under which the instruction is exact.
std::vector<ValuesWithin> needs_of(const Instruction &i, const Fit &fit, const Op &op, const Operand &a,
                                   const Operand &b) {
    std::vector<ValuesWithin> needs;
    for (const OperandRange &r : i.ranges) {
        const bool of_a = i.operands[size_t(fit.a)].tensor == r.tensor;
        const Operand &o = of_a ? a : b;
        const ValueRange wanted = of_a ? ValueRange{r.min - fit.offset, r.max - fit.offset} : ValueRange{r.min, r.max};
        const auto values = values_of(*type_of(op, o.tensor));
        if (!values || !values->within(wanted)) needs.push_back({o.tensor, wanted});
    }
    return needs;
}

Product shape_of(const Instruction &i) {
    const Stage &s = i.meaning.stages().front();
    const auto extent = [](const Axis &axis) { return int(*as_const_int(axis.extent())); };
    Product p{.instruction = i.name, .group = extent(s.reduction_axes.back()), .lanes = extent(s.axes.back())};
    if (is_tile_product(i)) p.rows = extent(s.axes[0]), p.groups = extent(s.reduction_axes[0]);
    return p;
}

} // namespace

namespace {

// The instructions that compute the product, those with the most operations first.
std::vector<const Instruction *> fitting(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                         const Machine &machine, bool rewritten) {
    const Type sum = c.sum->type;
    const auto x = type_of(op, a.tensor), y = type_of(op, b.tensor);
    std::vector<const Instruction *> fit;
    if (!x || !y || !casts_once(c) || (*x == sum && *y == sum)) return fit;
    const auto shorter = [&](const Axis &axis, int than) {
        const auto n = constant_extent(axis);
        return n && *n < than;
    };
    for (const Instruction *i : InstructionSet::builtin().available_on(machine)) {
        if (!fit_of(*i, sum, *x, *y, rewritten)) continue;
        const Product p = shape_of(*i);
        const Axis *along = nullptr, *across = nullptr; // the results' axes along lanes and rows
        for (const Axis &axis : c.sum->axes) {
            if (b.axes.count(axis.name()) && !a.axes.count(axis.name())) along = &axis;
            if (a.axes.count(axis.name()) && !b.axes.count(axis.name())) across = &axis;
        }
        const bool short_sums = std::all_of(c.sum->reduction_axes.begin(), c.sum->reduction_axes.end(),
                                            [&](const Axis &axis) { return shorter(axis, p.groups * p.group); });
        if (!along || shorter(*along, p.lanes) || (short_sums && !rewritten)) continue;
        if (p.tiles() && (!across || (!rewritten && shorter(*across, p.rows)))) continue;
        fit.push_back(i);
    }
    std::stable_sort(fit.begin(), fit.end(),
                     [](const auto *i, const auto *j) { return i->operations() > j->operations(); });
    return fit;
}

std::vector<ValuesWithin> needs_of(const Instruction &i, const Contraction &c, const Op &op, const Operand &a,
                                   const Operand &b) {
    return needs_of(i, *fit_of(i, c.sum->type, *type_of(op, a.tensor), *type_of(op, b.tensor), true), op, a, b);
}

} // namespace

std::vector<std::string> multiply_strategies(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                             const Machine &machine, bool rewritten) {
    const Type sum = c.sum->type;
    const auto x = type_of(op, a.tensor), y = type_of(op, b.tensor);
    if (!x || !y || !casts_once(c) || (*x == sum && *y == sum)) return {"plain"};
    std::vector<std::string> strategies;
    for (const Instruction *i : fitting(c, op, a, b, machine, rewritten)) {
        if (needs_of(*i, c, op, a, b).empty()) strategies.push_back(i->name);
    }
    if (has_all_values(sum, *x) && has_all_values(sum, *y)) strategies.push_back("widened");
    strategies.push_back("plain");
    return strategies;
}

std::optional<NarrowStrategy> narrow_strategy(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                              const Machine &machine, bool rewritten) {
    std::vector<const Instruction *> best = fitting(c, op, a, b, machine, rewritten);
    std::erase_if(best, [&](const Instruction *i) { return i->operations() < best.front()->operations(); });
    std::optional<NarrowStrategy> found;
    for (const Instruction *i : best) {
        const std::vector<ValuesWithin> needs = needs_of(*i, c, op, a, b);
        if (needs.empty()) return std::nullopt; // as fast, and exact for all values
        if (!found && needs.size() == 1 && values_refused(op, needs[0]).empty())
            found = NarrowStrategy{i->name, needs[0]};
    }
    return found;
}

Product product(const std::string &strategy, const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                const Machine &machine) {
    const Type sum = c.sum->type;
    const auto x = type_of(op, a.tensor), y = type_of(op, b.tensor);
    Product p{"", x.value_or(sum), y.value_or(sum), 1, vector_lanes(machine, sum)};
    if (strategy == "plain") return p;
    if (strategy == "widened") {
        p.a = p.b = sum;
        return p;
    }
    const Instruction &i = InstructionSet::builtin().get(strategy);
    const auto fit = fit_of(i, sum, p.a, p.b, true);
    p = shape_of(i);
    p.a = fit->of_a, p.b = fit->of_b, p.offset = fit->offset;
    return p;
}

} // namespace kumiko::library

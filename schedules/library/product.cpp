#include "schedules/library/product.h"

#include "dsl/type_range.h"
#include "machine/instruction.h"

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

// The term casts each operand to the sum's type and does nothing else to it.
bool casts_once(const Contraction &c) {
    const auto *product = c.sum->components[0].term.as<Mul>();
    for (const Expr &e : {product->a, product->b}) {
        const auto *cast = e.as<Cast>();
        if (!(cast ? cast->value : e).as<Call>()) return false;
    }
    return true;
}

// The type of an input, or of one that a stage pads; nothing of other stages.
std::optional<Type> type_of(const Op &op, const std::string &tensor) {
    if (const Input *in = op.find_input(tensor)) return in->type;
    const Stage *s = op.find_stage(tensor);
    return s && s->kind == Stage::Kind::Padding ? std::optional(s->type) : std::nullopt;
}

// Dot products of a few neighbours each: c(i) = sum over k of a(i, k) * b(i, k), every element in its own lane.
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

// Tiles of rows and columns, in memory: c(i, j) = sum over k, g of a(i, k, g) * b(k, j, g), all row-major.
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

// The operands' types in the instruction where it computes this product; nothing where it does not.
std::optional<std::pair<Type, Type>> types_in(const Instruction &i, Type sum, Type a, Type b) {
    if (i.operands[0].type != sum) return std::nullopt;
    if (is_tile_product(i) && i.operands[1].type == a && i.operands[2].type == b) return std::pair(a, b);
    if (!is_dot_product(i)) return std::nullopt;
    for (const auto &[first, second] : {std::pair(1, 2), std::pair(2, 1)}) {
        const Type x = i.operands[size_t(first)].type, y = i.operands[size_t(second)].type;
        if (has_all_values(x, a) && has_all_values(y, b)) return std::pair(x, y);
    }
    return std::nullopt;
}

Product shape_of(const Instruction &i) {
    const Stage &s = i.meaning.stages().front();
    const auto extent = [](const Axis &axis) { return int(*as_const_int(axis.extent())); };
    Product p{.instruction = i.name, .group = extent(s.reduction_axes.back()), .lanes = extent(s.axes.back())};
    if (is_tile_product(i)) p.rows = extent(s.axes[0]), p.groups = extent(s.reduction_axes[0]);
    return p;
}

} // namespace

std::vector<std::string> product_ways(const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                                      const Machine &machine) {
    const Type sum = c.sum->type;
    const auto x = type_of(op, a.tensor), y = type_of(op, b.tensor);
    if (!x || !y || !casts_once(c) || (*x == sum && *y == sum)) return {"plain"};
    const auto shorter = [&](const Axis &axis, int than) {
        const auto n = constant_extent(axis);
        return n && *n < than;
    };
    std::vector<const Instruction *> fit;
    for (const Instruction *i : InstructionSet::builtin().available_on(machine)) {
        if (!types_in(*i, sum, *x, *y)) continue;
        const Product p = shape_of(*i);
        const Axis *along = nullptr, *across = nullptr; // the results' axes that lie along the lanes, and the rows
        for (const Axis &axis : c.sum->axes) {
            if (b.axes.count(axis.name()) && !a.axes.count(axis.name())) along = &axis;
            if (a.axes.count(axis.name()) && !b.axes.count(axis.name())) across = &axis;
        }
        if (!along || shorter(*along, p.lanes) || shorter(c.sum->reduction_axes[0], p.groups * p.group)) continue;
        if (p.tiles() && (!across || shorter(*across, p.rows))) continue;
        fit.push_back(i);
    }
    std::stable_sort(fit.begin(), fit.end(),
                     [](const auto *i, const auto *j) { return i->operations() > j->operations(); });
    std::vector<std::string> ways;
    for (const Instruction *i : fit) ways.push_back(i->name);
    if (has_all_values(sum, *x) && has_all_values(sum, *y)) ways.push_back("widened");
    ways.push_back("plain");
    return ways;
}

Product product(const std::string &way, const Contraction &c, const Op &op, const Operand &a, const Operand &b,
                const Machine &machine) {
    const Type sum = c.sum->type;
    const auto x = type_of(op, a.tensor), y = type_of(op, b.tensor);
    Product p{"", x.value_or(sum), y.value_or(sum), 1, vector_lanes(machine, sum)};
    if (way == "plain") return p;
    if (way == "widened") {
        p.a = p.b = sum;
        return p;
    }
    const Instruction &i = InstructionSet::builtin().get(way);
    const auto types = types_in(i, sum, p.a, p.b);
    p = shape_of(i);
    p.a = types->first, p.b = types->second;
    return p;
}

} // namespace kumiko::library

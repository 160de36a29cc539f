#include "schedules/tensor_match.h"

#include "dsl/print.h"
#include "dsl/reads.h"
#include "support/error.h"

#include <sstream>

namespace kumiko {

using namespace Halide::Internal;

namespace {

std::string text_of(const Expr &e) {
    struct Loads : IRGraphVisitor {
        using IRGraphVisitor::visit;
        bool any = false;
        void visit(const Load *) override { any = true; }
    } loads;
    e.accept(&loads);
    if (!loads.any) return to_string(e);
    std::ostringstream out;
    out << e;
    return out.str();
}

std::string typed(const Expr &e) { return text_of(e) + " of " + type_name(e.type()); }

std::vector<Expr> children(const Expr &e) {
    if (const auto *op = e.as<Cast>()) return {op->value};
    if (const auto *op = e.as<Reinterpret>()) return {op->value};
    if (const auto *op = e.as<Add>()) return {op->a, op->b};
    if (const auto *op = e.as<Sub>()) return {op->a, op->b};
    if (const auto *op = e.as<Mul>()) return {op->a, op->b};
    if (const auto *op = e.as<Div>()) return {op->a, op->b};
    if (const auto *op = e.as<Mod>()) return {op->a, op->b};
    if (const auto *op = e.as<Min>()) return {op->a, op->b};
    if (const auto *op = e.as<Max>()) return {op->a, op->b};
    if (const auto *op = e.as<Select>()) return {op->condition, op->true_value, op->false_value};
    if (const auto *op = e.as<Call>()) return op->args;
    return {};
}

std::string head(const Expr &e) {
    switch (e.node_type()) {
    case IRNodeType::Cast:
        return "a cast to " + type_name(e.type());
    case IRNodeType::Add:
        return "a sum";
    case IRNodeType::Sub:
        return "a difference";
    case IRNodeType::Mul:
        return "a product";
    case IRNodeType::Div:
        return "a quotient";
    case IRNodeType::Min:
        return "a minimum";
    case IRNodeType::Max:
        return "a maximum";
    case IRNodeType::Select:
        return "a select";
    default:
        return "";
    }
}

std::string described(const Expr &e) {
    const std::string h = head(e);
    return h.empty() ? typed(e) : h + ", " + typed(e);
}

using Bindings = std::map<std::string, Expr>;

bool is_read(const Expr &e) {
    const Call *c = e.as<Call>();
    return e.as<Load>() || (c && c->call_type == Call::Image);
}

bool is_number(const Expr &e) { return e.as<IntImm>() || e.as<UIntImm>() || e.as<FloatImm>(); }

// Structural equality up to commutativity. Reads in the meaning bind to reads in the block;
// operands also bind to constants.
bool same(const Expr &meaning, const Expr &block, Bindings &bound, std::string &difference) {
    const auto differ = [&](const std::string &why) {
        if (difference.empty()) difference = why;
        return false;
    };
    const auto both = [&] {
        return differ("the instruction has " + described(meaning) + ", the block has " + described(block));
    };
    if (const Call *read = meaning.as<Call>(); read && read->call_type == Call::Image) {
        if (!(is_read(block) || is_number(block)) || block.type() != meaning.type()) return both();
        const auto [it, fresh] = bound.emplace(read->name, block);
        if (!fresh && !equal(it->second, block)) {
            return differ("the instruction reads its operand " + read->name + " again, the block has " +
                          text_of(it->second) + " and " + text_of(block));
        }
        return true;
    }
    if (meaning.node_type() != block.node_type()) return both();
    const std::vector<Expr> a = children(meaning), b = children(block);
    if (a.empty()) return equal(meaning, block) || both();
    if (const Call *m = meaning.as<Call>(); m && (m->name != block.as<Call>()->name || a.size() != b.size()))
        return both();
    const Bindings before = bound;
    bool all = true;
    for (size_t n = 0; all && n < a.size(); n++) all = same(a[n], b[n], bound, difference);
    if (all) return meaning.type() == block.type() || both();
    if (meaning.as<Add>() || meaning.as<Mul>()) {
        Bindings swapped = before;
        std::string ignored;
        if (same(a[0], b[1], swapped, ignored) && same(a[1], b[0], swapped, ignored)) {
            bound = swapped;
            return true;
        }
    }
    return false;
}

struct MeaningAxis {
    std::string name;
    int64_t extent;
    bool reduction;
};

std::string loops_text(const std::vector<BlockLoop> &loops) {
    std::string text;
    for (const BlockLoop &l : loops) {
        text += (text.empty() ? "" : ", ") + l.variable + " over " + std::to_string(l.extent) +
                (l.reduction ? " (reduction)" : "");
    }
    return text.empty() ? "no loops" : text;
}

class Matcher {
public:
    Matcher(const Instruction &instruction, const TensorBlock &block)
        : instruction_(instruction), block_(block), stage_(instruction.meaning.stages().front()) {}

    TensorMatch run() {
        for (const BlockLoop &l : block_.loops) {
            if (l.extent != 1) loops_.push_back(l);
        }
        std::vector<BlockLoop> wanted;
        for (const auto *list : {&stage_.axes, &stage_.reduction_axes}) {
            for (const Axis &a : *list) {
                const int64_t n = *as_const_int(a.extent());
                if (n == 1) continue;
                axes_.push_back({a.name(), n, list == &stage_.reduction_axes});
                wanted.push_back({a.name(), n, list == &stage_.reduction_axes});
            }
        }
        std::map<std::string, Expr> parts;
        const Component &c = stage_.components.front();
        std::vector<Expr> own;
        for (const Axis &a : stage_.axes) own.push_back(a);
        parts[accumulator_variable(0)] = read_tensor(c.type, c.tensor, own);
        parts[term_variable(0)] = c.term;
        meaning_ = substitute(parts, c.combined);

        TensorMatch m;
        if (!same(meaning_, block_.value, bound_, m.difference)) return m;
        const Expr accumulator = bound_.at(c.tensor);
        if (!is_read(accumulator) || !same_place(accumulator, block_.target)) {
            m.difference = "the instruction adds to its accumulator, but the block stores " + text_of(block_.target) +
                           " but adds to " + text_of(accumulator);
            return m;
        }
        m.difference =
            "the loops differ: the instruction has " + loops_text(wanted) + "; the block has " + loops_text(loops_);
        if (axes_.size() == loops_.size()) assign(0, m);
        return m;
    }

private:
    const Instruction &instruction_;
    const TensorBlock &block_;
    const Stage &stage_;
    std::vector<BlockLoop> loops_;
    std::vector<MeaningAxis> axes_;
    Expr meaning_;
    Bindings bound_;
    std::map<std::string, std::string> loop_of_; // axis of the meaning → loop of the block
    bool tried_ = false;

    bool same_place(const Expr &a, const Expr &b) const {
        if (equal(a, b)) return true;
        const Expr x = block_.offset(a), y = block_.offset(b);
        return x.defined() && y.defined() && proves(x == y, *block_.bounds);
    }

    // Tries all assignments of axes to loops of equal extent and kind.
    bool assign(size_t n, TensorMatch &m) {
        if (n == axes_.size()) {
            std::string difference;
            std::vector<TensorOperand> operands;
            for (const InstructionOperand &o : instruction_.operands) {
                operands.push_back({});
                difference = address(o, operands.back());
                if (!difference.empty()) break;
            }
            if (difference.empty()) {
                m.difference.clear();
                m.operands = operands;
                return true;
            }
            if (!tried_) m.difference = difference;
            tried_ = true;
            return false;
        }
        for (const BlockLoop &l : loops_) {
            bool used = l.extent != axes_[n].extent || l.reduction != axes_[n].reduction;
            for (const auto &[axis, loop] : loop_of_) used = used || loop == l.variable;
            if (used) continue;
            loop_of_[axes_[n].name] = l.variable;
            if (assign(n + 1, m)) return true;
            loop_of_.erase(axes_[n].name);
        }
        return false;
    }

    const Input *input(const std::string &tensor) const { return instruction_.meaning.find_input(tensor); }

    // Compares the addresses of an operand's elements with the lane order that the instruction
    // requires.
    std::string address(const InstructionOperand &o, TensorOperand &out) {
        out.read = bound_.count(o.tensor) ? bound_.at(o.tensor) : Expr();
        if (!out.read.defined()) return "the meaning of the instruction does not read operand " + o.tensor;
        if (is_number(out.read)) { // broadcast to every lane
            if (instruction_.in_memory)
                return "operand " + o.tensor + " of the instruction is in memory, but the block has the number " +
                       text_of(out.read);
            out.elements = 1;
            out.lanes.assign(o.lanes, 0);
            return "";
        }
        const Call *read = find_read(meaning_, o.tensor);
        std::map<std::string, int64_t> lane; // axis → lanes per step
        for (size_t d = 0; d < read->args.size(); d++) {
            const auto *v = read->args[d].as<Variable>();
            if (!v)
                return "the meaning of the instruction reads operand " + o.tensor + " at " + text_of(read->args[d]) +
                       ", which is not an axis";
            lane[v->name] = o.lane_strides[d];
        }
        std::string rows; // the axis with a free stride
        for (const auto &[axis, lanes] : lane) {
            if (instruction_.in_memory && (rows.empty() || lanes > lane.at(rows))) rows = axis;
        }
        const Expr raw = block_.offset(out.read);
        std::map<std::string, int64_t> step; // axis → elements per step
        if (raw.defined()) {
            const Expr offset = simplify(split_blocks(raw, *block_.bounds), true, *block_.bounds);
            for (const MeaningAxis &a : axes_) {
                const std::string &loop = loop_of_.at(a.name);
                const Expr distance = simplify(difference_along(offset, loop));
                if (a.name == rows && fixed(distance)) {
                    out.row = distance;
                    continue;
                }
                const auto s = as_const_int(distance);
                if (!s)
                    return "the address of " + text_of(out.read) + ", operand " + o.tensor +
                           ", does not move by a fixed step with loop " + loop;
                step[a.name] = *s;
            }
        } else {
            for (const MeaningAxis &a : axes_) step[a.name] = lane.count(a.name) ? lane.at(a.name) : 0;
        }
        if (instruction_.in_memory) step[rows] = lane.at(rows);
        // Axes along which the block's operand has stride 0 are broadcast; the others must be dense
        // in register order.
        std::vector<const MeaningAxis *> moving;
        for (const MeaningAxis &a : axes_) {
            if (!lane.count(a.name)) {
                if (step.at(a.name)) return stride_text(o, a, 0, step.at(a.name), out.read);
            } else if (step.at(a.name) || o.accumulator || instruction_.in_memory) {
                moving.push_back(&a);
            }
        }
        std::sort(moving.begin(), moving.end(),
                  [&](const auto *x, const auto *y) { return lane.at(x->name) < lane.at(y->name); });
        int64_t elements = 1;
        std::map<std::string, int64_t> wanted;
        for (const MeaningAxis *a : moving) {
            wanted[a->name] = elements;
            elements *= a->extent;
        }
        for (const MeaningAxis *a : moving) {
            if (step.at(a->name) != wanted.at(a->name))
                return stride_text(o, *a, wanted.at(a->name), step.at(a->name), out.read);
        }
        out.elements = static_cast<int>(elements);
        out.lanes.assign(o.lanes, 0);
        for (int l = 0; l < o.lanes; l++) {
            for (const MeaningAxis &a : axes_) {
                if (!lane.count(a.name)) continue;
                out.lanes[l] += static_cast<int>(l / lane.at(a.name) % a.extent * step.at(a.name));
            }
        }
        return "";
    }

    // Whether it is invariant in all loops of the block.
    bool fixed(const Expr &e) const {
        return std::none_of(block_.loops.begin(), block_.loops.end(),
                            [&](const BlockLoop &l) { return expr_uses_var(e, l.variable); });
    }

    std::string stride_text(const InstructionOperand &o, const MeaningAxis &a, int64_t wanted, int64_t have,
                            const Expr &read) const {
        return "the addresses differ: one step of " + a.name + " moves operand " + o.tensor +
               " of the instruction by " + std::to_string(wanted) + (wanted == 1 ? " element" : " elements") +
               "; one step of loop " + loop_of_.at(a.name) + " moves " + text_of(read) + " by " + std::to_string(have);
    }

    static const Call *find_read(const Expr &e, const std::string &tensor) {
        const std::vector<const Call *> reads = reads_of_tensors({e}, {tensor});
        return reads.empty() ? nullptr : reads.back();
    }
};

} // namespace

TensorMatch match_tensor(const Instruction &instruction, const TensorBlock &block) {
    return Matcher(instruction, block).run();
}

} // namespace kumiko

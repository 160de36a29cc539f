#include "graph/formulas/group.h"

#include "dsl/buffer_elements.h"
#include "dsl/dense.h"
#include "dsl/halide_passes.h"
#include "graph/formulas/narrow.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// Larger formulas of values that other nodes read become stages: without a bound, n nodes that read
// their input twice would become a formula of 2^n reads.
constexpr int max_operations = 200;

class OperationCount : public Halide::Internal::IRVisitor {
public:
    int operations = 0;

private:
    using IRVisitor::visit;
    template<typename T>
    void count(const T *op) {
        if (++operations <= max_operations) IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Add *op) override { count(op); }
    void visit(const Halide::Internal::Sub *op) override { count(op); }
    void visit(const Halide::Internal::Mul *op) override { count(op); }
    void visit(const Halide::Internal::Div *op) override { count(op); }
    void visit(const Halide::Internal::Mod *op) override { count(op); }
    void visit(const Halide::Internal::Min *op) override { count(op); }
    void visit(const Halide::Internal::Max *op) override { count(op); }
    void visit(const Halide::Internal::Select *op) override { count(op); }
    void visit(const Halide::Internal::Call *op) override { count(op); }
    void visit(const Halide::Internal::Cast *op) override { count(op); }
};

// Products of floats outside of reductions become ones that are always rounded.
class RoundedProducts : public Halide::Internal::IRMutator {
    using IRMutator::visit;
    Expr visit(const Halide::Internal::Mul *op) override {
        if (!op->type.is_float() || op->type.bits() < 32) return IRMutator::visit(op);
        return Halide::Internal::Call::make(op->type, Halide::Internal::Call::strict_mul,
                                            {mutate(op->a), mutate(op->b)}, Halide::Internal::Call::PureIntrinsic);
    }
    Expr visit(const Halide::Internal::Call *op) override { return is_reduction(op) ? Expr(op) : IRMutator::visit(op); }
};

template<typename T>
Expr immediate(const Buffer<> &b) {
    T value;
    std::memcpy(&value, b.data(), sizeof value);
    return Expr(value);
}

// A constant of one element as a view; nullopt for types without immediates.
std::optional<View> constant_of(const KnownValue &known) {
    if (!known.constant || !known.value || known.packed || known.value->number_of_elements() != 1) return {};
    const Type t = known.type;
    const Buffer<> &b = *known.value;
    Expr e;
    if (t == f32) e = immediate<float>(b);
    if (t == f64) e = immediate<double>(b);
    if (t == i64) e = immediate<int64_t>(b);
    if (t == i32) e = immediate<int32_t>(b);
    if (t == u8) e = immediate<uint8_t>(b);
    if (t == i8) e = immediate<int8_t>(b);
    if (!e.defined()) return {};
    return constant_view(t, known.extents, [e](const Indices &) { return e; });
}

// Runs the formulas of the nodes.
class GroupBuilder {
public:
    GroupBuilder(const std::vector<const Node *> &nodes, const std::vector<std::string> &outputs, const FindValue &find,
                 const std::map<std::string, AxisOrder> &orders)
        : outputs_(outputs), find_(find) {
        scope_.orders = orders;
        if (!outputs.empty()) scope_.stage_order = scope_.order_of(outputs[0]);
        for (const Node *node : nodes) {
            for (const std::string &input : node->inputs) readers_[input]++;
            const Operator *op = find_operator(node->op, node->opset, node->domain);
            quantised_ = quantised_ || (op && op->quantised);
        }
    }

    void add(const Node &node) {
        const Operator *op = find_operator(node.op, node.opset, node.domain);
        if (!op) throw no_formula(node);
        std::vector<std::optional<Call::Argument>> arguments;
        for (size_t n = 0; n < node.inputs.size(); n++) {
            arguments.emplace_back();
            if (!node.has_input(n)) continue;
            arguments.back() = argument(node.inputs[n], *op);
            const Type type = arguments.back()->type;
            if (!takes(*op, type))
                throw Unsupported(fmt::format(
                    "{}: its input \"{}\" is {}; supported are casts, moves and {} of this type", node.label(),
                    node.inputs[n], type_name(type), is_narrow(type) ? "quantisation" : "operators of strings"));
        }
        bool cheap = op->dependence == Dependence::Injective;
        for (const std::string &input : node.inputs) cheap = cheap && (!views_.count(input) || cheap_.count(input));
        Call &call = calls_.emplace_back(node, std::move(arguments), scope_);
        const Results results = op->formula(call);
        for (size_t o = 0; o < node.outputs.size(); o++) {
            if (!call.wants(o)) continue;
            if (o >= results.size())
                throw Unsupported(fmt::format("{}: output {} (\"{}\") is not computed; supported are the first {}",
                                              node.label(), o, node.outputs[o], results.size()));
            keep(call, node.outputs[o], results[o], cheap);
        }
    }

    GroupOp finish() {
        std::vector<Tensor> tensors;
        for (const std::string &name : outputs_) {
            const auto made = tensors_.find(name);
            if (made == tensors_.end()) continue; // known
            tensors.push_back(made->second);
            group_.outputs.push_back(name);
        }
        if (tensors.empty()) return group_;
        std::vector<Tensor> inputs;
        for (const auto &[name, tensor] : scope_.inputs()) {
            inputs.push_back(tensor);
            group_.inputs.push_back(name);
        }
        group_.op.emplace("group", inputs, tensors);
        group_.checks = scope_.checks();
        return group_;
    }

private:
    static std::vector<Axis> axes_of(const View &view) {
        std::vector<Axis> axes;
        for (size_t d = 0; d < view.rank(); d++)
            axes.emplace_back("i" + std::to_string(d), static_cast<int>(view.extents[d]));
        return axes;
    }

    Call::Argument argument(const std::string &name, const Operator &reader) {
        const auto inner = group_.made.find(name);
        const KnownValue known = inner == group_.made.end() ? find_(name) : inner->second;
        Call::Argument made{known.type, known.extents, known.value, constant_of(known)};
        if (known.packed) made.value.reset(), made.packed = true;
        const auto view = views_.find(name);
        if (view == views_.end()) return made;
        // Other formulas may read each element several times.
        if (reader.dependence == Dependence::Other && !cheap_.count(name)) store(name, scope_.next_stage("v"));
        made.view = views_.at(name);
        return made;
    }

    Tensor store(const std::string &name, const std::string &tensor) {
        View &view = views_.at(name);
        const std::vector<Axis> axes = axes_of(view);
        const bool own = std::find(outputs_.begin(), outputs_.end(), name) == outputs_.end();
        AxisOrder order = own ? scope_.stage_order : scope_.order_of(name);
        if (order.size() != axes.size()) order.clear();
        std::vector<Axis> stored = axes;
        for (size_t d = 0; d < order.size(); d++) stored[d] = axes[order[d]];
        Expr e = view.at(Indices(axes.begin(), axes.end()));
        if (quantised_) e = RoundedProducts().mutate(e);
        const Tensor made = compute(tensor, stored, e);
        const Type type = view.type;
        view = view_of({made, order});
        view.type = type;
        cheap_.insert(name);
        return made;
    }

    void keep(const Call &call, const std::string &name, const Result &result, bool cheap) {
        if (result.value) {
            group_.made[name] = {result.value->type(), result.value->extents(), *result.value};
            group_.known[name] = *result.value;
            return;
        }
        const View &view = *result.view;
        group_.made[name] = {view.type, view.extents};
        call.ranging(view.extents); // checks them
        if (!has_legal_size(view.type, view.extents))
            call.fail(fmt::format("its result \"{}\" is {}[{}]; legal are up to 2^40 bytes", name, type_name(view.type),
                                  fmt::join(view.extents, ",")));
        if (view.elements() == 0) {
            group_.made[name].value = group_.known[name] = Buffer<>(view.type, view.extents);
            return;
        }
        views_.emplace(name, view);
        if (cheap) cheap_.insert(name);
        const auto output = std::find(outputs_.begin(), outputs_.end(), name);
        const bool read = readers_.count(name) > 0;
        if (output != outputs_.end()) {
            const Tensor y = store(name, "y" + std::to_string(output - outputs_.begin()));
            tensors_.emplace(name, y);
        } else if (read && is_large(view)) {
            store(name, scope_.next_stage("v"));
        }
    }

    static bool is_large(const View &view) {
        const std::vector<Axis> axes = axes_of(view);
        OperationCount count;
        Expr(view.at(Indices(axes.begin(), axes.end()))).accept(&count);
        return count.operations > max_operations;
    }

    const std::vector<std::string> &outputs_;
    const FindValue &find_;
    bool quantised_ = false;             // a node has quantised tensors
    std::map<std::string, int> readers_; // in the group
    std::map<std::string, View> views_;
    std::set<std::string> cheap_;           // views whose elements are read, not computed
    std::map<std::string, Tensor> tensors_; // of the outputs
    std::deque<Call> calls_;                // views refer to them
    OpScope scope_;
    GroupOp group_;
};

} // namespace

int64_t KnownValue::bytes() const {
    int64_t n = type.bytes();
    for (const int64_t e : extents) n *= e;
    return n;
}

KnownValue packed(const KnownValue &constant) {
    const int bits = constant.type.bits(), in_byte = 8 / bits;
    const Buffer<> elements = dense(*constant.value);
    Extents extents = constant.extents;
    const int64_t rows = extents[0], row = rows == 0 ? 0 : int64_t(elements.number_of_elements()) / rows;
    extents[0] = (rows + in_byte - 1) / in_byte;
    Buffer<> bytes(u8, extents);
    const auto *from = static_cast<const uint8_t *>(elements.data());
    auto *to = static_cast<uint8_t *>(bytes.data());
    std::memset(to, 0, bytes.number_of_elements());
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t e = 0; e < row; e++)
            to[r / in_byte * row + e] |=
                static_cast<uint8_t>((from[r * row + e] & ((1 << bits) - 1)) << (r % in_byte * bits));
    }
    KnownValue made = constant;
    made.value = bytes, made.packed = true;
    return made;
}

bool has_legal_size(Type type, const Extents &extents) {
    if (std::count(extents.begin(), extents.end(), 0) > 0) return true;
    double bytes = type.bytes();
    for (const int64_t e : extents) bytes *= static_cast<double>(e);
    return bytes <= 0x1p40;
}

void naming_node(const Node &node, const std::function<void()> &f) {
    try {
        f();
    } catch (const UserError &e) {
        const std::string text = e.what();
        if (text.find("node ") != std::string::npos) throw; // this node, or one of its graphs
        throw UserError(
            fmt::format("{}: its inputs do not fit the operator: {}", node.label(), e.message_without_places()));
    } catch (const Halide::Error &e) { // of expressions of types that do not fit each other
        throw UserError(fmt::format("{}: its inputs do not fit the operator: {}", node.label(), e.what()));
    } catch (const std::out_of_range &) { // of at()
        throw UserError(node.label() + " has fewer inputs, outputs or elements of a list than its operator needs");
    } catch (const std::length_error &) { // of a vector of a negative size
        throw UserError(node.label() + " has an attribute or extent that is no size");
    }
}

GroupOp make_group_op(const std::vector<const Node *> &nodes, const std::vector<std::string> &outputs,
                      const FindValue &find, const std::map<std::string, AxisOrder> &orders) {
    GroupBuilder builder(nodes, outputs, find, orders);
    for (const Node *node : nodes) {
        naming_node(*node, [&] { builder.add(*node); });
    }
    return builder.finish();
}

} // namespace kumiko::graph

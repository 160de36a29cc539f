#include "dsl/interpret_element.h"

#include "dsl/buffer_elements.h"
#include "dsl/extern.h"
#include "dsl/interpreter/parts.h"
#include "dsl/recurrence.h"
#include "dsl/types.h"

namespace kumiko {

namespace {

using namespace interpreter;

int64_t count(const Part &part) {
    int64_t n = 1;
    for (const Range &r : part) n *= r.end - r.begin;
    return n;
}

// Counts the operations of an expression, without those in indices.
class Operations : public Halide::Internal::IRVisitor {
public:
    explicit Operations(const Op &op) : op_(op) {}
    double count = 0;

    void of(const Expr &e) { e.accept(this); }

private:
    const Op &op_;
    using IRVisitor::visit;

    template<typename T>
    void binary(const T *op) {
        count++;
        IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Add *op) override { binary(op); }
    void visit(const Halide::Internal::Sub *op) override { binary(op); }
    void visit(const Halide::Internal::Mul *op) override { binary(op); }
    void visit(const Halide::Internal::Div *op) override { binary(op); }
    void visit(const Halide::Internal::Mod *op) override { binary(op); }
    void visit(const Halide::Internal::Min *op) override { binary(op); }
    void visit(const Halide::Internal::Max *op) override { binary(op); }
    void visit(const Halide::Internal::Select *op) override { binary(op); }
    void visit(const Halide::Internal::Cast *op) override { binary(op); }
    void visit(const Halide::Internal::Call *op) override {
        if (op->call_type == Halide::Internal::Call::Image) {
            count++;
            const Stage *stage = op_.find_stage(op->name);
            if (stage && stage->kind == Stage::Kind::Padding) of(stage->value);
            return;
        }
        count += op->call_type == Halide::Internal::Call::PureExtern ? 10 : 1; // exp and the like
        IRVisitor::visit(op);
    }
};

// Measured on matrix products, convolutions, row reductions and attention; all within a factor of
// 5.
constexpr double seconds_an_operation = 5e-10, bounded_seconds_an_operation = 9e-9;
constexpr double seconds_an_element = 5e-5; // dependence analysis and compilation

double seconds_of(const Op &op, const Sizes &sizes, const std::map<std::string, Part> *parts, bool bounded) {
    double operations = 0;
    for (const Stage &stage : op.stages()) {
        if (stage.kind == Stage::Kind::Padding) continue;
        double points = 1;
        if (parts) {
            const auto part = parts->find(stage.name);
            if (part == parts->end()) continue;
            points = static_cast<double>(count(part->second));
        } else {
            for (const int64_t e : evaluate_extents(stage.axes, sizes)) points *= static_cast<double>(e);
        }
        for (const int64_t e : evaluate_extents(stage.reduction_axes, sizes)) points *= static_cast<double>(e);
        Operations each(op);
        for (const Expr &e : stage.expressions()) each.of(e);
        operations += points * (1 + each.count);
    }
    return operations * (bounded ? bounded_seconds_an_operation : seconds_an_operation);
}

} // namespace

ElementValue interpret_element(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes,
                               const std::string &output, const std::vector<int64_t> &index, bool bounded) {
    if (has_extern(op))
        throw Unsupported("op " + op.name() + " calls an extern function, which computes its outputs as a whole");
    std::vector<const halide_buffer_t *> raw;
    for (const Buffer<> &b : inputs) raw.push_back(b.raw_buffer());
    Context context;
    context.op = &op;
    context.sizes = solve_sizes(op, raw, sizes);
    check_requirements(op, context.sizes);
    context.in_double = bounded;
    const auto add = [&](Array array) {
        context.array_of[array.name] = static_cast<int>(context.arrays.size());
        context.arrays.push_back(std::move(array));
        return static_cast<int>(context.arrays.size()) - 1;
    };
    for (size_t i = 0; i < inputs.size(); i++) {
        const Buffer<> &b = inputs[i];
        check_input(op, op.inputs()[i], raw[i], context.sizes);
        add({op.inputs()[i].name, b.type(), b.extents(), strides_of(raw[i]), raw[i]->host, nullptr});
    }
    const std::map<std::string, Part> parts = parts_of(op, context.sizes, output, index);
    std::vector<std::vector<double>> memory; // double is the largest element type
    std::map<std::string, std::vector<int>> targets;
    for (const Stage &stage : op.stages()) {
        const auto found = parts.find(stage.name);
        if (found == parts.end()) continue;
        const Part &part = found->second;
        std::vector<int64_t> extents, begins;
        for (const Range &r : part) extents.push_back(r.end - r.begin), begins.push_back(r.begin);
        const std::vector<int64_t> strides = dense_strides(extents);
        int64_t origin = 0;
        for (size_t d = 0; d < part.size(); d++) origin += begins[d] * strides[d];
        for (size_t c = 0; c < std::max<size_t>(stage.components.size(), 1); c++) {
            const Type type = c ? stage.components[c].type : stage.type;
            Array array{c ? stage.components[c].tensor : stage.name,
                        bounded && type.is_float() ? Float(64) : type,
                        evaluate_extents(stage.axes, context.sizes),
                        strides,
                        nullptr,
                        nullptr,
                        part,
                        origin};
            memory.emplace_back(static_cast<size_t>(count(part)));
            array.data = reinterpret_cast<uint8_t *>(memory.back().data());
            if (bounded) {
                memory.emplace_back(static_cast<size_t>(count(part)));
                array.bound = memory.back().data();
            }
            targets[stage.name].push_back(add(std::move(array)));
        }
    }
    share_earlier(context);
    for (const auto &group : groups_of_steps(op.stages())) {
        if (targets.count(group.back()->name)) run_group(context, group, targets, bounded);
    }
    const Array &result = context.arrays[static_cast<size_t>(context.array_of.at(output))];
    int64_t at = -result.origin;
    for (size_t d = 0; d < index.size(); d++) at += index[d] * result.strides[d];
    return {read_element(result.type, result.data + at * result.type.bytes()), result.bound ? result.bound[at] : 0};
}

double interpret_seconds(const Op &op, const Sizes &sizes, bool bounded) {
    return seconds_of(op, sizes, nullptr, bounded);
}

double interpret_element_seconds(const Op &op, const Sizes &sizes, const std::string &output,
                                 const std::vector<int64_t> &index, bool bounded) {
    const std::map<std::string, Part> parts = parts_of(op, sizes, output, index);
    return seconds_an_element + seconds_of(op, sizes, &parts, bounded);
}

} // namespace kumiko

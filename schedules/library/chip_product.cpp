#include "schedules/library/chip_product.h"

#include "dsl/types.h"
#include "machine/machine.h"

#include <algorithm>

namespace kumiko::library {

namespace {

// Calls (exp, erf and so on) and quotients: each takes about ten operations and ten live values.
bool has_function_call(const Expr &e) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Call *c) override {
            found = found || c->call_type != Halide::Internal::Call::Image;
            IRVisitor::visit(c);
        }
        void visit(const Halide::Internal::Div *d) override {
            found = true;
            IRVisitor::visit(d);
        }
    } v;
    e.accept(&v);
    return v.found;
}

} // namespace

bool has_end(const Op &op, const Contraction &c) {
    if (c.consumer.empty()) return false;
    Expr v = op.stage(c.consumer).value;
    if (const auto *cast = v.as<Halide::Internal::Cast>()) v = cast->value;
    const auto *read = v.as<Halide::Internal::Call>();
    return !read || read->call_type != Halide::Internal::Call::Image;
}

int64_t end_registers(const Op &op, const Contraction &c) {
    constexpr int64_t of_arithmetic = 24, of_functions = 64; // a function needs more temporaries
    return !has_end(op, c) ? 0 : has_function_call(op.stage(c.consumer).value) ? of_functions : of_arithmetic;
}

std::optional<ChipProduct> find_chip_product(const Op &op) {
    const auto p = find_matrix_product(op);
    if (!p || p->contraction.sum->type != f32) return std::nullopt;
    const Stage &sum = *p->contraction.sum;
    for (const auto *axes : {&sum.axes, &sum.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (!constant_extent(a)) return std::nullopt;
        }
    }
    const Type type = op.find_input(p->a.tensor)->type;
    if ((type != f16 && type != f32) || op.find_input(p->b.tensor)->type != type) return std::nullopt;
    const auto extent = [&](const std::string &axis) { return *constant_extent(*find_axis(sum, axis)); };
    ChipProduct r{*p, extent(p->i), extent(p->j), extent(p->k)};
    r.single = type == f32;
    for (const std::string &b : r.batches) r.batch *= extent(b);
    r.end = has_end(op, r.contraction);
    r.end_words = end_registers(op, r.contraction);
    return r;
}

std::vector<int64_t> divisors(int64_t n) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d <= n; d++) {
        if (n % d == 0) all.push_back(d);
    }
    return all;
}

std::vector<int64_t> powers(int64_t low, int64_t high) {
    std::vector<int64_t> all;
    for (int64_t v = low; v <= std::max(low, high); v *= 2) all.push_back(v);
    return all;
}

ChipNumbers::ChipNumbers(const Machine &m)
    : groups(m.unit("group").count), l2bs(m.unit("L2B").count), l1bs(m.unit("L1B").count), mabs(m.unit("MAB").count),
      lm(m.level("LM").bytes / 8), grf(m.level("GRF0").bytes / 8), l1bm(m.level("L1BM").bytes / 8),
      l2bm(m.level("L2BM").bytes / 8), dram(m.level("DRAM").bandwidth / (8 * m.clock_ghz)) {}

double ChipNumbers::l2_steps(double words, int64_t parts) const {
    if (parts == l1bs) return words / l1b_words_per_step;
    return words / bcast_words_per_step * double(parts > 1 && parts % 2 == 0 ? parts / 2 : parts);
}

std::string prepack_in_order(Schedule &s, const Op &op, const std::string &tensor) {
    std::vector<std::string> axes;
    for (const Axis &a : op.find_input(tensor)->axes) axes.push_back(a.name());
    s.prepack(tensor, axes);
    return tensor + ".packed";
}

} // namespace kumiko::library

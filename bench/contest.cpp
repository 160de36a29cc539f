#include "bench/contest.h"

#include "dsl/types.h"
#include "ops/registry.h"
#include "support/error.h"
#include "targets/lower/nest.h"

namespace kumiko::bench {

namespace {

// Allows sums in another order; for 16 bits an element is rounded once more.
Tolerance tolerance_of(const Op &op, const std::string &output) {
    int bits = 64;
    for (const Input &in : op.inputs()) {
        if (in.type.is_float()) bits = std::min(bits, in.type.bits());
    }
    for (const Stage &s : op.stages()) {
        if (s.name == output && s.type.is_float()) bits = std::min(bits, s.type.bits());
        if (s.name == output && !s.type.is_float()) return {0, 0};
    }
    if (bits == 64) return {1e-11, 1e-11};
    return bits == 16 ? Tolerance{2e-2, 2e-2} : Tolerance{2e-3, 2e-3};
}

void double_bytes(const Buffer<> &b) {
    int8_t *bytes = reinterpret_cast<int8_t *>(b.data());
    for (size_t i = 0; i < b.number_of_elements(); i++) bytes[i] = static_cast<int8_t>(2 * bytes[i]);
}

// The bound of an input's floats. Weights of recurrent layers have the size of initial weights:
// with larger ones, states depend on roundings of earlier steps.
double largest(const BenchCase &c, const Input &in) {
    const bool recurrent = c.op == "rnn" || c.op == "gru" || c.op == "lstm";
    return recurrent && (in.name == "W" || in.name == "R") ? 1 / std::sqrt(c.parameters.at("u").get<double>()) : 1;
}

// The maximum of an input that contains indices of rows or classes; negative if it has other
// values.
int64_t highest_index(const BenchCase &c, const Input &in) {
    if (c.op != "gather" && c.op != "embedding" && c.op != "embedding_gradient" && c.op != "one_hot") return -1;
    return in.name == "index" || in.name == "token" ? c.parameters.at("n").get<int64_t>() - 1 : -1;
}

// The position in `from` of each axis of `to`.
std::vector<size_t> order_of(const std::vector<Axis> &from, const std::vector<Axis> &to) {
    std::vector<size_t> order;
    for (const Axis &a : to) {
        const auto at = std::find_if(from.begin(), from.end(), [&](const Axis &b) { return b.name() == a.name(); });
        if (at == from.end() || from.size() != to.size())
            throw InternalError("arrays of one case have different axes: " + a.name());
        order.push_back(static_cast<size_t>(at - from.begin()));
    }
    return order;
}

// The buffer itself, or a dense copy with its axes in that order.
Buffer<> in_order(const Buffer<> &buffer, const std::vector<size_t> &order) {
    if (std::is_sorted(order.begin(), order.end())) return buffer;
    std::vector<int64_t> extents;
    for (const size_t d : order) extents.push_back(buffer.extent(d));
    Buffer<> turned(Type(buffer.type()), extents);
    turned.copy_from(buffer.transposed(order));
    return turned;
}

} // namespace

Contest::Contest(const BenchCase &c, const Target &target, const BenchOptions &options)
    : case_(c), target_(target), options_(options), op_(ops::make(c.op, c.parameters)) {
    if (!op_.sizes().empty())
        throw UserError(c.name + ": size " + op_.sizes()[0] + " has no value; benchmarks need numbers for all sizes");
    uint64_t seed = 1;
    for (const Input &in : op_.inputs()) {
        inputs_.push_back(make_input(in, {}));
        if (const int64_t highest = highest_index(c, in); highest >= 0)
            fill_random_integers(inputs_.back(), seed++, 0, highest);
        else if (in.type.is_float())
            fill_random(inputs_.back(), seed++, -largest(c, in), largest(c, in));
        else
            fill_random_integers(inputs_.back(), seed++, in.type.is_uint() ? 0 : -4, 4);
        // Without instructions for products of bytes, oneDNN halves signed weights so that sums of
        // two fit 16 bits.
        if (in.type == Int(8) && inputs_.size() > 1) double_bytes(inputs_.back());
    }
}

void Contest::add_ours(const std::string &name, const Schedule &schedule, bool through_halide) {
    CompileOptions options;
    options.through_halide = through_halide;
    const Kernel kernel = compile(schedule, target_, options);
    std::vector<Buffer<>> arrays;
    for (size_t i = 0; i < inputs_.size(); i++)
        arrays.push_back(in_order(inputs_[i], order_of(op_.inputs()[i].axes, schedule.op().inputs()[i].axes)));
    std::vector<const halide_buffer_t *> raw;
    for (const Buffer<> &b : arrays) raw.push_back(b.raw_buffer());
    const Sizes sizes = solve_sizes(schedule.op(), raw);
    std::vector<int64_t> numbers;
    for (const std::string &s : schedule.op().sizes()) numbers.push_back(sizes.at(s));
    bool packs = false;
    for (size_t i = 0; i < inputs_.size(); i++) {
        const std::string &from = kernel.nest().tensors[i].packed_from;
        if (!from.empty()) arrays[i] = kernel.pack(from, arrays[i], sizes), packs = true;
    }
    const size_t first = arrays.size();
    for (const std::string &o : schedule.op().outputs()) {
        arrays.push_back(make_output(schedule.op(), o, sizes));
        fill_unwritten(arrays.back());
    }
    std::vector<void *> pointers;
    for (const Buffer<> &b : arrays) pointers.push_back(b.data());
    kernel(arrays, sizes); // once with all checks; then as C programs call it
    Piece piece{name,
                packs ? "weights packed before" : "",
                [kernel, arrays, pointers, numbers] { kernel.call_raw(pointers.data(), numbers.data()); },
                [] {},
                arrays[first],
                arrays};
    const auto back = order_of(schedule.op().stage(schedule.op().outputs()[0]).axes, op_.stage(op_.outputs()[0]).axes);
    if (!std::is_sorted(back.begin(), back.end())) {
        Buffer<> results = arrays[first], turned = in_order(results, back);
        piece.output = turned;
        piece.collect = [results, turned, back]() mutable { turned.copy_from(results.transposed(back)); };
    }
    pieces.push_back(std::move(piece));
    packed_ = packed_ || packs;
}

std::string Contest::differences() const {
    const Piece *first = nullptr;
    for (const Piece &p : pieces) {
        if (!p.output.raw_buffer() || !p.output.data()) continue;
        p.collect();
        if (!first) {
            first = &p;
            continue;
        }
        try {
            check_close(p.output, first->output, tolerance_of(op_, op_.outputs()[0]));
        } catch (const UserError &e) {
            return p.name + " and " + first->name + " differ: " + e.what();
        }
    }
    return "";
}

} // namespace kumiko::bench

#include "autotune/arrays.h"

#include "autotune/exact.h"
#include "dsl/buffer_elements.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/interpret_element.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/memory.h"
#include "support/random.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <set>
#include <string>

namespace kumiko {

namespace {

constexpr int64_t min_elements = 32, max_elements = 512;

std::vector<Buffer<>> make_inputs(const Op &op, const Sizes &sizes) {
    std::vector<Buffer<>> inputs;
    for (const Input &input : op.inputs()) inputs.push_back(make_input(input, sizes));
    return inputs;
}

std::vector<Buffer<>> make_integers(const Op &op, const Sizes &sizes, uint64_t seed, int64_t low, int64_t high) {
    std::vector<Buffer<>> inputs = make_inputs(op, sizes);
    for (size_t i = 0; i < inputs.size(); i++) {
        const Type type = op.inputs()[i].type;
        fill_random_integers(inputs[i], seed + i, type.is_uint() ? 0 : low, type.is_bool() ? 1 : high);
    }
    return inputs;
}

MeasuredArrays exact_arrays(const Op &op, const Sizes &sizes, std::vector<Buffer<>> inputs) {
    MeasuredArrays a;
    a.inputs = std::move(inputs);
    a.exact = true;
    std::vector<Buffer<>> all = a.inputs;
    for (const std::string &name : op.separate_outputs()) all.push_back(make_output(op, name, sizes));
    all = with_inouts_copied(op, all);
    interpret(op, all, {.sizes = sizes});
    a.expected = output_arrays(op, all);
    return a;
}

// Integers are evaluated in their own types.
Buffer<> in_double(const Buffer<> &values) {
    if (Type(values.type()) == Float(64)) return values;
    Buffer<double> copy(values.extents());
    double *to = copy.data();
    for_each_element(values.raw_buffer(), [&](const auto &, uint8_t *p) { *to++ = read_element(values.type(), p); });
    return copy;
}

// Returns nullopt if an extern function received rounded values.
std::optional<MeasuredArrays> bounded_arrays(const Op &op, const Sizes &sizes, std::vector<Buffer<>> inputs,
                                             const std::set<std::string> &exact = {}) {
    MeasuredArrays a;
    a.inputs = std::move(inputs);
    Bounded result = interpret_with_bound(op, a.inputs, sizes, exact);
    if (!result.unsure.empty()) return std::nullopt;
    for (const Buffer<> &values : result.values) a.expected.push_back(in_double(values));
    a.bounds = result.bounds;
    return a;
}

bool data_decide_indices(const Op &op) {
    for (const Stage &stage : op.stages()) {
        for (const Expr &e : stage.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                if (std::any_of(read->args.begin(), read->args.end(), reads_data)) return true;
            }
        }
    }
    return false;
}

// The sample size per output; 0 (all elements) if sampling is impossible or unnecessary.
int64_t elements_of_sample(const Op &op, const Sizes &sizes, bool exact, double longest) {
    const double whole = interpret_seconds(op, sizes, !exact);
    if (whole <= longest || has_extern(op) || data_decide_indices(op)) return 0;
    if (std::any_of(op.inputs().begin(), op.inputs().end(), [](const Input &in) { return in.inout; })) return 0;
    double each = 0; // time for one element of each output
    for (const std::string &output : op.outputs()) {
        std::vector<int64_t> last = make_output(op, output, sizes).extents();
        for (int64_t &i : last) i--;
        each += interpret_element_seconds(op, sizes, output, last, !exact);
    }
    const auto n = static_cast<int64_t>(std::min(0.2 * longest / each, 1e6));
    const auto outputs = static_cast<int64_t>(op.outputs().size());
    const int64_t elements = std::clamp(n, (min_elements + outputs - 1) / outputs, max_elements / outputs);
    return static_cast<double>(elements) * each < 0.5 * whole ? elements : 0;
}

// Corners first, up to half of the sample. The rest is stratified: each axis is divided into as
// many parts, and the parts are combined in random order.
std::vector<std::vector<int64_t>> sampled_indices(const std::vector<int64_t> &extents, int64_t n, Random &random) {
    std::vector<std::vector<int64_t>> all;
    for (int64_t corner = 0; corner < n / 2 && corner < int64_t(1) << std::min<size_t>(extents.size(), 20); corner++) {
        all.emplace_back();
        for (size_t d = 0; d < extents.size(); d++) all.back().push_back(corner >> d & 1 ? extents[d] - 1 : 0);
    }
    const size_t corners = all.size(), rest = static_cast<size_t>(n) - corners;
    all.resize(corners + rest);
    for (const int64_t extent : extents) {
        std::vector<size_t> order(rest);
        for (size_t i = 0; i < rest; i++) order[i] = i;
        for (size_t i = rest; i-- > 1;)
            std::swap(order[i], order[static_cast<size_t>(random.between(0, static_cast<int64_t>(i)))]);
        for (size_t i = 0; i < rest; i++) {
            const double at = (static_cast<double>(order[i]) + random.real()) / static_cast<double>(rest);
            all[corners + i].push_back(std::min(extent - 1, static_cast<int64_t>(at * static_cast<double>(extent))));
        }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

MeasuredArrays sampled_arrays(const Op &op, const Sizes &sizes, std::vector<Buffer<>> inputs, bool exact, int64_t n,
                              uint64_t seed) {
    MeasuredArrays a;
    a.inputs = std::move(inputs);
    a.exact = exact;
    Random random(seed);
    for (const std::string &output : op.outputs()) {
        const std::vector<int64_t> extents = make_output(op, output, sizes).extents();
        const std::vector<std::vector<int64_t>> indices = sampled_indices(extents, n, random);
        const auto count = static_cast<int64_t>(indices.size());
        Buffer<double> expected({count}), bounds({count});
        a.places.emplace_back();
        for (int64_t i = 0; i < count; i++) {
            const std::vector<int64_t> &index = indices[static_cast<size_t>(i)];
            const ElementValue e = interpret_element(op, a.inputs, sizes, output, index, !exact);
            int64_t at = 0;
            for (size_t d = 0; d < index.size(); d++) at = at * extents[d] + index[d];
            a.places.back().push_back(at);
            expected.data()[i] = e.value;
            bounds.data()[i] = e.bound;
        }
        a.sampled += count;
        a.expected.push_back(expected);
        a.bounds.push_back(bounds);
    }
    return a;
}

double bytes_of(const std::vector<Axis> &axes, const Sizes &sizes, int each) {
    double bytes = each;
    for (const int64_t n : evaluate_extents(axes, sizes)) bytes *= static_cast<double>(n);
    return bytes;
}

// How results are checked, within the available memory.
struct Checking {
    std::optional<int> magnitude; // magnitude of integer inputs; nullopt: compare within bounds
    int64_t sample = 0;           // elements per output; 0: all
};

// The measuring process has its own copy of the inputs and of the expected outputs.
double bytes_to_tune(const Op &op, const Sizes &sizes, const Checking &c) {
    double bytes = 0;
    for (const Input &input : op.inputs()) bytes += 2 * bytes_of(input.axes, sizes, input.type.bytes());
    for (const Stage &stage : op.stages()) {
        // A value in f64 and its bound take 16 bytes.
        const int type = stage.type.bytes(), compared = c.sample > 0 ? 0 : c.magnitude ? type : 16;
        if (op.is_output(stage.name)) bytes += bytes_of(stage.axes, sizes, type + 2 * compared);
    }
    return bytes;
}

void require_bytes(const Op &op, double bytes) {
    const auto available = static_cast<double>(machine_memory());
    if (available > 0 && bytes > 0.75 * available)
        throw UserError("tuning " + op.name() + " takes some " + bytes_text(bytes) +
                        " for its arrays and their expected values, and may take " + bytes_text(0.75 * available) +
                        " of the " + bytes_text(available) + " that this machine has; tune a smaller shape");
}

Checking choose_checking(const Op &op, const Sizes &sizes, double longest) {
    // Lower bound, before larger arrays are considered.
    require_bytes(op, bytes_to_tune(op, sizes, {.sample = 1}));
    Checking c{exact_input_magnitude(op, sizes)};
    c.sample = elements_of_sample(op, sizes, c.magnitude.has_value(), longest);
    require_bytes(op, bytes_to_tune(op, sizes, c));
    return c;
}

} // namespace

void require_memory(const Op &op, const Sizes &sizes, double longest) { choose_checking(op, sizes, longest); }

std::string MeasuredArrays::fault_of(size_t output, const Buffer<> &actual) const {
    if (bounds.empty()) return difference(actual, expected[output]);
    try {
        if (places.empty()) {
            check_within(actual, expected[output], bounds[output]);
            return "";
        }
        // Copies the sampled elements into one row.
        Buffer<double> found({static_cast<int64_t>(places[output].size())});
        for (size_t i = 0; i < places[output].size(); i++) {
            int64_t rest = places[output][i], offset = 0;
            for (size_t d = actual.rank(); d-- > 0; rest /= actual.extent(d))
                offset += rest % actual.extent(d) * actual.stride(d);
            const auto *first = reinterpret_cast<const uint8_t *>(actual.begin());
            found.data()[i] = read_element(actual.type(), first + offset * Type(actual.type()).bytes());
        }
        check_within(found, expected[output], bounds[output]);
    } catch (const UserError &e) {
        return e.what();
    }
    return "";
}

namespace {

// Integers may be indices, which must be in bounds: smaller magnitudes are tried before giving up.
MeasuredArrays checked_arrays(const Op &op, const Sizes &sizes, uint64_t seed, const Checking &checking) {
    const auto [magnitude, sample] = checking;
    if (!magnitude) {
        std::vector<Buffer<>> inputs = make_integers(op, sizes, seed, -4, 4);
        for (size_t i = 0; i < inputs.size(); i++) {
            if (op.inputs()[i].type.is_float()) fill_random(inputs[i], seed + i, -1, 1);
        }
        if (sample) return sampled_arrays(op, sizes, std::move(inputs), false, sample, seed);
        if (auto arrays = bounded_arrays(op, sizes, std::move(inputs))) return *std::move(arrays);
        for (const int m : {4, 2, 1}) { // small integers are rounded by fewer operations
            if (auto arrays =
                    bounded_arrays(op, sizes, make_integers(op, sizes, seed, -m, m), exact_tensors(m, op, sizes)))
                return *std::move(arrays);
        }
        throw Unsupported("op " + op.name() +
                          " calls an extern function with rounded values, which may change what it decides, so its "
                          "results cannot be checked; tune the parts before and after it as ops of their own");
    }
    const auto with = [&, sample = sample](int low, int high) {
        std::vector<Buffer<>> inputs = make_integers(op, sizes, seed, low, high);
        return sample ? sampled_arrays(op, sizes, std::move(inputs), true, sample, seed)
                      : exact_arrays(op, sizes, std::move(inputs));
    };
    try {
        return with(-*magnitude, *magnitude);
    } catch (const UserError &) {
        try {
            return with(0, *magnitude);
        } catch (const UserError &) {
            return with(0, 1);
        }
    }
}

} // namespace

MeasuredArrays make_measured_arrays(const Op &op, const Sizes &sizes, uint64_t seed, double longest) {
    const Checking checking = choose_checking(op, sizes, longest);
    try {
        return checked_arrays(op, sizes, seed, checking);
    } catch (const std::bad_alloc &) { // used by other programs, or limited for this one
        throw UserError("there is no memory to tune " + op.name() + ", which takes some " +
                        bytes_text(bytes_to_tune(op, sizes, checking)) +
                        " for its arrays and their expected values: of the " +
                        bytes_text(static_cast<double>(machine_memory())) +
                        " that this machine has less is free for this program; free some, or tune a smaller shape");
    }
}

} // namespace kumiko

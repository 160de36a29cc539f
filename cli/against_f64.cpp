#include "cli/against_f64.h"

#include "cli/against.h"
#include "dsl/buffer_elements.h"
#include "dsl/dense.h"
#include "dsl/interpret.h"
#include "dsl/interpret_element.h"
#include "dsl/types.h"
#include "graph/infer/double_graph.h"
#include "support/error.h"
#include "support/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <set>

namespace kumiko::cli {

namespace {

using graph::Location;
using graph::Program;
using graph::Step;

constexpr double seconds_of_kernel = 1; // at most, for its evaluation
constexpr size_t most_elements = 64;    // of an output of a kernel, if not all are evaluated

const uint8_t *element(const Buffer<> &dense, size_t n) {
    return static_cast<const uint8_t *>(dense.data()) + n * size_t(dense.type().bytes());
}

std::string label_of(const Step &step) {
    return fmt::format("{} ({})", step.nodes.empty() ? "a copy" : step.nodes.back(), fmt::join(step.operators, " "));
}

// Compares the results of a program's kernels with their formulas.
class KernelChecks {
public:
    // `plain`: the same program with constants that are not packed.
    KernelChecks(const Program &program, const Program &plain) : program_(program), plain_(plain) {
        std::vector<const Step *> of_plain;
        graph::for_each_step(plain.steps, [&](const Step &s) { of_plain.push_back(&s); });
        size_t n = 0;
        graph::for_each_step(program.steps, [&](const Step &s) { plain_of_[&s] = of_plain.at(n++); });
    }

    // After a call of the step's kernel with these arguments.
    void check(const Step &step, void *const *tensors) {
        if (!checked_.insert(&step).second) return;
        const Op &op = program_.kernels[step.kernel];
        std::vector<Buffer<>> inputs;
        for (const Input &in : op.inputs()) {
            const Location &l = plain_of_.at(&step)->arguments[inputs.size()];
            const Buffer<> shape = make_input(in, {});
            if (l.kind == Location::Kind::Constant) {
                constants_.push_back(dense(plain_.constants[l.index]));
                inputs.push_back(Buffer<>::wrap(in.type, static_cast<uint8_t *>(constants_.back().data()) + l.within,
                                                shape.extents()));
            } else {
                inputs.push_back(Buffer<>::wrap(in.type, tensors[inputs.size()], shape.extents()));
            }
        }
        std::vector<Buffer<>> outputs;
        for (const std::string &o : op.outputs()) {
            const Buffer<> shape = make_output(op, o, {});
            outputs.push_back(Buffer<>::wrap(shape.type(), tensors[inputs.size() + outputs.size()], shape.extents()));
        }
        if (interpret_seconds(op, {}, true) <= seconds_of_kernel) {
            const Bounded expected = interpret_with_bound(op, inputs);
            for (size_t o = 0; o < outputs.size(); o++) {
                const Buffer<> values = dense(expected.values[o]), bounds = dense(expected.bounds[o]);
                for (size_t n = 0; n < outputs[o].number_of_elements(); n++)
                    compare(step, outputs[o], n, read_element(values.type(), element(values, n)),
                            read_element(bounds.type(), element(bounds, n)));
            }
        } else {
            for (size_t o = 0; o < outputs.size(); o++) check_some(step, op, inputs, outputs[o], op.outputs()[o]);
        }
        constants_.clear();
    }

    // Throws UserError if an element was outside of its bound.
    void finish() const {
        std::cout << fmt::format("{} elements of {} kernel calls are within the bounds of f64 on the same inputs; the "
                                 "largest error is {:.2g} of its bound, of {}\n",
                                 elements_, checked_.size(), largest_, largest_of_.empty() ? "none" : largest_of_);
        if (unbounded_)
            std::cout << fmt::format("{} more have no bound: a comparison or a rounding to an integer may flip\n",
                                     unbounded_);
        if (wrong_.empty()) return;
        std::string text = fmt::format("{} elements differ from f64 by more than their bounds:", wrong_count_);
        for (const std::string &w : wrong_) text += "\n  " + w;
        throw UserError(text);
    }

private:
    void check_some(const Step &step, const Op &op, const std::vector<Buffer<>> &inputs, const Buffer<> &output,
                    const std::string &name) {
        std::vector<int64_t> index(output.rank());
        const size_t all = output.number_of_elements();
        double spent = 0;
        for (size_t n = 0; n < std::min(all, most_elements); n++) {
            const size_t at = random_() % all;
            size_t rest = at;
            for (size_t d = output.rank(); d-- > 0; rest /= size_t(output.extent(d)))
                index[d] = int64_t(rest % size_t(output.extent(d)));
            const double seconds = interpret_element_seconds(op, {}, name, index, true);
            if (n > 0 && spent + seconds > seconds_of_kernel) break;
            spent += seconds;
            const ElementValue e = interpret_element(op, inputs, {}, name, index, true);
            compare(step, output, at, e.value, e.bound);
        }
    }

    void compare(const Step &step, const Buffer<> &output, size_t n, double expected, double bound) {
        const double actual = read_element(output.type(), element(output, n));
        const double error = std::abs(actual - expected);
        if (!std::isfinite(bound)) {
            unbounded_++;
            return;
        }
        const bool same = actual == expected || (std::isnan(actual) && std::isnan(expected));
        if (same || error <= bound) {
            elements_++;
            const double part = same || bound == 0 ? 0 : error / bound;
            if (part > largest_ || largest_of_.empty()) largest_ = part, largest_of_ = label_of(step);
            return;
        }
        constexpr size_t most_shown = 8;
        wrong_count_++;
        if (!wrong_of_.insert(&step).second || wrong_.size() >= most_shown) return;
        wrong_.push_back(fmt::format("{}: element {} is {:.9g}, and {:.9g} in f64; legal is a difference of {:.3g}",
                                     label_of(step), n, actual, expected, bound));
    }

    const Program &program_, &plain_;
    std::map<const Step *, const Step *> plain_of_;
    std::set<const Step *> checked_, wrong_of_;
    std::vector<Buffer<>> constants_; // of the kernel that is checked
    Random random_{1};
    size_t elements_ = 0, unbounded_ = 0, wrong_count_ = 0;
    double largest_ = 0;
    std::string largest_of_;
    std::vector<std::string> wrong_;
};

// The largest difference, to the largest finite element; infinite if NaN or infinities differ.
double distance(const Buffer<> &from, const Buffer<> &exact) {
    const Buffer<> a = dense(graph::in_double(from)), b = dense(exact);
    if (a.extents() != b.extents()) return INFINITY;
    double largest = 0, most = 0;
    for (size_t n = 0; n < b.number_of_elements(); n++) {
        const double x = read_element(a.type(), element(a, n)), y = read_element(b.type(), element(b, n));
        if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        most = std::isfinite(x - y) ? std::max(most, std::abs(x - y)) : INFINITY;
    }
    return most == 0 ? 0 : most / largest;
}

double one_rounding(Type type) {
    return type == f64 ? 0x1p-52 : type == f32 ? 0x1p-23 : type == f16 ? 0x1p-10 : type == bf16 ? 0x1p-7 : 0;
}

std::vector<Buffer<>> outputs_in_double(const graph::Model &model, const graph::CompileModelOptions &options,
                                        const std::vector<Buffer<>> &open) {
    const graph::FixedGraph fixed = graph::fix_sizes(
        model, {options.sizes, options.constants, graph::run_by_kernels(), options.bounds, options.bound});
    const graph::Model in_double = graph::to_model(graph::in_double(fixed));
    std::vector<Buffer<>> inputs;
    for (const Buffer<> &in : open) inputs.push_back(graph::in_double(in));
    return graph::evaluate(in_double, inputs, {.run = graph::run_by_kernels()});
}

void compare_outputs(const graph::Model &model, const std::vector<Buffer<>> &inputs,
                     const std::vector<Buffer<>> &results, const std::vector<Buffer<>> &exact) {
    std::map<std::string, Buffer<>> given;
    for (size_t n = 0; n < inputs.size(); n++) given[model.graph().inputs[n].name] = inputs[n];
    std::optional<PeerValues> peer;
    try {
        peer = run_onnxruntime(model, given);
    } catch (const UserError &e) {
        std::cout << "without ONNX Runtime's distance: " << e.what() << "\n";
    }
    std::string wrong;
    for (size_t o = 0; o < results.size(); o++) {
        const std::string &name = model.graph().outputs[o].name;
        const double ours = distance(results[o], exact[o]);
        std::string text = fmt::format("{}: {:.2g} of the largest element from f64", name, ours);
        if (peer && peer->values.count(name)) {
            const double theirs = distance(peer->values.at(name), exact[o]);
            text += fmt::format("; ONNX Runtime {}: {:.2g}", peer->version, theirs);
            if (ours > std::max(2 * theirs, one_rounding(results[o].type()))) wrong += "\n  " + text;
        }
        std::cout << text << "\n";
    }
    if (!wrong.empty())
        throw UserError("outputs differ from f64 by more than twice the distance of ONNX Runtime:" + wrong);
}

} // namespace

std::vector<Buffer<>> compare_with_f64(const graph::Model &model, const graph::CompileModelOptions &options,
                                       const std::vector<Buffer<>> &inputs) {
    const graph::CompiledModel compiled = graph::CompiledModel::compile(model, options);
    const Program plain = graph::make_model_program(graph::make_graph(model, options), options, Target::host());
    std::vector<Buffer<>> open; // without constants
    for (size_t n = 0; n < inputs.size(); n++) {
        if (!options.constants.count(model.graph().inputs[n].name)) open.push_back(inputs[n]);
    }
    KernelChecks checks(compiled.program(), plain);
    const std::vector<Buffer<>> results =
        compiled.run(open, nullptr, [&](const Step &step, void *const *tensors) { checks.check(step, tensors); });
    std::optional<std::vector<Buffer<>>> exact;
    try {
        exact = outputs_in_double(model, options, open);
    } catch (const Unsupported &e) {
        std::cout << "the whole is not compared: it has no form in f64: " << e.what() << "\n";
    }
    checks.finish();
    if (exact) compare_outputs(model, inputs, results, *exact);
    return results;
}

} // namespace kumiko::cli

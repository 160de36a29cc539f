// Checks all properties of one pair: a random formula and a list of directives.
#pragma once

#include "bench/stale_memory.h"
#include "driver/kernel.h"
#include "dsl/halide_passes.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "runtime/kumiko_runtime.h"
#include "targets/lower/lower.h"
#include "tests/property/guarded.h"
#include "tests/property/random_op.h"
#include "tests/property/random_schedule.h"

#include <cmath>
#include <sstream>

namespace kumiko::property {

struct Outcome {
    enum class Kind { Good, Late, Large, Failed };
    Kind kind = Kind::Good;
    std::string text;     // Late: the refusal; Failed: the reason
    bool halide = false;  // Halide was asked too, and compiled it
    bool resized = false; // run for other sizes too
};

struct TooLarge {};

// Whether a formula uses infinity, so that differences may be NaN.
inline bool names_infinity(const Op &op) {
    struct Find : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::FloatImm *e) override { found = found || std::isinf(e->value); }
    } find;
    for (const Stage &s : op.stages()) {
        if (s.value.defined()) s.value.accept(&find);
        for (const Component &c : s.components) c.term.accept(&find);
    }
    return find.found;
}

// The number of copies of a stage's innermost body that unrolled loops make, including the loops
// around it.
inline double copies(const ScheduleState &state, const StageState &s, int depth = 0) {
    double n = 1;
    const auto extent = [&](const std::string &l) {
        const auto k = Halide::Internal::as_const_int(s.loop(l).extent);
        return k ? static_cast<double>(std::max<int64_t>(*k, 1)) : 1.0;
    };
    for (size_t p = 0; p < s.order.size(); p++) {
        const LoopState &l = s.loop(s.order[p]);
        const bool registers = !l.reduction && (s.level == "registers" ||
                                                (s.accumulate && s.accumulate->level == "registers" &&
                                                 s.has_loop(s.accumulate->loop) && p > s.position(s.accumulate->loop)));
        if (l.kind == LoopKind::Unrolled || (registers && l.kind == LoopKind::Serial)) n *= extent(l.name);
        if (l.kind == LoopKind::Vectorized) n *= std::max(1.0, extent(l.name) / 16);
    }
    if (s.placement.kind == Placement::Kind::At && depth < 8) {
        if (const StageState *c = state.find(s.computed_at().consumer)) n *= copies(state, *c, depth + 1);
    }
    return n;
}

inline bool too_many_copies(const ScheduleState &state) {
    for (const StageState &s : state.stages) {
        if (copies(state, s) > 150) return true;
    }
    for (const Specialization &s : state.specializations) {
        if (too_many_copies(s.schedule->state())) return true;
    }
    return false;
}

// Applies random directives and returns those that were accepted. Throws InternalError if one fails
// instead of being refused.
inline std::vector<Directive> random_directives(const RandomOp &r, const Machine &machine, Random &random) {
    Schedule s(r.op, machine);
    const auto try_to = [&](const Directive &d) {
        Schedule next = s;
        try {
            next.apply(d);
        } catch (const UserError &) {
            return;
        } catch (const Unsupported &) {
            return;
        }
        if (!too_many_copies(next.state())) s = std::move(next);
    };
    int wanted = static_cast<int>(random.between(0, 9));
    if (!r.recipe.empty() && random.chance(0.8)) {
        for (const Directive &d : r.recipe) try_to(d);
        wanted = static_cast<int>(s.directives().size() + random.between(0, 4));
    }
    for (int tries = 0; tries < 4 * wanted && static_cast<int>(s.directives().size()) < wanted; tries++) {
        if (const auto d = Proposer(s.state(), s.directives(), r.sizes, random).propose()) try_to(*d);
    }
    return without_pending(s).directives();
}

// Applies those of the directives that are legal after the ones before them.
inline Schedule applied(const Op &op, const Machine &machine, const std::vector<Directive> &directives) {
    Schedule s(op, machine);
    for (const Directive &d : directives) {
        try {
            s.apply(d);
        } catch (const UserError &) {
        } catch (const Unsupported &) {
        }
    }
    return without_pending(s);
}

inline std::string body_text(const Nest &nest) {
    std::ostringstream text;
    text << nest.body;
    return text.str();
}

inline std::vector<Buffer<>> random_inputs(const RandomOp &r, uint64_t seed) {
    std::vector<Buffer<>> inputs;
    for (const Input &in : r.op.inputs()) {
        Buffer<> b = make_input(in, r.sizes);
        const bool small = in.type.is_bool();
        fill_random_integers(b, seed += 17, in.type.is_uint() ? 0 : -3, small ? 1 : 3);
        inputs.push_back(b);
    }
    return inputs;
}

// Runs a kernel between guard pages and compares bits; "" if they are equal.
inline std::string run_guarded(const RandomOp &r, const Kernel &kernel, const std::vector<Buffer<>> &inputs,
                               const Results &expected, bool at_end) {
    std::vector<std::unique_ptr<GuardedTensor>> tensors;
    std::vector<void *> pointers;
    for (size_t i = 0; i < inputs.size(); i++) {
        const TensorArgument &t = kernel.nest().tensors[i];
        const Buffer<> in = t.packed_from.empty() ? inputs[i] : kernel.pack(t.packed_from, inputs[i], r.sizes);
        tensors.push_back(std::make_unique<GuardedTensor>(in, at_end));
        tensors.back()->copy_from(in, t.inout);
        pointers.push_back(tensors.back()->data());
    }
    std::vector<GuardedTensor *> outputs;
    for (size_t o = 0; o < expected.size(); o++) {
        const std::string &updates = r.op.stage(r.op.outputs()[o]).updates;
        if (!updates.empty()) { // they are in the array of an input
            size_t i = 0;
            while (r.op.inputs()[i].name != updates) i++;
            outputs.push_back(tensors[i].get());
            continue;
        }
        tensors.push_back(std::make_unique<GuardedTensor>(expected[o], at_end));
        tensors.back()->unwritten();
        pointers.push_back(tensors.back()->data());
        outputs.push_back(tensors.back().get());
    }
    std::vector<int64_t> sizes;
    for (const std::string &s : r.op.sizes()) sizes.push_back(r.sizes.at(s));
    if (const int code = kernel.call_raw(pointers.data(), sizes.data()))
        return "the kernel returned " + std::to_string(code) + ": " + kumiko_error();
    for (size_t o = 0; o < expected.size(); o++) {
        const std::string why = difference(outputs[o]->buffer(), expected[o]);
        if (!why.empty()) return "output " + r.op.outputs()[o] + ": " + why;
    }
    return "";
}

// Whether all assumptions of a schedule hold for these sizes.
inline bool assumptions_hold(const ScheduleState &state, const Sizes &sizes) {
    std::map<std::string, Expr> values;
    for (const auto &[name, n] : sizes) values[name] = static_cast<int>(n);
    for (const Assume &a : state.assumptions) {
        if (!Halide::Internal::is_const_one(Halide::Internal::simplify(substitute(values, a.condition)))) return false;
    }
    return true;
}

// Runs the same kernel for smaller sizes: it must give the same result if the assumptions hold, and
// refuse otherwise. "" on success; nothing if the formula is undefined for these sizes.
inline std::optional<std::string> run_resized(const RandomOp &r, const Schedule &s, const Kernel &kernel,
                                              uint64_t seed) {
    Random random(seed);
    RandomOp other = r;
    for (auto &[name, n] : other.sizes) n = n > 1 ? random.between(1, n) : n;
    if (other.sizes == r.sizes) return std::nullopt;
    InterpretOptions interpretation;
    interpretation.sizes = other.sizes;
    std::vector<Buffer<>> inputs;
    Results expected;
    try {
        inputs = random_inputs(other, seed);
        expected = interpret(r.op, with_inouts_copied(r.op, inputs), interpretation);
    } catch (const UserError &) { // an index out of bounds, an extent below zero
        return std::nullopt;
    }
    const bool holds = assumptions_hold(s.state(), other.sizes);
    std::string why;
    try {
        why = run_guarded(other, kernel, inputs, expected, true);
    } catch (const UserError &e) { // from packing an input
        why = e.what();
    }
    if (!holds)
        return why.find("does not hold") != std::string::npos ? "" : "a false assumption is not refused: " + why;
    if (why.empty()) return why;
    std::string text = "for";
    for (const auto &[name, n] : other.sizes) text += " " + name + " = " + std::to_string(n);
    return text + ": " + why;
}

// Compares a schedule with its replay from JSON, and one undone directive with the shorter list;
// "" if all are equal.
inline std::string check_replay(const Op &op, const Machine &machine, const Schedule &s, const Schedule &replayed) {
    const std::string nest = s.nest();
    if (replayed.nest() != nest) return "the replayed schedule has another nest:\n" + replayed.nest();
    if (replayed.to_cpp() != s.to_cpp()) return "the replayed schedule prints as other calls";
    if (s.directives().empty()) return "";
    Schedule shorter(op, machine);
    for (size_t i = 0; i + 1 < s.directives().size(); i++) shorter.apply(s.directives()[i]);
    Schedule undone = s;
    undone.undo();
    return undone.nest() == shorter.nest() ? "" : "undo gives another nest than the directives before";
}

// Throws TooLarge if compiling the body would take long.
inline void refuse_large_body(const std::string &, const Halide::Internal::Stmt &body) {
    constexpr int most_accesses = 600;
    struct CountAccesses : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        int n = 0;
        void visit(const Halide::Internal::Store *op) override {
            n++;
            IRVisitor::visit(op);
        }
        void visit(const Halide::Internal::Load *op) override {
            n++;
            IRVisitor::visit(op);
        }
    } count;
    body.accept(&count);
    if (count.n > most_accesses) throw TooLarge();
}

// Compiles the schedule. If lowering refuses it, or the body is too large: nullopt, and `out` says
// so.
inline std::optional<Kernel> compile_or_classify(const Schedule &s, const CompileOptions &options, Outcome &out) {
    try {
        return compile(s, Target::host(), options);
    } catch (const UserError &e) {
        out.text = e.what();
        const bool fault = out.text.find("has not been computed") != std::string::npos;
        out.kind = fault ? Outcome::Kind::Failed : Outcome::Kind::Late;
    } catch (const Unsupported &e) {
        out.kind = Outcome::Kind::Late;
        out.text = e.what();
    } catch (const TooLarge &) {
        out.kind = Outcome::Kind::Large;
    }
    return std::nullopt;
}

// Runs the kernel with tensors that end, and that begin, at a guard page, and with stale memory; ""
// if the results are those of the interpreter.
inline std::string check_results(const RandomOp &r, const Kernel &kernel, const std::vector<Buffer<>> &inputs,
                                 const Results &expected) {
    for (const bool at_end : {true, false}) {
        if (std::string why = run_guarded(r, kernel, inputs, expected, at_end); !why.empty()) return why;
    }
    std::vector<Buffer<>> packed;
    for (size_t i = 0; i < inputs.size(); i++) {
        const std::string &from = kernel.nest().tensors[i].packed_from;
        packed.push_back(from.empty() ? inputs[i] : kernel.pack(from, inputs[i], r.sizes));
    }
    return stale::dependence(kernel, packed, r.sizes);
}

// Compiles the schedule with Halide's generator and runs it; "" if the results are those of the
// interpreter, or if that generator cannot compile it (`out` has the reason).
inline std::string check_through_halide(const RandomOp &r, const Schedule &s, CompileOptions options,
                                        const std::vector<Buffer<>> &inputs, const Results &expected, Outcome &out) {
    options.through_halide = true;
    std::optional<Kernel> kernel;
    try {
        kernel = compile(s, Target::host(), options);
    } catch (const Unsupported &e) {
        out.text = e.what();
        return "";
    }
    out.halide = true;
    const std::string why = run_guarded(r, *kernel, inputs, expected, true);
    return why.empty() ? "" : "through Halide: " + why;
}

// `ask_halide`: compile with Halide's generator too.
inline Outcome check_pair(const RandomOp &r, const Machine &machine, const std::vector<Directive> &directives,
                          uint64_t seed, bool ask_halide) {
    Outcome out;
    const auto failed = [&](const std::string &why) {
        out.kind = Outcome::Kind::Failed;
        out.text = why;
        return out;
    };
    try {
        const Schedule s = applied(r.op, machine, directives);
        const Schedule replayed = Schedule::from_json(r.op, machine, nlohmann::json::parse(s.to_json().dump()));
        if (const std::string why = check_replay(r.op, machine, s, replayed); !why.empty()) return failed(why);

        CompileOptions options;
        options.name = "kernel";
        options.print = refuse_large_body;
        const std::optional<Kernel> kernel = compile_or_classify(s, options, out);
        if (!kernel) return out;
        LowerOptions lowering;
        lowering.kernel_name = "kernel";
        lowering.verify = false;
        if (body_text(lower(replayed, lowering)) != body_text(kernel->nest()))
            return failed("the replayed schedule is lowered to another body");

        const std::vector<Buffer<>> inputs = random_inputs(r, seed);
        InterpretOptions interpretation;
        interpretation.sizes = r.sizes;
        const Results expected = interpret(r.op, with_inouts_copied(r.op, inputs), interpretation);
        if (const std::string why = check_results(r, *kernel, inputs, expected); !why.empty()) return failed(why);
        if (!r.sizes.empty()) {
            const auto why = run_resized(r, s, *kernel, seed + 1);
            if (why && !why->empty()) return failed(*why);
            out.resized = why.has_value();
        }
        if (ask_halide && !names_infinity(r.op)) { // Halide's generator simplifies x - x to 0
            const std::string why = check_through_halide(r, s, options, inputs, expected, out);
            if (!why.empty()) return failed(why);
        }
        return out;
    } catch (const std::exception &e) {
        return failed(std::string("exception: ") + e.what());
    } catch (const Halide::Error &e) {
        return failed(std::string("Halide::Error: ") + e.what());
    }
}

} // namespace kumiko::property

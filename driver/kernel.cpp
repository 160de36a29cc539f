#include "driver/kernel.h"

#include "machine/machine.h"

#include "driver/default_schedule.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/cpu/jit.h"
#include "targets/cpu/object.h"
#include "targets/halide/halide_module.h"
#include "targets/lower/lower.h"

#include <chrono>
#include <cstring>

namespace kumiko {

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

struct Kernel::Contents {
    // The required extent and stride of one axis of an argument: a number if the op fixes it,
    // otherwise an expression of sizes.
    struct AxisPlan {
        int64_t extent = -1, stride = -1; // −1: symbolic
    };

    Op op;
    Nest nest;
    CompileReport report;
    std::optional<JitModule> module;
    JitModule::Packed entry = nullptr;
    std::vector<std::vector<AxisPlan>> plans;
    bool symbolic = false;
    std::vector<std::string> warnings;
    CodegenOptions codegen;
    // Instead of module and entry: code from Halide's generator, the kernel first, then its packing
    // functions.
    std::vector<HalideModule> halide;

    int run(void *const *tensors, const int64_t *sizes) const {
        return halide.empty() ? entry(tensors, sizes) : halide[0].call(tensors, sizes);
    }
    int run_pack(size_t n, void *const *tensors, const int64_t *sizes) const {
        return halide.empty() ? module->packed(nest.packs[n].name)(tensors, sizes) : halide[n + 1].call(tensors, sizes);
    }

    // Whether an extent or stride of some argument depends on the size.
    bool tells(const std::string &size) const {
        const auto uses = [&](const Expr &e) { return Halide::Internal::expr_uses_var(e, size); };
        return std::any_of(nest.tensors.begin(), nest.tensors.end(), [&](const TensorArgument &t) {
            return std::any_of(t.extents.begin(), t.extents.end(), uses) ||
                   std::any_of(t.strides.begin(), t.strides.end(), uses);
        });
    }

    // Slow path: solves the sizes, and reports the error if an argument does not fit.
    std::vector<int64_t> check(const halide_buffer_t *const *buffers, size_t n, Sizes given) const {
        std::vector<const halide_buffer_t *> all(buffers, buffers + n);
        if (n != nest.tensors.size()) {
            throw UserError("kernel " + nest.name + " takes " + std::to_string(nest.tensors.size()) + " arrays, not " +
                            std::to_string(n));
        }
        for (size_t t = 0; t < n; t++) {
            if (nest.tensors[t].packed_from.empty()) continue;
            all[t] = nullptr; // a packed array's shape does not determine sizes
            for (const Expr &stride : op.inputs()[t].strides) {
                const auto *v = stride.as<Halide::Internal::Variable>();
                // A pre-packed tensor has no strides.
                if (v && !tells(v->name)) given.emplace(v->name, 0);
            }
        }
        const Sizes sizes = solve_sizes(op, all, given);
        for (size_t t = 0; t < n; t++) {
            if (!nest.tensors[t].packed_from.empty())
                check_packed(nest.tensors[t], buffers[t], sizes);
            else if (t < op.inputs().size())
                check_input(op, op.inputs()[t], buffers[t], sizes);
            else
                check_output(op, nest.tensors[t].name, buffers[t], sizes);
        }
        std::vector<int64_t> values;
        for (const std::string &s : nest.sizes) values.push_back(sizes.at(s));
        return values;
    }

    void check_packed(const TensorArgument &t, const halide_buffer_t *b, const Sizes &sizes) const {
        const int64_t elements = evaluate_size(t.extents[0], sizes);
        if (b && b->host && b->type == static_cast<halide_type_t>(t.type) && rank(b) == 1 &&
            axis_extent(b, 0) == elements && (elements < 2 || axis_stride(b, 0) == 1)) {
            return;
        }
        throw UserError("kernel " + nest.name + " takes input " + t.packed_from + " packed, " + type_name(t.type) +
                        "[" + std::to_string(elements) + "], but was given " + (b ? describe(b) : "nothing") +
                        "; pack it by Kernel::pack(\"" + t.packed_from + "\", …)");
    }

    bool fits(const halide_buffer_t *const *buffers, size_t n) const {
        if (symbolic || n != plans.size()) return false;
        for (size_t t = 0; t < n; t++) {
            const halide_buffer_t *b = buffers[t];
            const auto &plan = plans[t];
            if (!b || !b->host || b->type != static_cast<halide_type_t>(nest.tensors[t].type) ||
                b->dimensions != static_cast<int>(plan.size()))
                return false;
            for (size_t a = 0; a < plan.size(); a++) {
                if (axis_extent(b, a) != plan[a].extent || (plan[a].extent > 1 && axis_stride(b, a) != plan[a].stride))
                    return false;
            }
        }
        return true;
    }
};

void Kernel::call(const halide_buffer_t *const *buffers, size_t n, const Sizes &given) const {
    const Contents &c = *contents_;
    constexpr size_t few = 32; // arrays without an allocation
    void *on_stack[few];
    std::vector<void *> more(n > few ? n : 0);
    void **tensors = more.empty() ? on_stack : more.data();
    std::vector<int64_t> sizes;
    if (!given.empty() || !c.fits(buffers, n)) sizes = c.check(buffers, n, given);
    for (size_t t = 0; t < n; t++) tensors[t] = buffers[t]->host;
    if (const int code = c.run(tensors, sizes.data())) {
        throw UserError("kernel " + c.nest.name + ": " + kumiko_error() + " (code " + std::to_string(code) + ")");
    }
}

void Kernel::operator()(const std::vector<Buffer<>> &buffers, const Sizes &sizes) const {
    std::vector<const halide_buffer_t *> raw;
    for (const Buffer<> &b : buffers) raw.push_back(b.raw_buffer());
    call(raw.data(), raw.size(), sizes);
}

Buffer<> Kernel::pack(const std::string &input, const Buffer<> &array, const Sizes &given) const {
    const Contents &c = *contents_;
    for (size_t n = 0; n < c.nest.packs.size(); n++) {
        const Nest &pack = c.nest.packs[n];
        const TensorArgument &packed = pack.tensors[1];
        if (packed.packed_from != input) continue;
        const Input &in = *c.op.find_input(input);
        // Only the sizes of this input matter; the others get arbitrary values.
        Sizes sizes = given;
        for (size_t d = 0; d < in.axes.size() && d < rank(array.raw_buffer()); d++) {
            const auto *v = in.axes[d].extent().as<Halide::Internal::Variable>();
            if (v) sizes.emplace(v->name, axis_extent(array.raw_buffer(), d));
        }
        for (size_t d = 0; in.stated_strides && d < in.axes.size() && d < rank(array.raw_buffer()); d++) {
            const auto *v = in.strides[d].as<Halide::Internal::Variable>();
            if (v) sizes.emplace(v->name, axis_stride(array.raw_buffer(), d));
        }
        for (const std::string &s : pack.sizes) {
            if (!sizes.count(s))
                throw UserError("kernel " + c.nest.name + ": the shape of " + input + " does not determine the size " +
                                s + "; pass it by name");
        }
        check_input(c.op, in, array.raw_buffer(), sizes);
        const int64_t elements = evaluate_size(packed.extents[0], sizes);
        Buffer<> out(packed.type, std::vector<int64_t>{elements});
        memset(out.data(), 0, static_cast<size_t>(elements) * packed.type.bytes());
        void *tensors[] = {array.raw_buffer()->host, out.raw_buffer()->host};
        std::vector<int64_t> values;
        for (const std::string &s : pack.sizes) values.push_back(sizes.at(s));
        if (const int code = c.run_pack(n, tensors, values.data())) {
            throw UserError("kernel " + pack.name + ": " + kumiko_error() + " (code " + std::to_string(code) + ")");
        }
        return out;
    }
    throw UserError("the schedule of kernel " + c.nest.name + " does not prepack \"" + input + "\"");
}

int Kernel::call_raw(void *const *tensors, const int64_t *sizes) const { return contents_->run(tensors, sizes); }
const Op &Kernel::op() const { return contents_->op; }
const Nest &Kernel::nest() const { return contents_->nest; }
const CompileReport &Kernel::report() const { return contents_->report; }

namespace {
// The nests of the kernel and its packing functions, from which our own generator can produce text
// again.
std::vector<Nest> own_nests(const Kernel::Contents &c) {
    if (!c.module)
        throw Unsupported(
            "the code of kernel " + c.nest.name +
            " cannot be printed, because Halide's generator made it; compile it with Kumiko's own generator");
    return with_packs(c.nest);
}
} // namespace

std::string Kernel::llvm_ir() const { return compile_llvm_ir(own_nests(*contents_), contents_->codegen); }
std::string Kernel::assembly() const { return compile_assembly(own_nests(*contents_), contents_->codegen); }
const std::vector<std::string> &Kernel::warnings() const { return contents_->warnings; }

namespace {

std::shared_ptr<Kernel::Contents> compile_contents(const Schedule &schedule, const Target &target,
                                                   const CompileOptions &options) {
    if (schedule.machine().architecture == "chip")
        throw UserError("the schedule is for " + schedule.machine().name +
                        ", and compile makes code for processors; compile_chip makes programs for the chip");
    auto contents =
        std::make_shared<Kernel::Contents>(Kernel::Contents{schedule.op(), {}, {}, {}, nullptr, {}, false, {}});
    auto start = std::chrono::steady_clock::now();
    LowerOptions lowering;
    lowering.kernel_name = options.name;
    lowering.verify = options.verify;
    lowering.print = options.print;
    lowering.timings = &contents->report.passes;
    contents->nest = lower(schedule, lowering);
    contents->report.lowering = milliseconds_since(start);
    start = std::chrono::steady_clock::now();
    if (options.through_halide) {
        contents->halide.emplace_back(contents->nest);
        for (const Nest &pack : contents->nest.packs) contents->halide.emplace_back(pack);
    } else {
        JitOptions jit;
        jit.codegen.target = target.cpu;
        jit.codegen.contract = options.contract;
        jit.codegen.emitters = options.emitters;
        jit.symbols = options.symbols;
        jit.perf_map = options.perf_map;
        jit.keep_text = false; // generated again on request
        contents->codegen = jit.codegen;
        contents->module.emplace(with_packs(contents->nest), jit);
        contents->entry = contents->module->packed(contents->nest.name);
        contents->warnings = contents->module->warnings();
    }
    contents->report.code = milliseconds_since(start);
    for (const TensorArgument &t : contents->nest.tensors) {
        std::vector<Kernel::Contents::AxisPlan> plan;
        for (size_t d = 0; d < t.extents.size(); d++) {
            const auto extent = Halide::Internal::as_const_int(t.extents[d]),
                       stride = Halide::Internal::as_const_int(t.strides[d]);
            contents->symbolic = contents->symbolic || !extent || !stride;
            plan.push_back({extent.value_or(-1), stride.value_or(-1)});
        }
        contents->plans.push_back(std::move(plan));
    }
    contents->symbolic = contents->symbolic || !contents->nest.sizes.empty();
    contents->report.stages = summaries(schedule);
    return contents;
}

} // namespace

Kernel compile(const Schedule &schedule, const Target &target, const CompileOptions &options) {
    return Kernel(compile_contents(schedule, target, options));
}

Kernel compile(const Op &op, const Target &target, const CompileOptions &options) {
    if (target.machine.architecture == "chip") return compile(default_schedule(op, target.machine), target, options);
    std::shared_ptr<Kernel::Contents> made;
    std::vector<PassedOver> passed_over;
    const std::string name = use_first_candidate(
        default_candidates(op, target.machine),
        [&](const DefaultChoice &choice) {
            made = compile_contents(choice.schedule, target, options);
            made->report.compared = choice.compared;
        },
        passed_over);
    for (const PassedOver &other : passed_over)
        made->warnings.push_back("the default schedule is \"" + name + "\", since " + to_string(other));
    made->report.schedule = name;
    made->report.passed_over = std::move(passed_over);
    return Kernel(made);
}

} // namespace kumiko

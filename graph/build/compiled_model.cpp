#include "graph/build/compiled_model.h"

#include "driver/run_kernel.h"
#include "dsl/dense.h"
#include "dsl/narrow_types.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

struct CompiledModel::Contents {
    Program program;
    std::vector<Kernel> kernels;
};

namespace {

void check_array(const Program &program, const char *kind, const ProgramTensor &want, const Buffer<> &array) {
    if (Type(array.type()) == want.type && array.extents() == want.extents) return;
    throw UserError(fmt::format("{}: {} \"{}\" is {}[{}]; given is {}[{}]", program.name, kind, want.name,
                                type_name(want.type), fmt::join(want.extents, ","), type_name(array.type()),
                                fmt::join(array.extents(), ",")));
}

void check_count(const Program &program, const char *kind, size_t want, size_t given) {
    if (want != given)
        throw UserError(fmt::format("{} takes {} {}s, and {} are given", program.name, want, kind, given));
}

using Memory = std::unique_ptr<void, void (*)(void *)>;

// `what`: "an arena", for the message.
Memory allocate(const Program &p, const char *what, int64_t bytes) {
    Memory made(kumiko_malloc(size_t(std::max<int64_t>(bytes, 1))), kumiko_free);
    if (!made) throw UserError(fmt::format("{}: {} of {} bytes cannot be allocated", p.name, what, bytes));
    return made;
}

void check_status(const Program &p, int status) {
    if (status) throw UserError(fmt::format("{}: a kernel failed with code {}: {}", p.name, status, kumiko_error()));
}

} // namespace

RunOp run_by_kernels() {
    const auto kept = std::make_shared<std::map<std::string, Kernel>>();
    return [kept](const Op &op, const std::vector<Buffer<>> &inputs) {
        const std::string hash = op.hash();
        auto found = kept->find(hash);
        if (found == kept->end()) found = kept->emplace(hash, kumiko::compile(op)).first;
        return run_kernel(found->second, inputs);
    };
}

namespace {

// Matrices of 4 or 2 bits that only DequantizeLinears read take a part of a byte for each element.
void pack_weights(FixedGraph &graph) {
    std::map<std::string, bool> only_dequantised; // by constant
    for (const Node &n : graph.nodes) {
        for (size_t i = 0; i < n.inputs.size(); i++) {
            const bool dequantises = i == 0 && n.domain.empty() && n.op == "DequantizeLinear";
            const auto [at, fresh] = only_dequantised.emplace(n.inputs[i], dequantises);
            at->second = at->second && dequantises;
        }
    }
    for (const std::string &o : graph.outputs) only_dequantised[o] = false;
    for (auto &[name, v] : graph.values) {
        const auto read = only_dequantised.find(name);
        if (v.constant && is_narrow(v.type) && v.type.bits() < 8 && v.extents.size() == 2 &&
            read != only_dequantised.end() && read->second)
            v = packed(v);
    }
}

} // namespace

namespace {

void add_extents(const FixedGraph &graph, std::map<std::string, Extents> &all) {
    for (const auto &[name, value] : graph.values) all[name] = value.extents;
    for (const auto &inner : graph.graphs) add_extents(*inner, all);
}

} // namespace

FixedGraph make_graph(const Model &model, const CompileModelOptions &options, GraphSample *sample) {
    if (options.progress) options.progress("simplifying the graph", 0, 0);
    FixOptions fix{options.sizes, options.constants, run_by_kernels(), options.bounds, options.bound};
    if (sample) fix.folded = sample->folded;
    FixedGraph graph = fix_sizes(model, fix);
    if (sample) add_extents(graph, sample->extents);
    if (options.rules) simplify(graph, *options.rules);
    pack_weights(graph);
    return graph;
}

OpSeconds layout_seconds(const CompileModelOptions &options, const Target &target) {
    if (!options.layouts) return nullptr;
    const OpSeconds seconds = estimated_seconds(target);
    if (!options.progress) return seconds;
    const auto tried = std::make_shared<size_t>(0);
    return [progress = options.progress, seconds, tried](const Op &op) {
        progress("choosing layouts", (*tried)++, 0);
        return seconds(op);
    };
}

Program make_model_program(const FixedGraph &graph, const CompileModelOptions &options, const Target &target) {
    if (options.progress) options.progress("choosing layouts", 0, 0);
    return make_program(graph, options.groups, options.states, layout_seconds(options, target));
}

std::vector<PreparedKernel> prepare_model(Program &program, const CompileModelOptions &options, const Target &target) {
    PrepareOptions own{.pack = options.pack, .source = options.source};
    if (options.progress)
        own.progress = [&options](size_t done, size_t kernels) {
            options.progress("choosing schedules", done, kernels);
        };
    return prepare(program, target, own);
}

CompiledModel CompiledModel::compile(const Model &model, const CompileModelOptions &options) {
    return compile(make_model_program(make_graph(model, options), options, Target::host()), options);
}

CompiledModel CompiledModel::compile(Program program, const CompileModelOptions &options) {
    auto made = std::make_shared<Contents>();
    made->program = std::move(program);
    const std::vector<PreparedKernel> kernels = prepare_model(made->program, options, Target::host());
    for (const PreparedKernel &kernel : kernels) {
        if (options.progress) options.progress("compiling kernels", made->kernels.size(), kernels.size());
        made->kernels.push_back(kumiko::compile(kernel.schedule));
    }
    CompiledModel compiled;
    compiled.contents_ = std::move(made);
    return compiled;
}

const Program &CompiledModel::program() const { return contents_->program; }
const Kernel &CompiledModel::kernel(size_t n) const { return contents_->kernels.at(n); }

namespace {

// One run of a program.
class ProgramRun {
public:
    ProgramRun(const Program &program, const std::vector<Kernel> &kernels, const void *const *inputs,
               void *const *outputs, void *arena, void *state, const CompiledModel::Made *made = nullptr,
               const CompiledModel::Called *called = nullptr, const CompiledModel::StepHook *hook = nullptr)
        : program_(program), kernels_(kernels), inputs_(inputs), outputs_(outputs), arena_(arena), state_(state),
          made_(made), called_(called), hook_(hook) {}

    int run(const Step &step) {
        if (hook_) (*hook_)(step, false);
        const int status = run_alone(step);
        if (hook_) (*hook_)(step, true);
        for (size_t n = 0; !status && made_ && n < step.made.size(); n++) {
            const auto &[tensor, location] = step.made[n];
            Buffer<> stored = Buffer<>::wrap(tensor.type, address(location), tensor.extents);
            if (tensor.channels_last) {
                std::vector<size_t> axes(stored.rank());
                std::iota(axes.begin(), axes.end(), size_t(0));
                std::rotate(axes.begin() + 1, axes.end() - 1, axes.end());
                stored = dense(stored.transposed(axes));
            }
            (*made_)(tensor.name, stored);
        }
        return status;
    }

private:
    int run_alone(const Step &step) {
        switch (step.kind) {
        case Step::Kind::Call: {
            constexpr size_t few = 16; // arguments without an allocation
            void *on_stack[few];
            std::vector<void *> more(step.arguments.size() > few ? step.arguments.size() : 0);
            void **tensors = more.empty() ? on_stack : more.data();
            for (size_t a = 0; a < step.arguments.size(); a++) tensors[a] = address(step.arguments[a]);
            const int status = kernels_[step.kernel].call_raw(tensors, nullptr);
            if (!status && called_) (*called_)(step, tensors);
            return status;
        }
        case Step::Kind::Copy:
            std::memcpy(address(step.arguments[1]), address(step.arguments[0]), size_t(step.bytes));
            return KUMIKO_OK;
        case Step::Kind::Check:
            return kumiko_check_indices(address(step.arguments[0]), step.bits, step.count, step.extents.data(),
                                        int64_t(step.extents.size()), step.text.c_str());
        case Step::Kind::Branch:
            return run(step.lists[read<uint8_t>(step.arguments[0]) ? 0 : 1]);
        case Step::Kind::Select: {
            std::vector<void *> arrays;
            for (const Location &l : step.arguments) arrays.push_back(address(l));
            uint8_t *workspace = step.workspace < 0 ? nullptr : static_cast<uint8_t *>(arena_) + step.workspace;
            return function(step.text)(arrays.data(), step.parameters.data(), workspace);
        }
        default:
            return run_loop(step);
        }
    }

    using Selection = int (*)(void *const *arrays, const int64_t *parameters, void *workspace);
    static Selection function(const std::string &name) {
        static const std::map<std::string, Selection> all = {{"nonzero", kumiko_select_nonzero},
                                                             {"compress", kumiko_select_compress},
                                                             {"unique", kumiko_select_unique},
                                                             {"boxes", kumiko_select_boxes}};
        return all.at(name);
    }

    int run(const StepList &list) {
        for (const Step &step : list.steps) {
            if (const int status = run(step)) return status;
        }
        return KUMIKO_OK;
    }

    int run_loop(const Step &step) {
        const LoopControl &loop = step.loop;
        if (const int status = run(step.lists[0])) return status;
        const int64_t count = loop.count ? read<int64_t>(*loop.count) : loop.trips < 0 ? INT64_MAX : loop.trips;
        bool again = !loop.condition || read<uint8_t>(*loop.condition) != 0;
        if (counters_.size() <= size_t(loop.depth)) counters_.resize(size_t(loop.depth) + 1);
        int64_t i = 0;
        for (; i < count && again; i++) {
            if (i >= loop.most) return kumiko_fail(KUMIKO_BAD_COUNT, step.text.c_str());
            counters_[size_t(loop.depth)] = i;
            if (loop.number) std::memcpy(address(*loop.number), &i, sizeof i);
            if (const int status = run(step.lists[1])) return status;
            if (loop.again) again = read<uint8_t>(*loop.again) != 0;
        }
        if (loop.size) std::memcpy(address(*loop.size), &i, sizeof i);
        return KUMIKO_OK;
    }

    template<typename T>
    T read(const Location &l) const {
        T value;
        std::memcpy(&value, address(l), sizeof value);
        return value;
    }

    void *address(const Location &l) const {
        const int64_t at = l.start() + (l.stride ? l.stride * counters_[size_t(l.loop)] : 0);
        return static_cast<uint8_t *>(base(l)) + at;
    }

    void *base(const Location &l) const {
        switch (l.kind) {
        case Location::Kind::Input:
            return const_cast<void *>(inputs_[l.index]);
        case Location::Kind::Output:
            return outputs_[l.index];
        case Location::Kind::Constant:
            return const_cast<void *>(program_.constants[l.index].data());
        case Location::Kind::State:
            return state_;
        default:
            return arena_;
        }
    }

    const Program &program_;
    const std::vector<Kernel> &kernels_;
    const void *const *inputs_;
    void *const *outputs_;
    void *const arena_, *const state_;
    const CompiledModel::Made *const made_;     // or null
    const CompiledModel::Called *const called_; // or null
    const CompiledModel::StepHook *const hook_; // or null
    std::vector<int64_t> counters_;             // of loops, by depth
};

int run_all(ProgramRun run, const std::vector<Step> &steps) {
    for (const Step &step : steps) {
        if (const int status = run.run(step)) return status;
    }
    return KUMIKO_OK;
}

} // namespace

int CompiledModel::run_raw(const void *const *inputs, void *const *outputs, void *arena, void *state) const {
    return run_all({contents_->program, contents_->kernels, inputs, outputs, arena, state}, contents_->program.steps);
}

int CompiledModel::run_raw(const void *const *inputs, void *const *outputs, void *arena, void *state,
                           const StepHook &hook) const {
    return run_all({contents_->program, contents_->kernels, inputs, outputs, arena, state, nullptr, nullptr, &hook},
                   contents_->program.steps);
}

ModelState::ModelState(const Program &program)
    : states_(program.states), bytes_(size_t(program.state_bytes)),
      data_(allocate(program, "states", program.state_bytes)) {
    reset();
}

void ModelState::reset() { std::memset(data_.get(), 0, bytes_); }

Buffer<> ModelState::value(const std::string &name) const {
    for (const ProgramState &s : states_) {
        if (s.tensor.name != name && s.next != name) continue;
        Buffer<> made(s.tensor.type, s.tensor.extents);
        std::memcpy(made.data(), static_cast<const uint8_t *>(data_.get()) + s.offset, size_t(s.tensor.bytes()));
        return made;
    }
    throw UserError(fmt::format("the model has no state \"{}\"", name));
}

ModelState CompiledModel::new_state() const { return ModelState(contents_->program); }

std::vector<Buffer<>> CompiledModel::run(const std::vector<Buffer<>> &inputs, const Made &made,
                                         const Called &called) const {
    const Program &p = contents_->program;
    if (!p.states.empty()) throw UserError(fmt::format("{} has states; give the run those of new_state()", p.name));
    ModelState none(p);
    return run(inputs, none, made, called);
}

std::vector<Buffer<>> CompiledModel::run(const std::vector<Buffer<>> &inputs, ModelState &state, const Made &made,
                                         const Called &called) const {
    const Program &p = contents_->program;
    check_count(p, "input", p.inputs.size(), inputs.size());
    std::vector<Buffer<>> arrays, outputs;
    std::vector<const void *> from;
    std::vector<void *> to;
    for (size_t n = 0; n < inputs.size(); n++) {
        check_array(p, "input", p.inputs[n], inputs[n]);
        arrays.push_back(dense(inputs[n]));
        from.push_back(arrays[n].data());
    }
    for (const ProgramTensor &o : p.outputs) {
        outputs.emplace_back(o.type, o.extents);
        to.push_back(outputs.back().data());
    }
    const Memory arena = allocate(p, "an arena", p.arena_bytes);
    ProgramRun run(p, contents_->kernels, from.data(), to.data(), arena.get(), state.data(), made ? &made : nullptr,
                   called ? &called : nullptr);
    for (const Step &step : p.steps) check_status(p, run.run(step));
    for (const SizedOutput &s : p.sized) {
        Extents extents = outputs[s.output].extents();
        std::memcpy(&extents[s.axis], outputs[s.size].data(), sizeof extents[s.axis]);
        Buffer<> actual(outputs[s.output].type(), extents);
        // Buffer::size_in_bytes() may not be 0 without elements.
        std::memcpy(actual.data(), outputs[s.output].data(),
                    actual.number_of_elements() * size_t(actual.type().bytes()));
        outputs[s.output] = actual;
    }
    outputs.erase(outputs.begin() + int64_t(p.model_outputs), outputs.end());
    return outputs;
}

struct CompiledModel::Binding::Contents {
    CompiledModel model;
    std::vector<Buffer<>> arrays; // that stay alive
    std::vector<const void *> from;
    std::vector<void *> to;
    Memory arena;
    ModelState state;
};

CompiledModel::Binding CompiledModel::bind(const std::vector<Buffer<>> &inputs,
                                           const std::vector<Buffer<>> &outputs) const {
    const Program &p = contents_->program;
    check_count(p, "input", p.inputs.size(), inputs.size());
    check_count(p, "output", p.outputs.size(), outputs.size());
    auto made = std::make_shared<Binding::Contents>(
        Binding::Contents{*this, {}, {}, {}, allocate(p, "an arena", p.arena_bytes), new_state()});
    const auto add = [&](const char *kind, const ProgramTensor &want, const Buffer<> &array) {
        check_array(p, kind, want, array);
        if (!is_dense(array))
            throw UserError(fmt::format("{}: {} \"{}\" is {}; legal are arrays that are dense in row-major order",
                                        p.name, kind, want.name, describe(array.raw_buffer())));
        made->arrays.push_back(array);
        return const_cast<void *>(static_cast<const void *>(array.data()));
    };
    for (size_t n = 0; n < inputs.size(); n++) made->from.push_back(add("input", p.inputs[n], inputs[n]));
    for (size_t n = 0; n < outputs.size(); n++) made->to.push_back(add("output", p.outputs[n], outputs[n]));
    Binding binding;
    binding.contents_ = std::move(made);
    return binding;
}

void CompiledModel::Binding::run() const {
    Contents &c = *contents_;
    check_status(c.model.program(), c.model.run_raw(c.from.data(), c.to.data(), c.arena.get(), c.state.data()));
}

void CompiledModel::Binding::reset() const { contents_->state.reset(); }

} // namespace kumiko::graph

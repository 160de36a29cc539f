#include "graph/build/model_library.h"

#include "dsl/dense.h"
#include "support/error.h"
#include "support/json.h"
#include "support/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>

namespace kumiko::graph {

namespace {

std::vector<LibraryTensor> tensors_of(const std::vector<ProgramTensor> &from, std::set<std::string> &taken) {
    std::vector<LibraryTensor> made;
    for (const ProgramTensor &t : from) {
        const std::string name = c_identifier(t.name);
        std::string unique = name;
        for (int n = 2; !taken.insert(unique).second; n++) unique = fmt::format("{}_{}", name, n);
        made.push_back({unique, t.name, t.type, t.extents});
    }
    return made;
}

// `offsets`: of the constants in the library's data.
SequencePointer pointer_to(const Program &program, const Location &l, const std::vector<int64_t> &offsets) {
    using Base = SequencePointer::Base;
    switch (l.kind) {
    case Location::Kind::Input:
        return {Base::Tensor, l.index, l.within, l.stride, l.loop};
    case Location::Kind::Output:
        return {Base::Tensor, program.inputs.size() + l.index, l.within, l.stride, l.loop};
    case Location::Kind::Constant:
        return {Base::Data, 0, offsets[l.index] + l.within, l.stride, l.loop};
    case Location::Kind::State:
        return {Base::Tensor, program.inputs.size() + program.outputs.size(), l.within, l.stride, l.loop};
    default:
        return {Base::Arena, 0, l.start(), l.stride, l.loop};
    }
}

// `kernels`: numbers of the program's kernels in the library.
std::vector<LibraryStep> steps_of(const Program &program, const std::vector<Step> &from,
                                  const std::vector<int64_t> &offsets, const std::vector<size_t> &kernels) {
    const auto pointer = [&](const std::optional<Location> &l) {
        return l ? std::optional(pointer_to(program, *l, offsets)) : std::nullopt;
    };
    std::vector<LibraryStep> steps;
    for (const Step &step : from) {
        LibraryStep s;
        s.nodes = step.nodes, s.operators = step.operators, s.workspace = step.workspace;
        if (step.kind == Step::Kind::Call) s.kernel = kernels.at(step.kernel);
        if (step.kind == Step::Kind::Select) s.selection = SequenceSelection{step.text, step.parameters};
        if (step.kind == Step::Kind::Copy) s.bytes = step.bytes;
        if (step.kind == Step::Kind::Check) s.check = SequenceCheck{step.bits, step.count, step.extents, step.text};
        for (const Location &l : step.arguments) s.arguments.push_back(pointer_to(program, l, offsets));
        for (const auto &[tensor, l] : step.made)
            s.made.push_back({tensor.name + (tensor.channels_last ? "/channels_last" : ""), type_name(tensor.type),
                              tensor.extents, pointer_to(program, l, offsets)});
        for (const StepList &list : step.lists) s.lists.push_back(steps_of(program, list.steps, offsets, kernels));
        if (step.kind == Step::Kind::Loop) {
            const LoopControl &l = step.loop;
            s.loop = SequenceLoop{l.depth,          l.trips,          l.most,
                                  step.text,        pointer(l.count), pointer(l.condition),
                                  pointer(l.again), pointer(l.size),  pointer(l.number)};
        }
        steps.push_back(std::move(s));
    }
    return steps;
}

} // namespace

std::string c_identifier(const std::string &name) {
    // Keywords of C and C++, and macros of compilers and standard headers.
    static const std::string keywords =
        " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t"
        " class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield"
        " decltype default delete do double dynamic_cast else enum errno explicit export extern false float for"
        " friend goto if inline int linux long mutable namespace new noexcept not not_eq NULL nullptr operator or"
        " or_eq private protected public register reinterpret_cast requires restrict return short signed sizeof"
        " static static_assert static_cast struct switch template this thread_local throw true try typedef typeid"
        " typename typeof typeof_unqual union unix unsigned using virtual void volatile wchar_t while xor xor_eq ";
    std::string made;
    for (const char c : name) made += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    // Names that begin with an underscore may be the compiler's.
    if (made.empty() || std::isdigit(static_cast<unsigned char>(made[0])) || made[0] == '_') made = "t" + made;
    return keywords.find(" " + made + " ") == std::string::npos ? made : made + "_";
}

LibraryDescription describe_library(const Model &model, const ModelLibraryOptions &options) {
    LibraryDescription library;
    library.name = options.name, library.targets = options.targets;
    add_model(library, model, options);
    return library;
}

namespace {

// Appends constants to the data of a model, and returns their offsets. Equal bytes are stored once.
class Constants {
public:
    std::vector<int64_t> add(std::string &data, const std::vector<Buffer<>> &constants) {
        std::vector<int64_t> offsets;
        for (const Buffer<> &constant : constants) {
            const Buffer<> elements = dense(constant);
            const std::string_view bytes(static_cast<const char *>(elements.data()),
                                         elements.number_of_elements() * size_t(elements.type().bytes()));
            offsets.push_back(find(data, bytes));
        }
        return offsets;
    }

private:
    int64_t find(std::string &data, std::string_view bytes) {
        auto &same = known_[std::hash<std::string_view>()(bytes)];
        for (const auto &[offset, size] : same) {
            if (std::string_view(data).substr(size_t(offset), size) == bytes) return offset;
        }
        while (data.size() % tensor_alignment) data += '\0';
        same.emplace_back(int64_t(data.size()), bytes.size());
        data.append(bytes);
        return same.back().first;
    }

    std::map<size_t, std::vector<std::pair<int64_t, size_t>>> known_; // by hash: offset, bytes
};

// A program of the model for one target, with the numbers of its kernels in the library and the
// offsets of its constants in the model's data.
struct TargetProgram {
    std::string target; // as LibraryProgram::target
    Program program;    // without constants
    std::vector<size_t> kernels;
    std::vector<int64_t> offsets;
};

// Adds the kernels of a program to the library, and returns their numbers. `only`: the target that
// they are for; "": the library's.
std::vector<size_t> add_kernels(LibraryDescription &library, const Program &program,
                                const std::vector<PreparedKernel> &prepared, const std::string &only) {
    std::map<std::string, size_t> known; // kernels by formula, schedule and target
    const auto key = [](const LibraryKernel &k) {
        return fmt::format("{} {} {}", k.op.hash(), k.schedule->schedule->dump(), fmt::join(k.targets, ","));
    };
    for (size_t n = 0; n < library.kernels.size(); n++) {
        if (library.kernels[n].internal) known.emplace(key(library.kernels[n]), n);
    }
    std::vector<size_t> numbers;
    for (size_t n = 0; n < program.kernels.size(); n++) {
        LibraryKernel kernel{fmt::format("kernel{}", library.kernels.size()), program.kernels[n]};
        kernel.schedule = prepared[n].from;
        kernel.internal = true;
        if (!only.empty()) kernel.targets = {only};
        const auto [at, fresh] = known.emplace(key(kernel), library.kernels.size());
        numbers.push_back(at->second);
        if (fresh) library.kernels.push_back(std::move(kernel));
    }
    return numbers;
}

// Places the programs in the arena, whose size is the largest. `workspaces`: of the library's
// kernels; empty: none.
void take_plans(LibraryModel &m, const std::vector<TargetProgram> &programs, const std::vector<int64_t> &workspaces) {
    m.programs.clear();
    m.arena_bytes = m.arena_bound = 0;
    for (const TargetProgram &p : programs) {
        Program placed = p.program;
        std::vector<int64_t> own;
        for (const size_t n : p.kernels) own.push_back(workspaces.empty() ? 0 : workspaces.at(n));
        place(placed, own);
        m.programs.push_back({p.target, steps_of(placed, placed.steps, p.offsets, p.kernels)});
        if (placed.arena_bytes >= m.arena_bytes) m.arena_bytes = placed.arena_bytes, m.arena_bound = placed.arena_bound;
    }
}

// Outputs of a model, computed node by node, so that neither groups nor their schedules are
// trusted. Inputs that are constants take their places among the model's.
std::vector<Buffer<>> reference_outputs(const Model &model, const CompileModelOptions &options,
                                        const std::vector<LibraryState> &states, const std::vector<SizedOutput> &sized,
                                        const std::vector<Buffer<>> &inputs) {
    std::vector<Buffer<>> all, outputs;
    size_t next = 0;
    for (const ValueInfo &in : model.graph().inputs) {
        const auto constant = options.constants.find(in.name);
        const auto state =
            std::find_if(states.begin(), states.end(), [&](const LibraryState &s) { return s.origin == in.name; });
        if (state != states.end()) { // of the first run
            all.emplace_back(state->type, state->extents);
            std::memset(all.back().data(), 0, all.back().size_in_bytes());
            continue;
        }
        all.push_back(constant == options.constants.end() ? inputs.at(next++) : constant->second);
    }
    EvaluateOptions evaluation;
    evaluation.run = run_by_kernels();
    const std::vector<Buffer<>> results = evaluate(model, all, evaluation);
    for (size_t o = 0; o < results.size(); o++) {
        const std::string &name = model.graph().outputs[o].name;
        if (std::none_of(states.begin(), states.end(), [&](const LibraryState &s) { return s.next == name; }))
            outputs.push_back(results[o]);
    }
    std::map<size_t, int64_t> sizes; // by the position of the output
    for (const SizedOutput &s : sized) sizes[s.size] = outputs[s.output].extent(s.axis);
    for (const auto &[size, extent] : sizes) outputs.push_back(int64_tensor({extent}, {}));
    return outputs;
}

// The arrays of the model, which are the same for all targets.
void describe_arrays(LibraryModel &made, const Program &program, bool weights_file) {
    std::set<std::string> taken;
    if (weights_file) taken.insert("weights"); // a field beside the arrays
    if (!program.states.empty()) taken.insert("state");
    made.inputs = tensors_of(program.inputs, taken), made.outputs = tensors_of(program.outputs, taken);
    for (const SizedOutput &s : program.sized) {
        made.outputs[s.output].sized_axis = int(s.axis);
        made.outputs[s.output].size = made.outputs[s.size].name;
    }
    made.state_bytes = program.state_bytes;
    for (const ProgramState &s : program.states)
        made.states.push_back({s.tensor.name, s.next, s.tensor.type, s.tensor.extents, s.offset});
}

} // namespace

void add_model(LibraryDescription &library, const Model &model, const ModelLibraryOptions &options) {
    if (!is_identifier(options.name))
        throw UserError(fmt::format("\"{}\" cannot be the name of a C function; legal are a letter, then letters, "
                                    "digits and underscores",
                                    options.name));
    for (const LibraryModel &other : library.models) {
        if (other.name == options.name)
            throw UserError(fmt::format("library {}: two models are named {}", library.name, options.name));
    }
    LibraryModel made;
    made.name = options.name, made.origin = model.name();
    made.threads = options.threads, made.weights_file = options.weights_file;
    const FixedGraph graph = make_graph(model, options.model);
    Constants constants;
    std::vector<TargetProgram> programs;
    for (const std::string &name : options.targets) {
        const Target target = Target::named(name);
        Program program = make_model_program(graph, options.model, target);
        const std::vector<PreparedKernel> prepared = prepare_model(program, options.model, target);
        const bool several = options.targets.size() > 1;
        TargetProgram p{several ? target.cpu.name : "", {}, {}, {}};
        p.kernels = add_kernels(library, program, prepared, several ? name : "");
        p.offsets = constants.add(made.data, program.constants);
        program.constants.clear();
        p.program = std::move(program);
        programs.push_back(std::move(p));
    }
    if (programs.empty()) throw UserError("a library needs a target; `host` is this machine");
    describe_arrays(made, programs[0].program, options.weights_file);
    made.reference = [model, options = options.model, states = made.states,
                      sized = programs[0].program.sized](const std::vector<Buffer<>> &inputs) {
        return reference_outputs(model, options, states, sized, inputs);
    };
    take_plans(made, programs, {});
    made.place = [programs](LibraryModel &m, const std::vector<int64_t> &workspaces) {
        take_plans(m, programs, workspaces);
    };
    library.models.push_back(std::move(made));
}

std::vector<ModelTask> tuning_tasks(const Model &model, const CompileModelOptions &options, const Target &target) {
    Program program = make_model_program(make_graph(model, options), options, target);
    const std::vector<PreparedKernel> prepared = prepare_model(program, options, target);
    std::vector<ModelTask> tasks;
    for (size_t n = 0; n < prepared.size(); n++) tasks.push_back({"", program.kernels[n], prepared[n].packed, 0});
    for_each_step(program.steps, [&](const Step &step) {
        if (step.kind != Step::Kind::Call) return;
        ModelTask &task = tasks[step.kernel];
        if (task.calls++ == 0) task.name = fmt::format("{}", fmt::join(step.operators, " "));
    });
    return tasks;
}

} // namespace kumiko::graph

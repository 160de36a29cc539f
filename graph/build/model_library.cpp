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

// The polynomial of a number of a program.
using NumberOf = std::function<Polynomial(const int64_t &number)>;

// A program in which numbers follow from sizes. Without sizes they are themselves.
class NumberedProgram {
public:
    // `numbers`: of for_each_number; none: without sizes.
    NumberedProgram(Program &program, const std::vector<Polynomial> &numbers) : program_(program) {
        if (numbers.empty()) return;
        size_t next = 0;
        for_each_number(
            program, [&](int64_t &number, const std::string &) { polynomials_.emplace(&number, numbers.at(next++)); });
    }
    Polynomial number(const int64_t &n) const {
        const auto found = polynomials_.find(&n);
        return found == polynomials_.end() ? Polynomial(n) : found->second;
    }
    std::vector<Polynomial> numbers(const std::vector<int64_t> &all) const {
        std::vector<Polynomial> made;
        for (const int64_t &n : all) made.push_back(number(n));
        return made;
    }
    bool has_sizes() const { return !polynomials_.empty(); }
    const Program &program() const { return program_; }

private:
    const Program &program_;
    std::map<const int64_t *, Polynomial> polynomials_; // by the address of the number
};

std::vector<LibraryTensor> tensors_of(const NumberedProgram &numbered, const std::vector<ProgramTensor> &from,
                                      std::set<std::string> &taken) {
    std::vector<LibraryTensor> made;
    for (const ProgramTensor &t : from) {
        const std::string name = c_identifier(t.name);
        std::string unique = name;
        for (int n = 2; !taken.insert(unique).second; n++) unique = fmt::format("{}_{}", name, n);
        made.push_back({unique, t.name, t.type, numbered.numbers(t.extents)});
    }
    return made;
}

// Makes the steps of a library's model from those of a program.
class StepsBuilder {
public:
    // `offsets`: of the constants in the library's data. `kernels`: numbers of the program's
    // kernels in the library. `blocks`: of the arena.
    StepsBuilder(const NumberedProgram &numbered, const std::vector<int64_t> &offsets,
                 const std::vector<size_t> &kernels, const ProgramArena &blocks)
        : numbered_(numbered), program_(numbered.program()), offsets_(offsets), kernels_(kernels), blocks_(blocks) {}

    std::vector<LibraryStep> steps(const std::vector<Step> &from) const {
        std::vector<LibraryStep> made;
        for (const Step &step : from) made.push_back(of(step));
        return made;
    }

    std::vector<SequenceSizes::Block> blocks() const {
        std::vector<SequenceSizes::Block> made;
        if (!numbered_.has_sizes()) return made;
        const std::vector<std::vector<size_t>> below = blocks_below(blocks_.buffers, blocks_.plan);
        for (size_t b = 0; b < blocks_.buffers.size(); b++) {
            const bool used = blocks_.buffers[b].inside < 0 && blocks_.buffers[b].bytes > 0;
            const Polynomial bytes = !used                         ? Polynomial(0)
                                     : b < program_.buffers.size() ? numbered_.number(program_.buffers[b].bytes)
                                                                   : Polynomial(blocks_.buffers[b].bytes);
            made.push_back({bytes, below[b]});
        }
        return made;
    }

private:
    SequencePointer pointer(const Location &l) const {
        using Base = SequencePointer::Base;
        SequencePointer made;
        made.offset = numbered_.number(l.within), made.stride = numbered_.number(l.stride), made.loop = l.loop;
        switch (l.kind) {
        case Location::Kind::Input:
            made.base = Base::Tensor, made.tensor = l.index;
            break;
        case Location::Kind::Output:
            made.base = Base::Tensor, made.tensor = program_.inputs.size() + l.index;
            break;
        case Location::Kind::Constant:
            made.base = Base::Data, made.offset = made.offset + offsets_[l.index];
            break;
        case Location::Kind::State:
            made.base = Base::Tensor, made.tensor = program_.inputs.size() + program_.outputs.size();
            break;
        case Location::Kind::Arena:
            if (!numbered_.has_sizes()) {
                made.offset = l.start();
                break;
            }
            made.block = int(l.index);
            while (program_.buffers[size_t(made.block)].inside >= 0) {
                const PlanBuffer &buffer = program_.buffers[size_t(made.block)];
                made.offset = made.offset + numbered_.number(buffer.inside_offset);
                made.block = buffer.inside;
            }
        }
        return made;
    }
    std::optional<SequencePointer> pointer(const std::optional<Location> &l) const {
        return l ? std::optional(pointer(*l)) : std::nullopt;
    }

    std::optional<SequencePointer> workspace(const Step &step) const {
        if (step.workspace < 0) return {};
        SequencePointer made;
        if (numbered_.has_sizes())
            made.block = int(blocks_.workspaces.at(&step));
        else
            made.offset = step.workspace;
        return made;
    }

    LibraryStep of(const Step &step) const {
        LibraryStep s;
        s.nodes = step.nodes, s.operators = step.operators, s.workspace = workspace(step);
        if (step.kind == Step::Kind::Call) s.kernel = kernels_.at(step.kernel);
        if (step.kind == Step::Kind::Select)
            s.selection = SequenceSelection{step.text, numbered_.numbers(step.parameters)};
        if (step.kind == Step::Kind::Copy) s.bytes = numbered_.number(step.bytes);
        if (step.kind == Step::Kind::Check)
            s.check =
                SequenceCheck{step.bits, numbered_.number(step.count), numbered_.numbers(step.extents), step.text};
        for (const Location &l : step.arguments) s.arguments.push_back(pointer(l));
        for (const auto &[tensor, l] : step.made)
            s.made.push_back({tensor.name + (tensor.channels_last ? "/channels_last" : ""), type_name(tensor.type),
                              numbered_.numbers(tensor.extents), pointer(l)});
        for (const StepList &list : step.lists) s.lists.push_back(steps(list.steps));
        if (step.kind == Step::Kind::Loop) {
            const LoopControl &l = step.loop;
            s.loop = SequenceLoop{l.depth,          numbered_.number(l.trips), l.most,
                                  step.text,        pointer(l.count),          pointer(l.condition),
                                  pointer(l.again), pointer(l.size),           pointer(l.number)};
        }
        return s;
    }

    const NumberedProgram &numbered_;
    const Program &program_;
    const std::vector<int64_t> &offsets_;
    const std::vector<size_t> &kernels_;
    const ProgramArena &blocks_;
};

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
    std::string target;              // as LibraryProgram::target
    Program program;                 // without constants
    std::vector<Polynomial> numbers; // of for_each_number, if the model has sizes
    std::vector<size_t> kernels;
    std::vector<int64_t> offsets;
};

// Adds the kernels of a program to the library, and returns their numbers. `only`: the target that
// they are for; "": the library's.
std::vector<size_t> add_kernels(LibraryDescription &library, const Program &program,
                                const std::vector<PreparedKernel> &prepared, const std::string &only,
                                const std::vector<LibrarySize> &sizes) {
    std::map<std::string, size_t> known; // kernels by formula, schedule and target
    const auto key = [](const LibraryKernel &k) {
        std::string text =
            fmt::format("{} {} {}", k.op.hash(), k.schedule->schedule->dump(), fmt::join(k.targets, ","));
        for (const std::string &size : k.op.sizes())
            text += fmt::format(" {}..{}", k.ranges.at(size).first, k.ranges.at(size).second);
        return text;
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
        for (const LibrarySize &s : sizes) kernel.ranges[s.symbol] = {s.least / s.step, s.most / s.step};
        const auto [at, fresh] = known.emplace(key(kernel), library.kernels.size());
        numbers.push_back(at->second);
        if (fresh) library.kernels.push_back(std::move(kernel));
    }
    return numbers;
}

// Bytes that are enough for the last program at all sizes: a block may be largest at small ones.
int64_t most_arena_bytes(const LibraryModel &m) {
    std::vector<int64_t> least, most;
    for (const LibrarySize &s : m.sizes) least.push_back(s.least / s.step), most.push_back(s.most / s.step);
    LibraryProgram bounded;
    for (const SequenceSizes::Block &b : m.programs.back().blocks) {
        const int64_t bytes = b.bytes.bound(least, most);
        if (bytes == 0 && b.bytes.terms().size() > 0)
            throw Unsupported(fmt::format("{}: a value has no elements at the largest sizes; supported are ranges in "
                                          "which all have some",
                                          m.origin));
        bounded.blocks.push_back({bytes, b.below});
    }
    return arena_bytes_of(bounded, {});
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
        const ProgramArena blocks = place(placed, own);
        const NumberedProgram numbered(placed, p.numbers);
        const StepsBuilder builder(numbered, p.offsets, p.kernels, blocks);
        m.programs.push_back({p.target, builder.steps(placed.steps), builder.blocks()});
        const int64_t bytes = m.sizes.empty() ? placed.arena_bytes : most_arena_bytes(m);
        if (bytes >= m.arena_bytes) m.arena_bytes = bytes, m.arena_bound = placed.arena_bound;
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
void describe_arrays(LibraryModel &made, const NumberedProgram &numbered, bool weights_file) {
    const Program &program = numbered.program();
    std::set<std::string> taken;
    if (!made.sizes.empty()) taken.insert("sizes");
    if (weights_file) taken.insert("weights"); // a field beside the arrays
    if (!program.states.empty()) taken.insert("state");
    made.inputs = tensors_of(numbered, program.inputs, taken);
    made.outputs = tensors_of(numbered, program.outputs, taken);
    for (const SizedOutput &s : program.sized) {
        made.outputs[s.output].sized_axis = int(s.axis);
        made.outputs[s.output].size = made.outputs[s.size].name;
    }
    made.state_bytes = program.state_bytes;
    for (const ProgramState &s : program.states)
        made.states.push_back({s.tensor.name, s.next, s.tensor.type, s.tensor.extents, s.offset});
}

std::vector<LibrarySize> sizes_of(const OpenProgram &open) {
    std::vector<LibrarySize> made;
    std::set<std::string> taken;
    for (size_t n = 0; n < open.sizes.size(); n++) {
        const OpenSize &s = open.sizes[n];
        LibrarySize size;
        size.name = s.name, size.least = s.least, size.most = s.most, size.step = s.step;
        size.symbol = open.symbols[n].name();
        size.field = c_identifier(s.name);
        while (!taken.insert(size.field).second) size.field += "_";
        // Small, but not the least one, which may be special.
        constexpr int64_t steps = 5;
        size.tested = s.least + std::min(steps, (s.most - s.least) / s.step) * s.step;
        made.push_back(size);
    }
    return made;
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
    std::optional<FixedGraph> graph;
    if (options.ranges.empty()) graph = make_graph(model, options.model);
    Constants constants;
    std::vector<TargetProgram> programs;
    for (const std::string &name : options.targets) {
        const Target target = Target::named(name);
        OpenProgram open; // without sizes: only the program
        if (graph) {
            open.program = make_model_program(*graph, options.model, target);
        } else {
            open = make_open_program(model, options.model, options.ranges, layout_seconds(options.model, target));
            if (made.sizes.empty()) made.sizes = sizes_of(open);
        }
        Program &program = open.program;
        const std::vector<Op> largest = program.kernels;
        if (!graph) program.kernels = open.kernels;
        const std::vector<PreparedKernel> prepared = prepare_model(program, options.model, target);
        const bool several = options.targets.size() > 1;
        TargetProgram p{several ? target.cpu.name : "", {}, std::move(open.numbers), {}, {}};
        p.kernels = add_kernels(library, program, prepared, several ? name : "", made.sizes);
        p.offsets = constants.add(made.data, program.constants);
        program.constants.clear();
        program.kernels = largest; // for the plan of memory
        p.program = std::move(program);
        programs.push_back(std::move(p));
    }
    if (programs.empty()) throw UserError("a library needs a target; `host` is this machine");
    describe_arrays(made, NumberedProgram(programs[0].program, programs[0].numbers), options.weights_file);
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
    CompileModelOptions untuned = options;
    untuned.source = nullptr;
    const std::vector<PreparedKernel> prepared = prepare_model(program, untuned, target);
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

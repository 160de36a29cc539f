#include "graph/build/compiled_model.h"

#include "driver/run_kernel.h"
#include "dsl/types.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"

#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

struct CompiledModel::Contents {
    Program program;
    std::vector<Kernel> kernels;
};

namespace {

void check_input(const Program &program, size_t n, const Buffer<> &array) {
    const ProgramTensor &want = program.inputs[n];
    if (Type(array.type()) == want.type && array.extents() == want.extents) return;
    throw UserError(fmt::format("{}: input \"{}\" is {}[{}]; given is {}[{}]", program.name, want.name,
                                type_name(want.type), fmt::join(want.extents, ","), type_name(array.type()),
                                fmt::join(array.extents(), ",")));
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

FixedGraph make_graph(const Model &model, const CompileModelOptions &options) {
    FixedGraph graph = fix_sizes(model, {options.sizes, options.constants, run_by_kernels()});
    if (options.rules) simplify(graph, *options.rules);
    return graph;
}

CompiledModel CompiledModel::compile(const Model &model, const CompileModelOptions &options) {
    auto made = std::make_shared<Contents>();
    made->program = make_program(make_graph(model, options), options.groups);
    const std::vector<PreparedKernel> kernels =
        prepare(made->program, Target::host(), {.pack = options.pack, .source = options.source});
    for (const PreparedKernel &kernel : kernels) made->kernels.push_back(kumiko::compile(kernel.schedule));
    CompiledModel compiled;
    compiled.contents_ = std::move(made);
    return compiled;
}

const Program &CompiledModel::program() const { return contents_->program; }
const Kernel &CompiledModel::kernel(size_t n) const { return contents_->kernels.at(n); }

int CompiledModel::run_step(size_t n, const void *const *inputs, void *const *outputs, void *arena) const {
    const Program &p = contents_->program;
    const Step &step = p.steps[n];
    const auto address = [&](const Location &l) -> void * {
        switch (l.kind) {
        case Location::Kind::Input:
            return const_cast<void *>(inputs[l.index]);
        case Location::Kind::Output:
            return outputs[l.index];
        case Location::Kind::Constant:
            return const_cast<void *>(p.constants[l.index].data());
        default:
            return static_cast<uint8_t *>(arena) + l.offset;
        }
    };
    switch (step.kind) {
    case Step::Kind::Call: {
        constexpr size_t few = 16; // arguments without an allocation
        void *on_stack[few];
        std::vector<void *> more(step.arguments.size() > few ? step.arguments.size() : 0);
        void **tensors = more.empty() ? on_stack : more.data();
        for (size_t a = 0; a < step.arguments.size(); a++) tensors[a] = address(step.arguments[a]);
        return contents_->kernels[step.kernel].call_raw(tensors, nullptr);
    }
    case Step::Kind::Copy:
        std::memcpy(address(step.arguments[1]), address(step.arguments[0]), size_t(step.bytes));
        return KUMIKO_OK;
    default:
        return kumiko_check_indices(address(step.arguments[0]), step.bits, step.count, step.extents.data(),
                                    int64_t(step.extents.size()), step.text.c_str());
    }
}

int CompiledModel::run_raw(const void *const *inputs, void *const *outputs, void *arena) const {
    for (size_t n = 0; n < contents_->program.steps.size(); n++) {
        if (const int status = run_step(n, inputs, outputs, arena)) return status;
    }
    return KUMIKO_OK;
}

std::vector<Buffer<>> CompiledModel::run(const std::vector<Buffer<>> &inputs) const {
    const Program &p = contents_->program;
    if (inputs.size() != p.inputs.size())
        throw UserError(fmt::format("{} takes {} inputs, and {} are given", p.name, p.inputs.size(), inputs.size()));
    std::vector<Buffer<>> dense, outputs;
    std::vector<const void *> from;
    std::vector<void *> to;
    for (size_t n = 0; n < inputs.size(); n++) {
        check_input(p, n, inputs[n]);
        dense.push_back(inputs[n].copy());
        from.push_back(dense[n].data());
    }
    for (const ProgramTensor &o : p.outputs) {
        outputs.emplace_back(o.type, o.extents);
        to.push_back(outputs.back().data());
    }
    const std::unique_ptr<void, void (*)(void *)> arena(kumiko_malloc(size_t(std::max<int64_t>(p.arena_bytes, 1))),
                                                        kumiko_free);
    if (!arena) throw UserError(fmt::format("{}: an arena of {} bytes cannot be allocated", p.name, p.arena_bytes));
    if (const int status = run_raw(from.data(), to.data(), arena.get()))
        throw UserError(fmt::format("{}: a kernel failed with code {}: {}", p.name, status, kumiko_error()));
    return outputs;
}

} // namespace kumiko::graph

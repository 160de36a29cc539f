#include "graph/report/model_report.h"

#include "autotune/work.h"
#include "dsl/types.h"
#include "graph/build/stages.h"
#include "graph/ir/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

namespace kumiko::graph {

namespace {

std::string tensor_text(const ProgramTensor &t) {
    return fmt::format("{}[{}]", type_name(t.type), fmt::join(t.extents, ","));
}

// The inputs of the model that a step reads, those of its lists included.
void find_inputs(const Step &step, std::set<size_t> &inputs) {
    for (const Location &l : step.arguments) {
        if (l.kind == Location::Kind::Input) inputs.insert(l.index);
    }
    for (const StepList &list : step.lists) {
        for (const Step &inner : list.steps) find_inputs(inner, inputs);
    }
}

class ReportMaker {
public:
    ReportMaker(const FixedGraph &graph, const GroupOptions &groups, const Program &program,
                std::vector<ReportKernel> kernels)
        : graph_(graph), groups_(groups), program_(program) {
        report_.kernels = std::move(kernels);
    }

    ModelReport run() {
        ModelReport &r = report_;
        r.name = std::filesystem::path(program_.name).filename().string(), r.nodes = graph_.nodes.size();
        r.arena_bytes = program_.arena_bytes, r.arena_bound = program_.arena_bound;
        r.state_bytes = program_.state_bytes;
        for (const Buffer<> &c : program_.constants) r.constant_bytes += int64_t(c.size_in_bytes());
        for (const auto *list : {&program_.inputs, &program_.outputs}) {
            for (const ProgramTensor &t : *list) tensors_.emplace(t.name, t);
        }
        for (const ProgramState &s : program_.states) tensors_.emplace(s.tensor.name, s.tensor);
        for_each_step(program_.steps, [&](const Step &step) {
            number_[&step] = r.steps.size();
            r.steps.push_back(describe(step));
            for (const auto &[tensor, location] : step.made) tensors_.emplace(tensor.name, tensor);
        });
        add_list("", program_.steps, program_.tasks, &graph_, nullptr);
        r.buffers = arena_buffers_of(program_);
        r.live.assign(program_.steps.size(), 0);
        for (const ReportBuffer &b : r.buffers) {
            for (size_t s = b.first; s <= b.last; s++) r.live[s] += b.bytes;
        }
        return std::move(report_);
    }

private:
    ReportStep describe(const Step &step) const {
        ReportStep made;
        made.nodes = step.nodes, made.operators = step.operators;
        made.title = step_title(step);
        switch (step.kind) {
        case Step::Kind::Call:
            made.kernel = step.kernel;
            if (step.group == no_group) made.remark = "stores a value with its axes in another order";
            break;
        case Step::Kind::Copy:
            made.moved_bytes = step.bytes;
            made.remark = fmt::format("copies {} bytes", step.bytes);
            break;
        case Step::Kind::Check:
            made.remark = fmt::format("checks {} indices", step.count);
            break;
        case Step::Kind::Branch:
            made.remark = "runs one of two lists of steps";
            break;
        case Step::Kind::Loop:
            made.remark = "runs a list of steps repeatedly";
            if (step.loop.trips >= 0) made.remark += fmt::format(", at most {} times", step.loop.trips);
            break;
        case Step::Kind::Select:
            made.remark = "selects elements by their values";
            break;
        }
        for (const auto &[tensor, location] : step.made)
            made.made.push_back({tensor.name, tensor_text(tensor), tensor.bytes(), tensor.channels_last,
                                 place_text(location, program_)});
        for (const Location &l : step.arguments) {
            if (l.kind == Location::Kind::Constant)
                made.constant_bytes += int64_t(program_.constants[l.index].size_in_bytes());
        }
        return made;
    }

    ReportValue value_of(int buffer) const {
        const PlanBuffer &b = program_.buffers[size_t(buffer)];
        const auto found = tensors_.find(b.name);
        if (found == tensors_.end()) return {b.name, fmt::format("{} bytes", b.bytes), b.bytes};
        return {b.name, tensor_text(found->second), b.bytes, found->second.channels_last};
    }

    // Adds the list and those of its steps. `graph`: of which it was made; null: it has no nodes.
    // `around`: the step that has the list.
    void add_list(const std::string &title, const std::vector<Step> &steps, const std::vector<PlanTask> &tasks,
                  const FixedGraph *graph, const Step *around) {
        ReportList list;
        list.title = title;
        if (around) list.around = number_.at(around);
        for (const Step &s : steps) list.steps.push_back(number_.at(&s));
        std::map<std::string, std::string> reasons;
        if (graph) {
            for (const Boundary &b : explain_groups(*graph, groups_).boundaries)
                reasons.emplace(key(b.from, b.to, b.value), b.reason);
        }
        std::map<int, std::vector<size_t>> makers;   // of buffers
        std::map<std::pair<bool, int>, size_t> ends; // {is an input of the model, number}
        const auto end = [&](bool input, int number, const ReportValue &value) {
            const auto [at, fresh] = ends.emplace(std::pair(input, number), steps.size() + list.ends.size());
            if (fresh) list.ends.push_back(value);
            return at->second;
        };
        for (size_t s = 0; s < steps.size(); s++) {
            std::set<size_t> inputs;
            find_inputs(steps[s], inputs);
            for (const size_t i : inputs) {
                const ProgramTensor &t = program_.inputs[i];
                const ReportValue value = {t.name, tensor_text(t), t.bytes(), false, "input " + t.name};
                list.lines.push_back({end(true, int(i), value), s, value, ""});
            }
            const std::set<int> reads(tasks[s].reads.begin(), tasks[s].reads.end());
            for (const int b : reads) {
                const ReportValue value = value_of(b);
                if (!makers.count(b)) {
                    list.lines.push_back({end(false, b, value), s, value, ""});
                    continue;
                }
                for (const size_t from : makers.at(b))
                    list.lines.push_back({from, s, value, reason(steps[from], steps[s], value.name, reasons)});
            }
            for (const int b : tasks[s].writes) makers[b].push_back(s);
        }
        for (const auto &[b, from] : makers) {
            const bool own =
                around ? b >= around->own_begin && b < around->own_end : !program_.buffers[size_t(b)].external;
            if (own) continue;
            // A list may read and replace a value.
            const size_t to = steps.size() + list.ends.size();
            list.ends.push_back(value_of(b));
            for (const size_t f : from) list.lines.push_back({f, to, value_of(b), ""});
        }
        report_.lists.push_back(std::move(list));
        for (const Step &step : steps) add_lists_of(step, graph);
    }

    void add_lists_of(const Step &step, const FixedGraph *graph) {
        const std::vector<const FixedGraph *> graphs = graphs_of_step(step, graph);
        for (size_t l = 0; l < step.lists.size(); l++) {
            const bool loop = step.kind == Step::Kind::Loop;
            const char *part = loop ? (l == 0 ? "before the iterations" : "an iteration") : l == 0 ? "then" : "else";
            if (step.lists[l].steps.empty()) continue;
            add_list(fmt::format("{} {}: {}", fmt::join(step.operators, " "), step.nodes.at(0), part),
                     step.lists[l].steps, step.lists[l].tasks, graphs[l], &step);
        }
    }

    // The graphs of a step's lists; null for one without.
    std::vector<const FixedGraph *> graphs_of_step(const Step &step, const FixedGraph *graph) const {
        std::vector<const FixedGraph *> all(step.lists.size(), nullptr);
        if (!graph || all.empty()) return all;
        for (const Node &node : graph->nodes) {
            const std::string name = node.name.empty() ? node.named_outputs().at(0) : node.name;
            if (!is_control(node) || is_selection(node) || name != step.nodes.at(0)) continue;
            const std::vector<int64_t> numbers = graphs_of(node);
            // The first list of a loop has copies only.
            const size_t first = all.size() - numbers.size();
            for (size_t n = 0; n < numbers.size(); n++) all[first + n] = graph->graphs.at(size_t(numbers[n])).get();
        }
        return all;
    }

    static std::string key(size_t from, size_t to, const std::string &value) {
        return fmt::format("{} {} {}", from, to, value);
    }

    static std::string reason(const Step &from, const Step &to, const std::string &value,
                              const std::map<std::string, std::string> &reasons) {
        const auto computes = [](const Step &s) { return s.kind == Step::Kind::Call && s.group != no_group; };
        if (!computes(from) || !computes(to) || reasons.empty()) return "";
        const auto found = reasons.find(key(from.group, to.group, value));
        return found != reasons.end() ? found->second : "it is read as a view or a part, as by a Reshape or Split";
    }

    const FixedGraph &graph_;
    const GroupOptions &groups_;
    const Program &program_;
    ModelReport report_;
    std::map<const Step *, size_t> number_;
    std::map<std::string, ProgramTensor> tensors_; // by name
};

} // namespace

std::string step_title(const Step &step) {
    if (step.kind == Step::Kind::Copy) return "(copy)";
    if (step.kind == Step::Kind::Check) return "(check of indices)";
    return fmt::format("{}", fmt::join(step.operators, " "));
}

ModelReport report_model(const FixedGraph &graph, const GroupOptions &groups, const Program &program,
                         std::vector<ReportKernel> kernels) {
    return ReportMaker(graph, groups, program, std::move(kernels)).run();
}

std::vector<ReportKernel> report_kernels(const CompiledModel &model, int threads, double clock_hz) {
    const Machine machine = Machine::host();
    std::vector<ReportKernel> all;
    for (size_t k = 0; k < model.program().kernels.size(); k++) {
        const Work work = count_work(model.program().kernels[k], {});
        all.push_back({model.kernel(k).report().stages, "", work.operations, work.bytes,
                       bound_seconds(work, machine, threads, clock_hz)});
    }
    return all;
}

std::vector<ReportKernel> report_kernels(const Program &program, const std::vector<PreparedKernel> &kernels,
                                         const Target &target) {
    const OpSeconds seconds = estimated_seconds(target);
    std::vector<ReportKernel> all;
    for (size_t k = 0; k < program.kernels.size(); k++) {
        const Work work = count_work(program.kernels[k], {});
        const double estimate = seconds(program.kernels[k]);
        all.push_back({summaries(kernels[k].schedule), kernels[k].from.origin, work.operations, work.bytes, 0,
                       std::isfinite(estimate) ? estimate : 0});
    }
    return all;
}

namespace {

// Calls f with each location of a step, those of its lists included.
template<typename F>
void visit_locations(const Step &step, const F &f) {
    for (const Location &l : step.arguments) f(l);
    for (const auto &[tensor, l] : step.made) f(l);
    for (const auto *l :
         {&step.loop.count, &step.loop.condition, &step.loop.again, &step.loop.size, &step.loop.number}) {
        if (*l) f(**l);
    }
    for (const StepList &list : step.lists) {
        for (const Step &inner : list.steps) visit_locations(inner, f);
    }
}

} // namespace

std::vector<ReportBuffer> arena_buffers_of(const Program &program) {
    std::vector<int64_t> offsets(program.buffers.size(), -1);
    for (const Step &step : program.steps) {
        visit_locations(step, [&](const Location &l) {
            if (l.kind == Location::Kind::Arena) offsets[l.index] = l.offset;
        });
    }
    // Blocks that are only used through their parts.
    for (size_t b = program.buffers.size(); b-- > 0;) {
        const PlanBuffer &buffer = program.buffers[b];
        if (buffer.inside >= 0 && offsets[b] >= 0) offsets[size_t(buffer.inside)] = offsets[b] - buffer.inside_offset;
    }
    std::vector<int> order;
    for (size_t n = 0; n < program.tasks.size(); n++) order.push_back(int(n));
    const std::vector<ArenaBuffer> lives = arena_buffers(program.tasks, program.buffers, order);
    std::vector<ReportBuffer> all;
    const auto add = [&](size_t b, size_t first, size_t last) {
        const PlanBuffer &buffer = program.buffers[b];
        if (buffer.inside < 0 && !buffer.external && offsets[b] >= 0 && buffer.bytes > 0)
            all.push_back({buffer.name, offsets[b], buffer.bytes, first, last});
    };
    std::set<size_t> inner; // buffers of lists
    for (size_t s = 0; s < program.steps.size(); s++) {
        const Step &step = program.steps[s];
        for (int b = step.own_begin; b < step.own_end; b++) inner.insert(size_t(b)), add(size_t(b), s, s);
        if (step.kind == Step::Kind::Select && step.workspace >= 0)
            all.push_back({"workspace", step.workspace, step.bytes, s, s});
    }
    for (size_t b = 0; b < program.buffers.size(); b++) {
        if (!inner.count(b) && lives[b].bytes > 0) add(b, size_t(lives[b].first), size_t(lives[b].last));
    }
    std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    return all;
}

} // namespace kumiko::graph

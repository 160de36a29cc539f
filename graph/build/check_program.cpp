#include "graph/build/check_program.h"

#include "dsl/halide_passes.h"
#include "support/error.h"

#include <fmt/format.h>
#include <map>
#include <set>

namespace kumiko::graph {

namespace {

// Bytes first, …, last - 1 of an array: the number of an output, or one of these.
constexpr int64_t arena = -1, states = -2;
struct Range {
    int64_t array = arena, first = 0, last = 0;
    bool overlaps(const Range &other) const { return array == other.array && first < other.last && other.first < last; }
};

class ProgramCheck {
public:
    ProgramCheck(const Program &program, const std::vector<int64_t> &workspaces)
        : program_(program), workspaces_(workspaces) {
        add_writers(program.steps, program.tasks);
        if (program.state_bytes > 0) written_[states][0] = {program.state_bytes, nullptr};
    }

    void run() { check(program_.steps, program_.tasks); }

private:
    void add_writers(const std::vector<Step> &steps, const std::vector<PlanTask> &tasks) {
        for (size_t n = 0; n < steps.size(); n++) {
            numbers_.emplace(&steps[n], numbers_.size());
            for (const int buffer : tasks[n].writes) writers_[buffer].insert(&steps[n]);
            if (const auto &number = steps[n].loop.number) writers_[int(number->index)].insert(&steps[n]);
            for (const StepList &list : steps[n].lists) add_writers(list.steps, list.tasks);
        }
    }

    void check(const std::vector<Step> &steps, const std::vector<PlanTask> &tasks) {
        for (size_t n = 0; n < steps.size(); n++) {
            step_ = &steps[n];
            if (steps[n].kind == Step::Kind::Branch)
                check_branch(steps[n], tasks[n]);
            else if (steps[n].kind == Step::Kind::Loop)
                check_loop(steps[n], tasks[n]);
            else
                check(steps[n], tasks[n]);
        }
    }

    void check_branch(const Step &step, const PlanTask &task) {
        check_read(range_of(step.arguments.at(0), 1), task.reads);
        for (const StepList &list : step.lists) check(list.steps, list.tasks);
    }

    void check_loop(const Step &step, const PlanTask &task) {
        const LoopControl &loop = step.loop;
        check(step.lists[0].steps, step.lists[0].tasks);
        step_ = &step;
        if (loop.count) check_read(range_of(*loop.count, 8), task.reads);
        if (loop.condition) check_read(range_of(*loop.condition, 1), task.reads);
        for (int iteration = 0; iteration < 2; iteration++) {
            step_ = &step;
            if (loop.number) set(range_of(*loop.number, 8));
            check(step.lists[1].steps, step.lists[1].tasks);
            step_ = &step;
            if (!loop.again) continue;
            std::vector<int> reads = task.reads;
            if (loop.again->kind == Location::Kind::Arena) reads.push_back(int(loop.again->index));
            check_read(range_of(*loop.again, 1), reads);
        }
        if (loop.size) set(range_of(*loop.size, 8));
    }

    static int64_t bytes_of(const Type &type, const std::vector<Axis> &axes) {
        int64_t bytes = type.bytes();
        for (const Axis &a : axes) bytes *= *Halide::Internal::as_const_int(a.extent());
        return bytes;
    }

    static int64_t bytes_of_output(const Op &op, const std::string &tensor) {
        for (const Stage &s : op.stages()) {
            if (!s.makes(tensor)) continue;
            for (const Component &c : s.components) {
                if (c.tensor == tensor) return bytes_of(c.type, s.axes);
            }
            return bytes_of(s.type, s.axes);
        }
        throw InternalError("an op has no stage for its output " + tensor);
    }

    // Empty for inputs and constants, which no step writes. `bytes`: -1: the rest of the array.
    Range range_of(const Location &l, int64_t bytes) const {
        const int64_t first = l.stride != 0 ? l.offset : l.start();
        const auto range = [&](int64_t array, int64_t end) {
            return Range{array, first, l.stride != 0 || bytes < 0 ? end : first + bytes};
        };
        if (l.kind == Location::Kind::Arena) return range(arena, l.offset + program_.buffers.at(l.index).bytes);
        if (l.kind == Location::Kind::Output) return range(int64_t(l.index), program_.outputs.at(l.index).bytes());
        if (l.kind != Location::Kind::State) return {};
        for (const ProgramState &s : program_.states) {
            const int64_t end = s.offset + s.tensor.bytes();
            if (l.within < s.offset || l.within >= end) continue;
            if (l.stride != 0) return {states, s.offset, end};
            return range(states, end);
        }
        return {};
    }

    void check(const Step &step, const PlanTask &task) {
        std::vector<Range> reads, writes;
        int64_t workspace = 0;
        if (step.kind == Step::Kind::Call) {
            const Op &op = program_.kernels[step.kernel];
            const size_t inputs = op.inputs().size();
            for (size_t n = 0; n < step.arguments.size(); n++) {
                const Location &l = step.arguments[n];
                if (n < inputs)
                    reads.push_back(range_of(l, bytes_of(op.inputs()[n].type, op.inputs()[n].axes)));
                else
                    writes.push_back(range_of(l, bytes_of_output(op, op.separate_outputs().at(n - inputs))));
            }
            if (!workspaces_.empty()) workspace = workspaces_.at(step.kernel);
        } else if (step.kind == Step::Kind::Select) {
            const size_t inputs = step.arguments.size() - task.writes.size();
            for (size_t n = 0; n < step.arguments.size(); n++)
                (n < inputs ? reads : writes).push_back(range_of(step.arguments[n], -1));
            workspace = step.bytes;
        } else {
            const int64_t bytes = step.kind == Step::Kind::Copy ? step.bytes : step.count * step.bits / 8;
            reads.push_back(range_of(step.arguments.at(0), bytes));
            if (step.kind == Step::Kind::Copy) writes.push_back(range_of(step.arguments.at(1), bytes));
        }
        if (step.workspace >= 0) writes.push_back({arena, step.workspace, step.workspace + workspace});
        for (const Range &read : reads) check_read(read, task.reads);
        for (size_t a = 0; a < writes.size(); a++) {
            for (const Range &read : reads) {
                if (writes[a].overlaps(read)) fail("writes what it reads");
            }
            for (size_t b = 0; b < a; b++) {
                if (writes[a].overlaps(writes[b])) fail("writes two tensors to the same memory");
            }
        }
        for (const Range &write : writes) set(write);
    }

    // `buffers`: those that the task reads.
    void check_read(const Range &read, const std::vector<int> &buffers) {
        if (read.first == read.last) return;
        std::set<const Step *> makers = {nullptr};
        for (const int buffer : buffers) {
            const auto found = writers_.find(buffer);
            if (found != writers_.end()) makers.insert(found->second.begin(), found->second.end());
        }
        int64_t at = read.first;
        const auto &written = written_[read.array];
        auto piece = written.upper_bound(at);
        if (piece != written.begin()) --piece;
        for (; at < read.last; ++piece) {
            if (piece == written.end() || piece->first > at || piece->second.last <= at)
                fail("reads memory that no step has written");
            if (!makers.count(piece->second.step))
                fail(fmt::format("reads what {} has overwritten", label(piece->second.step)));
            at = piece->second.last;
        }
    }

    // The step writes the range.
    void set(const Range &range) {
        if (range.first == range.last) return;
        auto &written = written_[range.array];
        auto piece = written.lower_bound(range.first);
        if (piece != written.begin() && std::prev(piece)->second.last > range.first) {
            const Piece before = std::prev(piece)->second;
            std::prev(piece)->second.last = range.first;
            piece = written.emplace(range.first, before).first;
        }
        while (piece != written.end() && piece->first < range.last) {
            const Piece old = piece->second;
            piece = written.erase(piece);
            if (old.last > range.last) written.emplace(range.last, old);
        }
        written[range.first] = {range.last, step_};
    }

    std::string label(const Step *step) const {
        return fmt::format("step {} ({})", numbers_.at(step), step->nodes.empty() ? "" : step->nodes.back());
    }

    [[noreturn]] void fail(const std::string &what) const {
        throw InternalError(fmt::format("{}: the memory plan is wrong: {} {}", program_.name, label(step_), what));
    }

    struct Piece {
        int64_t last = 0;
        const Step *step = nullptr; // null: a state, before the first step
    };

    const Program &program_;
    const std::vector<int64_t> &workspaces_;
    const Step *step_ = nullptr;
    std::map<const Step *, size_t> numbers_;              // those in lists included
    std::map<int, std::set<const Step *>> writers_;       // by buffer
    std::map<int64_t, std::map<int64_t, Piece>> written_; // by array and first byte
};

} // namespace

void check_program(const Program &program, const std::vector<int64_t> &workspaces) {
    ProgramCheck(program, workspaces).run();
}

} // namespace kumiko::graph

#include "graph/build/open_program.h"

#include "dsl/dense.h"
#include "graph/build/sized_op.h"
#include "graph/ir/control.h"
#include "support/error.h"
#include "support/names.h"
#include "support/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace kumiko::graph {

namespace {

void for_each_number(Step &step, const ForNumber &f) {
    const std::string owner = step.nodes.empty() ? "a step" : fmt::format("node \"{}\"", step.nodes[0]);
    const auto list = [&](std::vector<int64_t> &numbers) {
        for (int64_t &n : numbers) f(n, owner);
    };
    for_each_location(step, [&](Location &l) { f(l.within, owner), f(l.stride, owner); });
    for (auto &[tensor, location] : step.made) list(tensor.extents);
    for (int64_t *n : {&step.bytes, &step.count, &step.loop.trips, &step.loop.most}) f(*n, owner);
    list(step.parameters), list(step.extents);
}

// The program without its numbers, as text: equal if the steps are.
std::string form_of(const Program &program, bool kernels = true) {
    std::string form;
    const auto add = [&](const std::vector<PlanTask> &tasks) {
        for (const PlanTask &t : tasks)
            form += fmt::format("[{}] [{}]\n", fmt::join(t.reads, " "), fmt::join(t.writes, " "));
    };
    add(program.tasks);
    for (const PlanBuffer &b : program.buffers) form += fmt::format("{} {} {}\n", b.name, b.inside, b.external);
    for_each_step(program.steps, [&](const Step &step) {
        form += fmt::format("{} {} {} {}:", int(step.kind), fmt::join(step.nodes, " "), kernels ? step.kernel : 0,
                            step.lists.size());
        Step copy = step;
        for_each_location(copy, [&](Location &l) { form += fmt::format(" {}/{}/{}", int(l.kind), l.index, l.loop); });
        form += '\n';
        for (const StepList &list : step.lists) add(list.tasks);
    });
    return form;
}

std::string form_of(const FixedGraph &graph) {
    std::string form;
    for (const Node &n : graph.nodes)
        form += fmt::format("{} {} [{}] [{}]\n", n.domain, n.op, fmt::join(n.inputs, " "), fmt::join(n.outputs, " "));
    for (const auto &inner : graph.graphs) form += "graph\n" + form_of(*inner);
    return form;
}

// The first lines in which two texts differ.
std::string first_difference(const std::string &a, const std::string &b) {
    size_t at = size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    at = at == 0 ? 0 : a.rfind('\n', at - 1) + 1;
    const auto line = [&](const std::string &text) {
        return at >= text.size() ? std::string("nothing") : text.substr(at, text.find('\n', at) - at);
    };
    return fmt::format("\"{}\" and \"{}\"", line(a), line(b));
}

int64_t rest_of(const OpenSize &s) { return s.least % s.step; }

class Sampling {
public:
    Sampling(const Model &model, const CompileModelOptions &options, const std::vector<OpenSize> &sizes)
        : model_(model), options_(options), sizes_(sizes) {
        for (const OpenSize &s : sizes) {
            if (s.step < 1 || s.least < 0 || s.most < s.least || s.most > INT32_MAX)
                throw UserError(fmt::format("size {}: {}..{}:{} is no range; legal are 0 <= LO <= HI <= {}, and a "
                                            "STEP from 1 on",
                                            s.name, s.least, s.most, s.step, INT32_MAX));
            if (options.sizes.count(s.name))
                throw UserError(fmt::format("size {} is given as a number and as a range", s.name));
        }
        choose_points();
        for (const std::vector<int64_t> &point : points_) {
            samples_.push_back({folded_, {}});
            graphs_.push_back(make_graph(model, at(point), &samples_.back()));
        }
    }

    OpenProgram run(const OpSeconds &seconds) {
        check_graphs();
        ProgramChoices choices;
        std::vector<Program> programs = {make_program(graphs_[0], options_.groups, options_.states, seconds, choices)};
        for (size_t n = 1; n < graphs_.size(); n++) {
            programs.push_back(make_program(graphs_[n], options_.groups, options_.states, choices));
            if (form_of(programs[n]) != form_of(programs[0]))
                throw Unsupported(fmt::format("{}: its steps depend on the sizes: {}; supported are ranges in which "
                                              "they are the same",
                                              model_.name(),
                                              first_difference(form_of(programs[0]), form_of(programs[n]))));
        }
        check_states(programs);
        const PolynomialFit fit(points_);
        const OpenProgram made = generalise(programs, fit);
        check_small_sizes(made, choices, fit);
        return made;
    }

private:
    static constexpr int64_t few = 4; // smaller extents, such as 1, are special

    // Variables at the largest sizes, then at small ones, which determine polynomials and test
    // them.
    void choose_points() {
        constexpr int64_t spread = 40;
        constexpr size_t further = 3; // points that test the polynomials
        std::vector<int64_t> top, first, last;
        for (const OpenSize &s : sizes_) {
            top.push_back((s.most - rest_of(s)) / s.step);
            const auto enough = int64_t(PolynomialFit::terms(1) + further) - 1;
            int64_t from = std::max(few, (s.least - rest_of(s)) / s.step);
            // Of a narrow range smaller sizes are taken too; if those are too few, larger ones.
            if (top.back() - from < enough) from = few;
            first.push_back(from);
            last.push_back(top.back() - from < enough ? from + spread : std::min(top.back(), from + spread));
        }
        points_ = {top};
        Random random(1);
        while (points_.size() < PolynomialFit::terms(sizes_.size()) + further) {
            std::vector<int64_t> point;
            for (size_t v = 0; v < sizes_.size(); v++)
                point.push_back(first[v] + int64_t(random.below(uint64_t(last[v] - first[v] + 1))));
            if (std::find(points_.begin(), points_.end(), point) == points_.end()) points_.push_back(point);
        }
    }

    CompileModelOptions at(const std::vector<int64_t> &point) const {
        CompileModelOptions options = options_;
        for (size_t v = 0; v < sizes_.size(); v++)
            options.sizes[sizes_[v].name] = point[v] * sizes_[v].step + rest_of(sizes_[v]);
        return options;
    }

    void check_graphs() const {
        for (const FixedGraph &g : graphs_) {
            if (form_of(g) == form_of(graphs_[0])) continue;
            throw Unsupported(fmt::format("{}: its nodes depend on the sizes: {}; supported are ranges in which they "
                                          "are the same",
                                          model_.name(), first_difference(form_of(graphs_[0]), form_of(g))));
        }
    }

    void check_states(const std::vector<Program> &programs) const {
        for (const Program &p : programs) {
            for (size_t n = 0; n < p.states.size(); n++) {
                if (p.states[n].tensor.extents == programs[0].states[n].tensor.extents) continue;
                throw Unsupported(fmt::format("{}: the state \"{}\" depends on a size; supported are states of fixed "
                                              "shapes",
                                              model_.name(), p.states[n].tensor.name));
            }
        }
    }

    OpenProgram generalise(std::vector<Program> &programs, const PolynomialFit &fit) const {
        OpenProgram made;
        made.sizes = sizes_;
        std::set<std::string> taken;
        for (const OpenSize &s : sizes_) {
            std::string symbol = "size_" + identifier_of(s.name);
            while (!taken.insert(symbol).second) symbol += "_";
            made.symbols.emplace_back(symbol);
        }
        made.program = programs[0];
        std::vector<std::vector<int64_t>> numbers(programs.size());
        std::vector<std::string> owners;
        for (size_t n = 0; n < programs.size(); n++)
            graph::for_each_number(programs[n], [&](int64_t &number, const std::string &owner) {
                numbers[n].push_back(number);
                if (n == 0) owners.push_back(owner);
            });
        for (size_t i = 0; i < numbers[0].size(); i++) {
            std::vector<int64_t> values;
            for (const auto &of_program : numbers) values.push_back(of_program.at(i));
            const auto found = fit.through(values);
            if (!found)
                throw Unsupported(fmt::format("{}: an extent or offset of {} is {}, which is no polynomial of the "
                                              "sizes; a step of a size may make it one: NAME=LO..HI:STEP",
                                              model_.name(), owners[i], examples(values)));
            made.numbers.push_back(*found);
        }
        share_kernels(programs, fit, made);
        take_constants(programs, made);
        take_texts(programs, made);
        return made;
    }

    // "64 for seq=8, 128 for seq=16, …"
    std::string examples(const std::vector<int64_t> &values) const {
        constexpr size_t most = 3;
        std::vector<std::string> texts;
        for (size_t n = 1; n < values.size() && texts.size() < most; n++)
            texts.push_back(fmt::format("{} for {}", values[n], sizes_text(points_[n])));
        return fmt::format("{}", fmt::join(texts, ", "));
    }

    std::string sizes_text(const std::vector<int64_t> &point) const {
        std::vector<std::string> texts;
        for (size_t v = 0; v < sizes_.size(); v++)
            texts.push_back(fmt::format("{}={}", sizes_[v].name, point[v] * sizes_[v].step + rest_of(sizes_[v])));
        return fmt::format("{}", fmt::join(texts, " "));
    }

    // Texts of errors state the legal indices, which follow from sizes.
    void take_texts(const std::vector<Program> &programs, OpenProgram &made) const {
        std::vector<std::vector<std::string>> texts(programs.size());
        for (size_t n = 0; n < programs.size(); n++)
            for_each_step(programs[n].steps, [&](const Step &step) { texts[n].push_back(step.text); });
        size_t next = 0;
        for_each_step(made.program.steps, [&](Step &step) {
            const size_t n = next++;
            const auto same = [&](const auto &of_program) { return of_program.at(n) == step.text; };
            if (std::all_of(texts.begin(), texts.end(), same)) return;
            step.text = step.text.substr(0, step.text.find("; legal are")) +
                        "; legal are indices of the axis, whose extent follows from the sizes";
        });
    }

    // Small extents may be special, as in Slice to the third row. There all values that both graphs
    // have must have the extents of the polynomials, and all numbers, if the nodes are the same.
    void check_small_sizes(const OpenProgram &made, const ProgramChoices &choices, const PolynomialFit &fit) const {
        for (const std::vector<int64_t> &point : small_points()) {
            GraphSample sample{folded_, {}};
            const FixedGraph graph = make_graph(model_, at(point), &sample);
            check_extents(sample, point, fit);
            if (form_of(graph) != form_of(graphs_[0])) continue;
            Program program = make_program(graph, options_.groups, options_.states, choices);
            if (form_of(program, false) != form_of(made.program, false)) continue;
            size_t next = 0;
            graph::for_each_number(program, [&](int64_t &number, const std::string &owner) {
                const int64_t expected = made.numbers[next++].value(point);
                if (number != expected) refuse_small(owner, point, std::to_string(number), std::to_string(expected));
            });
        }
    }

    std::vector<std::vector<int64_t>> small_points() const {
        std::vector<int64_t> least;
        for (const OpenSize &s : sizes_) least.push_back(s.least / s.step);
        std::vector<std::vector<int64_t>> points = {least};
        for (size_t v = 0; v < sizes_.size(); v++) {
            for (int64_t x = least[v]; x < few && x <= points_[0][v]; x++) {
                points.push_back(points_[1]);
                points.back()[v] = x;
            }
        }
        return points;
    }

    void check_extents(const GraphSample &small, const std::vector<int64_t> &point, const PolynomialFit &fit) const {
        for (const auto &[name, actual] : small.extents) {
            std::vector<Extents> all;
            for (const GraphSample &s : samples_) {
                const auto found = s.extents.find(name);
                if (found != s.extents.end() && found->second.size() == actual.size()) all.push_back(found->second);
            }
            if (all.size() != samples_.size()) continue;
            for (size_t d = 0; d < actual.size(); d++) {
                std::vector<int64_t> extents;
                for (const Extents &e : all) extents.push_back(e[d]);
                const auto expected = fit.through(extents);
                if (!expected || expected->value(point) == actual[d]) continue;
                refuse_small(fmt::format("axis {} of \"{}\"", d, name), point, std::to_string(actual[d]),
                             std::to_string(expected->value(point)));
            }
        }
    }

    [[noreturn]] void refuse_small(const std::string &what, const std::vector<int64_t> &point,
                                   const std::string &actual, const std::string &expected) const {
        throw Unsupported(
            fmt::format("{}: a number of {} is {} for {}, where larger sizes would have {}; supported are "
                        "ranges that begin with a larger size",
                        model_.name(), what, actual, sizes_text(point), expected));
    }

    // Kernels that are equal for all sizes are one.
    void share_kernels(const std::vector<Program> &programs, const PolynomialFit &fit, OpenProgram &made) const {
        std::map<std::string, size_t> known;
        std::vector<Op> kernels;
        for_each_step(made.program.steps, [&](Step &step) {
            if (step.kind != Step::Kind::Call) return;
            std::vector<Op> samples;
            for (const Program &p : programs) samples.push_back(p.kernels[step.kernel]);
            try {
                const Op op = sized_op(samples, fit, made.symbols);
                const auto [at, fresh] = known.emplace(op.hash(), kernels.size());
                if (fresh) kernels.push_back(op);
                step.kernel = at->second;
            } catch (const Unsupported &e) {
                throw Unsupported(fmt::format("{}: node \"{}\" ({}): {}", model_.name(), step.nodes.at(0),
                                              fmt::join(step.operators, " "), e.what()));
            }
        });
        made.kernels = kernels;
        made.program.kernels = made.kernels_at(points_[0]);
    }

    // A constant that depends on a size, such as the first rows of an embedding, has the bytes of
    // the largest one.
    void take_constants(const std::vector<Program> &programs, const OpenProgram &made) const {
        for (size_t c = 0; c < made.program.constants.size(); c++) {
            const Buffer<> most = dense(made.program.constants[c]);
            for (const Program &p : programs) {
                const Buffer<> own = dense(p.constants.at(c));
                const size_t bytes = own.number_of_elements() * size_t(own.type().bytes());
                if (bytes <= most.number_of_elements() * size_t(most.type().bytes()) &&
                    std::memcmp(own.data(), most.data(), bytes) == 0)
                    continue;
                throw Unsupported(fmt::format("{}: {} reads a constant whose elements depend on the sizes; supported "
                                              "are constants of which smaller sizes have the first elements",
                                              model_.name(), reader_of(made.program, c)));
            }
        }
    }

    static std::string reader_of(const Program &program, size_t constant) {
        std::string reader = "a step";
        for_each_step(program.steps, [&](const Step &step) {
            for (const Location &l : step.arguments) {
                if (l.kind == Location::Kind::Constant && l.index == constant)
                    reader = fmt::format("node \"{}\" ({})", step.nodes.at(0), fmt::join(step.operators, " "));
            }
        });
        return reader;
    }

    static std::string identifier_of(const std::string &name) {
        std::string made;
        for (const char c : name) made += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
        return made;
    }

    const Model &model_;
    const CompileModelOptions &options_;
    const std::vector<OpenSize> &sizes_;
    std::vector<std::vector<int64_t>> points_;
    std::vector<FixedGraph> graphs_;
    std::vector<GraphSample> samples_; // of the graphs
    const std::shared_ptr<std::map<std::string, bool>> folded_ = std::make_shared<std::map<std::string, bool>>();
};

} // namespace

void for_each_number(Program &program, const ForNumber &f) {
    const auto extents = [&](ProgramTensor &t) {
        for (int64_t &e : t.extents) f(e, fmt::format("\"{}\"", t.name));
    };
    for (auto *tensors : {&program.inputs, &program.outputs}) std::for_each(tensors->begin(), tensors->end(), extents);
    for (PlanBuffer &b : program.buffers) f(b.bytes, fmt::format("\"{}\"", b.name)), f(b.inside_offset, b.name);
    for_each_step(program.steps, [&](Step &step) { for_each_number(step, f); });
}

std::vector<int64_t> OpenProgram::variables(const std::map<std::string, int64_t> &values) const {
    std::vector<int64_t> made;
    for (const OpenSize &s : sizes) {
        const auto given = values.find(s.name);
        if (given == values.end()) throw UserError(fmt::format("{}: size {} has no value", program.name, s.name));
        const int64_t v = given->second;
        if (v < s.least || v > s.most || (v - s.least) % s.step != 0)
            throw UserError(fmt::format("{}: size {} is {}; legal are {} to {} in steps of {}", program.name, s.name, v,
                                        s.least, s.most, s.step));
        made.push_back(v / s.step);
    }
    return made;
}

std::vector<Op> OpenProgram::kernels_at(const std::vector<int64_t> &variables) const {
    std::map<std::string, int64_t> by_symbol;
    for (size_t v = 0; v < symbols.size(); v++) by_symbol[symbols[v].name()] = variables[v];
    std::vector<Op> made;
    for (const Op &op : kernels) made.push_back(at_sizes(op, by_symbol));
    return made;
}

Program OpenProgram::at(const std::map<std::string, int64_t> &values) const {
    const std::vector<int64_t> variables = this->variables(values);
    Program made = program;
    size_t next = 0;
    for_each_number(made, [&](int64_t &number, const std::string &) { number = numbers.at(next++).value(variables); });
    made.kernels = kernels_at(variables);
    place(made);
    return made;
}

OpenProgram make_open_program(const Model &model, const CompileModelOptions &options,
                              const std::vector<OpenSize> &sizes, const OpSeconds &seconds) {
    if (sizes.empty()) throw UserError("a program for several sizes needs a range");
    return Sampling(model, options, sizes).run(seconds);
}

} // namespace kumiko::graph

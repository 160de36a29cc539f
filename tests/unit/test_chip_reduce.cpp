// Reductions along any axes on the chip, compared with the formulas.
// Links: schedules/library ops
// Sanitized: --test-case=products*,*no*results*,means*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

struct Case {
    std::vector<int> shape, axes;
};

Op reduction(const std::string &kind, Type t, const Case &c) {
    return ops::reduction(kind, t, std::vector<Expr>(c.shape.begin(), c.shape.end()), c.axes);
}

// Returns the schedule's name. Values are integers, so that any order of sums gives the same bits.
std::string check(const Op &op, const sim::Config &config, int most = 4) {
    CAPTURE(op.to_string());
    CAPTURE(config.name);
    const Machine machine = chip_machine(config);
    const auto *found = library::find_template(op, machine);
    const auto space = found->make_space(op, machine);
    const ChipProgram p = compile_chip(space->schedule(space->default_point()), config);
    std::vector<Buffer<>> arrays;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), seed++, -most, most);
    }
    const Buffer<> expected = interpret(op, arrays).front();
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    const sim::Run run = p.run(arrays);
    CHECK(difference(arrays.back(), expected) == "");
    MESSAGE(op.name() << " on " << config.name << " by " << found->name << ": " << run.cycles()
                      << " cycles, of the bound " << run.efficiency());
    return found->name;
}

const std::vector<sim::Config> &configs() {
    static const std::vector<sim::Config> all = {sim::Config::load("small"), sim::Config::load("medium"),
                                                 sim::Config::load("full")};
    return all;
}

const std::vector<Case> cases = {{{20, 30}, {}},
                                 {{20, 30}, {0}},
                                 {{4, 20, 30}, {0, 2}},
                                 {{4, 20, 30}, {1, 2}},
                                 {{4, 20, 30}, {0, 1}},
                                 {{7}, {}},
                                 {{1}, {}},
                                 {{1, 1}, {0}},
                                 {{300, 3}, {0}},
                                 {{3, 300}, {0}},
                                 {{1, 70}, {0}},
                                 {{70, 1}, {0}},
                                 {{5, 1, 9}, {0, 2}},
                                 {{2, 3, 4, 5}, {1, 3}},
                                 {{2, 3, 4, 5}, {0, 2}},
                                 {{65, 257}, {}},
                                 {{33, 2, 70}, {0}},
                                 {{6, 5, 40}, {1}},
                                 {{3, 9, 17, 5}, {2, 1}},
                                 {{17, 3, 2}, {0, 1, 2}},
                                 {{130, 60}, {}},
                                 {{40, 3, 20, 4}, {0, 2}},
                                 {{2, 2, 2, 2, 2}, {0, 2, 4}}};

void run(const Op &op, const sim::Config &config, int most = 4) {
    CAPTURE(op.to_string());
    CAPTURE(config.name);
    CHECK_NOTHROW(check(op, config, most));
}

} // namespace

TEST_CASE("sums along any axes") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : cases) {
            run(reduction("sum", f16, c), config, 2);
            run(reduction("sum", f32, c), config);
        }
    }
}

TEST_CASE("rows and columns that LM has no room for") {
    for (const Case &c : std::vector<Case>{{{600, 500}, {}}, {{600, 500}, {0}}, {{3, 40000}, {1}}, {{20000}, {}}}) {
        run(reduction("sum", f32, c), configs()[0], 1);
        run(reduction("max", f16, c), configs()[0], 1000);
    }
    for (const Case &c :
         std::vector<Case>{{{2000, 3000}, {}}, {{5000, 1024}, {0}}, {{2, 1 << 20}, {1}}, {{1 << 21}, {}}}) {
        run(reduction("sum", f32, c), configs()[1], 1);
        run(reduction("max", f16, c), configs()[2], 1000);
    }
}

TEST_CASE("products along any axes") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : cases) run(reduction("product", f32, c), config, 1);
    }
}

TEST_CASE("first positions of the greatest and least along any axis") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : cases) {
            const size_t reduced = c.axes.empty() ? c.shape.size() : c.axes.size();
            if (reduced > 1) continue;
            run(reduction("argmax", f16, c), config, 3);
            run(reduction("argmin", f32, c), config, 3);
        }
        run(reduction("argmax", f16, {{3, 20, 7}, {1}}), config, 3);
    }
}

TEST_CASE("several inputs: kept axes in another order") {
    for (const sim::Config &config : configs()) {
        for (const Type t : {f16, f32}) {
            Axis i("i", 9), j("j", 14), k("k", 50);
            Tensor A = input("A", t, {i, j, k}), B = input("B", t, {k}), C = input("C", t, {i, j});
            const auto term = [&] { return cast(f32, A(i, j, k)) * cast(f32, B(k)) + cast(f32, C(i, j)); };
            run(Op("rows", {A, B, C}, {compute("Y", {j}, sum(term(), {i, k}))}), config);
            run(Op("columns", {A, B, C}, {compute("Y", {k, i}, sum(term(), j))}), config);
            run(Op("planes", {A, B, C}, {compute("Y", {k}, cast(t, sum(term(), {i, j})))}), config, 2);
            run(Op("all", {A, B, C}, {compute("Y", {}, 1 + sum(term(), {i, j, k}))}), config);
        }
    }
}

TEST_CASE("reductions whose result has no elements") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : std::vector<Case>{{{0, 5, 4}, {1}}, {{5, 0, 4}, {0, 2}}, {{5, 4, 0}, {0}}}) {
            run(reduction("sum", f16, c), config);
            run(reduction("max", f32, c), config);
        }
    }
}

TEST_CASE("means along any axes") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : cases) run(reduction("mean", f16, c), config, 4);
    }
}

TEST_CASE("greatest and least along any axes") {
    for (const sim::Config &config : configs()) {
        for (const Case &c : cases) {
            run(reduction("max", f16, c), config, 1000);
            run(reduction("min", f32, c), config, 1000);
        }
    }
}

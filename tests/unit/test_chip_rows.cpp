// Reductions, softmax and norms on the chip, compared with the formulas.
// Links: schedules/library ops
// Sanitized: --test-case=softmax,sums*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_rows.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

const sim::Config &small() {
    static const sim::Config config = sim::Config::load("small");
    return config;
}

sim::Run check(const Op &op, const Schedule &s, bool exact = false) {
    CAPTURE(op.to_string());
    const ChipProgram p = compile_chip(s);
    std::vector<Buffer<>> arrays;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        if (exact)
            fill_random_integers(arrays.back(), seed++, -4, 4);
        else
            fill_random(arrays.back(), seed++, -2, 2);
    }
    const std::vector<Buffer<>> inputs = arrays;
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    const sim::Run run = p.run(arrays);
    if (exact) {
        CHECK(difference(arrays.back(), interpret(op, inputs).front()) == "");
    } else {
        const Bounded expected = interpret_with_bound(op, inputs, {});
        CHECK_NOTHROW(check_within(arrays.back(), expected.values.front(), expected.bounds.front()));
    }
    return run;
}

sim::Run check(const Op &op, bool exact = false, const sim::Config &config = small()) {
    const Machine machine = chip_machine(config);
    return check(op, library::schedule_chip_rows(op, machine, library::chip_rows_parameters(op, machine)), exact);
}

} // namespace

TEST_CASE("sums, greatest and least of rows") {
    for (const char *kind : {"sum", "max", "min", "mean"}) {
        for (const auto &[m, n] : {std::pair{64, 128}, {40, 100}, {3, 7}, {130, 256}}) {
            CAPTURE(std::string(kind));
            CAPTURE(n);
            const Op op = ops::reduction(kind, f16, {m, n}, {1});
            check(op, std::string(kind) != "mean");
            check(ops::reduction(kind, f32, {m, n}, {1}), std::string(kind) != "mean");
        }
        check(ops::reduction(kind, f16, {5, 6, 40}, {2}), std::string(kind) != "mean");
    }
}

TEST_CASE("softmax") {
    for (const Type t : {f16, f32}) {
        check(ops::softmax(t, 64, 128));
        check(ops::softmax(t, 20, 50));
        check(ops::softmax(t, 33, 200));
        check(ops::log_softmax(t, 20, 50));
    }
}

TEST_CASE("norms") {
    for (const Type t : {f16, f32}) {
        check(ops::layer_norm(t, 64, 128));
        check(ops::layer_norm(t, 19, 70));
        check(ops::rms_norm(t, 32, 96));
    }
}

TEST_CASE("rows longer than LM pass through it") {
    for (const Type t : {f16, f32}) {
        check(ops::softmax(t, 17, t == f16 ? 1000 : 1500));
        check(ops::softmax(t, 1, 3001));
        check(ops::log_softmax(t, 5, 5000));
        check(ops::layer_norm(t, 9, 3000));
        check(ops::rms_norm(t, 33, 2600));
    }
    check(ops::softmax(f16, 3, 150000), false, sim::Config::load("full"));
    // Streamed rows although they fit: the whole row in one tile, or a short last tile.
    const Op op = ops::layer_norm(f16, 12, 300);
    const Machine machine = chip_machine(small());
    library::ChipRowsParameters p = library::chip_rows_parameters(op, machine);
    CHECK(p.steps == 0);
    for (const int64_t steps : p.steps.legal()) {
        if (!steps) continue;
        p.steps.set(steps, "steps");
        for (const bool wide : {false, true}) {
            p.wide = Flag(wide);
            check(op, library::schedule_chip_rows(op, machine, p));
        }
    }
    check(ops::log_softmax(f32, 2, 30000), false, sim::Config::load("medium"));
}

TEST_CASE("rows that take some of the MABs each") {
    for (const char *name : {"medium", "full"}) {
        const sim::Config config = sim::Config::load(name);
        check(ops::softmax(f16, 64, 100), false, config);
        check(ops::log_softmax(f16, 3, 20), false, config);
        check(ops::layer_norm(f16, 64, 128), false, config);
        check(ops::reduction("sum", f16, {20, 30}, {1}), true, config);
    }
}

TEST_CASE("every schedule of the space") {
    const Op op = ops::softmax(f16, 24, 40);
    const Machine machine = chip_machine(small());
    const auto space = library::find_template(op, machine)->make_space(op, machine);
    Random r(5);
    int fitting = 0;
    for (int i = 0; i < 12; i++) {
        const Point point = space->sample(r);
        CAPTURE(space->text(point));
        try {
            compile_chip(space->schedule(point), small());
        } catch (const UserError &) { // does not fit
            continue;
        }
        const Schedule s = space->schedule(point);
        CHECK(compile_chip(Schedule::from_json(op, machine, s.to_json()), small()).words() ==
              compile_chip(s, small()).words());
        check(op, s);
        fitting++;
    }
    CHECK(fitting >= 6);
}

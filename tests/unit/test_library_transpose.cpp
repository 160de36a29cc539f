// Transposes and permutations in registers: elements equal the formula's, at every point of their
// space.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/types.h"
#include "machine/machine.h"
#include "ops/ops.h"
#include "schedules/library/table.h"
#include "schedules/library/transpose.h"
#include "support/random.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

std::string llvm_of(const Schedule &s) {
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx2");
    return compile_llvm_ir({lower(s)}, options);
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

Schedule scheduled(const Op &op) {
    const LibraryTemplate *t = library::find_template(op);
    CHECK(t->name == "transpose");
    const auto space = t->make_space(op, Machine::named("x86-64-avx2"));
    return space->schedule(space->default_point());
}

} // namespace

TEST_CASE("any permutation of axes, of elements of any size") {
    for (const Type t : {u8, i16, f16, f32, i32, f64}) {
        CAPTURE(type_name(t));
        check_runs(default_schedule(ops::transpose(t, 64, 96), Machine::host()));
        check_runs(default_schedule(ops::transpose(t, 131, 77), Machine::host()));
        check_runs(default_schedule(ops::transpose(t, 5, 200), Machine::host()));
        check_runs(default_schedule(ops::transpose(t, 200, 4), Machine::host()));
    }
    std::vector<int> order = {0, 1, 2, 3};
    do {
        CAPTURE(order);
        check_runs(default_schedule(ops::permute(f32, {3, 17, 6, 35}, order), Machine::host()));
    } while (std::next_permutation(order.begin(), order.end()));
    const Size M("M"), N("N");
    for (const auto &[m, n] : {std::pair(1, 1), {7, 33}, {64, 64}, {100, 41}})
        check_runs(default_schedule(ops::transpose(f32, M, N), Machine::host()), {{"M", m}, {"N", n}});
    check_runs(default_schedule(ops::transpose(f32, 0, 40), Machine::host()));
}

TEST_CASE("every point of the transposes' space computes the same") {
    const Op op = ops::permute(f32, {3, 70, 45}, {2, 0, 1});
    const LibraryTemplate *t = library::find_template(op);
    const auto space = t->make_space(op, Machine::host());
    Random random(7);
    for (int n = 0; n < 12; n++) check_runs(space->schedule(space->sample(random)));
}

TEST_CASE("the farther rows lie apart by a power of two, the fewer of them a transpose writes at a time") {
    const Machine machine = Machine::named("x86-64-avx2");
    const auto rows = [&](const Op &op) {
        const Schedule s = scheduled(op);
        const Expr steps = s.state().stage("Y").loop("j.o.i").extent; // of eight columns each
        return 8 * *Halide::Internal::as_const_int(steps);
    };
    CHECK(rows(ops::transpose(f32, 250, 250)) == 64);
    CHECK(rows(ops::transpose(f32, 256, 256)) == 32);    // 1 KiB: four lines per L1 way
    CHECK(rows(ops::transpose(f32, 1024, 1024)) == 16);  // 4 KiB: one
    CHECK(rows(ops::transpose(f32, 4096, 4096)) == 256); // non-temporal
}

TEST_CASE("large rows of partial lines are streamed in pieces, a few rows at a time") {
    const Machine m = Machine::named("x86-64-avx2");
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx2");
    const auto nest = [&](const Op &op) {
        const Schedule s = default_schedule(op, m);
        CHECK(compile_object({lower(s)}, options).warnings.empty());
        return s.nest();
    };
    // 32, 16 and 32 bytes at a time of eight rows, for so many columns that their lines stay in L2.
    const std::string halves = nest(ops::transpose(f32, 5000, 3000));
    INFO(halves);
    CHECK(contains(halves, "streamed"));
    CHECK(contains(halves, "j.i in 0..8"));
    CHECK(contains(halves, "i.o.i in 0..128"));
    CHECK(contains(halves, "prefetch X 2 ahead of Y.j.o"));
    CHECK(contains(nest(ops::transpose(f32, 5004, 3000)), "i.o.i in 0..256"));
    CHECK(contains(nest(ops::transpose(f64, 5004, 3000)), "i.o.i in 0..256"));
    // lines 16 KiB apart share few sets
    CHECK(contains(nest(ops::transpose(f32, 5000, 4096)), "i.o.i in 0..8"));
    CHECK(!contains(nest(ops::transpose(f32, 5001, 3000)), "streamed"));
    CHECK(!contains(nest(ops::transpose(f32, 5000, 3)), "prefetch"));

    for (const auto &[rows, columns] : {std::pair(136, 72), {140, 45}, {131, 77}}) {
        const Op op = ops::transpose(f32, rows, columns);
        library::TransposeParameters p = library::transpose_parameters(op, m);
        p.length = Tile::nearest(64, p.length.legal());
        for (const bool shared : {false, true}) {
            p.parallel = Flag(shared);
            check_runs(library::schedule_transpose(op, m, p));
        }
    }
}

TEST_CASE("unpacked rows are read without gathers") {
    const std::string text = llvm_of(scheduled(ops::transpose(f32, 64, 64)));
    CHECK(!contains(text, "masked.gather"));
    CHECK(contains(text, "shufflevector"));
    // Elements not read under a failing condition are gathered under its mask, not loaded by whole
    // rows.
    Axis i("i", 64), j("j", 64);
    Tensor X = input("X", f32, {i, j}), P = zero_padded(X, {i, j});
    const Op shifted("shifted", {X}, {compute("Y", {j, i}, P(i - 1, j + 1))});
    check_runs(default_schedule(shifted, Machine::host()));
    // Elements that are computed with, and two reads of one array.
    Axis a("a", 48), b("b", 48);
    Tensor Z = input("Z", f32, {a, b});
    const Op both("both", {Z}, {compute("Y", {a, b}, Z(b, a) * 2 + Z(a, b))});
    check_runs(scheduled(both));
}

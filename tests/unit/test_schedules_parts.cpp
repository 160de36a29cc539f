// region and pipeline at run time: parts of a stage with directives of their own, and copies that
// are filled several iterations ahead, compute the formula, through LLVM and through Halide's
// generator.
// Links: driver
// Sanitized: --test-case=pipeline*,*padded*
#include "schedules/examples.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

void check_both(const Schedule &s, const Sizes &sizes = {}) {
    for (const bool through_halide : {false, true}) {
        CAPTURE(through_halide);
        CompileOptions options;
        options.through_halide = through_halide;
        check_runs(s, sizes, options);
    }
}

Op matmul(const Expr &M, const Expr &N, const Expr &K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    return Op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("pipeline: copies are filled several iterations ahead") {
    Size M("M"), N("N"), K("K");
    for (const int stages : {2, 3, 4, 8}) {
        Schedule s(matmul(M, N, K));
        auto C = s.stage("C");
        auto [ko, ki] = C.split("k", 8);
        auto [jo, ji] = C.split("j", 16);
        C.reorder({ko, jo, "i", ki, ji}).vectorize(ji);
        s.place_in("B", "L2", "C", ko);
        s.place_in("A", "L1", "C", ko);
        C.pipeline(ko, stages);
        for (const StageState &p : s.state().stages) CHECK(p.buffers == (p.is_copy ? stages : 1));
        CHECK(has(s.nest(), stages == 2
                                ? "copy B.L2 of B in L2 double-buffered"
                                : "copy B.L2 of B in L2 with " + std::to_string(stages) + " buffers in rotation"));
        for (const BufferRow &b : lower(s).buffers) CHECK(Halide::Internal::is_const(b.extents.front(), stages));
        for (const int k : {0, 1, 7, 8, 9, 16, 17, 31, 80}) check_both(s, {{"M", 3}, {"N", 21}, {"K", k}});
    }
}

TEST_CASE("a pipeline of two stages is a double buffer, and of a short loop as long as that") {
    const Op op = matmul(12, 20, 24);
    const auto schedule = [&](int stages) {
        Schedule s(op);
        auto [ko, ki] = s.stage("C").split("k", 8);
        s.stage("C").reorder({ko, "i", ki, "j"});
        auto copy = s.place_in("B", "L2", "C", ko).layout({"j/4", "k", "j%4"});
        if (stages)
            s.stage("C").pipeline(ko, stages);
        else
            copy.double_buffer();
        return s;
    };
    CHECK(body_of(schedule(2)) == body_of(schedule(0)));
    CHECK(body_of(schedule(3)) != body_of(schedule(2)));
    for (const int stages : {3, 4, 5}) check_both(schedule(stages)); // of 3 iterations
    Schedule undone = schedule(3);
    undone.undo();
    CHECK(undone.state().stage("B.L2").buffers == 1);
}

TEST_CASE("a copy made after the pipeline is not part of it") {
    Schedule s(matmul(12, 20, 24));
    auto [ko, ki] = s.stage("C").split("k", 8);
    s.stage("C").reorder({ko, "i", ki, "j"});
    s.place_in("B", "L2", "C", ko);
    s.stage("C").pipeline(ko, 3);
    s.place_in("A", "L1", "C", ko);
    CHECK(s.state().stage("A.L1").buffers == 1);
    check_both(s);
}

TEST_CASE("region: a last block, a border and a middle with loops of their own") {
    for (const int M : {30, 31, 45}) {
        const Op op = matmul(M, 37, 19);
        Schedule s(op);
        auto C = s.stage("C");
        auto [io, ii] = C.split("i", 14);
        auto rest = C.region(io, (M - 1) / 14, 1, "rest"); // the block that is not full
        CHECK(has(s.nest(),
                  "compute rest, i in " + std::to_string((M - 1) / 14 * 14) + ".." + std::to_string(M) + " of C\n"));
        CHECK(has(s.nest(), "compute C, without i in "));
        check_both(s);
        C.reorder({io, "k", ii, "j"}).unroll(ii).vectorize("j", 16);
        rest.reorder({"k", "j", io, ii}).parallel("j");
        check_both(s);
        rest.reorder({io, "j", "k", ii});
        s.accumulate_in("rest", "registers", "j");
        s.place_in("B", "L1", "rest", "j");
        s.place_in("B", "L2", "C", io);
        check_both(s);
    }
    Schedule s(matmul(8, 64, 5));
    auto C = s.stage("C");
    auto middle = C.region("j", 3, 50, "middle"); // the stage keeps the parts before and behind
    auto last = C.region("j", 60, 4, "last");
    middle.reorder({"i", "k", "j"}).vectorize("j", 8, Tail::Mask).reorder({"i", "j.o", "k", "j.v"});
    last.reorder({"j", "i", "k"}).unroll("j");
    C.reorder({"j", "k", "i"}).prefetch("B", "k", 2);
    CHECK(has(s.nest(), "compute C, without j in 3..53 and j in 60..64\n"));
    check_both(s);
    std::vector<std::string> stages;
    for (const LoopRow &l : lower(s).loops) {
        if (stages.empty() || stages.back() != l.stage) stages.push_back(l.stage);
    }
    CHECK(stages == std::vector<std::string>{"C", "middle", "last"});
    CHECK(has(s.to_cpp(), "s.stage(\"C\").region(\"j\", 3, 50, \"middle\");"));
    s.undo();
    CHECK(s.state().find("last") != nullptr);
}

TEST_CASE("region: of a region, along another axis and along the same") {
    Schedule s(matmul(24, 40, 9));
    auto C = s.stage("C");
    auto low = C.region("i", 10, 9, "low");
    auto corner = low.region("j", 30, 10, "corner");
    auto tip = corner.region("j", 2, 3, "tip"); // 32..35
    CHECK(s.state().stage("tip").part->first == 32);
    CHECK(has(s.nest(), "compute tip, j in 32..35 of corner"));
    check_both(s);
    corner.tile({"i", "j"}, {4, 4});
    low.reorder({"i", "k", "j"}).vectorize("j", 16);
    tip.fuse("i", "j").parallel("i_j");
    check_both(s);
}

TEST_CASE("region: a stage of several values, one between stages, and one of known sizes") {
    Axis i("i", 21), j("j", 30);
    Tensor X = input("X", i32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) * 3 - i);
    Tensor R = compute("R", {i}, maximum(T(i, j), j));
    Schedule s(Op("chain", {X}, {R, compute("Y", {i, j}, T(i, j) + R(i))}));
    s.stage("T").region("j", 0, 7, "left").reorder({"j", "i"});
    s.stage("T").vectorize("j", 8);
    s.stage("R").region("i", 20, 1, "last");
    s.stage("R").parallel("i");
    s.stage("Y").split("i", 8);
    s.stage("Y").region("i.o", 0, 2, "full").unroll("i.i");
    s.stage("T").layout({"j", "i"});
    check_both(s);

    Size M("M");
    Schedule sized(matmul(M, 10, 7));
    CHECK_THROWS_WITH(sized.stage("C").region("i", 0, 4, "head"), doctest::Contains("known only at run time"));
    sized.stage("C").region("j", 0, 4, "left").reorder({"i", "k", "j"}).vectorize("j");
    sized.assume(M == 13).stage("C").region("j", 6, 4, "right").split("i", 5);
    check_both(sized, {{"M", 13}});
    Schedule rows(matmul(M, 10, 7));
    rows.assume(M == 13).stage("C").region("i", 9, 4, "tail").parallel("i");
    rows.stage("C").split("i", 4);
    check_both(rows, {{"M", 13}});
    CHECK_THROWS_WITH(check_both(rows, {{"M", 12}}), doctest::Contains("the assumption M == 13 does not hold"));
}

TEST_CASE("region: a copy that only a part reads, at the root") {
    Schedule s(matmul(11, 6, 5));
    s.stage("C").region("i", 2, 4, "part");
    s.place_in("A", "L2", "part", "i").layout({"k", "i"}).compute_root();
    check_both(s);
}

TEST_CASE("region: tails stay inside of their part") {
    for (const Tail tail : {Tail::Auto, Tail::Guard, Tail::Mask, Tail::Shift}) {
        Axis i("i", 50);
        Tensor X = input("X", f32, {i});
        Schedule s(Op("one", {X}, {compute("Y", {i}, X(i) + 1.f)}));
        auto Y = s.stage("Y");
        auto middle = Y.region("i", 13, 21, "middle");
        middle.split("i", 8, {.tail = tail});
        middle.vectorize("i.i");
        Y.split("i", 4, {.tail = tail});
        Y.vectorize("i.i");
        CAPTURE(tail_name(tail));
        check_both(s);
    }
}

TEST_CASE("region: of a stage that reads a padded image") {
    Axis i("i", 50), k("k", 3);
    Tensor X = input("X", f32, {i}), P = zero_padded(X, {i});
    for (const int first : {1, 30, 49}) {
        Schedule s(Op("blur", {X}, {compute("Y", {i}, sum(P(i + k - 1), k))}));
        s.stage(s.state().readers("X").front()).compute_root();
        const std::string stage = s.state().stages.back().name();
        auto part = s.stage(stage).region("i", first, 1, "part");
        for (const std::string &each : {stage, std::string("part")}) {
            s.stage(each).reorder({"k", "i"}).split("i", 8, {.tail = Tail::Mask});
            s.stage(each).vectorize("i.i");
        }
        check_both(s);
    }
}

TEST_CASE("region: stages at a loop of a part, and its instruction") {
    Axis i("i", 40), j("j", 24), k("k", 16);
    Tensor A = input("A", i16, {i, k}), B = input("B", i16, {k, j});
    const Op op("matmul_i16", {A, B}, {compute("C", {i, j}, sum(cast(i32, A(i, k)) * cast(i32, B(k, j)), k))});
    Schedule s(op);
    if (!s.machine().has("avx2")) return;
    auto C = s.stage("C");
    auto head = C.region("j", 0, 16, "head"); // whole blocks
    s.prepack("B", {"j/8", "k/2", "j%8", "k%2"});
    head.split("j", 8);
    head.split("k", 2);
    head.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    s.accumulate_in("head", "registers", "j.o");
    head.tensorize("j.i", "avx2.vpmaddwd");
    C.reorder({"i", "k", "j"}).vectorize("j", 8);
    CHECK(has(body_of(s), "kumiko.inst.avx2.vpmaddwd"));
    const Kernel kernel = compile(s);
    std::vector<Buffer<>> args = {random_integers(i16, {40, 16}, 1), random_integers(i16, {16, 24}, 2)};
    const Buffer<> expected = interpret(op, args).front();
    args[1] = kernel.pack("B", args[1], {});
    args.push_back(make_output(op, "C", {}));
    fill_unwritten(args.back());
    kernel(args);
    CHECK(difference(args.back(), expected) == "");
}

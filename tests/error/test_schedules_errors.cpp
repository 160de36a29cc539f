// Illegal schedules, each with the error text that its author sees. Places in this file are written
// as FILE:LINE. One file, because it is one table.
#include "machine/machine.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "support/error.h"

#include <doctest/doctest.h>
#include <fstream>
#include <functional>
#include <regex>

using namespace kumiko;

namespace {

std::string told(const std::function<void()> &wrong) {
    try {
        wrong();
    } catch (const UserError &e) {
        return "\n" +
               std::regex_replace(std::string(e.what()), std::regex("[^ (]*test_schedules_errors\\.cpp:[0-9]+"),
                                  "FILE:LINE") +
               "\n";
    }
    return "no error";
}

Schedule matmul() { return Schedule(example_op("matmul"), Machine::named("x86-64-avx2")); }

} // namespace

TEST_CASE("unknown names") {
    Schedule s = matmul();
    CHECK(told([&] { s.stage("D"); }) == R"(
FILE:LINE: error: op matmul has no stage "D"; its stages are C
)");
    CHECK(told([&] { s.stage("C").unroll("ii"); }) == R"(
FILE:LINE: error: unroll("ii"): stage C has no loop "ii"
  stage C   for i in 0..128
              for j in 0..128
                for k in 0..256 (reduction)
  legal here: the loops i, j, k
)");
    CHECK(told([&] { s.place_in("D", "L2", "C", "k"); }) == R"(
FILE:LINE: error: place_in("D", "L2", "C", "k"): op matmul has no tensor "D"; there are: A, B, C
)");
    CHECK(told([&] { s.place_in("B", "L9", "C", "k"); }) == R"(
FILE:LINE: error: place_in("B", "L9", "C", "k"): machine 'x86-64-avx2' has no memory level 'L9' (did you mean 'L1'?)
)");
    CHECK(told([&] {
              s.apply({"splitt", {{"stage", "C"}}, {}});
          }) == R"(
there is no primitive "splitt" (did you mean 'split'?)
)");
    CHECK(told([&] {
              s.apply({"split", {{"stage", "C"}, {"loop", "i"}, {"factor", "4"}}, {}});
          }) == R"(
directive split: the argument "factor" must be a whole number below 2^63
)");
    CHECK(told([&] { s.stage("C").accumulate_in("registers", "j", "perhaps"); }) == R"(
FILE:LINE: error: directive accumulate_in: "perhaps" is not a legal rounds; legal are reload, join
)");
    CHECK(told([&] { s.undo(); }) == R"(
FILE:LINE: error: there is no directive to undo
)");
    CHECK(told([&] { s.stage("C").tile({}, {}); }).find("tile({}, {}): no loops are named") != std::string::npos);
    CHECK(s.directives().empty());
}

TEST_CASE("split of a loop that is already split or fused") {
    Schedule s = matmul();
    s.stage("C").split("i", 8);
    CHECK(told([&] { s.stage("C").split("i", 4); }) == R"(
FILE:LINE: error: split("i", 4): loop i was already split into i.o and i.i
  stage C   for i.o in 0..16
              for i.i in 0..8
                for j in 0..128
                  for k in 0..256 (reduction)
  legal here: the loops i.o, i.i, j, k
)");
    s.stage("C").fuse("i.i", "j");
    CHECK(told([&] { s.stage("C").split("j", 4); }) == R"(
FILE:LINE: error: split("j", 4): loop j was already fused into i.i_j
  stage C   for i.o in 0..16
              for i.i_j in 0..1024
                for k in 0..256 (reduction)
  legal here: the loops i.o, i.i_j, k
)");
    CHECK(told([&] { s.stage("C").split("k", 0); }) == R"(
FILE:LINE: error: split("k", 0): the factor 0 is not positive
  stage C   for i.o in 0..16
              for i.i_j in 0..1024
                for k in 0..256 (reduction)  ← split asked here
  legal here: a factor of 1 or more
)");
}

TEST_CASE("invalid factors and names") {
    Schedule s = matmul();
    auto C = s.stage("C");
    CHECK(told([&] { C.split("k", int64_t{1} << 31); }) == R"(
FILE:LINE: error: split("k", 2147483648): the factor 2147483648 exceeds the largest extent of a loop
  stage C   for i in 0..128
              for j in 0..128
                for k in 0..256 (reduction)  ← split asked here
  legal here: a factor of 1 to 1073741824
)");
    CHECK(told([&] {
              s.apply({"split", {{"stage", "C"}, {"loop", "k"}, {"factor", uint64_t{1} << 63}}, {}});
          }) == R"(
directive split: the argument "factor" must be a whole number below 2^63
)");
    CHECK(told([&] { C.unroll("k", -1); }).find("unroll(\"k\", -1): the factor -1 is not positive") !=
          std::string::npos);
    CHECK(told([&] { C.split("k", 4, {.outer = "a b"}); }) == R"(
FILE:LINE: error: split("k", 4, "a b"): "a b" is not a valid loop name
  stage C   for i in 0..128
              for j in 0..128
                for k in 0..256 (reduction)  ← split asked here
  legal here: letters, digits, _ and ., not starting with a digit or a .
)");
    CHECK(told([&] {
              s.apply({"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 4}, {"inner", ""}}, {}});
          }).find("\"\" is not a valid loop name") != std::string::npos);
    CHECK(told([&] { C.fuse("i", "j", "i,j"); }).find("\"i,j\" is not a valid loop name") != std::string::npos);
    CHECK(s.directives().empty());
}

TEST_CASE("a fused loop that is too long") {
    Axis i("i", 70000), j("j", 70000);
    Schedule s(Op("large", {}, {compute("C", {i, j}, i + j)}));
    CHECK(told([&] { s.stage("C").fuse("i", "j"); }) == R"(
FILE:LINE: error: fuse("i", "j"): the fused loop would have 4900000000 iterations
  stage C   for i in 0..70000
              for j in 0..70000  ← fuse asked here
  legal here: at most 2147483647
)");
}

TEST_CASE("tails of vectors") {
    Schedule s(example_op("add"));
    auto C = s.stage("C");
    CHECK(told([&] {
              C.vectorize("j", 12, Tail::Guard);
          }).find("a guard skips iterations one by one, and the lanes of a vector run together") != std::string::npos);
    CHECK(told([&] { C.vectorize("j", 12, Tail::Pad); }).find("is an output in the caller's array") !=
          std::string::npos);
    C.vectorize("j", 12, Tail::Shift);
}

TEST_CASE("a padded tail inside of a block") {
    Schedule s(example_op("chain"));
    auto T = s.stage("T");
    T.split("i", 6);
    CHECK(told([&] { T.split("i.i", 4, {.tail = Tail::Pad}); }) == R"(
FILE:LINE: error: split("i.i", 4, "pad"): a padded tail of loop i.i would write into the elements of the next block
  stage T   for i.o in 0..11
              for i.i in 0..6    ← split asked here
                for j in 0..128  ← innermost
  legal here: the tails guard and mask, or pad on a loop that ends where its axis does
)");
    T.split("j", 12, {.tail = Tail::Shift});
    CHECK(told([&] { T.split("j.o", 4, {.tail = Tail::Pad}); }).find("of loop j.o would write into") !=
          std::string::npos);
    T.split("i.o", 4, {.tail = Tail::Pad});
}

TEST_CASE("registers for a region without constant size") {
    Schedule s(example_op("matmul_any"));
    s.stage("C").reorder({"j", "k", "i"});
    CHECK(told([&] { s.accumulate_in("C", "registers", "j"); }) == R"(
FILE:LINE: error: accumulate_in("registers", "j"): the number of elements along axis i inside loop j is known only at run time, and registers need constant indices
  stage C   for j in 0..128                ← accumulate_in asked here
              for k in 0..256 (reduction)
                for i in 0..M              ← innermost
  legal here: a deeper loop, or a split of i by a constant first
)");
    CHECK(told([&] { s.place_in("A", "registers", "C", "j"); }) == R"(
FILE:LINE: error: place_in("A", "registers", "C", "j"): the size of the region of A needed below loop j is known only at run time, and registers need constant indices
  stage C   for j in 0..128                ← place_in asked here
              for k in 0..256 (reduction)
                for i in 0..M              ← innermost
  legal here: a deeper loop, or splits by constants first
)");
    s.stage("C").split("i", 4);
    s.stage("C").reorder({"i.o", "j", "k", "i.i"});
    s.accumulate_in("C", "registers", "j");
    CHECK(told([&] {
              s.stage("C").reorder({"j", "k", "i.o", "i.i"});
          }) == R"(
FILE:LINE: error: reorder({"j", "k", "i.o", "i.i"}) breaks a requirement of accumulate_in("registers", "j") (FILE:LINE): the number of elements along axis i inside loop j is known only at run time, and registers need constant indices
  it would make
  stage C   for j in 0..128
              for k in 0..256 (reduction)
                for i.o in 0..((M + 3) / 4)
                  for i.i in 0..4
  legal here: a directive that keeps the requirement, or this directive before accumulate_in("registers", "j")
)");
}

TEST_CASE("reorder repeats or misses a loop") {
    Schedule s = matmul();
    CHECK(told([&] {
              s.stage("C").reorder({"i", "k", "i"});
          }) == R"(
FILE:LINE: error: reorder({"i", "k", "i"}): loop i is named twice
  stage C   for i in 0..128                  ← reorder asked here
              for j in 0..128
                for k in 0..256 (reduction)  ← innermost
  legal here: each loop at most once, outermost first
)");
}

TEST_CASE("vectorize a loop that is not innermost, or of unknown extent") {
    Schedule s = matmul();
    s.stage("C").vectorize("j", 16);
    CHECK(told([&] { s.require_applied(); }) == R"(
FILE:LINE: error: vectorize("j", 16): loop j is not innermost
  stage C   for i in 0..128
              for j in 0..128                ← vectorize asked here
                for k in 0..256 (reduction)  ← innermost
  legal here: vectorize("k", …), or reorder j inside k, before or after this directive
)");
    CHECK(told([&] { s.stage("C").vectorize("k"); }) == R"(
FILE:LINE: error: vectorize("k") makes vectorize("j", 16) (FILE:LINE), which is pending, illegal: vectorize("j", 16): loop j is not innermost
  stage C   for i in 0..128
              for j in 0..128                       ← vectorize asked here
                vectorized k in 0..256 (reduction)  ← innermost
  legal here: reorder j inside k first
)");
    Schedule any(example_op("matmul_any"));
    any.stage("C").reorder({"j", "k", "i"});
    CHECK(told([&] { any.stage("C").vectorize("i"); }) == R"(
FILE:LINE: error: vectorize("i"): the extent of loop i is known only at run time, and no width and tail are given
  stage C   for j in 0..128
              for k in 0..256 (reduction)
                for i in 0..M              ← vectorize asked here
  legal here: vectorize("i", width), which splits it and masks the tail
)");
    Axis j("j", 64);
    Tensor X = input("X", f32, {j});
    const Expr e = reduce([](Expr a, Expr b) { return a - b; }, 0.f, X(j), j);
    Schedule odd(Op("odd", {X}, {compute("S", {}, e)}));
    CHECK(told([&] { odd.stage("S").vectorize("j", 8); }) == R"(
FILE:LINE: error: vectorize("j", 8): loop j reduces, and the combiner of S is not stated to be associative and commutative, so its steps cannot be spread over lanes
  stage S   for j in 0..64 (reduction)  ← vectorize asked here
  legal here: a loop that does not reduce, or state the combiner's properties in reduce(…)
)");
}

TEST_CASE("parallel on a reduction") {
    Schedule s = matmul();
    CHECK(told([&] { s.stage("C").parallel("k"); }) == R"(
FILE:LINE: error: parallel("k"): loop k reduces: its iterations change the same elements
  stage C   for i in 0..128
              for j in 0..128
                for k in 0..256 (reduction)  ← parallel asked here
  legal here: rfactor("k") first; the stage that it makes has k as an axis, which may be parallel
)");
}

TEST_CASE("compute_at a loop that does not enclose all consumers") {
    Schedule s(example_op("softmax"));
    s.stage("e").compute_at("Y", "i");
    CHECK(told([&] { s.require_applied(); }) == R"(
FILE:LINE: error: compute_at("Y", "i"): loop i does not enclose all that reads e: stage total, which reads it, is not inside loop i of Y
  stage Y   for i in 0..64     ← compute_at asked here
              for j in 0..128  ← innermost
  legal here: total.compute_at("Y", "i"), before or after this directive; a loop that encloses total, Y, or compute_root(); after store_at, a loop of the first consumer inside of that loop
)");
    CHECK(told([&] { s.stage("max").compute_at("total", "i"); }).find("loop i does not enclose all that reads max") !=
          std::string::npos); // Y reads e out of bounds in any case
    CHECK(told([&] { s.stage("max").compute_at("max", "i"); }).find("does not enclose") != std::string::npos);
    CHECK(told([&] { s.stage("Y").compute_at("Y", "i"); }) == R"(
FILE:LINE: error: compute_at("Y", "i"): no stage reads Y
  stage Y   for i in 0..64
              for j in 0..128
  legal here: compute_root()
)");
}

TEST_CASE("a stage computed in a loop that is vectorized later") {
    Schedule s(example_op("rowsum"));
    auto S = s.stage("S");
    S.split("j", 8);
    S.rfactor("j.i"); // computes S.rf in loop i
    S.reorder({"j_i", "i"});
    CHECK(told([&] { S.vectorize("i"); }) == R"(
FILE:LINE: error: vectorize("i"): stage S.rf is computed at loop i of S, which would become illegal: loop i of stage S is vectorized
)");
}

TEST_CASE("place_in a level too small for the region") {
    Schedule s = matmul();
    CHECK(told([&] { s.place_in("B", "L1", "C", "i"); }) == R"(
FILE:LINE: error: place_in("B", "L1", "C", "i"): the region of B needed below loop i is 131072 bytes, but L1 holds 32768
  stage C   for i in 0..128                  ← place_in asked here
              for j in 0..128
                for k in 0..256 (reduction)  ← innermost
  legal here: a deeper loop, smaller tiles, or a larger level
)");
}

TEST_CASE("tensorize a block that is not the instruction's meaning") {
    Schedule s = matmul();
    auto C = s.stage("C");
    C.split("j", 8);
    C.split("k", 2);
    C.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    CHECK(told([&] { C.tensorize("j.i", "avx2.vpmaddwd"); }) == R"(
FILE:LINE: error: tensorize("j.i", "avx2.vpmaddwd"): the block does not compute the meaning of the instruction: the instruction has c(i) of i32, the block has C(i, j.o * 8 + j.i) of f32
  stage C   for i in 0..128
              for j.o in 0..16
                for k.o in 0..128 (reduction)
                  for j.i in 0..8                ← tensorize asked here
                    for k.i in 0..2 (reduction)  ← innermost
  legal here: a block that is c(i) = sum over k: i32(a(i, k)) * i32(b(i, k)), with i < 8, k < 2
)");
    CHECK(told([&] { C.tensorize("j.i", "avx512.vpdpbusd"); }) == R"(
FILE:LINE: error: tensorize("j.i", "avx512.vpdpbusd"): machine x86-64-avx2 does not have the instruction
  legal here: avx2.vpmaddubsw, avx2.vpmaddwd
)");
    CHECK(told([&] { C.tensorize("j.i", "avx2.vpmaddw"); }) == R"(
FILE:LINE: error: tensorize("j.i", "avx2.vpmaddw"): unknown instruction 'avx2.vpmaddw' (did you mean 'avx2.vpmaddwd'?)
)");
    Schedule t(example_op("matmul_i16"), Machine::named("x86-64-avx2"));
    auto D = t.stage("C");
    D.split("j", 8);
    D.split("k", 2);
    D.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    CHECK(told([&] { D.tensorize("j.i", "avx2.vpmaddwd"); }) == R"(
FILE:LINE: error: tensorize("j.i", "avx2.vpmaddwd"): the block does not compute the meaning of the instruction: the addresses differ: one step of k moves operand b of the instruction by 1 element; one step of loop k.i moves B(k.o * 2 + k.i, j.o * 8 + j.i) by 64
  stage C   for i in 0..64
              for j.o in 0..8
                for k.o in 0..64 (reduction)
                  for j.i in 0..8                ← tensorize asked here
                    for k.i in 0..2 (reduction)  ← innermost
  legal here: a block that is c(i) = sum over k: i32(a(i, k)) * i32(b(i, k)), with i < 8, k < 2
)");
    CHECK(told([&] { D.tensorize("k.o", "avx2.vpmaddwd"); }) == R"(
FILE:LINE: error: tensorize("k.o", "avx2.vpmaddwd"): the block does not compute the meaning of the instruction: the loops differ: the instruction has i over 8, k over 2 (reduction); the block has k.o over 64 (reduction), j.i over 8, k.i over 2 (reduction)
  stage C   for i in 0..64
              for j.o in 0..8
                for k.o in 0..64 (reduction)     ← tensorize asked here
                  for j.i in 0..8
                    for k.i in 0..2 (reduction)  ← innermost
  legal here: a block that is c(i) = sum over k: i32(a(i, k)) * i32(b(i, k)), with i < 8, k < 2
)");
}

TEST_CASE("tensorize if every block is a partial one") {
    Axis i("i", 4), j("j", 12), k("k", 1);
    Tensor A = input("A", i16, {i, k}), B = input("B", i16, {j, k});
    const Op op("thin", {A, B}, {compute("C", {i, j}, sum(cast(i32, A(i, k)) * cast(i32, B(j, k)), k))});
    Schedule s(op, Machine::named("x86-64-avx2"));
    auto C = s.stage("C");
    C.split("j", 8, {.tail = Tail::Mask});
    C.split("k", 2);
    C.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    CHECK(told([&] {
              C.tensorize("j.i", "avx2.vpmaddwd");
          }).find("the tail mask of loop j needs a guard in every block") != std::string::npos);
    Schedule t(op, Machine::named("x86-64-avx2"));
    auto D = t.stage("C");
    D.split("j", 8);
    D.split("k", 2);
    D.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    CHECK(told([&] { D.tensorize("j.i", "avx2.vpmaddwd"); }).find("loop k has 1 iterations, fewer than a block") !=
          std::string::npos);
}

TEST_CASE("the loop of the accumulators of a tensorized block") {
    Axis i("i", 4), j("j", 16), k("k", 8);
    Tensor A = input("A", i16, {i, k}), B = input("B", i16, {j, k});
    const Op op("dots", {A, B}, {compute("C", {i, j}, sum(cast(i32, A(i, k)) * cast(i32, B(j, k)), k))});
    Schedule s(op, Machine::named("x86-64-avx2"));
    auto C = s.stage("C");
    C.split("j", 8);
    C.split("k", 2);
    C.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    s.prepack("B", {"j/8", "k/2", "j%8", "k%2"});
    C.tensorize("j.i", "avx2.vpmaddwd").accumulate_in("registers", "j.o");
    CHECK(told([&] { C.split("j.o", 2); }).find("breaks a requirement of accumulate_in(\"registers\", \"j.o\")") !=
          std::string::npos);
}

TEST_CASE("a later directive breaks a requirement of an earlier one") {
    Schedule s = matmul();
    s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 16);
    CHECK(told([&] {
              s.stage("C").reorder({"i", "j.v", "j.o", "k"});
          }) == R"(
FILE:LINE: error: reorder({"i", "j.v", "j.o", "k"}) breaks a requirement of vectorize("j", 16) (FILE:LINE): loop j.v of stage C is no longer innermost
  it would make
  stage C   for i in 0..128
              vectorized j.v in 0..16
                for j.o in 0..8
                  for k in 0..256 (reduction)
  legal here: a directive that keeps the requirement, or this directive before vectorize("j", 16)
)");
    Schedule t = matmul();
    t.stage("C").split("k", 64);
    t.stage("C").reorder({"k.o", "i", "j", "k.i"});
    t.place_in("B", "L2", "C", "k.o");
    CHECK(told([&] { t.stage("C").split("k.o", 2); }) == R"(
FILE:LINE: error: split("k.o", 2) breaks a requirement of place_in("B", "L2", "C", "k.o") (FILE:LINE): loop k.o of stage C no longer exists
  it would make
  stage C   for k.o.o in 0..2 (reduction)
              for k.o.i in 0..2 (reduction)
                for i in 0..128
                  for j in 0..128
                    for k.i in 0..64 (reduction)
  legal here: a directive that keeps the requirement, or this directive before place_in("B", "L2", "C", "k.o")
)");
}

TEST_CASE("invalid regions") {
    Schedule s = matmul();
    auto C = s.stage("C");
    const auto cause = [&](const std::function<void()> &wrong) { // without the nest
        const std::string all = told(wrong), legal = "\n  legal here: ";
        const size_t first = all.find("\n", 1), at = all.find(legal);
        return all.substr(0, first) + (at == std::string::npos ? "\n" : all.substr(at));
    };
    CHECK(told([&] { C.region("i", 120, 9, "tail"); }) == R"(
FILE:LINE: error: region("i", 120, 9, "tail"): 9 iterations from 120 on leave loop i
  stage C   for i in 0..128                  ← region asked here
              for j in 0..128
                for k in 0..256 (reduction)  ← innermost
  legal here: 1 or more of iterations 0 to 128
)");
    CHECK(cause([&] { C.region("ii", 0, 4, "head"); }) == R"(
FILE:LINE: error: region("ii", 0, 4, "head"): stage C has no loop "ii"
  legal here: the loops i, j, k
)");
    CHECK(cause([&] { C.region("i", 4, 0, "none"); }) == R"(
FILE:LINE: error: region("i", 4, 0, "none"): it has 0 iterations
  legal here: 1 or more of iterations 0 to 128
)");
    CHECK(cause([&] { C.region("i", -1, 4, "head"); }) == R"(
FILE:LINE: error: region("i", -1, 4, "head"): 4 iterations from -1 on leave loop i
  legal here: 1 or more of iterations 0 to 128
)");
    CHECK(cause([&] { C.region("i", INT64_MAX, INT64_MAX, "head"); }).find("leave loop i") != std::string::npos);
    CHECK(cause([&] { C.region("i", 0, 128, "all"); }) == R"(
FILE:LINE: error: region("i", 0, 128, "all"): it leaves no iterations to stage C
  legal here: fewer iterations; the stage itself computes the last part
)");
    CHECK(cause([&] { C.region("k", 0, 8, "head"); }) == R"(
FILE:LINE: error: region("k", 0, 8, "head"): loop k is a reduction loop, so a part of it computes no complete elements
  legal here: a loop that does not reduce
)");
    for (const std::string taken : {"A", "C"}) {
        CHECK(cause([&] { C.region("i", 0, 8, taken); }) == "\nFILE:LINE: error: region(\"i\", 0, 8, \"" + taken +
                                                                "\"): there is a tensor or stage named " + taken +
                                                                " already\n  legal here: a name that is not taken\n");
    }
    for (const std::string odd : {"", "2nd", "a.b", "a b"}) {
        CHECK(cause([&] { C.region("i", 0, 8, odd); }) ==
              "\nFILE:LINE: error: region(\"i\", 0, 8, \"" + odd + "\"): \"" + odd +
                  "\" is not a valid stage name\n  legal here: letters, digits and _, not starting with a digit\n");
    }
    CHECK(s.directives().empty());

    Schedule split = matmul();
    split.stage("C").split("i", 16);
    split.stage("C").fuse("i.i", "j");
    CHECK(cause([&] { split.stage("C").region("i.i_j", 0, 8, "head"); }) == R"(
FILE:LINE: error: region("i.i_j", 0, 8, "head"): loop i.i_j was fused of i.i and j
  legal here: an axis, or the outer loop of its splits
)");
    split.stage("C").region("i.o", 2, 3, "head");
    CHECK(cause([&] { split.stage("C").region("i.o", 4, 1, "more"); }) == R"(
FILE:LINE: error: region("i.o", 4, 1, "more"): of i, 32 to 80 are region head already
  legal here: regions that do not overlap
)");
    split.stage("C").split("i.o", 2);
    CHECK(cause([&] { split.stage("C").region("i.o.i", 0, 1, "more"); }) == R"(
FILE:LINE: error: region("i.o.i", 0, 1, "more"): loop i.o.i is the inner part of loop i.o, and runs several times
  legal here: an axis, or the outer loop of its splits
)");
    Schedule along = matmul();
    along.stage("C").region("i", 0, 8, "head");
    CHECK(cause([&] { along.stage("C").region("j", 0, 8, "left"); }) == R"(
FILE:LINE: error: region("j", 0, 8, "left"): head divides stage C along i
  legal here: regions of a stage along one axis; a region may be divided along another
)");
}

TEST_CASE("regions of unsupported stages, and directives refused after region") {
    const std::string plain = "  legal here: region while the stage has serial loops alone; then directives for each "
                              "part\n";
    const auto refused = [&](const std::string &why, const std::function<void(Schedule &)> &before) {
        Schedule s = matmul();
        before(s);
        const std::string text = told([&] { s.stage("C").region("i", 0, 8, "head"); });
        CHECK(text.find("of stage C, " + why + "\n") != std::string::npos);
        CHECK(text.find(plain) != std::string::npos);
    };
    refused("loop i is parallel", [](Schedule &s) { s.stage("C").parallel("i"); });
    refused("loop j is unrolled", [](Schedule &s) { s.stage("C").unroll("j"); });
    refused("loop j.v is vectorized", [](Schedule &s) { s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 8); });
    refused("it accumulates in registers", [](Schedule &s) { s.accumulate_in("C", "registers", "j"); });
    refused("its loop j is peeled", [](Schedule &s) { s.stage("C").peel("j", 1, 0); });
    refused("it prefetches B", [](Schedule &s) { s.stage("C").prefetch("B", "k", 1); });
    refused("B.L2 is computed at its loop j", [](Schedule &s) { s.place_in("B", "L2", "C", "j"); });

    Schedule chain(example_op("chain"), Machine::named("x86-64-avx2"));
    chain.stage("T").compute_at("Y", "i");
    CHECK(told([&] { chain.stage("T").region("j", 0, 8, "head"); }) == R"(
FILE:LINE: error: region("j", 0, 8, "head"): stage T is computed at loop i of Y
  stage T   for i in 0..64
              for j in 0..128
  legal here: region of a stage that is computed at the root, without a level or a layout
)");
    chain.undo();
    chain.stage("T").region("j", 0, 8, "head");
    CHECK(told([&] { chain.stage("T").compute_at("Y", "i"); }) == R"(
FILE:LINE: error: compute_at("Y", "i") breaks a requirement of region("j", 0, 8, "head") (FILE:LINE): stage T is computed at loop i of Y
  it would make
  stage T   for i in 0..64
              for j in 0..128
  legal here: a directive that keeps the requirement, or this directive before region("j", 0, 8, "head")
)");
    CHECK(told([&] { chain.stage("T").inline_into(); }).find("stage T is inlined") != std::string::npos);
    CHECK(told([&] {
              chain.stage("T").split("j", 7, {.tail = Tail::Pad});
          }).find("the padded tail of loop j of stage T writes into the next part") != std::string::npos);
    CHECK(told([&] {
              chain.stage("head").layout({"j", "i"});
          }).find("stage head is a part of T, so it is stored in the array of T") != std::string::npos);
    CHECK(told([&] {
              chain.stage("head").place_in("L2");
          }).find("stage head is a part of T, so it is stored in the array of T") != std::string::npos);
    chain.stage("T").layout({"j", "i"}).place_in("L2");

    Schedule s = matmul();
    s.stage("C").split("k", 8);
    s.stage("C").region("i", 0, 8, "head");
    CHECK(told([&] { s.stage("head").rfactor("k.i"); }).find("head is a region of C\n") != std::string::npos);
    s.stage("C").rfactor("k.i");
    CHECK(told([&] { s.stage("head").tensorize("i", "avx2.vpmaddwd"); }).find("the block does not compute") !=
          std::string::npos);
    Schedule dense(example_op("dense"), Machine::named("x86-64-avx2"));
    const std::string inner = dense.state().stages.front().name();
    dense.stage(inner).finish_in("Y");
    CHECK(told([&] { dense.stage(inner).region("i", 0, 8, "head"); }).find(" is part of a finish_in") !=
          std::string::npos);
    dense.undo();
    dense.stage(inner).region("i", 0, 8, "head");
    CHECK(told([&] { dense.stage(inner).finish_in("Y"); }) != "no error");
    CHECK(told([&] { dense.stage("head").finish_in("Y"); }) != "no error");
}

TEST_CASE("invalid pipelines") {
    Schedule s = matmul();
    auto C = s.stage("C");
    C.split("k", 64);
    C.reorder({"k.o", "i", "j", "k.i"});
    CHECK(told([&] { C.pipeline("k.o", 3); }) == R"(
FILE:LINE: error: pipeline("k.o", 3): no copy is made at loop k.o of stage C
  stage C   for k.o in 0..4 (reduction)         ← pipeline asked here
              for i in 0..128
                for j in 0..128
                  for k.i in 0..64 (reduction)  ← innermost
  legal here: place_in(tensor, level, "C", "k.o") first
)");
    s.place_in("B", "L2", "C", "k.o");
    for (const int64_t stages : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{9}, INT64_MAX}) {
        CHECK(told([&] { C.pipeline("k.o", stages); }).find("  legal here: 2 (as double_buffer) to 8\n") !=
              std::string::npos);
    }
    CHECK(told([&] { C.pipeline("kk", 2); }).find("stage C has no loop \"kk\"") != std::string::npos);
    Schedule unrolled = s;
    unrolled.stage("C").unroll("k.o");
    CHECK(told([&] { unrolled.stage("C").pipeline("k.o", 2); }).find("loop k.o is unrolled") != std::string::npos);
    C.pipeline("k.o", 3);
    CHECK(told([&] { C.pipeline("k.o", 2); }).find("copy B.L2 has 3 buffers already") != std::string::npos);
    CHECK(told([&] { s.stage("B.L2").double_buffer(); }).find("stage B.L2 has 3 buffers from a pipeline already") !=
          std::string::npos);
    CHECK(told([&] { C.unroll("k.o"); }) == R"(
FILE:LINE: error: unroll("k.o") breaks a requirement of pipeline("k.o", 3) (FILE:LINE): loop k.o of stage C is unrolled
  it would make
  stage C   unrolled k.o in 0..4 (reduction)
              for i in 0..128
                for j in 0..128
                  for k.i in 0..64 (reduction)
  legal here: a directive that keeps the requirement, or this directive before pipeline("k.o", 3)
)");
    Schedule both = matmul();
    both.place_in("B", "L2", "C", "j");
    both.place_in("B.L2", "L1", "C", "j");
    CHECK(told([&] { both.stage("C").pipeline("j", 2); }).find("it reads B.L2, which is computed in the same loop j") !=
          std::string::npos);
    Schedule registers = matmul();
    registers.place_in("A", "registers", "C", "k");
    CHECK(told([&] {
              registers.stage("C").pipeline("k", 2);
          }).find("is stored in registers, which an index cannot select") != std::string::npos);
}

TEST_CASE("invalid or contradictory conditions") {
    Schedule s(example_op("matmul_any"));
    Size M("M"), N("N");
    CHECK(told([&] { s.assume(N == 4); }) == R"(
FILE:LINE: error: assume: the condition "N == 4" cannot be read at character 1: "N" is not a size of op matmul_any; there are: M
)");
    CHECK(told([&] { s.assume(M + 1); }) == R"(
FILE:LINE: error: assume: the condition is a number; compare it with something
)");
    s.assume(M % 16 == 0);
    CHECK(told([&] { s.assume(M == 8); }) == R"(
FILE:LINE: error: assume("M == 8"): the condition M % 16 == 0 can never hold here: it contradicts what is assumed already
)");
}

TEST_CASE("a specialised schedule that would never run") {
    Schedule s(example_op("matmul_any"));
    Size M("M");
    s.specialize(M % 2 == 1);
    CHECK(told([&] { s.assume(M % 4 == 0); }) == R"(
FILE:LINE: error: assume("M % 4 == 0") breaks a requirement of specialize("M % 2 == 1", …) (FILE:LINE): the condition M % 4 == 0 can never hold here: it contradicts what is assumed already
  legal here: a directive that keeps the requirement, or this directive before specialize("M % 2 == 1", …)
)");
}

TEST_CASE("sizes for which the formula reads outside") {
    Axis i("i", Size("N")), a("a", 5);
    Tensor X = input("X", f32, {a}), Z = input("Z", f32, {i});
    const Op op("some", {X, Z}, {compute("Y", {i}, X(i * 2) + Z(i))});
    Schedule s(op);
    Size N("N");
    CHECK(told([&] { s.assume(N == 4); }) == R"(
FILE:LINE: error: assume("N == 4"): the formula has no meaning there: stage Y reads X outside: its index i * 2 goes from 0 to 6, but axis a has 5 elements
)");
    CHECK(told([&] { s.specialize(N == 8); }) == R"(
FILE:LINE: error: specialize("N == 8", …): the formula has no meaning there: stage Y reads X outside: its index i * 2 goes from 0 to 14, but axis a has 5 elements
)");
    s.specialize(N % 3 == 1);
    CHECK(told([&] { s.assume(N >= 2 && N <= 6); }) == R"(
FILE:LINE: error: assume("N >= 2 && N <= 6") breaks a requirement of specialize("N % 3 == 1", …) (FILE:LINE): the formula has no meaning there: stage Y reads X outside: its index i * 2 goes from 0 to 6, but axis a has 5 elements
  legal here: a directive that keeps the requirement, or this directive before specialize("N % 3 == 1", …)
)");
    s.assume(N <= 8);
}

TEST_CASE("saved schedules that do not fit") {
    const Op op = example_op("matmul");
    Schedule s = matmul();
    s.stage("C").split("i", 8);
    const nlohmann::json good = s.to_json();
    CHECK(told([&] { Schedule::from_json(example_op("conv"), good); }).find("not of conv with hash") !=
          std::string::npos);
    // For other extents, and for stages that the op does not have.
    const Op larger = [] {
        Axis i("i", 64), j("j", 48), k("k", 40);
        const Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
        return Op("larger", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
    }();
    CHECK(Schedule::from_json(larger, good, SavedFor::AnyOp).to_cpp() == s.to_cpp());
    CHECK(told([&] {
              Schedule::from_json(example_op("conv"), good, SavedFor::AnyOp);
          }).find("directive 1 of the saved schedule: ") != std::string::npos);
    nlohmann::json newer = good;
    newer["version"] = 99;
    CHECK(told([&] { Schedule::from_json(op, newer); }) == R"(
the saved schedule has format version 99, newer than 1, which this program reads; load it with the program that saved it, or a newer one
)");
    newer["version"] = uint64_t(4294967297);
    CHECK(told([&] { Schedule::from_json(op, newer); }).find("version 4294967297, newer than 1") != std::string::npos);
    for (const nlohmann::json &version : {nlohmann::json(0), nlohmann::json(-1)}) {
        nlohmann::json old = good;
        old["version"] = version;
        CHECK(told([&] { Schedule::from_json(op, old); }).find("versions count from 1") != std::string::npos);
    }
    nlohmann::json odd = good;
    odd["hash"] = 7;
    CHECK(told([&] { Schedule::from_json(op, odd); }).find("with hash ?") != std::string::npos);
    odd = good;
    odd["op"] = "product";
    CHECK(told([&] { Schedule::from_json(op, odd); }).find("one of op product") != std::string::npos);
    CHECK(told([&] { Schedule::from_json(op, {{"kumiko", 5}}); }).find("not a saved schedule") != std::string::npos);
    const std::string text = good.dump();
    CHECK(told([&] { Schedule::parse(op, text.substr(0, text.size() / 2)); }).find("the saved schedule:1:") !=
          std::string::npos);
    CHECK(told([&] { Schedule::parse(op, "[]"); }) == R"(
this is not a saved schedule: the mark "kumiko": "schedule" is missing
)");
    CHECK(told([&] { Schedule::load(op, "/nowhere/s.json"); }) == R"(
/nowhere/s.json: cannot be read: No such file or directory
)");
    nlohmann::json wrong = good;
    wrong["directives"][0]["loop"] = "z";
    CHECK(told([&] { Schedule::from_json(op, wrong); }) == R"(
directive 1 of the saved schedule: split("z", 8): stage C has no loop "z"
  stage C   for i in 0..128
              for j in 0..128
                for k in 0..256 (reduction)
  legal here: the loops i, j, k
)");
}

TEST_CASE("a last block beyond 32 bits") {
    Axis i("i", INT32_MAX - 2);
    Tensor X = input("X", i8, {i});
    Schedule s(Op("long", {X}, {compute("Y", {i}, X(i) + 1)}), Machine::named("x86-64-avx2"));
    CHECK(told([&] { s.stage("Y").split("i", 4); }) == R"(
FILE:LINE: error: split("i", 4): the last block of 4 in the 2147483645 iterations of loop i ends beyond 2147483647
  stage Y   for i in 0..2147483645  ← split asked here
  legal here: a factor of 1 to 3, or one that divides 2147483645
)");
    s.stage("Y").split("i", 3);
}

TEST_CASE("conditions that are undefined") {
    Schedule s = matmul();
    CHECK(told([&] { s.assume(Expr()); }) == R"(
FILE:LINE: error: assume: the condition is undefined
)");
    CHECK(told([&] { s.specialize(Expr()); }) == R"(
FILE:LINE: error: specialize: the condition is undefined
)");
}

// Schedules may be created before main begins.
static Schedule early = [] {
    Schedule s = matmul();
    s.stage("C").split("i", 8);
    return s;
}();
TEST_CASE("schedules of namespace scope") { CHECK(early.directives().size() == 1); }

TEST_CASE("stream of an output that is read again") {
    const auto refused = [](const std::string &op, const std::string &stage, const std::string &why) {
        Schedule s(example_op(op), Machine::named("x86-64-avx2"));
        const std::string text = told([&] { s.stage(stage).stream(); });
        CHECK(text.find("stream(): " + why) != std::string::npos);
        CHECK(text.find("stream of an output that nothing reads") != std::string::npos);
    };
    refused("matmul", "C", "C is a reduction, whose partial results are read again");
    refused("chain", "T", "T is not an output, so it is read again inside the kernel");
    Schedule s(example_op("chain"), Machine::named("x86-64-avx2"));
    s.stage("Y").region("j", 0, 8, "head");
    CHECK(told([&] { s.stage("head").stream(); }).find("head is not an output") != std::string::npos);
}

// Stages that are stored at one loop and computed in the loops of the first reader there
// (store_at): results with extents that do not divide, and refusals.
// Links: driver
#include "machine/machine.h"
#include "support/random.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

// Rows of T; Y reads their sum and their elements. With `inner`, T itself is a sum.
Op rows(const Expr &M, const Expr &N, bool inner = false) {
    Axis i("i", M), j("j", N), k("k", N), d("d", 3);
    Tensor X = input("X", i32, {i, d}), Z = input("Z", i32, {d, j});
    Tensor T = inner ? compute("T", {i, j}, sum(X(i, d) * Z(d, j), d)) : compute("T", {i, j}, X(i, 0) * Z(1, j) + 1);
    Tensor S = compute("S", {i}, sum(T(i, k), k));
    return Op("rows", {X, Z}, {compute("Y", {i, j}, T(i, j) * 2 - S(i))});
}

Schedule kept(const Op &op) {
    Schedule s(op);
    s.stage("S").compute_at("Y", "i");
    s.stage("T").store_at("Y", "i");
    return s;
}

// The structure of attention: P and E are read by a reduction first, and then by others.
Op chain(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N), d("d", 5);
    Tensor X = input("X", i32, {i, d}), Z = input("Z", i32, {d, j});
    Tensor P = compute("P", {j, i}, sum(X(i, d) * Z(d, j), d));
    Tensor top = compute("top", {i}, maximum(P(j, i), j));
    Tensor H = compute("H", {i}, top(i) - 1);
    Tensor E = compute("E", {j, i}, P(j, i) - H(i));
    Tensor S = compute("S", {i}, sum(E(j, i), j));
    Tensor R = compute("R", {i}, sum(E(j, i) * Z(0, j), j));
    return Op("chain", {X, Z}, {compute("Y", {i}, R(i) + S(i))});
}

// Orders, splits and vectorizes the loops of a stage at random.
void shape_loops(StageHandle stage, Random &random) {
    const std::vector<Tail> tails = {Tail::Auto, Tail::Guard, Tail::Shift};
    for (int64_t n = random.between(0, 3); n > 0; n--) {
        try {
            std::vector<LoopName> order(stage.state().order.begin(), stage.state().order.end());
            const LoopName loop = random.pick(order);
            if (random.chance(0.4)) {
                stage.split(loop, random.between(2, 9), {"", "", random.pick(tails)});
            } else if (random.chance(0.5)) {
                random.shuffle(order);
                stage.reorder(order);
            } else if (random.chance(0.5)) {
                stage.unroll(loop);
            } else {
                stage.vectorize(order.back(), random.chance(0.5) ? 4 : 8);
            }
        } catch (const UserError &) {
        }
    }
}

} // namespace

TEST_CASE("a stage is computed while its first reader reads it") {
    for (const bool inner : {false, true}) {
        for (const int n : {1, 5, 16, 37}) {
            for (const int block : {1, 4, 8}) {
                Schedule s = kept(rows(7, n, inner));
                if (inner) s.stage("T").reorder({"i", "d", "j"});
                if (block == 1) {
                    s.stage("T").compute_at("S", "k");
                } else {
                    auto [ko, ki] = s.stage("S").split("k", block);
                    s.stage("T").compute_at("S", ko);
                    s.stage("T").vectorize("j", 4);
                    s.stage("S").unroll(ki);
                }
                s.stage("Y").vectorize("j", 8);
                check_runs(s);
            }
        }
    }
}

TEST_CASE("blocks of rows, and sizes that are not known") {
    const Op op = rows(Size("M"), Size("N"), true);
    for (const bool reload : {false, true}) {
        Schedule s(op);
        auto [io, ii] = s.stage("Y").split("i", 4);
        s.stage("Y").parallel(io);
        s.stage("S").compute_at("Y", io);
        s.stage("T").store_at("Y", io);
        auto [ko, ki] = s.stage("S").split("k", 6);
        s.stage("S").reorder({ko, "i", ki});
        if (reload) s.accumulate_in("S", "registers", "i");
        s.stage("T").compute_at("S", ko).layout({"j", "i"}).reorder({"j", "i", "d"});
        for (const int m : {1, 4, 9}) {
            for (const int n : {0, 1, 6, 17}) check_runs(s, {{"M", m}, {"N", n}});
        }
        CHECK(std::string(s.nest()).find("keep T stored {j, i}, the part that one i.o needs") != std::string::npos);
        CHECK(std::string(s.nest()).find("compute T, the part that one k.o needs") != std::string::npos);
    }
}

TEST_CASE("chains: a stored stage reads one computed in the same loop, and an earlier maximum") {
    Schedule s(chain(21, 13));
    s.stage("R").finish_in("Y");
    auto [io, ii] = s.stage("R").split("i", 8);
    for (const char *stage : {"S", "E", "H", "top", "P"}) s.stage(stage).compute_at("R", io);
    auto [jo, ji] = s.stage("top").split("j", 4);
    s.stage("top").reorder({jo, ji, "i"}).vectorize("i", 8);
    s.stage("P").store_at("R", io).compute_at("top", jo);
    s.stage("P").reorder({"j", "d", "i"}).vectorize("i", 8);
    s.stage("S").reorder({"j", "i"}).vectorize("i", 8);
    s.stage("E").store_at("R", io).compute_at("S", "j").vectorize("i", 8);
    check_runs(s);
    SUBCASE("and back") {
        s.stage("E").store_at("R", io);
        CHECK_FALSE(s.state().find("E")->computed);
    }
    SUBCASE("a copy of what the parts read") {
        s.place_in("X", "L1", "P", "j");
        check_runs(s);
    }
    SUBCASE("what only the kept stage reads, in the same loop of the reader") {
        s.stage("H").inline_into();
        s.place_in("P", "L1", "E", "j");
        check_runs(s);
    }
}

TEST_CASE("random loops around the stored stage, inside, and between") {
    Random random(11);
    int computed = 0;
    for (int n = 0; n < 60; n++) {
        const int rows = random.between(1, 40), columns = random.between(1, 40);
        const bool symbolic = random.chance(0.2);
        Schedule s(symbolic ? chain(Size("M"), Size("N")) : chain(rows, columns));
        s.stage("R").finish_in("Y");
        const LoopName at = s.stage("R").split("i", random.between(1, 12)).first;
        for (const char *stage : {"S", "E", "H", "top", "P"}) s.stage(stage).compute_at("R", at);
        for (const char *stage : {"R", "S", "E", "top", "P"}) {
            if (s.stage(stage).state().has_loop(at) || stage != std::string("R")) shape_loops(s.stage(stage), random);
        }
        for (const auto &[kept, reader] : {std::pair{"P", "top"}, {"E", "S"}}) {
            try {
                s.stage(kept).store_at("R", at).compute_at(reader, random.pick(s.stage(reader).state().order));
            } catch (const UserError &) { // a loop in vectors
            }
            computed += s.stage(kept).state().computed.has_value();
            shape_loops(s.stage(kept), random);
            shape_loops(s.stage(reader), random);
        }
        check_runs(s, symbolic ? Sizes{{"M", rows}, {"N", columns}} : Sizes{});
    }
    CHECK(computed > 60); // of 120
}

TEST_CASE("compute_at at the loop of store_at replaces a closer one") {
    Schedule s = kept(rows(6, 9)), back = s;
    back.stage("T").compute_at("S", "k");
    CHECK(back.nest() != s.nest());
    back.stage("T").compute_at("Y", "i");
    CHECK(back.nest() == s.nest());
    back.stage("T").compute_at("S", "k"); // still kept there
    check_runs(back);
}

TEST_CASE("stages of store_at that a loop cannot compute") {
    const auto told = [](const Op &op, const std::function<void(Schedule &)> &f) {
        Schedule s = kept(op);
        return refusal([&] { f(s); });
    };
    const auto says = [](const std::string &text, const char *part) {
        INFO(text);
        return text.find(part) != std::string::npos;
    };
    const Op op = rows(6, 9);
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("Y", "j"); }),
               "stage S, which reads it, is computed at loop i, outside of j"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").place_in("registers").compute_at("S", "k"); }),
               "T is stored in registers"));
    CHECK(says(told(op,
                    [](Schedule &s) {
                        s.stage("S").compute_at("Y", "j");
                        s.stage("T").compute_at("S", "k");
                    }),
               "S is not computed"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "i").compute_at("S", "x"); }), "no loop"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("S").parallel("i"), s.stage("T").compute_at("S", "k"); }),
               "loop i of S is parallel"));
    CHECK(says(
        told(op,
             [](Schedule &s) { s.stage("T").split("j", 4, {.tail = Tail::Pad}), s.stage("T").compute_at("S", "k"); }),
        "pads its storage"));
    // Later directives invalidate nothing.
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k"), s.stage("S").split("k", 2); }),
               "loop k of stage S no longer exists"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k"), s.stage("S").parallel("i"); }),
               "breaks a requirement of compute_at(\"S\", \"k\")"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k"), s.stage("S").rfactor("k"); }), "S"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k").place_in("registers"); }), "registers"));
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k").double_buffer(); }), "multi-buffered"));

    // A tensor computed inside a loop cannot be prefetched before it.
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k"), s.stage("S").prefetch("T", "k", 1); }),
               "T is computed inside loop k"));
    CHECK(told(op, [](Schedule &s) { s.stage("S").prefetch("T", "k", 1); }) == "no error");
    CHECK(says(told(op, [](Schedule &s) { s.stage("T").compute_at("S", "k"), s.stage("Y").prefetch("T", "i", 1); }),
               "T is stored inside loop i"));
    CHECK(says(told(op,
                    [](Schedule &s) {
                        s.stage("T").compute_at("S", "k");
                        s.stage("Y").split("j", 4);
                        s.stage("Y").prefetch("T", "j.i", 1, "Y", "i");
                    }),
               "T is stored inside loop i"));

    Axis i("i", 6), j("j", 8), k("k", 8), h("h", 4);
    Tensor X = input("X", i32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) + 1);
    const auto of = [&](const Expr &read, const std::vector<Axis> &by, const Expr &rest) {
        Tensor S = compute("S", {i}, sum(read, by));
        return Op("some", {X}, {compute("Y", {i, j}, rest + S(i))});
    };
    const auto at_k = [](Schedule &s) { s.stage("T").compute_at("S", s.stage("S").state().order.back()); };
    CHECK(says(told(of(T(i, h * 2), {h}, T(i, j)), at_k), "does not read T at one list of indices"));
    CHECK(says(told(of(T(i, h), {h}, T(i, j)), at_k), "Y may read more of T along j than S does"));
    CHECK(says(told(of(T(i, k), {k}, T(5 - i, j)), at_k), "Y may read more of T along i than S does"));
    CHECK(told(of(T(i, k), {k}, T(i, 7 - j)), at_k) == "no error"); // of all that there is

    // A copy filled one iteration ahead must not read a tensor computed in the same loop, directly
    // or through inlined stages.
    Schedule ahead(chain(6, 7));
    ahead.stage("H").inline_into();
    for (const char *stage : {"E", "top", "P"}) ahead.stage(stage).compute_root();
    ahead.stage("R").compute_at("Y", "i");
    ahead.stage("S").compute_at("Y", "i");
    ahead.stage("E").store_at("Y", "i");
    ahead.stage("top").store_at("Y", "i");
    CHECK(
        says(refusal([&] { ahead.stage("E").double_buffer(); }), "it reads top, which is computed in the same loop i"));

    // Readers before, and in the loops of the first.
    Tensor A = compute("A", {i}, sum(T(i, k), k)), S = compute("S", {i}, sum(T(i, k) * A(i), k));
    const Op two("two", {X}, {compute("Y", {i, j}, T(i, j) + S(i))});
    Schedule s(two);
    s.stage("S").compute_at("Y", "i");
    s.stage("A").compute_at("Y", "i");
    s.stage("T").store_at("Y", "i");
    CHECK(says(refusal([&] { s.stage("T").compute_at("S", "k"); }), "A, which reads T too, is computed before S"));
    s.stage("T").compute_at("A", "k");
    check_runs(s);
    s.stage("T").store_at("Y", "i");
    s.stage("A").compute_at("S", "i");
    CHECK(says(refusal([&] { s.stage("T").compute_at("S", "k"); }),
               "A, which reads T too, is computed in the loops of S"));
    CHECK(says(refusal([&] { s.place_in("X", "L1", "T", "i").store_at("Y", "i"); }), "X.L1 is a copy"));
}

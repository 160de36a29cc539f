// Sums in one pass with the running maximum of their terms (online): results under many schedules,
// with −inf in rows and blocks, and refusals.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/buffer_elements.h"
#include "schedules/online.h"
#include "support/random.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

#include <array>

using namespace kumiko;

namespace {

const double inf = std::numeric_limits<double>::infinity();

// Weights exp(s - max) of a row, their sum, and the sum of rows of V weighted by them; s is −inf if
// the mask is 0.
Op mixing(Type t, const Expr &M, const Expr &N, const Expr &D, Type top_type = {}) {
    Axis i("i", M), j("j", N), v("v", D);
    const Type tt = top_type.bits() ? top_type : t;
    Tensor X = input("X", tt, {i, j}), mask = input("mask", u8, {i, j}), V = input("V", t, {j, v});
    const Expr none = Halide::Internal::FloatImm::make(tt, -inf);
    const Expr s = select(mask(i, j) != 0, X(i, j), none);
    const auto in = [&](const Expr &e) { return e.type() == t ? e : Expr(cast(t, e)); };
    Tensor top = compute("max", {i}, maximum(s, j));
    Tensor e = compute("e", {i, j}, exp(in(s)-in(top(i))));
    Tensor total = compute("sum", {i}, sum(e(i, j), j));
    Tensor mixed = compute("mixed", {i, v}, sum(e(i, j) * V(j, v), j));
    return Op("mixing", {X, mask, V}, {compute("Y", {i, v}, mixed(i, v) / total(i))});
}

// Rows without mask, rows of −inf only, rows whose first, last or middle block of 4 is masked, and
// random rows.
void fill_mask(Buffer<> &mask) {
    const int64_t rows = mask.extents()[0], n = mask.extents()[1];
    Random random(5);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            const bool seen[] = {true, false, j >= 4, j + 4 < n, j / 4 != 1, j == n - 1, j == 0, random.chance(0.3)};
            mask.raw_buffer()->host[i * mask.stride(0) + j] = seen[i % 8];
        }
    }
}

std::vector<Buffer<>> inputs_of(const Op &op, const Sizes &sizes, double spread) {
    std::vector<Buffer<>> all;
    for (const Input &in : op.inputs()) {
        all.push_back(make_input(in, sizes));
        if (in.name == "mask")
            fill_mask(all.back());
        else
            fill_random(all.back(), all.size(), -spread, spread);
    }
    return all;
}

// Equal to the formula except for rounding, NaN if it is NaN; the schedule must survive saving and
// loading.
void check_close(const Schedule &s, const Sizes &sizes = {}, double spread = 8, bool through_halide = false) {
    INFO(s.nest());
    const Op &op = s.op();
    const Schedule again = Schedule::from_json(op, s.machine(), s.to_json(), s.state().instructions);
    CHECK(again.nest() == s.nest());
    CHECK(body_of(again) == body_of(s));
    CHECK(again.to_cpp() == s.to_cpp());
    CompileOptions options;
    options.through_halide = through_halide;
    const Kernel k = compile(s, Target::host(), options);
    std::vector<Buffer<>> args = inputs_of(op, sizes, spread), expected = args;
    for (const std::string &out : op.outputs()) {
        args.push_back(make_output(op, out, sizes));
        fill_unwritten(args.back());
        expected.push_back(make_output(op, out, sizes));
    }
    interpret(op, expected);
    k(args);
    for (size_t o = op.inputs().size(); o < args.size(); o++) {
        for_each_index(args[o].extents(), [&](const Index &i) {
            const double a = at(args[o], i), e = at(expected[o], i);
            const bool same = std::isnan(e) ? std::isnan(a) : a == e || std::abs(a - e) <= 3e-6 + 2e-5 * std::abs(e);
            if (!same) FAIL_CHECK("is ", a, ", not ", e, " at ", list_text(i));
        });
    }
}

// Rows in vectors; blocks of keys are outermost, except for blocks of rows; e and the online stages
// are at the blocks.
Schedule in_blocks(const Op &op, int64_t rows, int64_t block, const std::string &rounds, bool wait) {
    Schedule s(op);
    StageHandle M = s.stage("mixed");
    auto [io, ii] = M.split("i", rows);
    auto [jo, ji] = M.split("j", block);
    auto [to, ti] = M.split(ii, 2);
    M.reorder({io, jo, to, ji, ti, "v"}).vectorize("v", 4);
    if (!rounds.empty()) s.accumulate_in("mixed", "registers", to, rounds);
    if (wait) M.wait_in("L1", io);
    M.finish_in("Y").parallel(io);
    for (const std::string n : {"sum", "e", "max"}) s.stage(n).compute_at("mixed", io);
    M.online("max", jo, {"sum"});
    s.stage("e").vectorize("j", 4);
    return s;
}

} // namespace

TEST_CASE("the directive alone") {
    for (const auto &[M, N, D] : std::vector<std::array<int, 3>>{{8, 16, 3}, {9, 18, 5}, {16, 3, 1}, {8, 4, 4}}) {
        for (const int block : {4, 5}) {
            const Op op = mixing(f32, M, N, D);
            Schedule s(op);
            auto [jo, ji] = s.stage("mixed").split("j", block);
            s.stage("mixed").online("max", jo, {"sum"});
            CHECK(s.state().find("max.block")->placement.loop == "j.o");
            CHECK(s.state().find("e")->placement.consumer == "mixed");
            CHECK(s.state().stages.back().name() == "Y");
            check_close(s);
            check_close(s, {}, 8, true);
            Schedule ordered(op);
            auto M2 = ordered.stage("mixed");
            auto [o, i] = M2.split("j", block);
            M2.reorder({o, "i", i, "v"});
            M2.online("max", o, {"sum"});
            ordered.stage("e").inline_into();
            check_close(ordered);
        }
    }
}

TEST_CASE("sums with a loop of their own for each block") {
    for (const auto &[M, N] : std::vector<std::pair<int, int>>{{8, 64}, {9, 37}, {8, 3}, {1, 1}}) {
        const Op op = mixing(f32, M, N, 3);
        Schedule s(op);
        s.stage("e").inline_into();
        auto [jo, ji] = s.stage("mixed").split("j", 16);
        s.stage("mixed").online("max", jo, {"mixed", "sum"});
        CHECK(s.state().find("mixed")->def.reduction_axes[0].name() == "j_o");
        CHECK(s.state().find("mixed.block") != nullptr);
        for (const std::string stage : {"max.block", "sum.block"}) {
            StageHandle B = s.stage(stage);
            B.vectorize(B.state().order.back(), 8);
        }
        s.stage("mixed").reorder({"i", "j_o", "v"}).vectorize("v", 4);
        check_close(s);
    }
}

TEST_CASE("rounds, registers, places to wait, and threads") {
    for (const auto &[M, N, D] : std::vector<std::array<int, 3>>{{16, 24, 8}, {19, 21, 7}}) {
        for (const std::string rounds : {"", "reload", "join"}) {
            for (const bool wait : {false, true}) {
                if (wait && rounds != "reload") continue;
                const Op op = mixing(f32, M, N, D);
                check_close(in_blocks(op, 8, 4, rounds, wait));
                check_close(in_blocks(op, 5, 6, rounds, wait));
            }
        }
    }
}

TEST_CASE("sizes known at run time, and rows of no elements") {
    const Op op = mixing(f32, Size("M"), Size("N"), 4);
    const Schedule s = in_blocks(op, 8, 4, "reload", true);
    for (const auto &[M, N] : std::vector<std::pair<int, int>>{{16, 16}, {11, 7}, {1, 1}, {9, 0}, {0, 9}})
        check_close(s, {{"M", M}, {"N", N}});
    const Op none = mixing(f32, 4, 0, 3);
    Schedule t(none);
    auto [jo, ji] = t.stage("mixed").split("j", 4);
    t.stage("mixed").online("max", jo, {"sum"});
    check_close(t);
}

TEST_CASE("wide numbers, and a maximum narrower than what is summed") {
    const Op wide = mixing(f64, 9, 21, 3), narrow = mixing(f32, 9, 21, 3, f16), brain = mixing(f32, 9, 21, 3, bf16);
    for (const Op &op : {wide, narrow, brain}) {
        for (const double spread : {1.0, 100.0, 60000.0}) check_close(in_blocks(op, 8, 4, "reload", true), {}, spread);
    }
    check_close(in_blocks(mixing(f32, 9, 21, 3), 8, 4, "reload", true), {}, 3e38);
}

TEST_CASE("a softmax in one pass over blocks, then one that divides") {
    for (const int N : {5, 64, 100}) {
        const Op op = ops::softmax(f32, 12, N);
        Schedule s(op);
        s.stage("e").inline_into();
        StageHandle Y = s.stage("Y"), T = s.stage("sum");
        s.stage("share").compute_at("Y", "i");
        s.stage("sum").compute_at("Y", "i");
        s.stage("max").compute_at("Y", "i");
        auto [jo, ji] = T.split("k", 16);
        T.online("max", jo, {"sum"});
        for (const std::string stage : {"max.block", "sum.block"}) {
            StageHandle B = s.stage(stage);
            B.vectorize(B.state().order.back(), 8);
        }
        Y.parallel("i").vectorize("j", 8);
        check_close(s);
        check_close(s, {}, 200);
    }
    Axis i("i", 3), j("j", 40), k("k", 40);
    Tensor X = input("X", bf16, {i, j});
    Tensor top = compute("max", {i}, maximum(X(i, k), k));
    Tensor total = compute("sum", {i}, sum(exp(cast(f32, X(i, k)) - cast(f32, top(i))), k));
    Tensor shift = compute("shift", {i}, cast(f32, top(i)) + log(total(i)));
    const Op logs("logs", {X}, {compute("Y", {i, j}, cast(bf16, cast(f32, X(i, j)) - shift(i)))});
    Schedule s(logs);
    auto [jo, ji] = s.stage("sum").split("k", 16);
    s.stage("sum").online("max", jo);
    INFO(s.nest());
    compile(s);
}

TEST_CASE("the maximum and the sums may be outputs") {
    Axis i("i", 9), j("j", 22);
    Tensor X = input("X", f32, {i, j});
    Tensor top = compute("top", {i}, maximum(X(i, j), j));
    Tensor total = compute("total", {i}, sum(exp(X(i, j) - top(i)), j));
    const Op op("logs", {X}, {compute("Y", {i}, top(i) + log(total(i))), top, total});
    Schedule s(op);
    auto [jo, ji] = s.stage("total").split("j", 4);
    s.stage("total").online("top", jo);
    check_close(s);
    s.stage("total").parallel("i");
    check_close(s);
}

TEST_CASE("fully masked blocks do not run") {
    for (const int keys :
         // The first of 20 queries see none of 9 keys; the result must be as in the formula.
         {9, 20, 24, 33}) {
        const Op op = ops::attention(f32, 1, 1, 20, keys, 8, {.causal = true});
        Schedule s(op);
        StageHandle M = s.stage("mixed");
        auto [jo, ji] = M.split("j", 6);
        auto [io, ii] = M.split("i", 4);
        M.reorder({"b", "g", "r", io, jo, ii, ji, "v"});
        M.finish_in("Y");
        for (const std::string n : {"share", "sum", "e", "max"}) s.stage(n).compute_at("mixed", io);
        M.online("max", jo, {"sum"});
        s.stage("score").compute_at("mixed", jo);
        const std::string body = body_of(s);
        INFO(body);
        bool follows = false; // as many blocks as these queries see keys of
        for (size_t at = body.find("for (mixed.j.o"); at != std::string::npos; at = body.find("for (mixed.j.o", at + 1))
            follows = follows || body.substr(at, body.find('\n', at) - at).find("mixed.i.o") != std::string::npos;
        CHECK(follows);
        check_close(s, {}, 2);
    }
}

TEST_CASE("attention, causal and not") {
    for (const bool causal : {false, true}) {
        const Op op = ops::attention(f32, 2, 2, 20, 20, 8, {.causal = causal});
        Schedule s(op);
        StageHandle M = s.stage("mixed");
        auto [jo, ji] = M.split("j", 6);
        auto [io, ii] = M.split("i", 8);
        M.reorder({"b", "g", "r", io, jo, ii, ji, "v"}).vectorize("v", 4);
        M.finish_in("Y");
        s.accumulate_in("mixed", "registers", ii);
        for (const std::string n : {"share", "sum", "e", "max"}) s.stage(n).compute_at("mixed", io);
        M.wait_in("L1", io);
        M.online("max", jo, {"sum"});
        CHECK(waits_for_end(s.state(), *s.state().find("share")));
        s.stage("score").compute_at("mixed", jo);
        check_close(s, {}, 2);
    }
}

TEST_CASE("random orders, kinds and places") {
    Random random(11);
    int ran = 0;
    for (int n = 0; n < 80; n++) {
        const Op op = mixing(f32, static_cast<int>(random.between(1, 20)), static_cast<int>(random.between(0, 30)),
                             static_cast<int>(random.between(1, 9)));
        Schedule s(op);
        const auto try_to = [&](const std::function<void(Schedule &, StageHandle)> &f) {
            Schedule next = s;
            try {
                f(next, next.stage("mixed"));
                next.require_applied();
                s = next;
            } catch (const UserError &) {
            }
        };
        const auto loop = [&](const Schedule &t, const std::string &stage) {
            const std::vector<std::string> &order = t.state().find(stage)->order;
            return order[random.below(order.size())];
        };
        if (random.chance(0.5)) try_to([&](Schedule &, StageHandle M) { M.split("i", random.between(2, 8)); });
        try_to([&](Schedule &, StageHandle M) { M.split("j", random.between(1, 9)); });
        try_to([&](Schedule &, StageHandle M) {
            std::vector<std::string> order = M.state().order;
            random.shuffle(order);
            M.reorder({order.begin(), order.end()});
        });
        if (random.chance(0.3)) try_to([&](Schedule &t, StageHandle) { t.stage("e").inline_into(); });
        if (random.chance(0.5)) try_to([&](Schedule &, StageHandle M) { M.finish_in("Y"); });
        for (const std::string stage : {"sum", "e", "max"}) {
            if (random.chance(0.5))
                try_to([&](Schedule &t, StageHandle) { t.stage(stage).compute_at("mixed", loop(t, "mixed")); });
        }
        const bool itself = random.chance(0.3);
        try_to([&](Schedule &, StageHandle M) {
            M.online("max", "j.o", itself ? std::vector<std::string>{"mixed", "sum"} : std::vector<std::string>{"sum"});
        });
        if (!s.state().find("max.block")) continue; // refused
        for (int k = 0; k < 6; k++) {
            const std::vector<std::string> stages = {"mixed", "mixed", "max", "sum", "max.block", "sum.block"};
            const std::string stage = stages[random.below(stages.size())];
            const int what = static_cast<int>(random.below(6));
            try_to([&](Schedule &t, StageHandle M) {
                StageHandle S = t.stage(stage);
                if (what == 0) S.vectorize(S.state().order.back(), 4);
                if (what == 1) S.unroll(loop(t, stage), 2);
                if (what == 2) S.parallel(loop(t, stage));
                if (what == 3)
                    t.accumulate_in(stage, random.chance(0.5) ? "registers" : "L1", loop(t, stage),
                                    random.chance(0.5) ? "reload" : "join");
                if (what == 4) M.wait_in("L1", loop(t, "mixed"));
                if (what == 5) S.split(loop(t, stage), random.between(2, 5));
            });
        }
        check_close(s);
        ran++;
    }
    CHECK(ran > 20);
}

TEST_CASE("errors of online") {
    const Op op = mixing(f32, 8, 16, 4);
    const auto with = [&](const std::function<void(Schedule &, StageHandle)> &f) {
        return refusal([&] {
            Schedule s(op);
            s.stage("mixed").split("j", 4);
            f(s, s.stage("mixed"));
        });
    };
    const auto has = [](const std::string &text, const std::string &part) {
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
    };
    has(with([](Schedule &, StageHandle M) { M.online("max", "i"); }), "does not reduce along the one axis");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.i"); }), "does not step through blocks");
    has(with([](Schedule &, StageHandle M) { M.online("none", "j.o"); }), "there is no stage \"none\"");
    has(with([](Schedule &, StageHandle M) { M.online("sum", "j.o"); }), "sum is not a maximum of floats");
    has(with([](Schedule &s, StageHandle) { s.stage("max").online("max", s.stage("max").split("j", 4).first); }),
        "max is the maximum itself");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.stage("e").double_buffer();
        }),
        "e is filled before its block");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.reindex("e", "mixed", {"j i"});
        }),
        "e.by.mixed reads e at ");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o", {"e"}); }), "it is not a sum");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o", {"sum", "sum"}); }), "named twice");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o", {"sum"}).online("max", "j.o"); }),
        "online already");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o"); }), "stage sum, which reads it");
    has(with([](Schedule &, StageHandle M) { M.parallel("i").online("max", "j.o", {"sum"}).parallel("v"); }),
        "loop v of mixed, whose iterations run in parallel");
    has(with([](Schedule &, StageHandle M) {
            M.split("j.i", 2);
            M.reorder({"j.i.o", "j.o", "i", "v", "j.i.i"}).online("max", "j.o", {"sum"});
        }),
        "is outside of loop j.o");
    has(with([](Schedule &s, StageHandle M) {
            s.stage("max").split("j", 2);
            M.online("max", "j.o");
        }),
        "split or changed already");
    // Recorded facts stay true.
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o", {"sum"}).split("j.o", 2); }),
        "breaks a requirement of online");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.stage("e").compute_root();
        }),
        "e uses the maximum of a block");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.stage("max").compute_at("mixed", "j.o");
        }),
        "is stored inside of the blocks, but the next block needs it");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.accumulate_in("sum", "registers", "i");
        }),
        "schedule sum.block");
    has(with([](Schedule &, StageHandle M) { M.online("max", "j.o", {"sum"}).unroll("j.o"); }),
        "each block depends on the previous one");
    has(with([](Schedule &s, StageHandle M) {
            M.online("max", "j.o", {"sum"});
            s.stage("max").split("i", 16, {.tail = Tail::Pad});
        }),
        "max is kept across the blocks of loop j.o");

    const auto formula = [&](const std::function<Expr(Expr s, Expr top, Expr v)> &f) {
        return refusal([&] {
            Axis i("i", 8), j("j", 16);
            Tensor X = input("X", f32, {i, j}), V = input("V", f32, {i, j});
            Tensor top = compute("top", {i}, maximum(X(i, j), j));
            Schedule s(Op("other", {X, V}, {compute("Y", {i}, sum(f(X(i, j), top(i), V(i, j)), j))}));
            s.stage("Y").split("j", 4);
            s.stage("Y").online("top", "j.o");
        });
    };
    const auto w = [](const Expr &s, const Expr &top) { return exp(s - top); };
    CHECK(formula([&](Expr s, Expr t, Expr v) { return w(s, t) * v / (v + 1.f); }) == "no error");
    CHECK(formula([&](Expr s, Expr t, Expr v) { return select(v > 0.f, w(s, t), 0.f) - w(s, t); }) == "no error");
    has(formula([&](Expr s, Expr t, Expr v) { return w(s, t) + v; }), "has a term without exp(s - top)");
    has(formula([&](Expr s, Expr t, Expr v) { return w(s, t) * t; }), "uses it in both factors");
    has(formula([&](Expr s, Expr t, Expr v) { return s - t; }), "has a term without exp(s - top)");
    has(formula([&](Expr s, Expr t, Expr v) { return t * v; }), "outside of a factor exp");
    has(formula([&](Expr s, Expr t, Expr v) { return w(v, t); }), "of which it is not the maximum");
    has(formula([&](Expr s, Expr t, Expr v) { return exp((s - t) * 2.f); }),
        "an exp whose argument is not a difference");
    has(formula([&](Expr s, Expr t, Expr v) { return select(t > 0.f, w(s, t), 0.f); }), "outside of a factor exp");
}

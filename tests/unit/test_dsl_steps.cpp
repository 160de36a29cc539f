// Recurrences with products and other stages of earlier elements: each step of all of them is
// computed before the next step.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/buffer_elements.h"
#include "dsl/interpret_element.h"
#include "dsl/padding.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "schedules/primitive.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

// h(t, b, u) = (x(t, b, u) + Σ_k h(t − 1, b, k) R(k, u)) % 61
Op layer(const Expr &T, const Expr &B, const Expr &U, bool batch_first = false) {
    Axis t("t", T), b("b", B), u("u", U), k("k", U);
    Tensor X = input("X", i32, {t, b, u}), R = input("R", i32, {k, u});
    const std::vector<Axis> axes = batch_first ? std::vector{b, t, u} : std::vector{t, b, u};
    return Op("layer", {X, R}, {recurrence("h", i32, axes, 1, [&](const Earlier &h) {
                  const Element before = batch_first ? h(b, t - 1, k) : h(t - 1, b, k);
                  return (X(t, b, u) + sum(before * R(k, u), k)) % 61;
              })});
}

// Gates in between, which are also an output, and two tensors that are carried on. Of more than
// three gates, the others are read by no stage.
Op cell(int T, int B, int U, int gates = 3) {
    Axis t("t", T), b("b", B), g("g", gates), u("u", U), k("k", U);
    Tensor X = input("X", i32, {t, b, g, u}), R = input("R", i32, {g, u, k}), h0 = input("h0", i32, {b, u});
    Tensor Z;
    const auto hc =
        recurrence({"h", "c"}, {i32, i32}, {t, b, u}, {0, 2}, [&](const std::vector<Earlier> &s) -> std::vector<Expr> {
            const Element before = s[0](t - 1, b, k);
            Z = compute("Z", {t, b, g, u},
                        (X(t, b, g, u) + sum(select(t == 0, h0(b, k), before) * R(g, u, k), k)) % 31);
            const Expr c = (Z(t, b, 0, u) * s[1](t - 1, b, u) + Z(t, b, 1, u)) % 29;
            return {(c * Z(t, b, 2, u)) % 17, c};
        });
    return Op("cell", {X, R, h0}, {Z, hc[0], hc[1]});
}

} // namespace

TEST_CASE("a recurrent layer") {
    for (const bool batch_first : {false, true}) {
        const Op op = layer(7, 3, 20, batch_first);
        const std::vector<Buffer<>> in = random_inputs(op);
        std::vector<std::vector<double>> h(3, std::vector<double>(20, 1));
        std::vector<std::vector<std::vector<double>>> all;
        for (int t = 0; t < 7; t++) {
            auto next = h;
            for (int b = 0; b < 3; b++) {
                for (int u = 0; u < 20; u++) {
                    double sum = at(in[0], {t, b, u});
                    for (int k = 0; k < 20; k++) sum += h[b][k] * at(in[1], {k, u});
                    next[b][u] = sum - 61 * std::floor(sum / 61);
                }
            }
            all.push_back(h = next);
        }
        const Index extents = batch_first ? Index{3, 7, 20} : Index{7, 3, 20};
        check_elements(op, in, extents,
                       [&](const Index &n) { return batch_first ? all[n[1]][n[0]][n[2]] : all[n[0]][n[1]][n[2]]; });
        check_runs(Schedule(op));
        check_runs(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("gates that are outputs, and tensors that are carried on together") {
    for (const int gates : {3, 5}) {
        const Op op = cell(5, 2, 18, gates);
        check_runs(Schedule(op));
        const Schedule s = default_schedule(op, Machine::host());
        CHECK(s.directives().size() > 5); // the rules apply
        check_runs(s);
        Schedule outside(op); // the loop over sequences
        outside.stage("h.recurrence").reorder({"b", "t", "u"}).parallel("b");
        outside.stage("Z").vectorize("u", 8);
        check_runs(outside);
    }
}

TEST_CASE("sizes that are bound at run time") {
    const Op op = layer(Size("T"), Size("B"), Size("U"));
    for (const Schedule &s : {Schedule(op), default_schedule(op, Machine::host())}) {
        for (const auto &[T, B, U] : {std::array{5, 2, 33}, {1, 1, 1}, {0, 3, 4}, {3, 0, 4}, {4, 7, 16}})
            check_runs(s, {{"T", T}, {"B", B}, {"U", U}});
    }
}

TEST_CASE("layers of the library") {
    using Options = ops::RecurrentOptions;
    const Options states{.states = true}, after{.states = true, .reset_after = true},
        reverse{.reverse = true, .states = true};
    for (const Op &op :
         {ops::rnn(f32, 6, 3, 5, 20, states), ops::gru(f32, 6, 3, 5, 20, states), ops::gru(f32, 6, 3, 5, 20, after),
          ops::lstm(f32, 6, 1, 5, 40, states), ops::lstm(f32, 6, 3, 5, 20, reverse)}) {
        INFO(op.to_string());
        std::vector<Buffer<>> in = random_inputs(op);
        const auto value = [&](const std::string &name, const Index &index) {
            for (size_t n = 0; n < in.size(); n++) {
                if (op.inputs()[n].name == name) return at(in[n], index);
            }
            return 0.0;
        };
        const int64_t T = 6, B = in[0].extents()[1], I = 5, U = in[4].extents()[1];
        const bool turned = op.name() == "lstm" && B > 1, later = op.inputs().back().name == "rbias";
        const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
        std::vector<std::vector<double>> h(B, std::vector<double>(U)), c = h;
        for (int64_t b = 0; b < B; b++) {
            for (int64_t u = 0; u < U; u++) h[b][u] = value("h0", {b, u}), c[b][u] = value("c0", {b, u});
        }
        std::map<Index, double> expected;
        for (int64_t step = 0; step < T; step++) {
            const int64_t t = turned ? T - 1 - step : step;
            for (int64_t b = 0; b < B; b++) {
                const auto gated = [&](int64_t g, int64_t u) { return op.name() == "rnn" ? Index{u} : Index{g, u}; };
                const auto with = [](Index index, int64_t last) {
                    index.push_back(last);
                    return index;
                };
                const auto from_input = [&](int64_t g, int64_t u) {
                    double x = value("bias", gated(g, u));
                    for (int64_t i = 0; i < I; i++) x += value("X", {t, b, i}) * value("W", with(gated(g, u), i));
                    return x;
                };
                const auto product = [&](int64_t g, int64_t u, const std::vector<double> &state) {
                    double x = 0;
                    for (int64_t k = 0; k < U; k++) x += state[k] * value("R", with(gated(g, u), k));
                    return x;
                };
                const std::vector<double> old = h[b];
                std::vector<double> kept = old;
                if (op.name() == "gru") {
                    for (int64_t u = 0; u < U; u++) kept[u] *= sigmoid(from_input(1, u) + product(1, u, old));
                }
                for (int64_t u = 0; u < U; u++) {
                    const auto gate = [&](int64_t g) { return from_input(g, u) + product(g, u, old); };
                    if (op.name() == "rnn") {
                        h[b][u] = std::tanh(gate(0));
                    } else if (op.name() == "gru") {
                        const double z = sigmoid(gate(0)),
                                     state = later ? sigmoid(gate(1)) * (product(2, u, old) + value("rbias", {u}))
                                                   : product(2, u, kept);
                        h[b][u] = (1 - z) * std::tanh(from_input(2, u) + state) + z * old[u];
                    } else {
                        c[b][u] = sigmoid(gate(2)) * c[b][u] + sigmoid(gate(0)) * std::tanh(gate(3));
                        h[b][u] = sigmoid(gate(1)) * std::tanh(c[b][u]);
                    }
                    expected[{t, b, u}] = h[b][u];
                }
            }
        }
        const Results meant = interpret(op, in);
        for (const auto &[index, y] : expected) CHECK(at(meant[0], index) == doctest::Approx(y).epsilon(1e-4));
        for (int64_t b = 0; b < B; b++) {
            for (int64_t u = 0; u < U; u++) {
                CHECK(at(meant[1], {b, u}) == doctest::Approx(h[b][u]).epsilon(1e-4));
                if (meant.size() > 2) CHECK(at(meant[2], {b, u}) == doctest::Approx(c[b][u]).epsilon(1e-4));
            }
        }
        const Kernel k = compile(default_schedule(op, Machine::host()), Target::host());
        std::vector<Buffer<>> args = in;
        for (const std::string &o : op.outputs()) args.push_back(make_output(op, o, {}));
        k(args);
        for (size_t o = 0; o < meant.size(); o++) {
            for_each_element(meant[o].raw_buffer(), [&](const Index &index, uint8_t *) {
                CHECK(at(args[in.size() + o], index) == doctest::Approx(at(meant[o], index)).epsilon(1e-4));
            });
        }
    }
}

TEST_CASE("one layer on the results of another, and two that share an input") {
    Axis t("t", 6), u("u", 12), k("k", 12);
    Tensor X = input("X", i32, {t, u}), R = input("R", i32, {k, u}), S = input("S", i32, {k, u});
    const auto layer = [&](const std::string &name, const Tensor &of, const Tensor &weights, bool reverse) {
        return recurrence(name, i32, {t, u}, 0, [&](const Earlier &h) {
            return (of(reverse ? Expr(5 - t) : Expr(t), u) + sum(h(t - 1, k) * weights(k, u), k)) % 31;
        });
    };
    Tensor first = layer("first", X, R, false);
    const Op stacked("stacked", {X, R, S}, {layer("second", first, S, false)});
    Tensor there = layer("there", X, R, false), back = layer("back", X, S, true);
    const Op both("both", {X, R, S}, {compute("Y", {t, u}, there(t, u) + back(5 - t, u))});
    for (const Op &op : {stacked, both}) {
        check_runs(Schedule(op));
        check_runs(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("earlier elements anywhere in a step before, and further back") {
    Axis t("t", 7), u("u", 19), d("d", 3);
    Tensor X = input("X", i32, {t, u}), W = input("W", i32, {d}), P = input("P", u8, {u});
    const Op window("window", {X, W}, {recurrence("h", i32, {t, u}, 1, [&](const Earlier &h) {
                        return (X(t, u) + sum(h(t - 1, clamp(u + d - 1, 0, 18)) * W(d), d) + h(t - 3, u)) % 61;
                    })});
    const Op permuted("permuted", {X, P}, {recurrence("h", i32, {t, u}, 3, [&](const Earlier &h) {
                          return (X(t, u) + 2 * h(t - 2, cast(i32, P(u)) % 19)) % 61;
                      })});
    const Op wave("wave", {X}, {recurrence("h", i32, {u, t}, 1, [&](const Earlier &h) {
                      return (X(t, u) + h(u + 1, t - 1) + h(u, t - 1) - h(u, t - 2)) % 61;
                  })});
    for (const Op &op : {window, permuted, wave}) {
        INFO(op.to_string());
        check_runs(Schedule(op));
        check_runs(default_schedule(op, Machine::host()));
        const std::vector<Buffer<>> in = random_inputs(op);
        const Results all = interpret(op, in);
        for (const Index &index : {Index{0, 0}, {6, 6}, {3, 5}})
            CHECK(interpret_element(op, in, {}, "h", index, false).value == at(all[0], index));
    }
}

TEST_CASE("the recurrence itself reads anywhere in a step before") {
    Axis t("t", 7), u("u", 19);
    Tensor X = input("X", i32, {t, u});
    const Op op("turned", {X}, {recurrence("h", i32, {t, u}, 3, [&](const Earlier &h) {
                    return (X(t, u) + 2 * h(t - 2, 18 - u)) % 61;
                })});
    for (const bool parallel : {false, true}) {
        CHECK(refusal([&] {
                  Schedule s(op);
                  s.stage("h").reorder({"u", "t"});
                  if (parallel) s.stage("h").parallel("u");
              }).find("all loops along t stay outside of those along u") != std::string::npos);
    }
    Schedule s(op);
    s.stage("h").vectorize("u", 8);
    check_runs(s);
}

TEST_CASE("earlier elements that lie outside") {
    Axis u("u", 19), w("w", 3);
    const auto op = [&](const Expr &steps, const std::function<Expr(const Earlier &, const Axis &)> &value) {
        Axis t("t", steps);
        Tensor X = input("X", f32, {t, u});
        return Op("bad", {X},
                  {recurrence("h", f32, {t, u}, 0, [&](const Earlier &h) { return X(t, u) + value(h, t); })});
    };
    using E = const Earlier &;
    using A = const Axis &;
    CHECK(refusal([&] {
              op(9, [&](E h, A t) { return h(t - 1, u * 10); });
          }).find("reads h.earlier outside: its index u * 10 goes from 0 to 180, but axis u has 19 elements") !=
          std::string::npos);
    CHECK(refusal([&] {
              op(9, [&](E h, A t) { return sum(h(t - 1, u + w - 1), w); });
          }).find("reads h.earlier outside") != std::string::npos);
    // Where there is a step.
    CHECK(!op(Size("T"), [&](E h, A t) { return h(t - 1, -u); }).requirements().empty());
    CHECK(refusal([&] { op(9, [&](E h, A t) { return sum(h(t - 1, clamp(u + w - 1, 0, 18)), w); }); }) == "no error");
}

TEST_CASE("schedules of steps") {
    const auto with = [](const std::function<void(Schedule &)> &f) {
        return refusal([&] {
            Schedule s(layer(7, 6, 40));
            f(s);
            check_runs(s);
        });
    };
    using S = Schedule &;
    // Sequences are independent, so that their loop may be outside.
    CHECK(with([](S s) { s.stage("h").reorder({"b", "t", "u"}).parallel("b"); }) == "no error");
    CHECK(with([](S s) {
              auto [o, i] = s.stage("h").split("b", 4);
              s.stage("h").reorder({o, "t", i, "u"}).parallel(o).vectorize("u", 8);
              s.stage("h.sum").reorder({"t", "b", "k", "u"}).vectorize("u", 8);
          }) == "no error");
    CHECK(with([](S s) { s.stage("h").reorder({"t", "u", "b"}).parallel("u"); }) == "no error");
    CHECK(with([](S s) {
              auto [o, i] = s.stage("h").split("u", 8);
              s.stage("h").reorder({"t", o, "b", i}).vectorize(i);
              s.stage("h.sum").compute_at("h", o);
              s.place_in("h.earlier", "L1", "h.sum", "b");
          }) == "no error");
    CHECK(with([](S s) {
              auto [o, i] = s.stage("h.sum").split("k", 8);
              s.stage("h.sum").rfactor(i);
          }) == "no error");
    CHECK(with([](S s) {
              s.stage("h").reorder({"u", "t", "b"});
          }).find("other stages read h at earlier t and any u, so all loops along t stay outside of those along u") !=
          std::string::npos);
    CHECK(with([](S s) { s.stage("h").parallel("t"); }).find("the iterations of loop t wait for each other") !=
          std::string::npos);
    CHECK(with([](S s) { s.stage("h.sum").compute_root(); })
              .find("h.sum reads earlier elements of h and is read by it, so it is computed at a loop of h that is not "
                    "outside of t; legal is compute_at(\"h\", \"t\")") != std::string::npos);
    CHECK(with([](S s) {
              s.stage("h").reorder({"b", "t", "u"});
              s.stage("h.sum").compute_at("h", "b");
          }).find("at a loop of h that is not outside of t") != std::string::npos);
    CHECK(with([](S s) {
              s.place_in("h.earlier", "L1", "h.sum", "b").compute_root();
          }).find("h.earlier.L1 reads earlier elements of h") != std::string::npos);
    CHECK(with([](S s) {
              s.stage("h.sum").double_buffer();
          }).find("h.sum reads results of the previous step of h, so it cannot be filled a step ahead") !=
          std::string::npos);
    CHECK(with([](S s) {
              s.prepack("h.earlier", {"t", "b", "u"});
          }).find("h.earlier is overwritten by the op") != std::string::npos);
    CHECK(with([](S s) { s.reindex("h.sum", "h", {"t", "b u"}); }) == "no error");
    CHECK(with([](S s) {
              s.reindex("h.sum", "h", {"t b", "u"});
          }).find("axis t is the step of h, and later steps of h.sum are not computed yet") != std::string::npos);
}

TEST_CASE("a recurrence over steps stays at the root") {
    const Axis t("t", 6), u("u", 8), k("k", 8);
    const Tensor X = input("X", i32, {t, u}), R = input("R", i32, {k, u});
    const Tensor h = recurrence("h", i32, {t, u}, 0,
                                [&](const Earlier &h) { return (X(t, u) + sum(h(t - 1, k) * R(k, u), k)) % 61; });
    const Op op("twice", {X, R}, {compute("Y", {t, u}, h(t, u) * 2)});
    CHECK(refusal([&] {
              Schedule(op).stage("h").compute_at("Y", "t");
          }).find("h is a recurrence: other stages read its earlier elements, and take each step with it") !=
          std::string::npos);
}

TEST_CASE("errors of recurrences with steps") {
    Axis t("t", 6), u("u", 12), k("k", 12);
    Tensor X = input("X", f32, {t, u});
    const auto told = [&](const std::function<Expr(const Earlier &)> &value) {
        return refusal([&] { Op("bad", {X}, {recurrence("h", f32, {t, u}, 0, value)}); });
    };
    using E = const Earlier &;
    CHECK(told([&](E h) { return X(t, u) + sum(h(t - 1, k), k); }) == "no error");
    CHECK(told([&](E h) { return X(t, u) + sum(h(t, k), k); }).find("index 1 is not u plus or minus a number") !=
          std::string::npos);
    CHECK(told([&](E h) {
              return sum(h(t - 1, k), k) + sum(h(t - k, u - 1), k);
          }).find("legal are reads that subtract a number from one common axis") != std::string::npos);
    CHECK(told([&](E h) {
              return compute("all", {u}, sum(h(t - 1, u), t))(u);
          }).find("does not range over t, the axis of the steps") != std::string::npos);
    CHECK(
        told([&](E h) {
            Tensor z = compute("z", {t, u}, sum(h(t - 1, k), k));
            return z((t + 1) % 6, u);
        })
            .find(
                "reads z((t + 1) % 6, u), which is computed step by step with the recurrence \"h\"; legal is the same "
                "step t") != std::string::npos);
    CHECK(told([&](E h) {
              Tensor z = compute("z", {t, u}, sum(h(t - 1, k), k));
              return scan([](Expr a, Expr b) { return a + b; }, 0.0f, z(t, u), u);
          }).find("is a recurrence, and is computed step by step with the recurrence \"h\"") != std::string::npos);
    CHECK(told([&](E h) {
              return zero_padded(compute("z", {t, u}, h(t - 1, 11 - u)), {u})(t, u + 1);
          }).find("is padding, and is computed step by step") != std::string::npos);
    const auto read_behind = [&](bool output) {
        return refusal([&] {
            Tensor z, h = recurrence("h", f32, {t, u}, 0, [&](E h) {
                          z = compute("z", {t, u}, sum(h(t - 1, k), k));
                          return X(t, u) + z(t, u);
                      });
            std::vector<Tensor> outputs = {compute("Y", {t, u}, z(t, u) * 2), h};
            if (output) outputs.push_back(z);
            check_runs(default_schedule(Op("op", {X}, outputs), Machine::host()));
        });
    };
    CHECK(read_behind(true) == "no error");
    CHECK(read_behind(false).find(
              "\"Y\" reads \"z\", which is computed step by step with the recurrence \"h\" and kept for "
              "one step; legal is \"z\" as an output") != std::string::npos);
    CHECK(refusal([&] {
              Tensor outside;
              Tensor h = recurrence("h", f32, {t, u}, 0, [&](E h) {
                  outside = compute("outside", {t, u}, h(t - 1, 11 - u));
                  return X(t, u) + h(t - 1, u);
              });
              Op("bad", {X}, {outside, h});
          }).find("\"outside\" reads earlier elements of the recurrence \"h\", which does not read it") !=
          std::string::npos);
    CHECK(refusal([&] {
              Tensor outside;
              recurrence("h", f32, {t, u}, 0, [&](E h) {
                  outside = compute("outside", {t, u}, h(t - 1, 11 - u));
                  return X(t, u) + h(t - 1, u);
              });
              Op("bad", {X}, {outside});
          }).find("the recurrence \"h\", which no output needs; make \"h\" an output") != std::string::npos);
}

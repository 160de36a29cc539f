// The measurer: what it links, checks, times, and survives. Its kernels are C functions, so that
// they can do what no schedule may do. One file, because all cases run these kernels.
#include "autotune/exact.h"
#include "autotune/measurer.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/math.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "support/duration.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>

using namespace kumiko;

namespace {

const std::filesystem::path scratch = std::filesystem::path(KUMIKO_BINARY_DIR) / "test_autotune_measurer.scratch";

// An object with `int k_packed(void *const *tensors, const int64_t *sizes)` of the body given.
std::string object_of(const std::string &name, const std::string &body, const std::string &before = "") {
    std::filesystem::create_directories(scratch);
    const std::string source = (scratch / (name + ".c")).string(), object = (scratch / (name + ".o")).string();
    std::ofstream(source)
        << "#include <stdint.h>\n#include <stddef.h>\nvoid *kumiko_malloc(size_t);\nvoid kumiko_free(void *);\n"
           "int kumiko_fail(int, const char *);\ndouble exp(double);\n"
        << before << "\nint k_packed(void *const *tensors, const int64_t *sizes) {\n"
        << "float *a = tensors[0], *b = tensors[1], *c = tensors[2];\n(void)a; (void)b; (void)c; (void)sizes;\n"
        << body << "\nreturn 0;\n}\n";
    REQUIRE(std::system(("cc -O1 -fPIC -c " + source + " -o " + object).c_str()) == 0);
    std::ifstream in(object, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
}

Op add_op() {
    Axis i("i", 1000);
    Tensor a = input("A", Float(32), {i}), b = input("B", Float(32), {i});
    return Op("add", {a, b}, {compute("C", {i}, a(i) + b(i))});
}

const char *const right = "for (int i = 0; i < 1000; i++) c[i] = a[i] + b[i];";

struct Fixture {
    Op op = add_op();
    MeasureTask task{op, {}};
    Measurer measurer{task, {}};
    Measured load(const std::string &name, const std::string &body, const std::string &before = "",
                  double timeout = 10) {
        return measurer.load(0, object_of(name, body, before), "k_packed", timeout);
    }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "a right kernel is linked, checked and timed") {
    CHECK(task.exact());
    Measured loaded = load("right", right);
    CHECK(loaded.reason == "");
    REQUIRE(loaded.outcome == Outcome::Ok);
    Measured timed = measurer.run({0}, {.budget = 0.02});
    REQUIRE(timed.outcome == Outcome::Ok);
    REQUIRE(timed.timings.size() == 1);
    CHECK(timed.timings[0].least > 0);
    CHECK(timed.timings[0].median >= timed.timings[0].least);
    CHECK(timed.timings[0].samples >= 5);
    CHECK(measurer.restarts() == 0);
}

TEST_CASE_FIXTURE(Fixture, "objects may have constants, tables, calls to the runtime and the math library") {
    const char *before = "static const double table[3] = {1.0, 0.0, 2.5};\nstatic const double *const pointer = "
                         "table;\nstatic int calls;";
    Measured m =
        load("rich",
             std::string("float *t = kumiko_malloc(4000); if (!t) return 4; calls++;\n") +
                 "for (int i = 0; i < 1000; i++) t[i] = (float)(pointer[1] * exp(a[i])) + a[i];\n"
                 "for (int i = 0; i < 1000; i++) c[i] = t[i] + b[i];\nkumiko_free(t);\nif (calls < 0) return 1;",
             before);
    CHECK(m.reason == "");
    CHECK(m.outcome == Outcome::Ok);
}

TEST_CASE_FIXTURE(Fixture, "wrong results, missing elements and writes elsewhere are found") {
    Measured m = load("wrong", "for (int i = 0; i < 1000; i++) c[i] = a[i] + b[i] + (i == 7);");
    CHECK(m.outcome == Outcome::Wrong);
    CHECK(m.reason.find("wrong result: element 7 of tensor 2 is ") == 0);
    CHECK(load("missing", "for (int i = 0; i < 999; i++) c[i] = a[i] + b[i];").outcome == Outcome::Wrong);
    m = load("changes", std::string(right) + "a[3] = 100;");
    CHECK(m.outcome == Outcome::Wrong);
    CHECK(m.reason == "changes input 0");
    m = load("outside", std::string(right) + "c[1000] = 1;");
    CHECK(m.outcome == Outcome::Wrong);
    CHECK(m.reason == "writes outside tensor 2");
    // A result that was right once must still be right when the kernel is timed.
    CHECK(load("later", "static int n; n++; for (int i = 0; i < 1000; i++) c[i] = a[i] + b[i] + (n > 3);").outcome ==
          Outcome::Ok);
    CHECK(measurer.run({0}, {.budget = 0.01}).outcome == Outcome::Wrong);
    CHECK(measurer.restarts() == 0);
    CHECK(load("right", right).outcome == Outcome::Ok);
}

TEST_CASE_FIXTURE(Fixture, "results that depend on memory which the kernel has not written are found") {
    // Right if the workspace, or the stack, holds denormal numbers.
    Measured m =
        load("workspace", "float *t = kumiko_malloc(64); int wrong = t[3] != t[3] || t[3] == 0; kumiko_free(t);\n"
                          "for (int i = 0; i < 1000; i++) c[i] = a[i] + b[i] + (float)wrong;");
    CHECK(m.outcome == Outcome::Wrong);
    CHECK(m.reason == "computes other results where its workspaces and stack hold signalling NaN than where they hold "
                      "denormal numbers");
    m = load("stack", "volatile float t[999]; int wrong = t[400] == 0;\n"
                      "for (int i = 0; i < 1000; i++) c[i] = a[i] + b[i] + (float)wrong;");
    CHECK(m.outcome == Outcome::Wrong);
    CHECK(m.reason.find("hold zeros than where they hold denormal numbers") != std::string::npos);
    CHECK(load("unused", "float *t = kumiko_malloc(64); t[2] = 1; kumiko_free(t);" + std::string(right)).outcome ==
          Outcome::Ok);
    CHECK(measurer.restarts() == 0);
}

TEST_CASE_FIXTURE(Fixture, "an input that the kernel takes packed is packed once, ahead of its calls") {
    // Twice the elements of B, the second half backwards.
    const std::string pack = "static int packed;\n"
                             "int pack_b(void *const *tensors, const int64_t *sizes) {\n"
                             "const float *b = tensors[0]; float *to = tensors[1]; const int n = sizes[0];\n"
                             "if (packed++ || sizes[1] != 7) return 1;\n"
                             "for (int i = 0; i < n; i++) to[i] = b[i], to[n + i] = b[n - 1 - i];\nreturn 0;\n}\n";
    const std::vector<PackedInput> packs = {{.tensor = 1, .symbol = "pack_b", .sizes = {1000, 7}, .bytes = 8000}};
    const std::string add = "for (int i = 0; i < 1000; i++) c[i] = a[i] + b[1999 - i];";
    const auto loaded = [&](size_t slot, const std::string &name, const std::string &body,
                            const std::vector<PackedInput> &how) {
        return measurer.load(slot, object_of(name, body, pack), "k_packed", 10, how);
    };
    const Measured good = loaded(0, "packed", add, packs);
    CHECK_EQ(good.reason, "");
    REQUIRE(good.outcome == Outcome::Ok);
    CHECK(loaded(1, "plain", right, {}).outcome == Outcome::Ok); // each slot has its own
    CHECK(measurer.run({0, 1}, {.budget = 0.01}).outcome == Outcome::Ok);
    CHECK(loaded(2, "unpacked", add, {}).outcome != Outcome::Ok);
    const Measured failed =
        loaded(2, "fails", add, {{.tensor = 1, .symbol = "pack_b", .sizes = {1000, 8}, .bytes = 8000}});
    CHECK(failed.outcome == Outcome::Failed);
    CHECK_FALSE(failed.no_room);
    CHECK(failed.reason.find("packing returned code 1") == 0);
    CHECK(loaded(2, "nameless", add, {{.tensor = 1, .symbol = "pack_c", .sizes = {}, .bytes = 8000}}).outcome ==
          Outcome::Unlinkable);
    // It may read the packed array to its end: 8000 bytes are whole lines, so the next page faults.
    CHECK(loaded(2, "writes", add + "b[3] = 1;", packs).outcome == Outcome::Crashed);
    CHECK(loaded(2, "beyond", add + "if (b[2000] == 1) return 1;", packs).outcome == Outcome::Crashed);
    CHECK(loaded(0, "again", add, packs).outcome == Outcome::Ok);
}

TEST_CASE("of an op that takes long a sample is checked, and that the rest was written") {
    const Op op = ops::matmul(Float(32), 160, 150, 200);
    const MeasureTask whole(op, {}), task(op, {}, 1, 1e-9);
    CHECK(whole.sampled() == 0);
    CHECK(task.exact());
    CHECK(task.sampled() >= 30);
    CHECK(task.sampled() <= 512);
    Measurer measurer(task, {});
    const auto load = [&](const std::string &name, const std::string &after) {
        return measurer.load(
            0,
            object_of(name, "for (int i = 0; i < 160; i++) for (int j = 0; j < 150; j++) { float s = 0; for "
                            "(int k = 0; k < 200; k++) s += a[i * 200 + k] * b[k * 150 + j]; c[i * 150 + j] "
                            "= s; }\n" +
                                after),
            "k_packed", 10);
    };
    CHECK(load("sampled_right", "").reason == "");
    CHECK(measurer.run({0}, {.budget = 0.01}).outcome == Outcome::Ok);
    CHECK(load("sampled_last", "c[160 * 150 - 1] += 1;").reason.starts_with("wrong result: element 23999 of tensor 2"));
    CHECK(load("sampled_some", "for (int i = 0; i < 12000; i++) c[2 * i] += 1;").outcome == Outcome::Wrong);
    CHECK(load("sampled_missing", "for (int i = 5000; i < 5064; i++) ((uint32_t *)c)[i] = 0xffffffff;")
              .reason.ends_with("of tensor 2 is not written"));
    const Op rows = ops::make("softmax", {{"m", 900}, {"n", 700}});
    CHECK(!MeasureTask(rows, {}, 1, 1e-9).exact());
    CHECK(MeasureTask(rows, {}, 1, 1e-9).sampled() >= 30);
    // A single element depends on all.
    Axis i("i", 3000), j("j", 3000);
    Tensor x = input("X", Float(32), {i, j});
    CHECK(MeasureTask(Op("all", {x}, {compute("Y", {}, sum(x(i, j), {i, j}))}), {}, 1, 1e-9).sampled() == 0);
}

TEST_CASE("a sample stores only its elements, and a size beyond memory is refused before allocation") {
    const Op op = ops::matmul(Float(32), 300, 200, 100);
    const MeasuredArrays sample = make_measured_arrays(op, {}, 1, 1e-9), whole = make_measured_arrays(op, {}, 1);
    REQUIRE(sample.places.size() == 1);
    CHECK(static_cast<int64_t>(sample.places[0].size()) == sample.sampled);
    CHECK(static_cast<int64_t>(sample.expected[0].number_of_elements()) == sample.sampled);
    CHECK(sample.fault_of(0, whole.expected[0]).empty());
    Buffer<float> wrong({300, 200});
    std::memcpy(wrong.data(), whole.expected[0].begin(), wrong.size_in_bytes());
    wrong(299, 199) += 1;
    CHECK(!sample.fault_of(0, wrong).empty());
    CHECK(!whole.fault_of(0, wrong).empty());
    const int much = 3'000'000;
    std::string said;
    try {
        MeasureTask(ops::matmul(Float(32), much, much, much), {});
    } catch (const UserError &e) {
        said = e.what();
    }
    CHECK(said.find("tuning matmul takes some ") == 0);
    CHECK(said.find("tune a smaller shape") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what is asked ends when it is over, long before its time") {
    const Stopwatch watch;
    measurer.end_when([&] { return watch.seconds() > 0.2; });
    CHECK(load("endless", "for (;;) sizes++;", "", 600).outcome == Outcome::TimedOut);
    CHECK(watch.seconds() < 60);
    measurer.end_when(nullptr);
    CHECK(load("right", right).outcome == Outcome::Ok);
}

TEST_CASE_FIXTURE(Fixture, "an error code and its text are reported") {
    Measured m = load("code", "return kumiko_fail(3, \"n is odd\");");
    CHECK(m.outcome == Outcome::Failed);
    CHECK(m.reason == "returned code 3: n is odd");
}

TEST_CASE_FIXTURE(Fixture, "what cannot be linked is said") {
    Measured m = load("undefined", "extern void nowhere(void); nowhere();");
    CHECK(m.outcome == Outcome::Unlinkable);
    CHECK(m.reason == "undefined function nowhere");
    m = measurer.load(0, "garbage", "k_packed", 10);
    CHECK(m.outcome == Outcome::Unlinkable);
    CHECK(m.reason == "not a 64-bit ELF object");
    m = measurer.load(0, object_of("right", right), "other", 10);
    CHECK(m.reason == "the object has no function other");
}

TEST_CASE_FIXTURE(Fixture, "a crash and a hang cost one candidate each") {
    Measured m = load("crash", "*(volatile int *)8 = 1;");
    CHECK(m.outcome == Outcome::Crashed);
#if !defined(__SANITIZE_ADDRESS__)
    CHECK(m.reason == "it accessed unmapped memory (SIGSEGV)");
#endif
    CHECK(load("beyond", "for (int i = 0; i < 1000; i++) c[i] = a[i + 64] + b[i];").outcome == Outcome::Crashed);
    CHECK(load("right", right).outcome == Outcome::Ok);
    Stopwatch watch;
    m = load("hang", "for (volatile int n = 0;; n++) {}", "", 0.3);
    CHECK(m.outcome == Outcome::TimedOut);
    CHECK(m.reason == "still running after 300 ms");
    CHECK(load("exit", "extern void _exit(int); _exit(9);").reason == "the process ended with status 9");
    CHECK(load("right", right).outcome == Outcome::Ok);
    CHECK(measurer.restarts() == 4);
    kill(measurer.process(), SIGKILL);
    CHECK(measurer.run({0}, {}).reason == "it was killed (SIGKILL)");
    CHECK(load("right", right).outcome == Outcome::Ok);
}

// sanitizers take unlimited address space
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE_FIXTURE(Fixture, "memory has a limit, and the system ends the measurer before the tuner") {
    const std::string hungry =
        "void *p = kumiko_malloc((size_t)300 << 20); if (!p) return kumiko_fail(4, \"no memory\"); "
        "kumiko_free(p);";
    CHECK(load("hungry", hungry + right).outcome == Outcome::Ok);
    // Memory that no machine has is refused even without a user's limit.
    const Measured all =
        load("hungriest", "void *p = kumiko_malloc((size_t)1 << 50); if (!p) return 4; kumiko_free(p);");
    CHECK(all.reason.starts_with("returned code 4"));
    std::ifstream score("/proc/" + std::to_string(measurer.process()) + "/oom_score_adj");
    int points = 0;
    score >> points;
    CHECK(points == 1000);
    Measurer small(task, {.memory_mib = 200});
    const Measured refused = small.load(0, object_of("hungry", hungry + right), "k_packed", 10);
    CHECK(refused.outcome == Outcome::Failed);
    CHECK(refused.reason.starts_with("returned code 4: no memory: the measuring process may take 200 MiB, of which "
                                     "arrays and their expected values need "));
    CHECK(refused.no_room);
    CHECK(small.load(0, object_of("right", right), "k_packed", 10).outcome == Outcome::Ok);
    Axis i("i", 1000000);
    Tensor x = input("X", f32, {i});
    const MeasureTask large(Op("twice", {x}, {compute("Y", {i}, x(i) * 2)}), {});
    CHECK_THROWS_WITH_AS(Measurer(large, {.memory_mib = 1}),
                         ("there is no memory for the arrays: the measuring process may take 1 MiB, of which arrays "
                          "and their expected values need " +
                          bytes_text(static_cast<double>(large.bytes())) +
                          "; give it more (--memory), or tune a smaller shape")
                             .c_str(),
                         UserError);
}
#endif

TEST_CASE_FIXTURE(Fixture, "kernels are timed in turns") {
    const std::string slow = "for (volatile int n = 0; n < 20000; n++) {}\n" + std::string(right);
    REQUIRE(measurer.load(0, object_of("right", right), "k_packed", 10).outcome == Outcome::Ok);
    REQUIRE(measurer.load(1, object_of("slow", slow), "k_packed", 10).outcome == Outcome::Ok);
    Measured m = measurer.run({0, 1}, {.budget = 0.05, .tight = 0});
    REQUIRE(m.timings.size() == 2);
    CHECK(m.timings[0].samples == m.timings[1].samples);
    CHECK(m.timings[1].least > m.timings[0].least);
}

TEST_CASE_FIXTURE(
    Fixture, "of several the one that does not end its call has failed, and of those that take long together none") {
    const std::string hangs =
                          "static int calls; if (calls++ > 2) for (volatile int n = 0;; n++) {}\n" + std::string(right),
                      waits = "extern int usleep(unsigned); usleep(20000);\n" + std::string(right);
    REQUIRE(measurer.load(0, object_of("waits", waits), "k_packed", 10).outcome == Outcome::Ok);
    REQUIRE(measurer.load(1, object_of("hangs", hangs), "k_packed", 10).outcome == Outcome::Ok);
    Measured m = measurer.run({0, 1}, {.timeout = 600, .call_timeout = 1});
    CHECK(m.outcome == Outcome::TimedOut);
    CHECK(m.reason == "still running after 1.00 s");
    CHECK(m.slot == 1);
    for (const size_t slot : {0, 1})
        REQUIRE(measurer.load(slot, object_of("waits", waits), "k_packed", 10).outcome == Outcome::Ok);
    m = measurer.run({0, 1}, {.budget = 600, .timeout = 2, .call_timeout = 1});
    CHECK(m.outcome == Outcome::TimedOut);
    CHECK(m.slot == Measurer::slots);
}

TEST_CASE("functions are checked against a bound") {
    Axis i("i", 100);
    Tensor a = input("A", Float(32), {i}), b = input("B", Float(32), {i});
    Op op("curve", {a, b}, {compute("C", {i}, exp(a(i)) / 3.f)});
    MeasureTask task(op, {});
    CHECK(!task.exact());
    Measurer measurer(task, {});
    CHECK(
        measurer
            .load(0, object_of("curve", "for (int i = 0; i < 100; i++) c[i] = (float)exp(a[i]) / 3.f;"), "k_packed", 10)
            .reason == "");
    CHECK(measurer
              .load(0, object_of("near", "for (int i = 0; i < 100; i++) c[i] = (float)exp(a[i]) / 3.001f;"), "k_packed",
                    10)
              .outcome == Outcome::Wrong);
}

TEST_CASE("which ops are exact") {
    CHECK(exact_input_magnitude(ops::matmul(Float(32), 8, 8, 64), {}) == 4);
    // summed in f32, rounded once
    CHECK(exact_input_magnitude(ops::matmul(Float(16), 8, 8, 2000), {}) == 4);
    CHECK(exact_input_magnitude(ops::matmul(Int(8), 8, 8, 64), {}) == 127);
    CHECK(exact_input_magnitude(ops::matmul(Float(32), 8, 8, 64, {.bias = true, .activation = "relu"}), {}) == 4);
    CHECK(!exact_input_magnitude(ops::matmul(Float(32), 8, 8, 64, {.activation = "gelu"}), {}));
    CHECK(exact_input_magnitude(ops::conv2d(Float(32), 1, 64, 56, 56, 64, 3, 3, ops::Conv2dOptions().padding(1)), {}) ==
          4);
    CHECK(!exact_input_magnitude(ops::softmax(Float(32), 4, 16), {}));
}

TEST_CASE("work and the least possible time") {
    Machine m = Machine::named("x86-64-avx2");
    Work w = count_work(ops::matmul(Float(32), 512, 512, 512), {});
    CHECK(w.operations == 2.0 * 512 * 512 * 512);
    CHECK(w.bytes == 3.0 * 512 * 512 * 4);
    m.fmas_per_cycle = 2; // 32 operations a cycle
    CHECK(least_possible_seconds(w, m, 1, 3e9) == doctest::Approx(w.operations / (1.25 * 32 * 3e9)));
    CHECK(least_possible_seconds(w, m, 2, 3e9) == doctest::Approx(w.operations / (2.5 * 32 * 3e9)));
    CHECK(least_possible_seconds(w, m, 1, 0) == 0);
    CHECK(roofline_text(0.93, 1) == "0.93 of the roofline");
    CHECK(roofline_text(1, 1) == "1.00 of the roofline");
    CHECK(roofline_text(1.001, 1) == "above the roofline, an estimate");
    CHECK(rate_text(w, 0.01) == "26.8 GFLOP/s");
}

TEST_CASE("the least possible time counts what every schedule executes") {
    Axis i("i", 100), j("j", 100), k("k", 50), h("h", 20);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}), V = input("V", f32, {j, k});
    const Tensor S = compute("S", {i, j}, sum(A(i, k) * B(k, j), k));
    const double all = 2.0 * 100 * 100 * 50;
    const auto least = [](const Tensor &result, const std::vector<Tensor> &inputs) {
        const Work w = count_work(Op("op", inputs, {result}), {});
        CHECK(w.operations > 0);
        return w.min_operations;
    };
    CHECK(least(compute("Y", {i, j}, max(S(i, j), 0.0f) + 1.0f), {A, B}) == all);
    CHECK(least(compute("Y", {j, i}, select(S(i, j) > 0.0f, 1.0f, 0.0f)), {A, B}) == all);
    // Terms, elements and branches that a schedule may leave out.
    CHECK(least(compute("Y", {i, k}, sum(S(i, j) * V(j, k), j, where(j <= i))), {A, B, V}) == 0);
    CHECK(least(compute("Y", {h, j}, S(h, j)), {A, B}) == 0);
    CHECK(least(compute("Y", {i}, S(i, i)), {A, B}) == 0);
    CHECK(least(compute("Y", {i, j}, select(j <= i, S(i, j), 0.0f)), {A, B}) == 0);
    CHECK(least(compute("Y", {i, k}, sum(S(i, j) * V(j, k), j)), {A, B, V}) == 2 * all);
}

TEST_CASE("arrays that are updated hold the same before each measurement") {
    Axis i("i", 30), j("j", 40), k("k", 50);
    Tensor A = input("A", i32, {i, k}), B = input("B", i32, {k, j}), C = inout("C", i32, {i, j});
    Tensor X = input("X", f32, {i}), Y = inout("Y", f32, {i});
    const Op accumulate("accumulate", {A, B, C}, {update(C, C(i, j) + sum(A(i, k) * B(k, j), k))});
    const Op doubles("doubles", {X, Y}, {compute("Z", {i}, X(i) + 1.f), update(Y, Y(i) * 2.f + exp(X(i)))});
    for (const Op &op : {accumulate, doubles}) { // over thousands of calls, values would overflow
        TuneOptions options;
        options.quiet = true;
        options.trials = 3;
        TuneReport report;
        const Record best = tune(op, Machine::host(), CpuTarget::host(), options, &report);
        CHECK(best.outcome == Outcome::Ok);
        CHECK(best.seconds() > 0);
        CHECK(report.measured > 0);
        for (const auto &[failure, times] : report.failures) CHECK(failure.find("wrong") == std::string::npos);
    }
}

namespace {

// The function `descend` of a shared library, built from this C source.
ExternFunction function_of(const std::string &name, const std::string &source) {
    std::filesystem::create_directories(scratch);
    const std::string at = (scratch / name).string(), file = at + ".so";
    std::filesystem::remove(file); // and not written to: it may be loaded
    std::ofstream(at + "_source.c") << "#include <stdint.h>\n" << source;
    REQUIRE(std::system(("cc -O1 -shared -fPIC " + at + "_source.c -o " + file).c_str()) == 0);
    void *library = dlopen(file.c_str(), RTLD_LAZY);
    REQUIRE(library);
    void *found = dlsym(library, "descend");
    REQUIRE(found);
    return {"descend", reinterpret_cast<ExternCall *>(found)};
}

const std::string descend = "int descend(void *const *t, const int64_t *extents, const int64_t *strides) {\n"
                            "float *x = t[0], *y = t[1]; const int64_t n = extents[0]; (void)strides;\n"
                            "for (int i = 0; i < n; i++) y[i] = x[i];\n"
                            "for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++)\n"
                            "if (y[j] > y[i]) { float z = y[i]; y[i] = y[j]; y[j] = z; }\nreturn 0;\n}\n";

// The sums of A and B, scaled, in descending order.
Op descending(const ExternFunction &f, float scale) {
    Axis i("i", 100);
    Tensor a = input("A", f32, {i}), b = input("B", f32, {i}), s = compute("S", {i}, (a(i) + b(i)) * scale);
    return Op("descending", {a, b}, {extern_stage("C", f32, {i}, {s}, f)});
}

std::string kernel_calling_it(const std::string &sum) {
    return "float s[100]; void *t[2] = {s, c}; const int64_t n[2] = {100, 100}, one[2] = {1, 1};\n"
           "for (int i = 0; i < 100; i++) s[i] = " +
           sum + ";\nreturn descend(t, n, one);";
}
const char *const descend_declared = "int descend(void *const *, const int64_t *, const int64_t *);";

} // namespace

TEST_CASE("kernels call functions of shared libraries, and their results are checked") {
    const Op op = descending(function_of("descend", descend), 2);
    const MeasureTask task(op, {});
    CHECK(!task.exact());
    Measurer measurer(task, {});
    const auto load = [&](const std::string &name, const std::string &sum) {
        return measurer.load(0, object_of(name, kernel_calling_it(sum), descend_declared), "k_packed", 10);
    };
    const Measured good = load("descends", "(a[i] + b[i]) * 2");
    CHECK(good.reason == "");
    CHECK(good.outcome == Outcome::Ok);
    CHECK(measurer.run({0}, {.budget = 0.01}).outcome == Outcome::Ok);
    CHECK(load("descends_wrongly", "(a[i] + b[i]) * 2 + (i == 7)").outcome == Outcome::Wrong);
    // Another process has the function too.
    CHECK(load("descends_and_crashes", "*(volatile float *)8").outcome == Outcome::Crashed);
    CHECK(load("descends", "(a[i] + b[i]) * 2").outcome == Outcome::Ok);
}

TEST_CASE("functions that cannot be loaded again, or whose results cannot be checked, are refused") {
    const auto told = [](const Op &op) -> std::string {
        try {
            const MeasureTask task(op, {});
            Measurer measurer(task, {});
        } catch (const std::exception &e) {
            return e.what();
        }
        return "";
    };
    const std::string missing = told(descending(
        function_of("lacking", "int elsewhere(void);\nint descend(void *const *t, const int64_t *e, const int64_t *s) {"
                               "(void)t; (void)e; return s[0] == 1 ? 0 : elsewhere(); }"),
        2));
    CHECK_MESSAGE(missing.find("undefined symbol: elsewhere") != std::string::npos, missing);
    CHECK(missing.find("act_as_measurer") != std::string::npos);

    const Op replaced = descending(function_of("replaced", descend), 2);
    function_of("replaced", "int other(void) { return 3; }\n" + descend);
    const std::string changed = told(replaced);
    CHECK_MESSAGE(changed.find("was changed since it was loaded") != std::string::npos, changed);

    const std::string rounded = told(descending(function_of("third", descend), 1.f / 3));
    CHECK_MESSAGE(rounded.find("with rounded values") != std::string::npos, rounded);
}

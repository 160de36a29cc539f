// Outputs written with non-temporal stores: elements equal the formula's, wherever arrays begin.
// Default schedules that use such stores.
// Links: driver
#include "driver/default_schedule.h"
#include "machine/machine.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"

#include <regex>

using namespace kumiko;

namespace {

std::string llvm_of(const Schedule &s) {
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx2");
    return compile_llvm_ir({lower(s)}, options);
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("stream: non-temporal stores if the output is aligned to a cache line") {
    Axis i("i", 24), j("j", 80);
    Tensor X = input("X", f32, {i, j});
    const Op op("twice", {X}, {compute("Y", {i, j}, X(i, j) * 2)});
    Schedule s(op, Machine::named("x86-64-avx2"));
    s.stage("Y").vectorize("j", 8);
    CHECK(!contains(llvm_of(s), "nontemporal"));
    s.stage("Y").stream();
    const std::string text = llvm_of(s);
    CHECK(contains(text, "nontemporal"));
    CHECK(contains(text, "sfence"));
    CHECK(contains(s.nest(), "streamed"));
    check_runs(s);
    s.stage("Y").parallel("i");
    check_runs(s);
    CHECK(contains(llvm_of(s), "sfence"));

    // At every offset in a line, without changing the memory around.
    const Kernel k = compile(s);
    Buffer<> in = make_input(op.inputs()[0], {}), expected = make_output(op, "Y", {});
    fill_random_integers(in, 1, -4, 4);
    std::vector<Buffer<>> all = {in, expected};
    interpret(op, all);
    std::vector<float> room(24 * 80 + 64);
    for (int offset = 0; offset < 20; offset++) {
        std::fill(room.begin(), room.end(), -77.f);
        auto at = reinterpret_cast<uintptr_t>(room.data());
        float *first = room.data() + (64 - at % 64) % 64 / 4 + offset;
        void *tensors[] = {in.data(), first};
        CHECK(k.call_raw(tensors, nullptr) == 0);
        const float *want = reinterpret_cast<const float *>(expected.data());
        CHECK(std::equal(want, want + 24 * 80, first));
        CHECK((first == room.data() || first[-1] == -77.f));
        CHECK(first[24 * 80] == -77.f);
    }
}

TEST_CASE("stream: a kernel without aligned vector stores reports it") {
    Axis i("i", 24), j("j", 13);
    Tensor X = input("X", f32, {i, j});
    Schedule s(Op("odd", {X}, {compute("Y", {i, j}, X(i, j) * 2)}), Machine::named("x86-64-avx2"));
    s.stage("Y").vectorize("j", 8).stream();
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx2");
    const ObjectFile object = compile_object({lower(s)}, options);
    REQUIRE(object.warnings.size() == 1);
    CHECK(contains(object.warnings[0], "Y is stored through the caches"));
    check_runs(s);
}

TEST_CASE("default schedules stream outputs larger than the last-level cache") {
    const Machine m = Machine::named("x86-64-avx2");
    const auto streamed = [&](const Op &op) { return default_schedule(op, m).state().stage("Y").streamed; };
    CHECK(streamed(ops::transpose(f32, 4096, 4096)));
    CHECK(streamed(ops::softmax(f32, 4096, 4096)));
    CHECK(!streamed(ops::transpose(f32, 512, 512)));
    CHECK(!streamed(ops::transpose(f32, 4095, 4096))); // rows of 4095 elements
}

TEST_CASE("few rows that begin at equal places of pages are computed together, and pass through the caches") {
    const auto stencil = [&](int columns) {
        Axis y("y", 4096), x("x", columns);
        const Tensor X = input("X", f32, {y, x}), P = zero_padded(X);
        Expr sum = 0.f;
        for (const int r : {-1, 0, 1}) sum = sum + P(y + r, x - 1) + P(y + r, x) + P(y + r, x + 1);
        const Op op("blur", {X}, {compute("Y", {y, x}, sum)});
        return default_schedule(op, Machine::named("x86-64-avx2")).state().stage("Y");
    };
    const StageState met = stencil(3072), apart = stencil(3072 + 160);
    CHECK_EQ(*Halide::Internal::as_const_int(met.loop("y.i").extent), 2);
    CHECK(!met.streamed);
    CHECK_EQ(*Halide::Internal::as_const_int(apart.loop("y.i").extent), 4);
    CHECK(apart.streamed);
}

TEST_CASE("one long row is streamed only if its length is a multiple of the vector") {
    const Machine m = Machine::named("x86-64-avx512");
    const auto asked = [&](int n, Type t) {
        const Schedule s = default_schedule(ops::unary("relu", t, n), m);
        return contains(s.to_json().dump(), "\"stream\"");
    };
    const int large = 1 << 25;
    CHECK(asked(large, f32));
    CHECK(asked(large + 16, f32));
    CHECK(!asked(large + 3, f32));
    CHECK(!asked(large * 2 + 1, u8));
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx512");
    for (const int n : {large + 3, large + 16})
        CHECK(compile_object({lower(default_schedule(ops::unary("relu", f32, n), m))}, options).warnings.empty());
}

TEST_CASE("a vector of several registers is stored in the order of addresses") {
    const Machine machine = Machine::named("x86-64-avx512");
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx512");
    const std::string text = compile_assembly(
        {lower(default_schedule(ops::make("layer_norm", {{"m", 512}, {"n", 768}}), machine))}, options);
    const std::regex store("vmovups\t%zmm[0-9]+, (-?[0-9]*)\\(");
    // Relative to one register: those of one loop, since workspaces are on the stack.
    std::vector<int> places;
    for (std::sregex_iterator m(text.begin(), text.end(), store), end; m != end; ++m)
        places.push_back(m->str(1).empty() ? 0 : std::stoi(m->str(1)));
    REQUIRE(places.size() == 4);
    CHECK(std::is_sorted(places.begin(), places.end()));
}

// Kernels do not depend on memory that they have not written: results and floating-point exceptions
// are the same whether workspaces and stack hold zeros, denormal numbers or signalling NaN.
// Links: driver
// Cost: 60
// Levels: no
// Sanitized: --test-case=padded*
#include "bench/stale_cases.h"
#include "bench/stale_memory.h"
#include "driver/default_schedule.h"
#include "dsl/extern.h"
#include "dsl/recurrence.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "targets/cpu/cpu_target.h"
#include "tests/unit/feature_limit.h"
#include "tests/unit/kept_registers.h"
#include "tests/unit/space_points.h"

#include <malloc.h>

using namespace kumiko;

namespace {

std::vector<std::string> levels() {
    std::vector<std::string> all;
    for (const char *level : {"x86-64-sse4.2", "x86-64-avx2", "x86-64-avx512", "x86-64-avx512-bf16"}) {
        if (here(level)) all.push_back(level);
    }
    all.push_back("host");
    return all;
}

void check(const Schedule &s, const Sizes &sizes = {}) {
    const Kernel k = compile(s);
    std::vector<Buffer<>> inputs;
    for (const Input &in : s.op().inputs()) {
        Buffer<> b = make_input(in, sizes);
        fill_random_integers(b, inputs.size() + 1, in.type.is_uint() ? 0 : -3, 3);
        const std::string &packed = k.nest().tensors[inputs.size()].packed_from;
        inputs.push_back(packed.empty() ? b : k.pack(packed, b, sizes));
    }
    INFO(s.nest());
    CHECK_EQ(stale::dependence(k, inputs, sizes), "");
}

} // namespace

TEST_CASE("vectors of less than sixteen bytes") {
    const Axis i("i", 37), r("r", 19);
    for (const Type t : {bf16, f16, f32}) {
        const Tensor X = input("X", f32, {r});
        const Tensor S = compute("S", {i}, sum(select(cast(i32, X(r)) == i, cast(t, 2.f), cast(t, 0.f)), r));
        for (const int lanes : {2, 4}) {
            Schedule s(Op("short", {X}, {compute("Y", {i}, S(i) + cast(t, X(3)))}));
            s.stage("Y").vectorize("i", lanes, Tail::Mask);
            s.stage("S").compute_at("Y", "i.o");
            check(s);
        }
    }
}

TEST_CASE("registers hold nothing of a pattern when a kernel begins") {
    const Axis i("i", 5), r("r", 1);
    const Tensor X = input("X", i64, {r});
    const Op op("registers", {X}, {extern_stage("Y", i64, {i}, {X}, {"kept_registers", kept_registers})});
    const Kernel k = compile(Schedule(op));
    std::vector<Buffer<>> inputs = {make_input(op.inputs()[0], {})};
    fill_random_integers(inputs[0], 1, 0, 3);
    for (const stale::Pattern &p : stale::patterns) {
        const stale::Seen seen = stale::run(k, inputs, {}, p.bits);
        for (size_t at = 0; at < seen.arrays.at(0).size(); at += 8) {
            uint64_t word = 0;
            std::memcpy(&word, seen.arrays[0].data() + at, 8);
            CHECK_NE(word, p.bits);
        }
    }
    // A workspace is allocated in between, after which constants of 16 bits are set.
    const Axis a("a", Size("N")), b("b", 12);
    const Tensor A = input("A", f16, {a, b});
    const Tensor S = recurrence("S", f16, {a, b}, cast(f16, 1.f), [&](const Earlier &S) {
        return max(max(max(A(a, b), S(a - 1, b + 1)), S(a, b - 1)), S(a - 2, b));
    });
    check(Schedule(Op("scalars", {A}, {compute("Y", {b}, S(4, b))})), {{"N", 33}});
}
TEST_CASE("default schedules") {
    for (const std::string &level : levels()) {
        CAPTURE(level);
        const Limit limit(level);
        for (const StaleCase &c : stale_cases()) {
            const std::string title = c.title();
            CAPTURE(title);
            check(default_schedule(ops::make(c.op, c.parameters), Machine::host()));
        }
    }
}

TEST_CASE("random schedules of the library") {
    int number = 0;
    for (const StaleCase &c : stale_cases()) {
        const std::string title = c.title();
        CAPTURE(title);
        const Op op = ops::make(c.op, c.parameters);
        const LibraryTemplate *t = library::find_template(op);
        REQUIRE(t);
        const auto space = t->make_space(op, Machine::host());
        Random random(++number);
        for (int point = 0; point < 3; point++) {
            std::optional<Schedule> s;
            try {
                s = space->schedule(space->sample(random));
            } catch (const UserError &) {
                continue; // not legal here
            } catch (const Unsupported &) {
                continue;
            }
            check(*s);
        }
    }
}

TEST_CASE("padded copies of odd sizes known at run time") {
    for (const int n : {1, 7, 24, 41, 64}) {
        const Op product = ops::matmul(f32, Size("M"), Size("N"), Size("K"));
        check(default_schedule(product, Machine::host()), {{"M", n + 3}, {"N", n}, {"K", n + 9}});
    }
    const Op conv = ops::make("conv2d", {{"c", "C"}, {"h", 19}, {"w", "W"}, {"o", "O"}, {"padding", 1}});
    const Kernel k = compile(default_schedule(conv, Machine::host()));
    for (const int n : {3, 20, 24}) {
        std::vector<Buffer<>> inputs;
        const Sizes sizes = {{"C", 5}, {"W", 23}, {"O", n}};
        for (const Input &in : conv.inputs()) {
            inputs.push_back(make_input(in, sizes));
            fill_random_integers(inputs.back(), inputs.size(), -3, 3);
        }
        CHECK_EQ(stale::dependence(k, inputs, sizes), "");
    }
}

TEST_CASE("blocks of a tensor instruction that are partial by a number of lanes known at run time") {
    const std::string instruction = "avx512.vdpbf16ps";
    if (!InstructionSet::builtin().get(instruction).available_on(Machine::host())) return;
    Axis i("i", Size("N")), j("j", Size("N")), k("k", 14);
    Tensor A = input("A", bf16, {i, k}), B = input("B", bf16, {j, k});
    Schedule s(Op("product", {A, B}, {compute("C", {i, j}, sum(cast(f32, A(i, k)) * cast(f32, B(j, k)), k))}));
    s.stage("C").split("j", 16);
    s.stage("C").split("k", 2);
    s.stage("C").reorder({"i", "j.o", "k.o", "j.i", "k.i"});
    s.place_in("B", "L2", "C", "i");
    s.stage("B.L2").layout({"j/16", "k/2", "j%16", "k%2"});
    s.stage("C").tensorize("j.i", instruction);
    for (const int n : {1, 15, 16, 17, 31}) check(s, {{"N", n}});
}

TEST_CASE("readers of the maximum of an online sum are computed at its elements only") {
    Axis i("i", 5), j("j", Size("N")), k("k", Size("K"));
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {i}), V = input("V", f32, {k, j});
    const Element x = select(A(i, k) > 0.f, B(i), -1e30f);
    Tensor top = compute("top", {i}, maximum(x, k)), w = compute("w", {i, k}, exp(x - top(i)));
    Schedule s(Op("mixed", {A, B, V}, {compute("Y", {i, j}, sum(w(i, k) * V(k, j), k))}));
    s.stage("Y").split("k", 7);
    s.stage("Y").online("top", "k.o");
    s.prepack("A", {"k%9", "i/5", "i%5", "k/9"}); // vectors along w would be in blocks of i
    for (const int n : {1, 8, 20}) check(s, {{"N", 2}, {"K", n}});
}

TEST_CASE("a user's grouped convolution whose number of filters is no multiple of the vector") {
    const int groups = 4, filters = 24, channels = 16, width = 100, taps = 3;
    Axis g("g", groups), o("o", filters), w("w", width), c("c", channels), t("t", taps);
    Axis x("x", width + taps - 1);
    Tensor X = input("X", f32, {g, c, x}), W = input("W", f32, {g, o, c, t});
    check(default_schedule(Op("conv", {X, W}, {compute("Y", {g, o, w}, sum(X(g, c, w + t) * W(g, o, c, t), {c, t}))}),
                           Machine::host()));
}

// A pre-packed array is written completely: elements that its layout adds by rounding up are zero.
TEST_CASE("packed arrays have zeros for elements that are not there") {
    for (const Json &parameters :
         {Json{{"m", 9}, {"n", 45}, {"k", 37}}, Json{{"m", 9}, {"n", 45}, {"k", 37}, {"type", "bf16"}},
          Json{{"m", 9}, {"n", 45}, {"k", 37}, {"type", "u8"}, {"b_type", "i8"}, {"output", "i32"}}}) {
        const Op op = ops::make("matmul", parameters);
        const Schedule s = default_schedule(op, Machine::host(), PackedBy::Caller);
        const Kernel k = compile(s);
        const Input &in = op.inputs()[1];
        Buffer<> b = make_input(in, {});
        fill_random_integers(b, 1, 1, 3); // none is zero
        mallopt(M_PERTURB, 0x5a);         // new blocks hold 0xa5 in every byte
        const Buffer<> packed = k.pack(in.name, b, {});
        mallopt(M_PERTURB, 0);
        const size_t size = packed.type().bytes(), elements = packed.number_of_elements();
        REQUIRE(elements > 45 * 37);
        size_t zero = 0;
        for (size_t at = 0; at < elements; at++) {
            const auto *p = static_cast<const unsigned char *>(packed.data()) + at * size;
            zero += std::all_of(p, p + size, [](unsigned char byte) { return byte == 0; });
        }
        CHECK_EQ(zero, elements - 45 * 37);
        check(s);
    }
}

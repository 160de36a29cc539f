// Conditions over the values of inputs: all elements are checked, and instructions that are exact
// for some values only.
// Links: driver
#include "driver/target.h"
#include "ops/ops.h"
#include "schedules/condition.h"
#include "schedules/library/matmul.h"
#include "schedules/library/product.h"
#include "schedules/values.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

Op copy_of(Type t, const Expr &n) {
    Axis i("i", n);
    Tensor x = input("x", t, {i});
    return Op("copy", {x}, {compute("y", {i}, x(i))});
}

template<typename T>
void look_everywhere(Type t, int n) {
    CAPTURE(type_name(t));
    CAPTURE(n);
    const Op op = copy_of(t, Size("N"));
    Schedule s(op);
    s.assume(within("x", 1, 5));
    const Kernel k = compile(s);
    const Sizes sizes = {{"N", n}};
    Buffer<> x = make_input(op.inputs()[0], sizes), y = make_output(op, "y", sizes);
    T *values = reinterpret_cast<T *>(x.data());
    for (int i = 0; i < n; i++) values[i] = static_cast<T>(1 + i % 5);
    const auto told = [&] { return refusal([&] { k(std::vector<Buffer<>>{x, y}); }); };
    CHECK(told() == "no error");
    for (int at : {0, 1, n / 3, n / 2, n - 2, n - 1}) {
        if (at < 0 || at >= n) continue;
        const T before = values[at];
        for (const T wrong : {T(0), T(6), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}) {
            CAPTURE(at);
            values[at] = wrong;
            CHECK(told().find("the assumption within(\"x\", 1, 5) does not hold") != std::string::npos);
        }
        values[at] = before;
    }
}

// u8 · i8 on a machine with 256-bit vectors, in one panel of B.
Schedule by_byte_pairs(const Op &op, bool assumed, const char *instruction = "avx2.vpmaddubsw") {
    Schedule s(op, Machine::named("x86-64-avx2"));
    if (assumed) s.assume(within("B", -64, 64));
    auto C = s.stage("C");
    auto [jo, ji] = C.split("j", 8);
    auto [ko, ki] = C.split("k", 4);
    C.reorder({"i", jo, ko, ji, ki});
    s.place_in("B", "L1", "C", jo).layout({"k/4", "j", "k%4"});
    C.accumulate_in("registers", jo).tensorize(ji, instruction);
    return s;
}

bool has_instruction(const Schedule &s, const char *name) { return body_of(s).find(name) != std::string::npos; }

} // namespace

TEST_CASE("every element is looked at") {
    for (int n : {0, 1, 31, 127, 128, 129, 300}) {
        look_everywhere<int8_t>(i8, n);
        look_everywhere<uint8_t>(u8, n);
    }
    for (int n : {1, 33, 64, 65, 200}) {
        look_everywhere<int16_t>(i16, n);
        look_everywhere<uint16_t>(u16, n);
        look_everywhere<int32_t>(i32, n);
        look_everywhere<uint32_t>(u32, n);
    }
}

TEST_CASE("bounds beyond the type hold, and bounds that no value of it meets do not") {
    const Op op = copy_of(u8, 40);
    Schedule wide(op), none(op);
    wide.assume(within("x", -7, 1000));
    check_runs(wide);
    none.assume(within("x", -7, -1));
    CHECK(refusal([&] { check_runs(none); }).find("does not hold") != std::string::npos);
}

TEST_CASE("conditions over values are text and back") {
    const Op op = ops::matmul(u8, Size("M"), 16, 16, {.b_type = i8});
    Size M("M");
    const Expr e = M > 4 && (within("B", -64, 64) || within("A", 0, 9));
    const std::string text = R"(M > 4 && (within("B", -64, 64) || within("A", 0, 9)))";
    CHECK(condition_text(e) == text);
    CHECK(condition_text(parse_condition(op, text)) == text);
    for (const auto &[wrong, told] :
         {std::pair("within(B, 0, 1)", "the name of an input in quotes is needed"),
          std::pair("within(\"B, 0, 1)", "the quote is not closed"),
          std::pair("within(\"C\", 0, 1)", "there is no input \"C\"; there are: A, B"),
          std::pair("within(\"B\", 2, 1)", "no value is within these bounds"),
          std::pair("within(\"B\", M, 1)", "a number is needed"), std::pair("within(\"B\", 1)", "\",\" is missing")}) {
        CAPTURE(wrong);
        CHECK(refusal([&] { parse_condition(op, wrong); }).find(told) != std::string::npos);
    }
    CHECK(refusal([&] {
              Schedule(ops::matmul(f32, 8, 8, 8)).assume(within("B", 0, 1));
          }).find("the elements of B are f32; legal are integers of at most 32 bits") != std::string::npos);
}

TEST_CASE("an instruction that may saturate is taken where the values are known to fit") {
    const Op op = ops::matmul(u8, 5, 40, 24, {.b_type = i8});
    CHECK(refusal([&] { by_byte_pairs(op, false); })
              .find("it is exact only while b is within [-64, 64], which is not known of B; assume within(\"B\", -64, "
                    "64) first, if it holds") != std::string::npos);
    const Schedule s = by_byte_pairs(op, true);
    CHECK(has_instruction(s, "kumiko.inst.avx2.vpmaddubsw"));
    if (!Machine::host().has("avx2")) return;
    check_runs(s);
    // The largest sums of pairs, of both signs: nothing saturates.
    const Kernel k = compile(s);
    Buffer<> a = make_input(op.inputs()[0], {}), b = make_input(op.inputs()[1], {}), c = make_output(op, "C", {});
    std::fill_n(reinterpret_cast<uint8_t *>(a.data()), 5 * 24, uint8_t(255));
    for (const int value : {-64, 64}) {
        std::fill_n(reinterpret_cast<int8_t *>(b.data()), 24 * 40, static_cast<int8_t>(value));
        k(std::vector<Buffer<>>{a, b, c});
        for (int n = 0; n < 200; n++) CHECK(reinterpret_cast<const int32_t *>(c.data())[n] == 255 * value * 24);
    }
    reinterpret_cast<int8_t *>(b.data())[7] = 65;
    CHECK(refusal([&] { k(std::vector<Buffer<>>{a, b, c}); }).find("does not hold") != std::string::npos);
}

TEST_CASE("lanes beyond the last column take the instruction where accumulators and copies hold whole vectors") {
    const Machine avx2 = Machine::named("x86-64-avx2");
    const auto schedule = [&](int columns, bool holds) {
        const Op op = ops::matmul(u8, 5, columns, 24, {.b_type = i8});
        Schedule s(op, avx2);
        s.assume(within("B", -64, 64));
        auto C = s.stage("C");
        auto [jo, jt] = C.split("j", 16);
        auto [jv, jl] = C.split(jt, 8);
        auto [ko, ki] = C.split("k", 4);
        C.reorder({jo, "i", ko, jv, jl, ki}).unroll(jv);
        if (holds)
            s.place_in("B", "L1", "C", jo).layout({"j/8", "k/4", "j%8", "k%4"});
        else
            s.prepack("B", {"k/4", "j", "k%4"});
        C.accumulate_in("registers", "i").tensorize(jl, "avx2.vpmaddubsw");
        return s;
    };
    const auto instructions = [](const std::string &body) {
        size_t n = 0;
        for (size_t at = 0; (at = body.find("kumiko.inst.avx2.vpmaddubsw", at)) != std::string::npos; at++) n++;
        return n;
    };
    const size_t whole = instructions(body_of(schedule(32, true)));
    CHECK(whole == 2);
    for (const int columns : {27, 29, 13, 26, 25, 9}) {
        CAPTURE(columns);
        const Schedule s = schedule(columns, true), t = schedule(columns, false);
        const size_t vectors = columns < 16 ? 2 : 4; // of the last block, and of those before
        CHECK(instructions(body_of(s)) == vectors);
        // Pre-packed B has no elements beyond the last column: the last vector has no instruction.
        CHECK(instructions(body_of(t)) == vectors - 1);
        if (!Machine::host().has("avx2")) continue;
        check_runs(s);
        check_runs(t);
    }
}

TEST_CASE("products choose by the values of each call") {
    for (const auto &[transposed, steps] : {std::pair(false, 90), std::pair(true, 90), std::pair(false, 1100)}) {
        const Op op = ops::matmul(u8, 50, 70, steps, {.transpose_b = transposed, .b_type = i8});
        const Machine avx2 = Machine::named("x86-64-avx2");
        library::MatmulParameters p = library::matmul_parameters(op, avx2);
        CHECK(p.narrow);
        const Schedule s = library::schedule_matmul(op, avx2, p);
        CHECK(has_instruction(s, "kumiko.inst.avx2.vpmaddubsw"));
        CHECK(has_instruction(s, "kumiko.inst.avx2.vpmaddwd"));
        p.narrow = Flag(false, {false, true});
        CHECK(!has_instruction(library::schedule_matmul(op, avx2, p), "kumiko.inst.avx2.vpmaddubsw"));
        if (!Machine::host().has("avx2")) continue;
        check_runs(s); // of small numbers
        const Kernel k = compile(s);
        std::vector<Buffer<>> args = {make_input(op.inputs()[0], {}), make_input(op.inputs()[1], {}),
                                      make_output(op, "C", {})};
        std::vector<Buffer<>> meant = args;
        fill_random_integers(args[0], 1, 0, 255);
        for (const auto &[low, high] : {std::pair(-64, 64), std::pair(-128, 127), std::pair(-128, -128)}) {
            fill_random_integers(args[1], 2, low, high);
            meant[2] = make_output(op, "C", {});
            interpret(op, meant);
            k(args);
            CHECK(difference(args[2], meant[2]) == "");
        }
    }
    // Signed by signed bytes have no such instruction, and machines with exact sums of four bytes
    // do not need one.
    CHECK(!library::matmul_parameters(ops::matmul(i8, 64, 64, 64), Machine::named("x86-64-avx2")).narrow);
    const Op bytes = ops::matmul(u8, 64, 64, 64, {.b_type = i8});
    CHECK(!library::matmul_parameters(bytes, Machine::named("x86-64-avx512-vnni")).narrow);
}

// Wrong schedules for the chip, each with the text that its author is shown. Places in this file are written as FILE:LINE.
// Links: ops
#include "ops/ops.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>
#include <functional>
#include <regex>

using namespace kumiko;

namespace {

std::string told(const std::function<void()> &wrong) {
    const auto text = [](const std::exception &e) {
        return "\n" + std::regex_replace(std::string(e.what()), std::regex("[^ (]*test_chip_errors\\.cpp:[0-9]+"), "FILE:LINE") + "\n";
    };
    try {
        wrong();
    } catch (const UserError &e) {
        return text(e);
    } catch (const Unsupported &e) {
        return "\nunsupported: " + text(e).substr(1);
    }
    return "no error";
}

const sim::Config &small() {
    static const sim::Config config = sim::Config::load("small");
    return config;
}

Op product(int M, int N, int K, Type out = f32) {
    ops::MatmulOptions o;
    o.transpose_b = true;
    o.output = out;
    return ops::matmul(f16, M, N, K, o);
}

// A product on one MAB, up to where the tests go wrong.
Schedule begun(const Op &op) {
    Schedule s(op, chip_machine(small()));
    StageHandle C = s.stage("C");
    C.split("i", 16, {"io", "iv"});
    C.split("j", 16, {"jo", "ji"});
    C.split("k", 16, {"ko", "ki"});
    C.reorder({"io", "jo", "ko", "iv", "ji", "ki"});
    return s;
}

} // namespace

TEST_CASE("bind") {
    Schedule s(product(64, 64, 64), chip_machine(small()));
    StageHandle C = s.stage("C");
    CHECK(told([&] { C.bind("i", "MAB"); }) == "");
    CHECK(told([&] { C.bind("i", "core"); }) == "");
    C.split("i", 2);
    C.bind("i.i", "MAB");
    CHECK(told([&] { C.bind("i.i", "MAB"); }) == "");
    CHECK(told([&] { C.split("i.i", 2); }) == "");
    C.split("j", 2);
    CHECK(told([&] { C.bind("j.i", "MAB"); }) == "");
    const Size M("M");
    ops::MatmulOptions o;
    Schedule symbolic(ops::matmul(f16, M, 64, 64, o), chip_machine(small()));
    CHECK(told([&] { symbolic.stage("C.sum").bind("i", "MAB"); }) == "");
}

TEST_CASE("write_back") {
    Schedule s(product(64, 64, 64), chip_machine(small()));
    CHECK(told([&] { s.stage("C").write_back("i"); }) == "");
}

TEST_CASE("what is missing for the matrix unit") {
    const Op op = product(64, 64, 64);
    CHECK(told([&] { compile_chip(Schedule(op, chip_machine(small()))); }) == "");
    Schedule s = begun(op);
    s.stage("C").tensorize("ji", "mfma.f16");
    CHECK(told([&] { compile_chip(s); }) == "");
    s.accumulate_in("C", "GRF0", "jo");
    CHECK(told([&] { compile_chip(s); }) == "");
    s.place_in("A", "LM0", "C", "io");
    s.place_in("B", "LM1", "C", "ko");
    CHECK(told([&] { compile_chip(s); }) == "");
}

TEST_CASE("what does not fit") {
    CHECK(told([&] {
              Schedule s = begun(product(16, 16, 8192));
              s.place_in("A", "LM0", "C", "io");
          }) == "");
    CHECK(told([&] {
              Schedule s = begun(product(64, 1024, 64));
              s.stage("C").reorder({"io", "ko", "jo", "iv", "ji", "ki"});
              s.place_in("A", "LM0", "C", "io");
              s.place_in("B", "L1BM", "C", "io");
              s.accumulate_in("C", "GRF0", "io");
              s.stage("C").tensorize("ji", "mfma.f16");
              compile_chip(s);
          }) == "");
}

TEST_CASE("what the chip does not run yet") {
    CHECK(told([&] {
              Schedule s = begun(product(64, 64, 64));
              s.accumulate_in("C", "GRF0", "iv");
          }) == "");
    CHECK(told([&] { compile_chip(Schedule(product(64, 64, 64), Machine::named("x86-64-avx2"))); }) == "");
    Axis i("i", 64);
    Tensor A = input("A", f32, {i});
    const Op roots("roots", {A}, {compute("B", {i}, sqrt(A(i)))});
    CHECK(told([&] {
              Schedule s(roots, chip_machine(small()));
              StageHandle B = s.stage("B");
              B.split("i", 2);
              B.split("i.o", 4, {"t", "w"});
              B.vectorize("i.i");
              s.place_in("A", "LM0", "B", "t");
              compile_chip(s);
          }) == "");
    CHECK(told([&] { chip_config("full"); }) == "");
    CHECK(told([&] { chip_config("chip:huge"); }) == "");
}

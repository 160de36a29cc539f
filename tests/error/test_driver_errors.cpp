// Error messages for wrong lists of kernels.
#include "driver/library.h"
#include "driver/op_text.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace kumiko;

namespace {

std::string complaint(const std::string &text) {
    try {
        LibraryDescription::from_json(parse_json(text, "kernels.json"), "kernels.json");
    } catch (const UserError &e) {
        return e.what();
    }
    return "no error";
}

std::string with_kernel(const std::string &kernel) {
    return complaint(R"({"name": "k", "kernels": [)" + kernel + "]}");
}

bool contains(const std::string &text, const std::string &part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("errors of a list of kernels name the place and the cause") {
    contains(complaint("[1]"), "expected an object with \"name\" and \"kernels\"");
    contains(complaint(R"({"name": "k"})"), "kernels");
    contains(complaint(R"({"name": "k", "kernels": []})"),
             "kernels.json: /kernels: expected a list of kernels, at least one");
    contains(complaint(R"({"name": "2k", "kernels": [{"op": "relu", "parameters": {"n": 3}}]})"),
             "kernels.json: /name: \"2k\" cannot begin C names");
    contains(
        complaint(R"({"name": "k", "target": "x86-64-avx3", "kernels": [{"op": "relu", "parameters": {"n": 3}}]})"),
        "x86-64-avx");
    contains(complaint(R"({"name": "k", "kernel": [1]})"), "did you mean 'kernels'");
    contains(complaint(R"({"name": "k", "version": "one", "kernels": [{"op": "relu", "parameters": {"n": 3}}]})"),
             "/version: expected digits and dots");
    contains(with_kernel(R"({"op": "matmull"})"), "/kernels/0/op: unknown op \"matmull\" (did you mean 'matmul'?)");
    contains(with_kernel(R"({"op": "matmul", "parameters": {"m": 3, "n": 4}})"),
             "/kernels/0: op \"matmul\" needs the parameter \"k\"");
    contains(with_kernel(R"({"op": "relu", "parameters": {"n": -3}})"), "/kernels/0");
    contains(with_kernel(R"({"op": "relu", "shape": {"n": 3}})"), "shape");
    contains(with_kernel(R"({"op": "relu", "parameters": {"n": 3}}, {"op": "relu", "parameters": {"n": 4}})"),
             "two kernels named \"relu\"");
    contains(with_kernel(R"({"op": "relu", "name": "a b", "parameters": {"n": 3}})"),
             "cannot be the name of a C function");
    contains(with_kernel(R"({"op": "relu", "parameters": {"n": 3}, "schedule": "missing.json"})"), "missing.json");
    contains(with_kernel(R"({"op": "relu", "parameters": {"n": 3, "type": "f32"}, "type": "f64"})"), "stated twice");
    CHECK_THROWS_AS(LibraryDescription::load("/nonexistent/kernels.json"), UserError);
}

TEST_CASE("libraries that cannot be built or written") {
    LibraryDescription d = LibraryDescription::from_json(
        Json::parse(R"({"name": "k", "kernels": [{"name": "error", "op": "relu", "parameters": {"n": 3}}]})"), "test");
    const auto built = [&](const std::string &folder) -> std::string {
        try {
            build_library(d, folder);
        } catch (const UserError &e) {
            return e.what();
        }
        return "no error";
    };
    contains(built("/tmp"), "kernel error: the function name k_error is used by the library itself");
    d.kernels[0].name = "relu";
    contains(built("/proc/no/such"), "cannot make the folder /proc/no/such");
    contains(built("/dev/null"), "/dev/null");
    d.database = "/nonexistent/tuning.db";
    contains(built((std::filesystem::path(KUMIKO_BINARY_DIR) / "never").string()), "tuning.db");
    CHECK(!std::filesystem::exists(std::filesystem::path(KUMIKO_BINARY_DIR) / "never"));
    d.database = "";
    d.kernels[0].schedule = ChosenSchedule{Json::parse(R"({"format": "nonsense"})"), nullptr, 0, "", "given"};
    contains(built((std::filesystem::path(KUMIKO_BINARY_DIR) / "never").string()), "library k, kernel relu: ");
}

TEST_CASE("functions of one name") {
    const auto built = [&](const std::string &text) -> std::string {
        try {
            build_library(LibraryDescription::from_json(Json::parse(text), "test"),
                          std::filesystem::path(KUMIKO_BINARY_DIR) / "never");
        } catch (const UserError &e) {
            return e.what();
        }
        return "no error";
    };
    const std::string relu = R"({"op": "relu", "parameters": {"n": 3}, "name": )";
    contains(built(R"({"name": "a", "kernels": [)" + relu + R"("x"}, )" + relu + R"("x_packed"}]})"),
             "kernels x and x_packed would both define a function a_x_packed");
    contains(built(R"({"name": "A", "kernels": [)" + relu + R"("OK"}]})"),
             "kernel OK would define a function A_OK, a name that the header uses for something else");
    contains(built(R"({"name": "A", "kernels": [)" + relu + R"("VERSION"}]})"),
             "a function A_VERSION, a name that the header");
    contains(built(R"({"name": "a", "prefix": "", "kernels": [)" + relu + R"("printf"}]})"),
             "the function name printf is one of the C library");
    CHECK(!std::filesystem::exists(std::filesystem::path(KUMIKO_BINARY_DIR) / "never"));
}

TEST_CASE("parameters on the command line") {
    CHECK(parse_op_parameters("m=1,n=2") == Json({{"m", "1"}, {"n", "2"}}));
    CHECK(parse_op_parameters("shape=3,4,axes=1") == Json({{"shape", "3,4"}, {"axes", "1"}}));
    CHECK(parse_op_parameters("") == Json::object());
    CHECK_THROWS_WITH_AS(parse_op_parameters("512"), "expected name=value, as \"m=512,n=512\", found \"512\"",
                         UserError);
    CHECK_THROWS_WITH_AS(parse_op_parameters("m=1,m=2"), "\"m\" is given twice in \"m=1,m=2\"", UserError);
    CHECK_THROWS_WITH_AS(parse_sizes("M=x"), "size \"M\" is \"x\"; legal is a number from 0 to 2147483647", UserError);
}

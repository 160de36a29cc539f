// The suite `outside`: kernels in a C program compared with the same kernels in this process.
// Links: bench
// Levels: no
// Sanitized: no
#include "bench/outside_suite.h"
#include "ops/registry.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "tests/e2e/shell.h"

#include <cstdlib>
#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

// Sets $CC during its lifetime.
class Compiler {
public:
    explicit Compiler(const std::string &command) {
        if (const char *before = std::getenv("CC")) before_ = before, given_ = true;
        setenv("CC", command.c_str(), 1);
    }
    ~Compiler() { given_ ? setenv("CC", before_.c_str(), 1) : unsetenv("CC"); }

private:
    std::string before_;
    bool given_ = false;
};

// Packed weights, a size as an argument, and a kernel with neither.
std::vector<OutsideCase> tiny_cases() {
    std::vector<OutsideCase> cases = {{suite_cases("gemm-bf16", "m=17,n=32,k=16").at(0)},
                                      {suite_cases("gemm-f32", "m=9,n=20,k=12").at(0), {"m", "k"}},
                                      {suite_cases("rows", "op=softmax,m=5,n=33").at(0)}};
    cases[0].bench.ahead = true;
    return cases;
}

std::vector<OutsideRow> measured() {
    BenchOptions options;
    options.budget_seconds = 0.001;
    return run_outside_suite(tiny_cases(), Target::host(), options);
}

} // namespace

TEST_CASE("a C program computes the same as this process, at rates that are measured") {
    const std::vector<OutsideRow> rows = measured();
    REQUIRE(rows.size() == 3);
    for (const OutsideRow &r : rows) {
        CAPTURE(r.name);
        CHECK(r.failure == "");
        CHECK(r.wrong == "");
        for (const double figure : {r.inside, r.outside, r.ratio, r.lines, r.pages}) CHECK(figure > 0);
        CHECK(r.json().at("ratio") == r.ratio);
        CHECK(outside_suite_text(rows).find(r.name) != std::string::npos);
    }
    CHECK(rows[0].unit == "GFLOP/s");
    CHECK(rows[2].unit == "GB/s");
}

TEST_CASE("inputs that differ in one element make other results, which each row names") {
    const auto folder = e2e::scratch("test_bench_outside", "spoilt");
    write_file_atomically((folder / "spoilt.h").string(), R"(#include <stdio.h>
static size_t spoilt_fread(void *to, size_t size, size_t count, FILE *from) {
    const size_t n = fread(to, size, count, from);
    *(unsigned char *)to ^= 0x40, ((unsigned char *)to)[1] ^= 0x40, ((unsigned char *)to)[2] ^= 0x40;
    return n;
}
#define fread spoilt_fread
)");
    const Compiler compiler("cc -include " + (folder / "spoilt.h").string());
    for (const OutsideRow &r : measured()) {
        CAPTURE(r.name);
        CHECK(r.failure == "");
        CHECK(r.wrong != "");
    }
}

TEST_CASE("without a C compiler an error says how to name one") {
    const Compiler compiler("/nonexistent/cc");
    try {
        measured();
        FAIL("no error");
    } catch (const UserError &e) {
        const std::string text = e.what();
        CAPTURE(text);
        CHECK(text.find("/nonexistent/cc") != std::string::npos);
        CHECK(text.find("set CC to a C compiler") != std::string::npos);
    }
}

TEST_CASE("the twenty cases are ops of every kind") {
    const std::vector<OutsideCase> cases = outside_cases();
    CHECK(cases.size() == 20);
    for (const char *op : {"matmul", "gemv", "conv2d", "depthwise_conv2d", "softmax", "layer_norm", "reduce", "gelu",
                           "transpose", "max_pool", "attention"}) {
        CAPTURE(op);
        CHECK(std::any_of(cases.begin(), cases.end(), [&](const OutsideCase &c) { return c.bench.op == op; }));
    }
    CHECK(std::any_of(cases.begin(), cases.end(), [](const OutsideCase &c) { return c.bench.ahead; }));
    CHECK(std::any_of(cases.begin(), cases.end(), [](const OutsideCase &c) { return !c.open.empty(); }));
}

// The variants of our kernel for a case of the bench.
// Links: bench
// Sanitized: no
#include "bench/suite.h"
#include "driver/target.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

BenchRow convolution(const std::string &more) {
    BenchOptions options;
    options.peers = false, options.budget_seconds = 0.001;
    const std::string shape = "c=16,h=16,w=20,o=32,kh=3,padding=1";
    const auto cases = suite_cases("conv-f32", shape + more);
    REQUIRE(cases.size() == 1);
    const BenchRow row = run_case(cases[0], Target::host(), options);
    CHECK(row.failure == "");
    CHECK(row.wrong == "");
    CHECK(row.ways.count(row.way) == 1);
    CHECK(row.ways.count("own layouts") == 1);
    return row;
}

bool by_winograd(const BenchRow &row) { return row.ways.count("Winograd") && row.ways.count("Winograd, own layouts"); }

} // namespace

TEST_CASE("convolutions by Winograd's products contest where they compute the same op") {
    for (const char *more : {"", ",stride=2", ",bias=true,activation=relu"}) {
        CAPTURE(more);
        const BenchRow row = convolution(more);
        CHECK(by_winograd(row));
        CHECK(row.error > 0);
        CHECK(row.error < 1e-4);
        CHECK(BenchRow::from_json(row.json()).json() == row.json());
    }
    for (const char *more :
         {",pool=max", ",w_type=bf16", ",output=f64", ",dilation=2", ",groups=2", ",stride=3", ",kw=1"}) {
        CAPTURE(more);
        const BenchRow row = convolution(more);
        CHECK(!by_winograd(row));
        CHECK(row.error == 0);
    }
}

// Products inside of the steps of a recurrence.
// Links: driver
#include "dsl/math.h"
#include "dsl/recurrence.h"
#include "dsl/reduction.h"
#include "schedules/library/copies_ahead.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

// The state is rounded to bytes before each step multiplies it with the weights.
Op bytes_in_steps(int steps, int rows, int units) {
    const Axis t("t", steps), b("b", rows), u("u", units), k("k", units), r("r", units);
    const Tensor X = input("X", i32, {t, b, u}), R = input("R", i8, {k, u});
    const Tensor H = recurrence("H", i32, {t, b, u}, 0, [&](const Earlier &h) {
        const Tensor bytes = compute("bytes", {t, b, r}, cast(u8, h(t - 1, b, r)));
        const Tensor sums = compute("sums", {t, b, u}, sum(cast(i32, bytes(t, b, k)) * cast(i32, R(k, u)), k));
        return X(t, b, u) + sums(t, b, u) % 199;
    });
    return Op("steps", {X, R}, {H});
}

} // namespace

TEST_CASE("products of bytes in steps use the instruction, and copy their weights once") {
    for (const int rows : {1, 3, 8}) {
        for (const int units : {64, 70, 200}) {
            const Schedule s = default_schedule(bytes_in_steps(5, rows, units), Machine::host());
            check_runs(s);
            for (const StageState &stage : s.state().stages) {
                if (stage.is_copy && stage.copied == "R")
                    CHECK_EQ(int(stage.placement.kind), int(Placement::Kind::Root));
            }
            const auto ahead = library::with_copies_ahead(s, [](const std::string &input) { return input == "R"; });
            if (ahead) check_runs(*ahead);
        }
    }
    const std::string text = default_schedule(bytes_in_steps(5, 1, 64), Machine::named("x86-64-avx512-vnni")).to_cpp();
    CHECK_NE(text.find("tensorize"), std::string::npos);
}

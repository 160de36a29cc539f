#include "autotune/runner.h"

namespace kumiko {

bool accept(Measured &measured, double least_possible) {
    if (measured.outcome != Outcome::Ok) return false;
    Timing &t = measured.timings.at(0);
    const auto possible = [&](double seconds) { return seconds > 0 && seconds >= least_possible; };
    if (possible(t.median)) {
        if (!possible(t.least)) t.least = t.median;
        return true;
    }
    measured.outcome = Outcome::Impossible;
    measured.reason = "faster than this machine can be";
    return false;
}

} // namespace kumiko

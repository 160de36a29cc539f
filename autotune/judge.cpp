#include "autotune/judge.h"

namespace kumiko {

bool accept(Measured &measured, double least_possible) {
    if (measured.outcome != Outcome::Ok) return false;
    const double seconds = measured.timings.at(0).least;
    if (seconds > 0 && seconds >= least_possible) return true;
    measured.outcome = Outcome::Impossible;
    measured.reason = "faster than this machine can be";
    return false;
}

} // namespace kumiko

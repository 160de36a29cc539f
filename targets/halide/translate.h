// Translates a nest's body to IR that Halide's code generators accept.
#pragma once

#include "targets/lower/nest.h"

namespace kumiko {

// Throws Unsupported for calls that Halide cannot generate (tensor instructions, erf in f64).
Halide::Internal::Stmt halide_body(const Nest &nest);

} // namespace kumiko

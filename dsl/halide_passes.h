// All of Halide: visitors and mutators, the simplifier, bounds analysis, passes. Public headers
// include dsl/halide.h instead, which compiles in half the time. Sources get this header from the
// precompiled header.
#pragma once

#include "dsl/halide.h"

#include <Halide.h>

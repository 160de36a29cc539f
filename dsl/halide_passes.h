// All of Halide: visitors and mutators, the simplifier, bounds analysis, passes. Headers that a
// program includes do with dsl/halide.h, which a compiler reads in half the time. Sources get this
// one by the precompiled header.
#pragma once

#include "dsl/halide.h"

#include <Halide.h>

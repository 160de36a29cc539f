#include "ops/functions_page.h"

#include "ops/elementwise.h"

#include <fmt/format.h>

namespace kumiko::ops {

namespace {

std::string row(const std::string &name, const std::string &summary, bool integers, const std::string &bound) {
    std::string value;
    for (const char c : summary) value += c == '|' ? "\\|" : std::string(1, c);
    return fmt::format("| `{}` | {} | {} | {} |\n", name, value, integers ? "floats, integers" : "floats", bound);
}

} // namespace

std::string functions_page() {
    std::string page = R"(# The functions of values

<!-- Made by the command `kumiko docs functions` from ops/functions_page.cpp and the tables in
ops/elementwise.cpp; edit those. -->

- Each is an operator: `kumiko show gelu --shape n=4096`. Most are activations of other operators.
- The functions of one value are functions of formulas too, with the same names (`dsl/math.h`).

## Accuracy

The error is stated in units in the last place of the exact result: the distance of two neighbouring
numbers of the type there. Of a subnormal result, that is the distance of two subnormal numbers. So
the relative error is bounded where the result is tiny too, as for `softplus` of -20 and `gelu` of
-8.

| type | error |
|---|---|
| f32 | at most the bound in the table, in kernels of this compiler and on the simulated chip |
| f16, bf16 | computed in f32 and rounded once: at most 0.51 units of the type |
| f64 | as stated below; functions that are not named there are within 6 units for \|x\| up to 12 |
| f32 in `interpret` | computed in f64 and rounded once: at most 0.51 units; 2 units for `softplus` and the `hard_` functions |

- `tests/unit/test_cpu_accuracy.cpp` compares the activations with values of 200 bits: all f16, all
  bf16, and f32 at points that are dense in the logarithm.
- Through Halide's generator (`targets/halide`), `exp` and `log` are Halide's. In the tails of
  `gelu_tanh` and `silu` the rounding of the argument of `exp` remains.

f64 in kernels of this compiler, with the special values of C:

| functions | error |
|---|---|
| `exp`, `log` | 1.1 units |
| `erf` | 2 units |
| `expm1`, `log1p`, `sin`, `cos` | 2.5 units; `sin` and `cos` of angles beyond 2^20 call the C library |
| `tanh`, `sigmoid` | 3 units |
| `erfc` | 5 units |
| `tan`, arcs, hyperbolic functions, most powers | those of the C library, which they call |

`log_softmax` and `logsumexp` in f32, of rows of up to 128 elements:

- `log_softmax` is within 8 units of its result, also where one element of a row outweighs the
  others.
- `logsumexp` is within 8 units of the greater of the maximum and the logarithm that is added to it.
- The sum of a longer row adds its rounding errors, at most n/16 units.
- If the difference of an element and the maximum is not an f32 number, its rounding adds half as
  many units to that element's `exp` as the difference is large.

`pow` in kernels of this compiler:

- A constant exponent that is a whole number from -8 to 8, or a multiple of 1/4 from -4 to 4, is
  computed by products, square roots and a division: within 4 units in f32 and 6 in f64, with the
  special values of C's `pow`.
- f64 exponents for which this bound does not hold (-5 to -8, -15/4, -13/4 and -11/4) call the C
  library.

`tan`, `atan`, `atan2`, `asin`, `acos`, `sinh` and `cosh` of f32 are within 4 units in kernels of
this compiler.

## Functions of one value

| function | value | of | bound in f32 |
|---|---|---|---|
)";
    for (const UnaryFunction &f : unary_functions())
        page += row(f.name, f.summary, f.integers, f.units == 0 ? "exact" : fmt::format("{}", f.units));
    page += "\n## Functions of two values\n\n| function | value | of |\n|---|---|---|\n";
    for (const BinaryFunction &f : binary_functions()) {
        const std::string line = row(f.name, f.summary, f.integers, "");
        page += line.substr(0, line.size() - std::string("  |\n").size()) + "\n";
    }
    return page;
}

} // namespace kumiko::ops

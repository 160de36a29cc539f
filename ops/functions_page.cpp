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
    std::string page =
        "# The functions of values\n\n"
        "<!-- Made by the command `kumiko docs functions` from the tables in ops/elementwise.cpp; edit those. -->\n\n"
        "Each is an operator (`kumiko show gelu --shape n=4096`), most are activations of other operators, and the "
        "functions\n"
        "of one value with the same name in `dsl/math.h` are functions of formulas.\n\n"
        "## Accuracy\n\n"
        "The error is stated in units in the last place of the exact result: the distance of two neighbouring numbers "
        "of the\n"
        "type there, which for a subnormal result is the distance of two subnormal numbers. So the relative error is "
        "bounded\n"
        "where the result is tiny too, as for `softplus` of -20 and `gelu` of -8.\n\n"
        "| type | error |\n"
        "|---|---|\n"
        "| f32 | at most the bound in the table, in kernels of this compiler and on the simulated chip |\n"
        "| f16, bf16 | computed in f32 and rounded once: at most 0.51 units of the type |\n"
        "| f64 | as stated below; functions that are not named there are within 6 units for \\|x\\| up to 12 |\n"
        "| f32 in `interpret` | computed in f64 and rounded once: at most 0.51 units; 2 units for `softplus` and the "
        "`hard_` functions |\n\n"
        "`tests/unit/test_cpu_accuracy.cpp` compares the activations with values of 200 bits: all f16, all bf16, "
        "and f32\n"
        "dense in its logarithm. Through Halide's generator (`targets/halide`), exp and log are Halide's, and in the "
        "tails of\n"
        "`gelu_tanh` and `silu` the rounding of the argument of exp remains.\n\n"
        "In kernels of this compiler, f64 `exp` and `log` are within 1.1 units, `erf` within 2, `expm1`, `log1p`, "
        "`sin` "
        "and\n"
        "`cos` within 2.5, `tanh` and `sigmoid` within 3, `erfc` within 5, with the special values of C. Of angles "
        "beyond 2^20,\n"
        "`sin` and `cos` call the C library, as do `tan`, arcs, hyperbolic functions and most powers of f64.\n\n"
        "`log_softmax` is within 8 units of its result, also where one element of a row outweighs the others, and "
        "`logsumexp`\n"
        "within 8 units of the greater of the maximum and the logarithm that is added to it, in f32 and rows of up to "
        "128\n"
        "elements; the sum of a longer row adds its rounding errors, n/16 at most. Where the difference of an element "
        "and the\n"
        "maximum is not an f32 number, its rounding adds half as many units to that element's exp as the difference is "
        "large.\n\n"
        "In kernels of this compiler, `pow` with a constant exponent, a whole number from -8 to 8 or a multiple of 1/4 "
        "from -4\n"
        "to 4, is computed by products, square roots and a division: within 4 units in f32 and 6 in f64, with the "
        "special values\n"
        "of C's `pow`. f64 exponents for which this bound does not hold (-5 to -8, -15/4, -13/4 and -11/4) call the C "
        "library.\n"
        "`tan`, `atan`, `atan2`, `asin`, `acos`, `sinh` and `cosh` of f32 are within 4 units there.\n\n"
        "## Functions of one value\n\n"
        "| function | value | of | bound in f32 |\n"
        "|---|---|---|---|\n";
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

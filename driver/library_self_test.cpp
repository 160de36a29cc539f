// The C program that checks a library, and the values that it compares with.
//
// Inputs are made alike here and there: element i of the storage of input t is a hash of (i, t), as a multiple of 1/64 in
// [-1, 1], which every float type holds exactly, or a small integer. So the program carries no data but samples of outputs.
#include "driver/kernel.h"
#include "driver/library_files.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kumiko {

namespace {

constexpr int samples = 24;
constexpr double small_work = 4e6; // iterations that the interpreter does in a moment

uint32_t mixed(uint64_t i, uint32_t seed) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    return h ^ (h >> 15);
}

// The same in the program below.
double value_at(Type t, uint64_t i, uint32_t seed) {
    const uint32_t h = mixed(i, seed) >> 4;
    if (t.is_bool()) return h % 2;
    if (t.is_float()) return (static_cast<int>(h % 129) - 64) / 64.0;
    return t.is_uint() ? static_cast<int>(h % 5) : static_cast<int>(h % 9) - 4;
}

template<typename T>
void fill_as(void *data, int64_t count, Type t, uint32_t seed) {
    for (int64_t i = 0; i < count; i++) static_cast<T *>(data)[i] = static_cast<T>(value_at(t, i, seed));
}

uint16_t half_bits(Type t, double value) { // exact for the multiples of 1/64 that are used
    const float f = static_cast<float>(value);
    uint32_t u;
    memcpy(&u, &f, 4);
    if (t.is_bfloat()) return static_cast<uint16_t>(u >> 16);
    if ((u & 0x7fffffff) == 0) return static_cast<uint16_t>(u >> 16);
    return static_cast<uint16_t>(((u >> 16) & 0x8000) | ((((u >> 23) & 0xff) - 112) << 10) | ((u >> 13) & 0x3ff));
}

void fill(void *data, int64_t count, Type t, uint32_t seed) {
    if (t.is_float() && t.bits() == 16) {
        for (int64_t i = 0; i < count; i++) static_cast<uint16_t *>(data)[i] = half_bits(t, value_at(t, i, seed));
    } else if (t.is_float()) {
        t.bits() == 64 ? fill_as<double>(data, count, t, seed) : fill_as<float>(data, count, t, seed);
    } else {
        switch (t.is_bool() ? 8 : t.bits()) {
        case 8:
            return t.is_int() ? fill_as<int8_t>(data, count, t, seed) : fill_as<uint8_t>(data, count, t, seed);
        case 16:
            return fill_as<int16_t>(data, count, t, seed);
        case 32:
            return fill_as<int32_t>(data, count, t, seed);
        default:
            return fill_as<int64_t>(data, count, t, seed);
        }
    }
}

int64_t storage(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides) {
    int64_t last = 0;
    for (size_t d = 0; d < extents.size(); d++) {
        if (extents[d] == 0) return 0;
        last += (extents[d] - 1) * strides[d];
    }
    return last + 1;
}

std::vector<int64_t> values(const std::vector<Expr> &list, const Sizes &sizes) {
    std::vector<int64_t> out;
    for (const Expr &e : list) out.push_back(evaluate_size(e, sizes));
    return out;
}

double iterations(const Op &op, const Sizes &sizes) {
    double sum = 0;
    for (const Stage &s : op.stages()) {
        double points = 1;
        for (int64_t e : evaluate_extents(s.axes, sizes)) points *= static_cast<double>(e);
        for (int64_t e : evaluate_extents(s.reduction_axes, sizes)) points *= static_cast<double>(e);
        sum += points;
    }
    return sum;
}

// What the program must find.
struct Expected {
    Sizes sizes;
    std::vector<Buffer<>> inputs;
    std::vector<Buffer<>> outputs;
};

Expected expect(const LibraryKernel &kernel) {
    const Op &op = kernel.op;
    Expected e;
    e.sizes = kernel.sizes_for_test();
    for (size_t t = 0; t < op.inputs().size(); t++) {
        const Input &in = op.inputs()[t];
        Buffer<> b = make_input(in, e.sizes);
        std::vector<int64_t> extents = evaluate_extents(in.axes, e.sizes);
        fill(b.data(), storage(extents, values(in.strides, e.sizes)), in.type, static_cast<uint32_t>(t));
        e.inputs.push_back(b);
    }
    if (iterations(op, e.sizes) <= small_work) {
        e.outputs = interpret(op, with_inouts_copied(op, e.inputs), {.sizes = e.sizes});
    } else {
        const Kernel plain = compile(Schedule(op, Machine::host()));
        std::vector<Buffer<>> all = with_inouts_copied(op, e.inputs);
        for (const std::string &o : op.separate_outputs()) all.push_back(make_output(op, o, e.sizes));
        plain(all);
        e.outputs = output_arrays(op, all);
    }
    return e;
}

std::string c_type(Type t) {
    if (t.is_bool()) return "uint8_t";
    if (t.is_float()) return t.bits() == 64 ? "double" : t.bits() == 32 ? "float" : "uint16_t";
    return fmt::format("{}int{}_t", t.is_uint() ? "u" : "", t.bits());
}

// How the program's helpers name a type.
std::string kind(Type t) {
    if (t.is_bool()) return "b";
    if (t.is_bfloat()) return "bf16";
    return fmt::format("{}{}", t.is_float() ? "f" : t.is_uint() ? "u" : "i", t.bits());
}

double tolerance(Type t) {
    if (!t.is_float()) return 0;
    return t.bits() == 64 ? 1e-9 : t.bits() == 32 ? 2e-4 : 3e-2;
}

std::string number(double v) {
    if (std::isnan(v)) return "NAN";
    if (std::isinf(v)) return v > 0 ? "INFINITY" : "-INFINITY";
    return fmt::format("{:.17g}", v);
}

// `samples` places of an output: its first and last element, and others spread over it.
std::string sample_table(const TensorArgument &t, const Buffer<> &out, const Sizes &sizes, const std::string &name) {
    const std::vector<int64_t> extents = values(t.extents, sizes), strides = values(t.strides, sizes);
    int64_t count = 1;
    for (int64_t e : extents) count *= e;
    std::string text = fmt::format("static const sample {}[] = {{", name);
    const int64_t n = std::min<int64_t>(count, samples);
    for (int64_t s = 0; s < n; s++) {
        int64_t linear = s == 0 ? 0
                         : s == n - 1
                             ? count - 1
                             : static_cast<int64_t>(mixed(s, 77) * 4294967297ULL % static_cast<uint64_t>(count));
        std::vector<int64_t> index(extents.size());
        int64_t offset = 0, rest = linear;
        for (size_t d = extents.size(); d-- > 0;) {
            index[d] = rest % extents[d];
            rest /= extents[d];
            offset += index[d] * strides[d];
        }
        text += fmt::format("{}{{{}, {}}}", s ? ", " : "", offset, number(element(out.raw_buffer(), index)));
    }
    return text + (n == 0 ? "{0, 0}" : "") + "};\n" + fmt::format("enum {{ {}_count = {} }};\n", name, n);
}

// Which of the op's outputs the array holds.
size_t output_of(const Op &op, const TensorArgument &t) {
    size_t o = 0;
    while (op.outputs().at(o) != t.name && (!t.inout || op.stage(op.outputs()[o]).updates != t.name)) o++;
    return o;
}

// One function test_<kernel>, which returns 0 or says what is wrong.
std::string test_of(const LibraryDescription &library, const PackagedKernel &k) {
    const Expected e = expect(*k.kernel);
    const Nest &nest = k.nest();
    const size_t inputs = k.kernel->op.inputs().size();
    const auto sizes_text = [&](const std::vector<std::string> &sizes) {
        std::vector<std::string> text;
        for (const std::string &s : sizes) text.push_back(fmt::format("{}LL", e.sizes.at(s)));
        return fmt::format("{}", fmt::join(text, ", "));
    };
    std::string tables, body, released, checks;
    for (size_t i = 0; i < nest.tensors.size(); i++) {
        const TensorArgument &t = nest.tensors[i];
        const std::string variable = fmt::format("t{}", i), type = c_type(t.type);
        released += fmt::format("    free({});\n", variable);
        if (!t.packed_from.empty()) {
            const Input &from = k.kernel->op.inputs()[i];
            const int64_t plain = storage(evaluate_extents(from.axes, e.sizes), values(from.strides, e.sizes));
            for (const Nest &pack : nest.packs) {
                if (pack.tensors[1].packed_from != t.packed_from) continue;
                const std::string sizes = sizes_text(pack.sizes);
                body += fmt::format("    long long n{0} = {1}_elements({2});\n"
                                    "    {3} *t{0} = ({3} *)allocate((n{0} > 0 ? n{0} : 1) * sizeof({3}));\n"
                                    "    {7} *plain{0} = ({7} *)allocate({4}LL * sizeof({7}));\n"
                                    "    fill_{5}(plain{0}, {4}LL, {0});\n"
                                    "    if (!rc) rc = {1}(plain{0}, t{0}{6}{2});\n",
                                    i, pack.name, sizes, type, std::max<int64_t>(plain, 1), kind(from.type),
                                    sizes.empty() ? "" : ", ", c_type(from.type));
            }
            released += fmt::format("    free(plain{});\n", i);
            continue;
        }
        const int64_t elements = storage(values(t.extents, e.sizes), values(t.strides, e.sizes));
        body += fmt::format("    {0} *{1} = ({0} *)allocate({2}LL * sizeof({0}));\n", type, variable,
                            std::max<int64_t>(elements, 1));
        if (i < inputs) body += fmt::format("    fill_{}({}, {}LL, {});\n", kind(t.type), variable, elements, i);
        if (t.output) {
            const std::string table = fmt::format("expected_{}_{}", k.kernel->name, i);
            tables += sample_table(t, e.outputs.at(output_of(k.kernel->op, t)), e.sizes, table);
            checks += fmt::format("    if (!rc) wrong += compare_{}(\"{}\", \"{}\", {}, {}, {}_count, {});\n",
                                  kind(t.type), k.symbol, t.name, variable, table, table, number(tolerance(t.type)));
        }
    }
    std::vector<std::string> arguments;
    size_t tensor = 0;
    for (const EntryParameter &p : k.entries[0].parameters)
        arguments.push_back(p.pointer ? fmt::format("t{}", tensor++) : sizes_text({p.name}));
    return tables + fmt::format(R"(static int test_{0}(void) {{
    int rc = 0, wrong = 0;
{1}    if (!rc) rc = {2}({3});
    if (rc) printf("{2}: code %d: %s\n", rc, {4}_error());
{5}{6}    return rc || wrong;
}}

)",
                                k.kernel->name, body, k.symbol, fmt::join(arguments, ", "), library.name, checks,
                                released);
}

const char *helpers = R"(
typedef struct { long long at; double value; } sample;

static void *allocate(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) { printf("out of memory\n"); exit(2); }
    return block;
}
static uint32_t mixed(long long i, uint32_t seed) {
    uint32_t h = (uint32_t)i * 2654435761u + seed * 40503u;
    return (h ^ (h >> 15)) >> 4;
}
static uint16_t to_bf16(double v) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)(u >> 16);
}
static uint16_t to_f16(double v) { /* exact for the values used */
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (f == 0) return (uint16_t)(u >> 16);
    return (uint16_t)(((u >> 16) & 0x8000) | ((((u >> 23) & 0xff) - 112) << 10) | ((u >> 13) & 0x3ff));
}
static double from_bf16(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static double from_f16(uint16_t h) {
    int exponent = (h >> 10) & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}
static int differs(double actual, double expected, double tolerance) {
    if (isnan(expected) || isnan(actual)) return !(isnan(expected) && isnan(actual));
    if (isinf(expected)) return actual != expected;
    return !(fabs(actual - expected) <= tolerance * (1 + fabs(expected)));
}
#define HELPERS(kind, type, store, load)                                                                              \
    static void fill_##kind(type *x, long long n, uint32_t seed) {                                                    \
        for (long long i = 0; i < n; i++) { uint32_t h = mixed(i, seed); x[i] = (type)(store); }                      \
    }                                                                                                                 \
    static int compare_##kind(const char *kernel, const char *tensor, const type *x, const sample *s, int n, double tolerance) { \
        for (int i = 0; i < n; i++) {                                                                                 \
            type v = x[s[i].at];                                                                                      \
            double actual = load;                                                                                     \
            if (differs(actual, s[i].value, tolerance)) {                                                             \
                printf("%s: element %lld of %s is %.9g, expected %.9g\n", kernel, s[i].at, tensor, actual, s[i].value); \
                return 1;                                                                                             \
            }                                                                                                         \
        }                                                                                                             \
        return 0;                                                                                                     \
    }
)";

// The macro's uses, for the types that occur.
std::string helpers_for(const std::vector<PackagedKernel> &kernels) {
    std::map<std::string, std::string> all; // kind → line
    for (const PackagedKernel &k : kernels) {
        for (size_t i = 0; i < k.nest().tensors.size(); i++) {
            const TensorArgument &given = k.nest().tensors[i];
            const Type t = given.packed_from.empty() ? given.type : k.kernel->op.inputs()[i].type;
            std::string store, load = "(double)v";
            if (t.is_bool())
                store = "h % 2";
            else if (t.is_bfloat())
                store = "to_bf16(((int)(h % 129) - 64) / 64.0)", load = "from_bf16(v)";
            else if (t.is_float() && t.bits() == 16)
                store = "to_f16(((int)(h % 129) - 64) / 64.0)", load = "from_f16(v)";
            else if (t.is_float())
                store = "((int)(h % 129) - 64) / 64.0";
            else
                store = t.is_uint() ? "h % 5" : "(int)(h % 9) - 4";
            all[kind(t)] = fmt::format("HELPERS({}, {}, {}, {})\n", kind(t), c_type(t), store, load);
        }
    }
    std::string text;
    for (const auto &[name, line] : all) text += line;
    return text;
}

} // namespace

std::string library_self_test(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels) {
    std::string text = fmt::format(
        "/* Checks lib{0}.a on this machine:  cc {0}_selftest.c lib{0}.a -lm -lpthread -o selftest && ./selftest\n"
        " * Prints a line for every kernel that is wrong; exits with 0 when none is. */\n"
        "#include \"{0}.h\"\n\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n",
        library.name);
    text += "\n/* Not every kernel set uses all helpers. */\n#if defined(__GNUC__)\n#pragma GCC diagnostic ignored "
            "\"-Wunused-function\"\n#endif\n";
    text += helpers;
    text += helpers_for(kernels) + "\n";
    std::string calls;
    for (const PackagedKernel &k : kernels) {
        text += test_of(library, k);
        calls += fmt::format("    failed += test_{}();\n", k.kernel->name);
    }
    return text + fmt::format("int main(void) {{\n    int failed = 0;\n{}    printf(\"%d of {} kernels are right\\n\", "
                              "{} - failed);\n    return failed ? 1 : 0;\n}}\n",
                              calls, kernels.size(), kernels.size());
}

} // namespace kumiko

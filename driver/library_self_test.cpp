// Generates the C program that checks a library, with the expected values.
//
// Inputs are generated the same way here and there: element i of the storage of input t is a hash
// of (i, t), as a multiple of 1/64 in [-1, 1], which every float type represents exactly, or as a
// small integer. So the program contains no data except samples of the outputs.
//
// One file, because it writes one program in the order of its parts.
#include "driver/kernel.h"
#include "driver/library_files.h"
#include "dsl/buffer_elements.h"
#include "dsl/half.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/narrow_types.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/lower/nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace kumiko {

namespace {

constexpr int samples = 24;
constexpr double small_work = 4e6; // work (iterations) below which the interpreter is fast enough

uint32_t mixed(uint64_t i, uint32_t seed) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    return h ^ (h >> 15);
}

// The generated program contains the same function.
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

// The expected results.
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
        plain(all, e.sizes);
        e.outputs = output_arrays(op, all);
    }
    return e;
}

// The type's suffix in the program's helper functions.
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

// `samples` elements of an output: the first, the last, and others in between.
std::string sample_table(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides, const Buffer<> &out,
                         const std::string &name) {
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

// The index of the op's output that this array holds.
size_t output_of(const Op &op, const TensorArgument &t) {
    size_t o = 0;
    while (op.outputs().at(o) != t.name && (!t.inout || op.stage(op.outputs()[o]).updates != t.name)) o++;
    return o;
}

// The size in bytes of all arrays that a test allocates.
int64_t bytes_of(const PackagedKernel &k) {
    const Sizes sizes = k.kernel->sizes_for_test();
    int64_t sum = 0;
    for (const TensorArgument &t : k.nest().tensors)
        sum +=
            128 + t.type.bytes() * (t.packed_from.empty() ? storage(values(t.extents, sizes), values(t.strides, sizes))
                                                          : evaluate_size(t.extents[0], sizes));
    for (const Input &in : k.kernel->op.inputs())
        sum += 128 + in.type.bytes() * storage(evaluate_extents(in.axes, sizes), values(in.strides, sizes));
    return sum;
}

// The function test_<kernel>, which returns 0 or prints what is wrong.
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
        const std::string variable = fmt::format("t{}", i), type = c_element_type(t.type);
        released += fmt::format("    release({});\n", variable);
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
                                    sizes.empty() ? "" : ", ", c_element_type(from.type));
            }
            released += fmt::format("    release(plain{});\n", i);
            continue;
        }
        const int64_t elements = storage(values(t.extents, e.sizes), values(t.strides, e.sizes));
        body += fmt::format("    {0} *{1} = ({0} *)allocate({2}LL * sizeof({0}));\n", type, variable,
                            std::max<int64_t>(elements, 1));
        if (i < inputs) body += fmt::format("    fill_{}({}, {}LL, {});\n", kind(t.type), variable, elements, i);
        if (t.output) {
            const std::string table = fmt::format("expected_{}_{}", k.kernel->name, i);
            tables += sample_table(values(t.extents, e.sizes), values(t.strides, e.sizes),
                                   e.outputs.at(output_of(k.kernel->op, t)), table);
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
    if (rc) {{
        write_text("{2}: code ");
        write_integer(rc);
        write_text(": ");
        write_text({4}_error());
        write_text("\n");
    }}
{5}{6}    return rc || wrong;
}}

)",
                                k.kernel->name, body, k.symbol, fmt::join(arguments, ", "), library.name, checks,
                                released);
}

// The variables of the sizes that are tested.
std::vector<int64_t> tested_variables(const LibraryModel &m) {
    std::vector<int64_t> sizes;
    for (const LibrarySize &s : m.sizes) sizes.push_back(s.tested);
    return variables_of(m, sizes);
}

int64_t tested_arena_bytes(const LibraryModel &m) {
    if (m.sizes.empty()) return m.arena_bytes;
    int64_t most = 0;
    for (const LibraryProgram &p : m.programs) most = std::max(most, arena_bytes_of(p, tested_variables(m)));
    return most;
}

int64_t bytes_of(const LibraryModel &m) {
    int64_t sum = tested_arena_bytes(m) + 128;
    for (const auto *tensors : {&m.inputs, &m.outputs}) {
        for (const LibraryTensor &t : *tensors) sum += t.bytes(tested_variables(m)) + 128;
    }
    return sum;
}

bool may_hold_indices(Type t) { return !t.is_float() && !t.is_bfloat() && !t.is_bool(); }

// Inputs of a model as the program makes them. Integers may be indices: they are 0 or 1, or all 0.
std::vector<Buffer<>> inputs_of(const LibraryModel &m, bool zeros) {
    std::vector<Buffer<>> inputs;
    for (size_t n = 0; n < m.inputs.size(); n++) {
        const LibraryTensor &t = m.inputs[n];
        const Type type = stored_type(t.type);
        Buffer<> made(type, t.extents_at(tested_variables(m)));
        fill(made.data(), t.elements(tested_variables(m)), type, static_cast<uint32_t>(n));
        for_each_element(made.raw_buffer(), [&](const std::vector<int64_t> &, uint8_t *p) {
            if (may_hold_indices(type))
                write_element(type, p, zeros ? 0 : std::fmod(std::abs(read_element(type, p)), 2));
        });
        inputs.push_back(retyped(made, t.type));
    }
    return inputs;
}

// The function test_<model>_run.
std::string test_of(const LibraryDescription &library, const LibraryModel &m) {
    std::vector<Buffer<>> outputs;
    bool zeros = false;
    try {
        outputs = m.reference(inputs_of(m, false));
    } catch (const UserError &) { // 1 is not an index of an axis of one element
        zeros = true;
        outputs = m.reference(inputs_of(m, true));
    }
    std::string tables, body, checks, released, pointers;
    int count = 0;
    const auto allocate = [&](const LibraryTensor &t) {
        const std::string type = c_element_type(t.type), name = fmt::format("t{}", count++);
        body += fmt::format("    {0} *{1} = ({0} *)allocate({2}LL * sizeof({0}));\n", type, name,
                            std::max<int64_t>(t.elements(tested_variables(m)), 1));
        released += fmt::format("    release({});\n", name);
        pointers += (pointers.empty() ? "" : ", ") + name;
        return name;
    };
    for (size_t n = 0; n < m.inputs.size(); n++) {
        const LibraryTensor &t = m.inputs[n];
        const std::string name = allocate(t);
        body += fmt::format("    fill_{}({}, {}LL, {});\n", kind(stored_type(t.type)), name,
                            t.elements(tested_variables(m)), n);
        if (!may_hold_indices(stored_type(t.type))) continue;
        body += fmt::format("    for (long long i = 0; {0} && i < {1}LL; i++) {0}[i] &= {2};\n", name,
                            t.elements(tested_variables(m)), zeros ? 0 : 1);
    }
    for (size_t n = 0; n < m.outputs.size(); n++) {
        const LibraryTensor &t = m.outputs[n];
        const std::string table = fmt::format("expected_{}_run_{}", m.name, n);
        const Type type = stored_type(t.type);
        tables += sample_table(outputs.at(n).extents(), dense_strides(outputs.at(n).extents()),
                               retyped(outputs.at(n), type), table);
        checks += fmt::format("    if (!rc) wrong += compare_{}(\"{}_run\", \"{}\", {}, {}, {}_count, {});\n",
                              kind(type), m.name, t.name, allocate(t), table, table, number(tolerance(type)));
    }
    if (m.state_bytes > 0) {
        body += fmt::format("    void *state = allocate({1} + 64);\n    if (state) {0}_reset(aligned(state));\n",
                            m.name, m.state_bytes);
        pointers += (pointers.empty() ? "" : ", ") + std::string("state ? aligned(state) : state");
        released += "    release(state);\n";
    }
    if (m.weights_file) {
        body += fmt::format("    void *weights = read_weights(\"{0}.weights\", {1});\n"
                            "    if (weights) rc = {0}_check_weights(aligned(weights), {1});\n",
                            m.name, m.data.size() + KUMIKO_WEIGHTS_HEADER);
        pointers += (pointers.empty() ? "" : ", ") + std::string("weights ? aligned(weights) : weights");
        released += "    release(weights);\n";
    }
    std::string arena_bytes = std::to_string(m.arena_bytes);
    if (!m.sizes.empty()) {
        std::vector<int64_t> sizes;
        for (const LibrarySize &s : m.sizes) sizes.push_back(s.tested);
        body = fmt::format("    const {}_sizes sizes = {{{}}};\n", m.name, fmt::join(sizes, ", ")) + body;
        pointers += (pointers.empty() ? "" : ", ") + std::string("&sizes");
        arena_bytes = m.name + "_arena_bytes(&sizes)";
    }
    return tables + fmt::format(R"(static int test_{0}_run(void) {{
    int rc = 0, wrong = 0;
{2}    void *arena = allocate({1} + 64);
    {0}_io io = {{{3}}};
    if (arena && !rc) rc = {0}_run(&io, aligned(arena), NULL);
    if (rc) {{
        write_text("{0}_run: code ");
        write_integer(rc);
        write_text(": ");
        write_text({4}_error());
        write_text("\n");
    }}
{5}{6}    release(arena);
    return rc || wrong || !arena;
}}

)",
                                m.name, arena_bytes, body, pointers, library.name, checks, released);
}

// Of models: an address in a block of 63 bytes more.
const char *aligned_blocks = R"(
static void *aligned(void *block) { return (char *)block + (64 - (size_t)block % 64) % 64; }
)";
// Weights in files; the program's first argument is their folder.
const char *hosted_weights = R"(
static const char *weights_folder = ".";
static void *read_weights(const char *name, size_t bytes) {
    char path[4096];
    void *block = allocate(bytes + 64);
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", weights_folder, name);
    file = fopen(path, "rb");
    if (!file || !block || fread(aligned(block), 1, bytes, file) != bytes) {
        write_text(path), write_text(" cannot be read; the folder with it is the argument of this program\n");
        release(block);
        block = NULL;
    }
    if (file) fclose(file);
    return block;
}
)";
// {0} is the library's name.
const char *freestanding_weights = R"(
/* The board's: copies a file of weights of so many bytes; returns 0 if there is none. */
int {0}_selftest_weights(const char *name, void *to, size_t bytes);
static void *read_weights(const char *name, size_t bytes) {{
    void *block = allocate(bytes + 64);
    if (block && {0}_selftest_weights(name, aligned(block), bytes)) return block;
    release(block);
    return NULL;
}}
)";

// Output and allocation for hosted programs.
const char *hosted = R"(
#include <stdio.h>
#include <stdlib.h>

static void write_text(const char *text) { fputs(text, stdout); }
static void *take(size_t bytes) { return malloc(bytes); }
static void release(void *block) { free(block); }
)";

// The same for freestanding ones: {0} is the library's name, {1} the default size of the arena.
const char *freestanding = R"(
/* Where the arrays of one kernel and its workspaces are. */
#ifndef SELFTEST_ARENA
#define SELFTEST_ARENA {1}
#endif

#if __STDC_HOSTED__
#include <stdio.h>
static void write_text(const char *text) {{ fputs(text, stdout); }}
#else
/* The board's: prints a text that ends with a zero byte. */
void {0}_selftest_write(const char *text);
static void write_text(const char *text) {{ {0}_selftest_write(text); }}
#endif

/* A stack of blocks, aligned to 64 bytes, each behind a head of 64 bytes. */
typedef struct head {{
    struct head *below;
    int released;
}} head;
static char arena[SELFTEST_ARENA + 64], *next_block;
static head *top;

static void *take(size_t bytes) {{
    size_t need = (bytes + 127) / 64 * 64, left;
    head *h;
    if (!next_block) next_block = arena + (64 - (size_t)arena % 64) % 64;
    left = (size_t)(arena + sizeof arena - next_block);
    if (need < bytes || need > left) return NULL;
    h = (head *)(void *)next_block;
    h->below = top;
    h->released = 0;
    top = h;
    next_block += need;
    return (char *)h + 64;
}}
static void release(void *block) {{
    if (!block) return;
    ((head *)(void *)((char *)block - 64))->released = 1;
    while (top && top->released) {{
        next_block = (char *)top;
        top = top->below;
    }}
}}
)";

const char *helpers = R"(
typedef struct { long long at; double value; } sample;

static long long samples_compared;

static void write_integer(long long v) {
    char text[24], *p = text + sizeof text - 1;
    unsigned long long rest = v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v;
    *p = 0;
    do *--p = (char)('0' + rest % 10); while (rest /= 10);
    if (v < 0) *--p = '-';
    write_text(p);
}
static double magnitude(double v) { return v < 0 ? -v : v; }
static void write_real(double v) { /* with nine digits */
    int exponent = 0, i;
    if (v != v) { write_text("nan"); return; }
    if (v < 0) write_text("-");
    v = magnitude(v);
    if (v == INFINITY) { write_text("inf"); return; }
    while (v >= 10) v /= 10, exponent++;
    while (v > 0 && v < 1) v *= 10, exponent--;
    v += 5e-9;
    if (v >= 10) v /= 10, exponent++;
    for (i = 0; i < 9; i++) {
        write_integer((int)v);
        if (i == 0) write_text(".");
        v = (v - (int)v) * 10;
    }
    if (exponent) write_text("e"), write_integer(exponent);
}
static void *allocate(size_t bytes) {
    void *block = take(bytes);
    if (!block) write_text("out of memory for the test's arrays\n");
    return block;
}
static uint32_t mixed(long long i, uint32_t seed) {
    uint32_t h = (uint32_t)i * 2654435761u + seed * 40503u;
    return (h ^ (h >> 15)) >> 4;
}
typedef union { float f; uint32_t u; } float_bits;
static uint16_t to_bf16(double v) {
    float_bits b;
    b.f = (float)v;
    return (uint16_t)(b.u >> 16);
}
static uint16_t to_f16(double v) { /* exact for the values used */
    float_bits b;
    b.f = (float)v;
    if (b.f == 0) return (uint16_t)(b.u >> 16);
    return (uint16_t)(((b.u >> 16) & 0x8000) | ((((b.u >> 23) & 0xff) - 112) << 10) | ((b.u >> 13) & 0x3ff));
}
static double from_bf16(uint16_t h) {
    float_bits b;
    b.u = (uint32_t)h << 16;
    return b.f;
}
static double from_f16(uint16_t h) {
    uint32_t exponent = (h >> 10) & 31, fraction = h & 1023;
    float_bits b;
    b.u = (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    if (exponent == 0) b.f = (float)fraction * 5.9604644775390625e-8f;
    return h & 0x8000 ? -b.f : b.f;
}
static int differs(double actual, double expected, double tolerance) {
    if (expected != expected || actual != actual) return expected == expected || actual == actual;
    if (magnitude(expected) == INFINITY) return actual != expected;
    return !(magnitude(actual - expected) <= tolerance * (1 + magnitude(expected)));
}
static int report(const char *kernel, const char *tensor, long long at, double actual, double expected) {
    write_text(kernel), write_text(": element "), write_integer(at), write_text(" of "), write_text(tensor);
    write_text(" is "), write_real(actual), write_text(", expected "), write_real(expected), write_text("\n");
    return 1;
}
#define HELPERS(kind, type, store, load)                                                                              \
    static void fill_##kind(type *x, long long n, uint32_t seed) {                                                    \
        for (long long i = 0; x && i < n; i++) { uint32_t h = mixed(i, seed); x[i] = (type)(store); }                 \
    }                                                                                                                 \
    static int compare_##kind(const char *kernel, const char *tensor, const type *x, const sample *s, int n, double tolerance) { \
        for (int i = 0; i < n; i++) {                                                                                 \
            type v = x[s[i].at];                                                                                      \
            double actual = load;                                                                                     \
            samples_compared++;                                                                                       \
            if (differs(actual, s[i].value, tolerance)) return report(kernel, tensor, s[i].at, actual, s[i].value);   \
        }                                                                                                             \
        return 0;                                                                                                     \
    }
)";

// Instantiates the macro for the types that occur.
std::string helpers_for(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels) {
    std::map<std::string, std::string> all; // kind → line
    const auto add = [&](Type t) {
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
        all[kind(t)] = fmt::format("HELPERS({}, {}, {}, {})\n", kind(t), c_element_type(t), store, load);
    };
    for (const PackagedKernel &k : kernels) {
        for (size_t i = 0; i < k.nest().tensors.size() && !k.kernel->internal; i++) {
            const TensorArgument &given = k.nest().tensors[i];
            add(given.packed_from.empty() ? given.type : k.kernel->op.inputs()[i].type);
        }
    }
    for (const LibraryModel &m : library.models) {
        for (const auto *tensors : {&m.inputs, &m.outputs}) {
            for (const LibraryTensor &t : *tensors) add(stored_type(t.type));
        }
    }
    std::string text;
    for (const auto &[name, line] : all) text += line;
    return text;
}

} // namespace

std::string library_self_test(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                              const LibraryUse &use) {
    std::string text = fmt::format(
        "/* Checks lib{0}.a on this machine:\n *   {1} -o {0}_selftest\n"
        " * Prints a line for every function that is wrong, then how many functions and samples of their outputs it "
        "compared,\n"
        " * and how many functions passed and failed. Exits with 0 when none failed.{2} */\n"
        "#include \"{0}.h\"\n",
        library.name, use.command(library.name, "", library.name + "_selftest.c"),
        use.freestanding
            ? "\n * Without a C library (-ffreestanding) the board brings the start, which calls main, and " +
                  library.name + "_selftest_write."
            : "");
    if (use.freestanding) {
        int64_t bytes = 0;
        for (const PackagedKernel &k : kernels) bytes = std::max(bytes, bytes_of(k));
        for (const LibraryModel &m : library.models) bytes = std::max(bytes, bytes_of(m));
        text += "\n#define NAN __builtin_nan(\"\")\n#define INFINITY __builtin_inf()\n";
        text += fmt::format(fmt::runtime(freestanding), library.name, 3 * bytes + (1 << 20));
    } else {
        text += "\n#include <math.h>";
        text += hosted;
    }
    text += "\n/* Not every kernel set uses all helpers. */\n#if defined(__GNUC__)\n#pragma GCC diagnostic ignored "
            "\"-Wunused-function\"\n#endif\n";
    text += helpers;
    text += helpers_for(library, kernels) + "\n";
    std::string tests;
    for (const PackagedKernel &k : kernels) {
        if (k.kernel->internal) continue;
        text += test_of(library, k);
        tests += fmt::format("{}test_{}", tests.empty() ? "" : ", ", k.kernel->name);
    }
    const bool in_files =
        std::any_of(library.models.begin(), library.models.end(), [](const LibraryModel &m) { return m.weights_file; });
    if (!library.models.empty()) text += aligned_blocks;
    if (in_files)
        text += use.freestanding ? fmt::format(fmt::runtime(freestanding_weights), library.name) : hosted_weights;
    const bool argument = in_files && !use.freestanding;
    for (const LibraryModel &m : library.models) {
        text += test_of(library, m);
        tests += fmt::format("{}test_{}_run", tests.empty() ? "" : ", ", m.name);
    }
    return text + fmt::format(R"(int main({3}) {{
    static int (*const tests[])(void) = {{{0}}};
    const int functions = (int)(sizeof tests / sizeof *tests);
    int failed = 0, i;
{1}    for (i = 0; i < functions; i++) failed += tests[i]() != 0;
    write_text("{2}: "), write_integer(functions), write_text(" functions, "), write_integer(samples_compared);
    write_text(" samples: "), write_integer(functions - failed), write_text(" passed, "), write_integer(failed);
    write_text(" failed\n");
    return failed ? 1 : 0;
}}
)",
                              tests,
                              (use.freestanding ? "    " + library.name + "_set_memory(take, release);\n" : "") +
                                  (argument ? "    if (argc > 1) weights_folder = argv[1];\n" : ""),
                              library.name, argument ? "int argc, char **argv" : "void");
}

} // namespace kumiko

// A shared library, whose functions can also be called from Python: by the calling convention of
// TVM FFI (package apache-tvm-ffi), on tensors of DLPack. The few structures of its C interface are
// declared here, so that nothing is needed to build the library or to link it.
#include "driver/library_shared.h"
#include "driver/library_runtime.h"
#include "dsl/halide_passes.h"
#include "dsl/narrow_types.h"
#include "support/command.h"
#include "support/error.h"
#include "support/temporary_folder.h"
#include "targets/cpu/object.h"
#include "targets/lower/extern_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace kumiko {

namespace {

namespace halide_ir = Halide::Internal;

// The types and checks that all functions use. Structures are laid out as in dlpack.h 1.x and
// tvm/ffi/c_api.h.
const char *const common = R"(
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct { uint8_t code, bits; uint16_t lanes; } dl_type;
typedef struct {
    void *data;
    int32_t device, device_id; /* 1: CPU */
    int32_t rank;
    dl_type type;
    const int64_t *shape, *strides; /* in elements; no strides: dense */
    uint64_t offset;                /* of the first element, in bytes */
} dl_tensor;
/* A value of TVM FFI: an integer, a pointer to dl_tensor, or an object with a dl_tensor after its
 * header. */
typedef struct {
    int32_t kind;
    uint32_t zero;
    union { int64_t number; void *pointer; } value;
} ffi_value;
enum { FFI_NONE = 0, FFI_INT = 1, FFI_TENSOR_POINTER = 7, FFI_TENSOR = 70, FFI_HEADER_BYTES = 24 };

/* A function of libtvm_ffi, which Python has loaded when it calls; NULL in other programs. */
__attribute__((weak)) void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

static int fail(const char *kind, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (TVMFFIErrorSetRaisedFromCStr) TVMFFIErrorSetRaisedFromCStr(kind, text);
    return -1;
}

static const char *type_text(dl_type t, char text[32]) {
    static const char *const kinds[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    if (t.code == 6 && t.bits == 8 && t.lanes == 1) return "bool";
    if (t.code < 7)
        snprintf(text, 32, t.lanes == 1 ? "%s%d" : "%s%dx%d", kinds[t.code], t.bits, t.lanes);
    else
        snprintf(text, 32, "type %d of %d bits", t.code, t.bits);
    return text;
}

static int has_elements(const dl_tensor *t) {
    for (int a = 0; a < t->rank; a++)
        if (t->shape[a] == 0) return 0;
    return 1;
}

/* Argument `number` of `function`, an array on the CPU of this type and rank. */
static int get_tensor(const char *function, const char *name, const ffi_value *args, int number, dl_type type, int rank,
                      const dl_tensor **tensor) {
    const ffi_value *v = &args[number];
    const dl_tensor *t = v->value.pointer;
    char given[32], legal[32];
    if (v->kind == FFI_TENSOR)
        t = (const dl_tensor *)((const char *)v->value.pointer + FFI_HEADER_BYTES);
    else if (v->kind != FFI_TENSOR_POINTER)
        return fail("TypeError", "%s: argument %d, \"%s\", is no array; legal is one of %s with %d axes", function,
                    number, name, type_text(type, legal), rank);
    if (t->device != 1)
        return fail("ValueError", "%s: argument %d, \"%s\", is on a device of DLPack's kind %d; legal is the CPU",
                    function, number, name, (int)t->device);
    if (t->type.code != type.code || t->type.bits != type.bits || t->type.lanes != type.lanes)
        return fail("TypeError", "%s: argument %d, \"%s\", has elements of %s; legal is %s", function, number, name,
                    type_text(t->type, given), type_text(type, legal));
    if (t->rank != rank)
        return fail("ValueError", "%s: argument %d, \"%s\", has %d axes; legal is %d", function, number, name,
                    (int)t->rank, rank);
    if (!t->data && has_elements(t))
        return fail("ValueError", "%s: argument %d, \"%s\", has no address; legal is an array in memory", function,
                    number, name);
    if (((uintptr_t)t->data + t->offset) % (type.bits / 8))
        return fail("ValueError", "%s: argument %d, \"%s\", is not aligned; legal is an address that is a multiple of %d",
                    function, number, name, type.bits / 8);
    *tensor = t;
    return 0;
}

/* The bytes of an array that hold elements of a wider type. */
static int check_address(const char *function, const char *name, const dl_tensor *t, int multiple) {
    if (((uintptr_t)t->data + t->offset) % multiple == 0) return 0;
    return fail("ValueError", "%s: \"%s\" is not aligned; legal is an address that is a multiple of %d", function, name,
                multiple);
}

static int get_size(const char *function, const char *name, const ffi_value *args, int number, int64_t *size) {
    if (args[number].kind != FFI_INT)
        return fail("TypeError", "%s: argument %d, the size \"%s\", is no integer", function, number, name);
    *size = args[number].value.number;
    return 0;
}

static int check_extent(const char *function, const char *name, const dl_tensor *t, int axis, int64_t legal) {
    if (t->shape[axis] == legal) return 0;
    return fail("ValueError", "%s: axis %d of \"%s\" has %lld elements; legal is %lld", function, axis, name,
                (long long)t->shape[axis], (long long)legal);
}

/* The stride of an axis, in elements. */
static int64_t stride_of(const dl_tensor *t, int axis) {
    int64_t stride = 1;
    if (t->strides) return t->strides[axis];
    for (int a = t->rank - 1; a > axis; a--) stride *= t->shape[a];
    return stride;
}

/* The size that equals this stride. An axis of one element may have any stride: the size is then
 * that of a dense array. */
static int64_t size_of_stride(const dl_tensor *t, int axis) {
    int64_t inside = 1;
    if (t->shape[axis] > 1 && has_elements(t)) return stride_of(t, axis);
    for (int a = axis + 1; a < t->rank; a++) inside *= t->shape[a];
    return inside;
}

static int check_stride(const char *function, const char *name, const dl_tensor *t, int axis, int64_t legal) {
    if (t->shape[axis] == 1 || stride_of(t, axis) == legal || !has_elements(t)) return 0;
    return fail("ValueError",
                "%s: axis %d of \"%s\" has the stride %lld; legal is %lld elements, as in an array that is dense in C "
                "order",
                function, axis, name, (long long)stride_of(t, axis), (long long)legal);
}

static char *begin_of(const dl_tensor *t) {
    static int64_t nothing[8]; /* of an array without elements, which may have no address */
    return t->data ? (char *)t->data + t->offset : (char *)nothing;
}

/* An output may overlap no other array. */
static int check_overlap(const char *function, const char *const *names, const dl_tensor *const *t, int count,
                         int output) {
    const char *begin[2], *end[2];
    for (int other = 0; other < count; other++) {
        const int both[2] = {output, other};
        if (other == output || !has_elements(t[output]) || !has_elements(t[other])) continue;
        for (int i = 0; i < 2; i++) {
            const dl_tensor *a = t[both[i]];
            int64_t low = 0, high = 0;
            for (int axis = 0; axis < a->rank; axis++) {
                const int64_t step = (a->shape[axis] - 1) * stride_of(a, axis);
                step < 0 ? (low += step) : (high += step);
            }
            begin[i] = begin_of(a) + low * (a->type.bits / 8);
            end[i] = begin_of(a) + (high + 1) * (a->type.bits / 8);
        }
        if (begin[0] < end[1] && begin[1] < end[0])
            return fail("ValueError", "%s: the output \"%s\" overlaps \"%s\"; legal are separate arrays", function,
                        names[output], names[other]);
    }
    return 0;
}

static inline int64_t floor_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t floor_mod(int64_t a, int64_t b) { return b == 0 ? 0 : a - floor_div(a, b) * b; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
)";

// A size of a kernel as a variable of C.
std::string variable(const std::string &size) { return "size_" + size; }

// An expression over sizes in C.
std::string in_c(const Expr &e) {
    const auto call = [](const char *f, const Expr &a, const Expr &b) {
        return fmt::format("{}({}, {})", f, in_c(a), in_c(b));
    };
    const auto between = [](const Expr &a, const char *o, const Expr &b) {
        return fmt::format("({} {} {})", in_c(a), o, in_c(b));
    };
    if (const auto n = halide_ir::as_const_int(e)) return std::to_string(*n);
    if (const auto *v = e.as<halide_ir::Variable>()) return variable(v->name);
    if (const auto *c = e.as<halide_ir::Cast>()) return in_c(c->value);
    if (const auto *o = e.as<halide_ir::Add>()) return between(o->a, "+", o->b);
    if (const auto *o = e.as<halide_ir::Sub>()) return between(o->a, "-", o->b);
    if (const auto *o = e.as<halide_ir::Mul>()) return between(o->a, "*", o->b);
    if (const auto *o = e.as<halide_ir::Div>()) return call("floor_div", o->a, o->b);
    if (const auto *o = e.as<halide_ir::Mod>()) return call("floor_mod", o->a, o->b);
    if (const auto *o = e.as<halide_ir::Min>()) return call("least", o->a, o->b);
    if (const auto *o = e.as<halide_ir::Max>()) return call("greatest", o->a, o->b);
    std::ostringstream text;
    text << e;
    throw Unsupported("a shared library for Python cannot check the extent " + text.str() +
                      "; supported are sums, products, quotients, minima and maxima of sizes");
}

// Elements of 4 and 2 bits take a byte here, and are packed in DLPack.
std::string dl_type(Type type) {
    const Type t = type.bits() == 4 || type.bits() == 2 ? stored_type(type) : type;
    const int code = narrow_float(t) ? t.code()
                     : t.is_bool()   ? 6
                     : t.is_bfloat() ? 4
                     : t.is_float()  ? 2
                     : t.is_uint()   ? 1
                                     : 0;
    return fmt::format("(dl_type){{{}, {}, 1}}", code, t.is_bool() ? 8 : t.bits());
}

std::string c_string(const std::string &text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        made += c == '\n' ? ' ' : c;
    }
    return made + "\"";
}

struct FfiTensor {
    std::string name;
    Type type;
    bool output;
    std::vector<Expr> extents, strides;
};

// The first lines of a function, which check all arguments. Tensors are t[0], t[1], …; sizes are
// variables.
std::string checks(const std::string &name, const std::vector<FfiTensor> &tensors,
                   const std::vector<std::string> &sizes, bool overlap) {
    // A size is read from an axis or stride that equals it; without one it is an argument.
    std::set<std::string> known;
    std::vector<std::string> asked;
    const auto alone = [](const Expr &e) {
        const auto *v = e.as<halide_ir::Variable>();
        return v ? v->name : std::string();
    };
    for (const std::string &s : sizes) {
        const auto found = [&](const FfiTensor &t) {
            const auto is = [&](const Expr &e) { return alone(e) == s; };
            return std::any_of(t.extents.begin(), t.extents.end(), is) ||
                   std::any_of(t.strides.begin(), t.strides.end(), is);
        };
        if (std::none_of(tensors.begin(), tensors.end(), found)) asked.push_back(s);
    }
    std::string names, text = fmt::format("int __tvm_ffi_{}(void *handle, const ffi_value *args, int32_t count, "
                                          "ffi_value *result) {{\n",
                                          name);
    std::vector<std::string> listed;
    for (const FfiTensor &t : tensors) listed.push_back(t.name);
    for (const std::string &s : asked) listed.push_back(s);
    for (const FfiTensor &t : tensors) names += (names.empty() ? "" : ", ") + c_string(t.name);
    text += fmt::format("    static const char function[] = {};\n    (void)handle;\n", c_string(name));
    if (!tensors.empty())
        text += fmt::format("    static const char *const names[] = {{{}}};\n    const dl_tensor *t[{}];\n", names,
                            tensors.size());
    text += fmt::format("    if (count != {}) return fail(\"TypeError\", \"%s takes {} arguments{}, and %d are "
                        "given\", function, (int)count);\n",
                        listed.size(), listed.empty() ? "no" : std::to_string(listed.size()), [&] {
                            if (listed.empty()) return std::string();
                            const std::string all = c_string(fmt::format("{}", fmt::join(listed, ", ")));
                            std::string escaped = " (";
                            for (const char c : all.substr(1, all.size() - 2))
                                escaped += c == '%' ? "%%" : std::string(1, c);
                            return escaped + ")";
                        }());
    for (const std::string &s : sizes) text += fmt::format("    int64_t {} = 0;\n", variable(s));
    for (size_t n = 0; n < asked.size(); n++) {
        text += fmt::format("    if (get_size(function, {}, args, {}, &{})) return -1;\n", c_string(asked[n]),
                            tensors.size() + n, variable(asked[n]));
        known.insert(asked[n]);
    }
    for (size_t n = 0; n < tensors.size(); n++)
        text += fmt::format("    if (get_tensor(function, names[{0}], args, {0}, {1}, {2}, &t[{0}])) return -1;\n", n,
                            dl_type(tensors[n].type), tensors[n].extents.size());
    // First the sizes, then the checks that use them.
    std::string compared;
    const auto visit = [&](size_t n, const std::vector<Expr> &all, const char *value, const char *check) {
        for (size_t d = 0; d < all.size(); d++) {
            const Expr e = halide_ir::simplify(all[d]);
            if (!alone(e).empty() && known.insert(alone(e)).second)
                text += fmt::format("    {} = {};\n", variable(alone(e)), fmt::format(fmt::runtime(value), n, d));
            else
                compared += fmt::format("    if ({0}(function, names[{1}], t[{1}], {2}, {3})) return -1;\n", check, n,
                                        d, in_c(e));
        }
    };
    for (size_t n = 0; n < tensors.size(); n++) visit(n, tensors[n].extents, "t[{}]->shape[{}]", "check_extent");
    for (size_t n = 0; n < tensors.size(); n++)
        visit(n, tensors[n].strides, "size_of_stride(t[{}], {})", "check_stride");
    text += compared;
    for (size_t n = 0; n < tensors.size(); n++) {
        if (overlap && tensors[n].output)
            text += fmt::format("    if (check_overlap(function, names, t, {}, {})) return -1;\n", tensors.size(), n);
    }
    return text;
}

std::string end_of(const std::string &library) {
    return fmt::format("    if (code) return fail(\"RuntimeError\", \"%s: %s\", function, {}_error());\n"
                       "    result->kind = FFI_NONE, result->zero = 0, result->value.number = 0;\n"
                       "    return 0;\n}}\n",
                       library);
}

// An extent over the sizes of a model. One that equals a size is its variable, so that the size is
// read from the array.
Expr extent_of(const LibraryModel &m, const Polynomial &p) {
    const Halide::Type i64 = Halide::Int(64);
    std::vector<Expr> variables;
    for (size_t s = 0; s < m.sizes.size(); s++) {
        const LibrarySize &size = m.sizes[s];
        const Expr whole = halide_ir::Variable::make(i64, size.field), step = halide_ir::make_const(i64, size.step);
        if (p == size.step * Polynomial::variable(s) + size.least % size.step) return whole;
        variables.push_back(size.step == 1 ? whole : whole / step);
    }
    Expr sum;
    for (const auto &[exponents, coefficient] : p.terms()) {
        Expr term = halide_ir::make_const(i64, coefficient);
        for (size_t v = 0; v < exponents.size(); v++) {
            for (int n = 0; n < exponents[v]; n++) term = term * variables.at(v);
        }
        sum = sum.defined() ? sum + term : term;
    }
    return sum.defined() ? sum : halide_ir::make_const(i64, 0);
}

FfiTensor dense(const LibraryModel &m, const LibraryTensor &t, bool output) {
    FfiTensor made{t.origin, t.type, output, {}, {}};
    for (const Polynomial &e : t.extents) made.extents.push_back(extent_of(m, e));
    made.strides.resize(t.extents.size());
    Polynomial stride = 1;
    for (size_t d = t.extents.size(); d-- > 0;) {
        // A stride is never read as a size: it would be that of an array that is not dense.
        const Expr e = extent_of(m, stride);
        made.strides[d] = e.as<halide_ir::Variable>() ? halide_ir::Mul::make(e, halide_ir::make_one(e.type())) : e;
        stride = stride * t.extents[d];
    }
    return made;
}

// The memory of all states, as an array of bytes.
FfiTensor state_tensor(const LibraryModel &m) { return dense(m, {"state", "state", u8, {m.state_bytes}}, true); }

// The functions <model>_state_bytes() and <model>_reset(state).
std::string state_functions(const LibraryModel &m, const std::string &prefix) {
    const std::string size = prefix + "state_bytes", reset = prefix + "reset";
    return "\n" + checks(size, {}, {}, false) +
           fmt::format("    result->kind = FFI_INT, result->zero = 0, result->value.number = {};\n"
                       "    return 0;\n}}\n\n",
                       m.state_bytes) +
           checks(reset, {state_tensor(m)}, {}, false) +
           fmt::format("    {}_reset(begin_of(t[0]));\n"
                       "    result->kind = FFI_NONE, result->zero = 0, result->value.number = 0;\n"
                       "    return 0;\n}}\n",
                       m.name);
}

std::string model_function(const LibraryDescription &library, const LibraryModel &m, const std::string &name) {
    std::vector<FfiTensor> tensors;
    for (const LibraryTensor &t : m.inputs) tensors.push_back(dense(m, t, false));
    if (m.state_bytes > 0) tensors.push_back(state_tensor(m));
    for (const LibraryTensor &t : m.outputs) tensors.push_back(dense(m, t, true));
    std::vector<std::string> sizes;
    for (const LibrarySize &s : m.sizes) sizes.push_back(s.field);
    std::string text = "\n" + checks(name, tensors, sizes, true);
    text += fmt::format("    {}_io io = {{0}};\n", m.name);
    size_t n = 0;
    const auto set = [&](const std::string &field) {
        text += fmt::format("    io.{} = (void *)begin_of(t[{}]);\n", field, n++);
    };
    for (const LibraryTensor &t : m.inputs) set(t.name);
    if (m.state_bytes > 0) {
        text +=
            fmt::format("    if (check_address(function, \"state\", t[{}], {})) return -1;\n", n, state_alignment(m));
        set("state");
    }
    for (const LibraryTensor &t : m.outputs) set(t.name);
    std::string bytes = std::to_string(std::max<int64_t>(m.arena_bytes, 64));
    if (!sizes.empty()) {
        text += fmt::format("    {}_sizes sizes = {{0}};\n    io.sizes = &sizes;\n", m.name);
        for (const std::string &s : sizes) text += fmt::format("    sizes.{} = {};\n", s, variable(s));
        text += fmt::format("    const int64_t bytes = {}_arena_bytes(&sizes);\n"
                            "    if (bytes < 0) return fail(\"ValueError\", \"%s\", {}_error());\n",
                            m.name, library.name);
        bytes = "greatest(bytes, 64)";
    }
    // The library's cache of workspaces makes repeated calls cheap; calls of several threads get
    // different ones.
    text +=
        fmt::format("    void *arena = {0}_malloc((size_t){1});\n"
                    "    if (!arena) return fail(\"MemoryError\", \"%s: an arena of %lld bytes cannot be allocated\", "
                    "function, (long long){1});\n"
                    "    const int code = {2}_run(&io, arena, NULL);\n"
                    "    {0}_free(arena);\n",
                    library.name, bytes, m.name);
    return text + end_of(library.name);
}

// The function of a kernel, or of the packing function of one of its inputs.
std::string kernel_function(const LibraryDescription &library, const Nest &nest, const Entry &entry,
                            const std::string &name) {
    std::vector<FfiTensor> tensors;
    for (const TensorArgument &t : nest.tensors) tensors.push_back({t.name, t.type, t.output, t.extents, t.strides});
    std::string text = "\n" + checks(name, tensors, nest.sizes, false), arguments;
    for (const EntryParameter &p : entry.parameters) {
        arguments += arguments.empty() ? "" : ", ";
        size_t n = 0;
        while (p.pointer && nest.tensors[n].name != p.name) n++;
        arguments += p.pointer ? fmt::format("(void *)begin_of(t[{}])", n) : variable(p.name);
    }
    text += fmt::format("    const int code = {}({});\n", entry.name, arguments);
    return text + end_of(library.name);
}

} // namespace

std::string ffi_source(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels) {
    std::string text = fmt::format("/* Functions of {0} for TVM FFI. Generated by Kumiko. */\n#include \"{0}.h\"\n{1}",
                                   library.name, common);
    if (!library.models.empty())
        text += fmt::format("\nvoid *{0}_malloc(size_t bytes);\nvoid {0}_free(void *block);\n", library.name);
    std::set<std::string> taken;
    for (const PackagedKernel &k : kernels) {
        if (k.kernel->internal) continue;
        const std::string prefix = k.symbol.substr(0, k.symbol.size() - k.kernel->name.size());
        text += kernel_function(library, k.nest(), k.entries[0], k.kernel->name);
        taken.insert(k.kernel->name);
        for (size_t p = 0; p < k.nest().packs.size(); p++) {
            const Entry &pack = k.entries[1 + 2 * p];
            text += kernel_function(library, k.nest().packs[p], pack, pack.name.substr(prefix.size()));
            taken.insert(pack.name.substr(prefix.size()));
        }
    }
    for (const LibraryModel &m : library.models) {
        std::vector<std::string> names = {m.name + "_run"};
        if (m.state_bytes > 0) names.insert(names.end(), {m.name + "_reset", m.name + "_state_bytes"});
        for (const std::string &name : names) {
            if (!taken.insert(name).second)
                throw UserError(fmt::format("a shared library has one function {} for Python, of a kernel and of the "
                                            "model {}; give the kernel another name",
                                            name, m.name));
        }
        text += model_function(library, m, names[0]);
        if (m.state_bytes > 0) text += state_functions(m, m.name + "_");
    }
    if (library.models.size() != 1) return text;
    if (taken.insert("run").second) text += model_function(library, library.models[0], "run");
    if (library.models[0].state_bytes > 0 && !taken.count("reset") && !taken.count("state_bytes"))
        text += state_functions(library.models[0], "");
    return text;
}

namespace {

std::string request_of(const LibraryDescription &library) { return "library " + library.name + " is to be shared: "; }

} // namespace

void require_shareable(const LibraryDescription &library, const CpuTarget &target) {
    const std::string request = request_of(library);
    if (target.freestanding())
        throw UserError(request +
                        "a machine without an operating system loads no shared libraries; legal is --target " +
                        target.architecture());
    for (const LibraryModel &m : library.models) {
        if (m.weights_file)
            throw UserError(fmt::format("{}the weights of model {} are a file, which Python has no argument for; legal "
                                        "are weights in the object",
                                        request, m.name));
    }
}

void require_shareable(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels) {
    for (const PackagedKernel &k : kernels) {
        const std::vector<ExternUse> uses = extern_uses(k.nest());
        if (!uses.empty())
            throw UserError(fmt::format("{}kernel {} calls {}, which a program defines; legal are kernels without "
                                        "extern stages",
                                        request_of(library), k.kernel->name, uses[0].symbol));
    }
}

std::string shared_library(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                           const std::string &archive, const std::string &header, const std::string &compiler) {
    const TemporaryFolder folder;
    const std::string at = folder.path().string(), made = at + "/lib" + library.name + ".so";
    const auto write = [&](const std::string &name, const std::string &bytes) {
        std::ofstream(at + "/" + name, std::ios::binary) << bytes;
    };
    write("lib" + library.name + ".a", archive);
    write(library.name + ".h", header);
    write("ffi.c", ffi_source(library, kernels));
    std::string exported = "{ global: __tvm_ffi_*; " + library.name + "_*; ";
    for (const PackagedKernel &k : kernels) {
        if (!k.kernel->internal) exported += k.symbol + "; " + k.symbol + "_*; ";
    }
    for (const LibraryModel &m : library.models)
        exported += fmt::format("{0}_run; {0}_arena_bytes; {0}_reset; {0}_check_weights; ", m.name);
    write("exported", exported + "local: *; };\n");
    const std::string command = fmt::format(
        "{0} -std=c11 -O2 -fPIC -shared -Wno-unused '-I{1}' '{1}/ffi.c' -Wl,--whole-archive "
        "'{1}/lib{2}.a' -Wl,--no-whole-archive -Wl,--version-script='{1}/exported' -Wl,-soname,lib{2}.so -Wl,-z,defs "
        "-Wl,--gc-sections -lm -lpthread -o '{3}'",
        compiler, at, library.name, made);
    std::string printed;
    const int status = run_command(command, printed);
    std::ifstream in(made, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (status != 0 || bytes.empty())
        throw UserError(fmt::format("{}{} cannot link it: {}", request_of(library), compiler, printed));
    return bytes;
}

} // namespace kumiko

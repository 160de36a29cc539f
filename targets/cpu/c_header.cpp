// The C header of a kernel library.
#include "targets/cpu/object.h"
#include "targets/lower/extern_calls.h"

#include "dsl/stage_builder.h"
#include "support/error.h"
#include "support/names.h"

#include <regex>
#include <sstream>

namespace kumiko {

namespace {

std::string c_type(Type t) {
    if (t.is_bool()) {
        return "uint8_t";
    }
    if (t.is_float()) {
        return t.bits() == 64 ? "double" : t.bits() == 32 ? "float" : "uint16_t";
    }
    return fmt::format("{}int{}_t", t.is_uint() ? "u" : "", t.bits());
}

std::string element_name(Type t) {
    return t.is_bool()     ? "bool, 0 or 1"
           : t.is_bfloat() ? "bfloat16 bits"
           : t.is_float()  ? fmt::format("float{}{}", t.bits(), t.bits() == 16 ? " bits" : "")
                           : fmt::format("{}int{}", t.is_uint() ? "u" : "", t.bits());
}

std::string text(const std::vector<Expr> &list) {
    std::string result;
    for (const Expr &e : list) {
        std::ostringstream stream;
        stream << Halide::Internal::simplify(e);
        std::string s = stream.str();
        if (s.size() > 2 && s.front() == '(' && s.back() == ')' && s.find('(', 1) == std::string::npos) {
            s = s.substr(1, s.size() - 2); // Halide parenthesises every sum
        }
        result += (result.empty() ? "" : ", ") + s;
    }
    return result;
}

// Whether the strides are those of a dense row-major array.
bool is_dense(const TensorArgument &t) {
    Expr expected = 1;
    for (size_t d = t.extents.size(); d-- > 0;) {
        if (!Halide::Internal::is_const_zero(Halide::Internal::simplify(t.strides[d] - expected))) {
            return false;
        }
        expected = expected * t.extents[d];
    }
    return true;
}

// Whether a standard header defines the name as a macro or type that could clash with a size or a
// tensor.
bool is_standard(const std::string &name) {
    static const std::set<std::string> known = {
        "NULL",         "EOF",          "BUFSIZ", "FILE",   "SEEK_SET", "SEEK_CUR", "SEEK_END", "EDOM",
        "ERANGE",       "errno",        "stdin",  "stdout", "stderr",   "assert",   "I",        "complex",
        "imaginary",    "true",         "false",  "NDEBUG", "INFINITY", "NAN",      "HUGE_VAL", "CHAR_BIT",
        "EXIT_SUCCESS", "EXIT_FAILURE", "M_PI",   "linux",  "unix",     "offsetof", "signal",   "setjmp"};
    const auto ends = [&](const char *end) { return name.ends_with(end); };
    return known.count(name) || name.starts_with("__") || ends("_t") || ends("_MAX") || ends("_MIN") || ends("_WIDTH");
}

// A valid C identifier: letters, digits and underscores; not a keyword or a name of a standard
// header.
std::string c_name(const std::string &name) {
    std::string result;
    for (char c : name) {
        result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
    if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) || is_keyword(result) ||
        is_standard(result)) {
        result += "_";
    }
    return std::isdigit(static_cast<unsigned char>(result[0])) ? "_" + result : result;
}

std::set<std::string> sizes_in(const std::vector<Expr> &list) {
    std::set<std::string> names;
    for (const Expr &e : list) names.merge(variables_of(e));
    return names;
}

// The description of a size without a stated meaning: where it occurs, as "extent of axis 0 of A
// and of C".
std::string meaning(const Nest &nest, const std::string &size) {
    std::vector<std::string> extents, strides;
    std::string least;
    bool part = false; // of some extent
    for (const TensorArgument &t : nest.tensors) {
        for (size_t d = 0; d < t.extents.size() && t.packed_from.empty(); d++) {
            if (!sizes_in({t.extents[d]}).count(size)) continue;
            part = part || !t.extents[d].as<Halide::Internal::Variable>();
            extents.push_back(fmt::format("axis {} of {}", d, c_name(t.name)));
        }
        if (sizes_in(t.strides).count(size)) {
            strides.push_back(c_name(t.name));
            if (t.output && t.extents.size() > 1) least = ", at least " + text({t.extents.back()});
        }
    }
    if (!extents.empty()) return fmt::format("{} of {}", part ? "in the extents" : "extent", fmt::join(extents, ", "));
    if (!strides.empty())
        return fmt::format("elements from one row of {} to the next{}", fmt::join(strides, " and "), least);
    return "";
}

bool is_pack(const Nest &nest) {
    return !nest.tensors.empty() && nest.tensors.back().output && !nest.tensors.back().packed_from.empty();
}

void declare(std::ostream &out, const Nest &nest, const HeaderOptions &options) {
    out << "\n/* " << nest.name << "\n";
    if (const auto note = options.notes.find(nest.name); note != options.notes.end()) {
        std::istringstream lines(note->second);
        for (std::string line; std::getline(lines, line);) {
            for (size_t end; (end = line.find("*/")) != std::string::npos;) {
                line.replace(end, 2, "* /"); // a formula with a product of a quotient has */
            }
            out << " *   " << line << "\n";
        }
    }
    std::vector<std::string> parameters;
    std::set<std::string> taken;
    size_t widest = 0;
    for (const TensorArgument &t : nest.tensors) {
        widest = std::max(widest, c_name(t.name).size());
    }
    for (const std::string &size : nest.sizes) widest = std::max(widest, c_name(size).size());
    for (const TensorArgument &t : nest.tensors) {
        std::string name = c_name(t.name);
        out << fmt::format(" *   {:<{}}  {} ", name, widest, t.inout ? "inout" : t.output ? "out" : "in ");
        if (is_pack(nest) && t.output) {
            out << fmt::format("{}[{}_elements({})]", element_name(t.type), nest.name, fmt::join(nest.sizes, ", "));
        } else if (!t.packed_from.empty()) {
            out << element_name(t.type) << ", " << t.packed_from << " as " << nest.name << "_pack_" << t.packed_from
                << " writes it";
        } else {
            out << fmt::format("{}[{}]", element_name(t.type), text(t.extents));
            if (!is_dense(t)) out << ", strides [" << text(t.strides) << "] in elements";
        }
        out << "\n";
        parameters.push_back(fmt::format("{}{} *{}", t.output ? "" : "const ", c_type(t.type), name));
        taken.insert(name);
    }
    std::vector<std::string> sizes, described;
    std::map<std::string, std::string> names; // of sizes, in C
    const auto of_variants = options.limits.find(nest.name);
    const SizeLimits limits = of_variants == options.limits.end() ? size_limits(nest) : of_variants->second;
    for (const std::string &size : nest.sizes) {
        std::string name = c_name(size);
        // W, the weights, and W, the width, are both possible
        while (taken.count(name)) name += "_size";
        taken.insert(name);
        names[size] = name;
        parameters.push_back("int64_t " + name);
        sizes.push_back(parameters.back());
        const auto known = options.meanings.find(nest.name);
        const bool named = known != options.meanings.end() && known->second.count(size);
        const std::string what = named ? known->second.at(size) : meaning(nest, size);
        described.push_back(fmt::format(" *   {:<{}}  size, 0 to {}{}{}\n", name, widest, limits.most.at(size),
                                        what.empty() ? "" : ": ", what));
    }
    for (const std::string &line : described) out << line;
    for (const auto &[total, most] : limits.totals) {
        std::string text = total;
        for (const auto &[size, name] : names) text = std::regex_replace(text, std::regex("\\b" + size + "\\b"), name);
        out << " *   requires " << text << " <= " << most << "\n";
    }
    if (const auto order = options.order.find(nest.name); order != options.order.end()) {
        std::vector<std::string> sorted;
        for (size_t n : order->second) sorted.push_back(parameters.at(n));
        parameters = sorted;
    }
    for (const Assumption &a : nest.assumptions) {
        out << " *   requires " << a.text << "\n";
    }
    if (options.declare_packed) {
        std::vector<std::string> pointers, numbers;
        for (const std::string &p : parameters) {
            (p.starts_with("int64_t ") ? numbers : pointers).push_back(p.substr(p.find_last_of(" *") + 1));
        }
        out << fmt::format(" *   {}_packed: tensors = {{{}}}, ", nest.name, fmt::join(pointers, ", "))
            << (numbers.empty() ? "sizes is not read" : fmt::format("sizes = {{{}}}", fmt::join(numbers, ", ")))
            << "\n";
    }
    if (is_pack(nest))
        out << fmt::format(
            " *   {}_elements: the number of elements of {}, or -1 if no kernel supports the processor\n", nest.name,
            c_name(nest.tensors.back().name));
    out << " */\n";
    out << fmt::format("int {}({});\n", nest.name,
                       parameters.empty() ? "void" : fmt::format("{}", fmt::join(parameters, ", ")));
    if (is_pack(nest)) {
        out << fmt::format("int64_t {}_elements({});\n", nest.name,
                           sizes.empty() ? "void" : fmt::format("{}", fmt::join(sizes, ", ")));
    }
    if (options.declare_packed) {
        out << fmt::format("int {}_packed(void *const *tensors, const int64_t *sizes);\n", nest.name);
    }
}

// The functions that the kernels call and the library does not define.
void declare_externs(std::ostream &out, const std::vector<Nest> &nests) {
    std::map<std::string, std::string> callers; // by symbol
    for (const Nest &nest : nests) {
        for (const ExternUse &use : extern_uses(nest)) callers[use.symbol] += " " + nest.name;
    }
    if (callers.empty()) return;
    out << "\n/* To be linked with the library, which calls them. arrays: what the function takes, then what it makes; "
           "the extents of all\n"
           " * of them, then their strides in elements, follow each other, outermost axis first. A result that is not "
           "0 is the\n"
           " * kernel's. */\n";
    for (const auto &[symbol, kernels] : callers)
        out << fmt::format("int {}(void *const *arrays, const int64_t *extents, const int64_t *strides); /* for{} */\n",
                           symbol, kernels);
}

} // namespace

std::string c_header(const std::vector<Nest> &nests, const HeaderOptions &options) {
    std::ostringstream out;
    const std::string &p = options.runtime_prefix;
    out << "/* " << (options.title.empty() ? "Kernels generated by Kumiko." : options.title) << R"(
 *
 * Every kernel returns 0, or a nonzero code whose text )"
        << p << R"(_error() gives. Of each argument the comment says:
 *   in, out, inout  a pointer to that many elements, never null and aligned to its elements; memory is read, written, or both
 *   size            a number, and its range; other numbers are an error of the call
 *   requires        what must hold of the sizes; otherwise the call is an error
 * Tensors are dense and row-major unless strides are stated; outputs may overlap no other tensor. X_packed(tensors, sizes)
 * is X with its pointers and its sizes in two arrays, in the order of X's parameters. )"
        << (options.freestanding ? "One thread at a time may call the functions. */\n"
                                 : "The functions may be called from several\n * threads at once. */\n")
        << R"(#ifndef )" << options.guard << "\n#define " << options.guard << R"(

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
)";
    for (const Nest &nest : nests) {
        declare(out, nest, options);
    }
    declare_externs(out, nests);
    if (!options.extra.empty()) {
        out << "\n" << options.extra;
    }
    out << R"(
/* The text of the last failure)"
        << (options.freestanding ? "" : " in the calling thread")
        << R"(, "" if there was none. Never NULL; valid until the next failure. */
const char *)"
        << p << R"(_error(void);
/* How many threads work on one kernel that was scheduled with `parallel`: 1 to 1024; 0: one per processor; other numbers
 * are brought into that range.)"
        << (options.freestanding ? " Without an operating system it is always one." : "") << R"( */
void )" << p
        << R"(_set_num_threads(int threads);
/* A replacement for the built-in threads. hook(task, closure, begin, count) calls task(closure, i) for every i in
 * [begin, begin + count), on any threads, and returns 0 or the first nonzero code; NULL restores the built-in ones. Returns
 * the hook that was set before. */
int ()"
        << "*" << p
        << R"(_set_parallel_for(int (*hook)(int (*task)(void *closure, int64_t i), void *closure, int64_t begin,
                                               int64_t count)))(int (*)(void *, int64_t), void *, int64_t, int64_t);
/* Workspaces: a replacement for the allocator. allocate(bytes) returns a block aligned to 64 bytes, or NULL; release takes
 * such a block, or NULL. Both functions, or NULL twice for the default. Set them while no kernel runs.)"
        << (options.freestanding
                ? "\n * There is no default without an operating system: a kernel that needs a workspace "
                  "fails until they are set."
                : "")
        << R"( */
void )" << p
        << R"(_set_memory(void *(*allocate)(size_t bytes), void (*release)(void *block));
/* The processor's features, a set of bits. */
uint64_t )"
        << p << R"(_cpu_features(void);
/* The bit of the feature `name` ("avx2", "avx512f"); 0 for a name that is not known, and for NULL. */
uint64_t )"
        << p << R"(_cpu_feature(const char *name);
/* The features are from now on hook(detected): fewer, or more where no system says what there is; NULL: what is detected.
 * Returns the hook that was set before. Set it while no kernel runs.)"
        << (options.freestanding
                ? "\n * Without an operating system all features are detected, on x86 those that CPUID "
                  "states."
                : "")
        << R"( */
uint64_t (*)"
        << p << R"(_set_cpu_features(uint64_t (*hook)(uint64_t detected)))(uint64_t);

#ifdef __cplusplus
}
#endif

#endif
)";
    return out.str();
}

} // namespace kumiko

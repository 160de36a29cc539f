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

// Writes a kernel's comment and prototypes.
class Declaration {
public:
    Declaration(std::ostream &out, const Nest &nest, const HeaderOptions &options)
        : out_(out), nest_(nest), options_(options) {
        for (const TensorArgument &t : nest.tensors) widest_ = std::max(widest_, c_name(t.name).size());
        for (const std::string &size : nest.sizes) widest_ = std::max(widest_, c_name(size).size());
    }
    void write() {
        out_ << "\n/* " << nest_.name << "\n";
        write_note();
        for (const TensorArgument &t : nest_.tensors) write_tensor(t);
        const auto of_variants = options_.limits.find(nest_.name);
        const SizeLimits limits = of_variants == options_.limits.end() ? size_limits(nest_) : of_variants->second;
        for (const std::string &size : nest_.sizes) write_size(size, limits.most.at(size));
        write_requirements(limits);
        if (const auto order = options_.order.find(nest_.name); order != options_.order.end()) {
            std::vector<std::string> sorted;
            for (size_t n : order->second) sorted.push_back(parameters_.at(n));
            parameters_ = sorted;
        }
        for (const Assumption &a : nest_.assumptions) out_ << " *   requires " << a.text << "\n";
        write_variants();
        out_ << " */\n";
        write_prototypes();
    }

private:
    void write_note() {
        const auto note = options_.notes.find(nest_.name);
        if (note == options_.notes.end()) return;
        std::istringstream lines(note->second);
        for (std::string line; std::getline(lines, line);) {
            for (size_t end; (end = line.find("*/")) != std::string::npos;) {
                line.replace(end, 2, "* /"); // a formula with a product of a quotient has */
            }
            out_ << " *   " << line << "\n";
        }
    }
    void write_tensor(const TensorArgument &t) {
        const std::string name = c_name(t.name);
        out_ << fmt::format(" *   {:<{}}  {} ", name, widest_, t.inout ? "inout" : t.output ? "out" : "in ");
        if (is_pack(nest_) && t.output) {
            out_ << fmt::format("{}[{}_elements({})]", element_name(t.type), nest_.name, fmt::join(nest_.sizes, ", "));
        } else if (!t.packed_from.empty()) {
            out_ << element_name(t.type) << ", " << t.packed_from << " as " << nest_.name << "_pack_" << t.packed_from
                 << " writes it";
        } else {
            out_ << fmt::format("{}[{}]", element_name(t.type), text(t.extents));
            if (!is_dense(t)) out_ << ", strides [" << text(t.strides) << "] in elements";
        }
        out_ << "\n";
        parameters_.push_back(fmt::format("{}{} *{}", t.output ? "" : "const ", c_type(t.type), name));
        taken_.insert(name);
    }
    void write_size(const std::string &size, int64_t most) {
        std::string name = c_name(size);
        // W, the weights, and W, the width, are both possible
        while (taken_.count(name)) name += "_size";
        taken_.insert(name);
        names_[size] = name;
        sizes_.push_back("int64_t " + name);
        parameters_.push_back(sizes_.back());
        const auto known = options_.meanings.find(nest_.name);
        const bool named = known != options_.meanings.end() && known->second.count(size);
        const std::string what = named ? known->second.at(size) : meaning(nest_, size);
        out_ << fmt::format(" *   {:<{}}  size, 0 to {}{}{}\n", name, widest_, most, what.empty() ? "" : ": ", what);
    }
    void write_requirements(const SizeLimits &limits) {
        for (const auto &[total, most] : limits.totals) {
            std::string text = total;
            for (const auto &[size, name] : names_)
                text = std::regex_replace(text, std::regex("\\b" + size + "\\b"), name);
            out_ << " *   requires " << text << " <= " << most << "\n";
        }
    }
    // The functions beside the kernel.
    void write_variants() {
        if (options_.declare_packed) {
            std::vector<std::string> pointers, numbers;
            for (const std::string &p : parameters_)
                (p.starts_with("int64_t ") ? numbers : pointers).push_back(p.substr(p.find_last_of(" *") + 1));
            out_ << fmt::format(" *   {}_packed: tensors = {{{}}}, ", nest_.name, fmt::join(pointers, ", "))
                 << (numbers.empty() ? "sizes is not read" : fmt::format("sizes = {{{}}}", fmt::join(numbers, ", ")))
                 << "\n";
        }
        if (is_pack(nest_))
            out_ << fmt::format(
                " *   {}_elements: the number of elements of {}, or -1 if no kernel supports the processor\n",
                nest_.name, c_name(nest_.tensors.back().name));
    }
    void write_prototypes() {
        const auto list = [](const std::vector<std::string> &parameters) {
            return parameters.empty() ? "void" : fmt::format("{}", fmt::join(parameters, ", "));
        };
        out_ << fmt::format("int {}({});\n", nest_.name, list(parameters_));
        if (is_pack(nest_)) out_ << fmt::format("int64_t {}_elements({});\n", nest_.name, list(sizes_));
        if (options_.declare_packed)
            out_ << fmt::format("int {}_packed(void *const *tensors, const int64_t *sizes);\n", nest_.name);
    }

    std::ostream &out_;
    const Nest &nest_;
    const HeaderOptions &options_;
    size_t widest_ = 0;                           // name
    std::vector<std::string> parameters_, sizes_; // declarations; parameters: tensors, then sizes
    std::set<std::string> taken_;                 // names
    std::map<std::string, std::string> names_;    // of sizes, in C
};

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
    for (const Nest &nest : nests) Declaration(out, nest, options).write();
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

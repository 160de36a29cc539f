#include "bench/own_ops/loops.h"

#include "support/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace kumiko::bench {

namespace {

// The functions max and min take their arguments by value. GCC 12 does not vectorise loops that
// call std::max and std::min, which take references.
const char *prelude = R"(#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
using std::abs; using std::atan2; using std::ceil; using std::cos; using std::erf; using std::erfc;
using std::exp; using std::fabs; using std::floor; using std::log; using std::nearbyint; using std::pow;
using std::sin; using std::sqrt; using std::tanh;
template<class T> static inline T max(T a, T b) { return a > b ? a : b; }
template<class T> static inline T min(T a, T b) { return a < b ? a : b; }
static inline float from_bf16(uint16_t x) {
    const uint32_t bits = uint32_t(x) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint16_t to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)";

std::string c_type(halide_type_t type) {
    if (type.code == halide_type_bfloat) return "uint16_t";
    if (type.code == halide_type_float) return type.bits == 64 ? "double" : type.bits == 16 ? "_Float16" : "float";
    if (type.bits == 1) return "bool";
    return fmt::format("{}int{}_t", type.code == halide_type_uint ? "u" : "", type.bits);
}

// const float (*__restrict A)[4] = (const float (*)[4])arrays[0];
std::string declaration(const Buffer<> &array, const std::string &name, size_t number, bool written) {
    std::string rows;
    for (size_t d = 1; d < array.rank(); d++) rows += fmt::format("[{}]", array.extent(d));
    const std::string type = (written ? "" : "const ") + c_type(array.type());
    if (rows.empty()) return fmt::format("    {0} *__restrict {1} = ({0} *)arrays[{2}];\n", type, name, number);
    return fmt::format("    {0} (*__restrict {1}){3} = ({0} (*){3})arrays[{2}];\n", type, name, number, rows);
}

std::string read_text(const std::filesystem::path &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

} // namespace

std::string loop_source(const OwnOp &own) {
    const Op op = own.op();
    std::string text = fmt::format("extern \"C\" void {}(void **arrays) {{\n", own.name);
    for (const auto &[name, value] : own.sizes) text += fmt::format("    constexpr int {} = {};\n", name, value);
    size_t number = 0;
    for (const Input &in : op.inputs()) text += declaration(make_input(in, {}), in.name, number++, in.inout);
    for (const std::string &out : op.separate_outputs())
        text += declaration(make_output(op, out, {}), out, number++, true);
    return text + own.loop + "}\n";
}

CompiledLoops::CompiledLoops(const std::vector<const OwnOp *> &ops) {
    std::string pattern = (std::filesystem::temp_directory_path() / "kumiko-own-ops-XXXXXX").string();
    if (!mkdtemp(pattern.data())) {
        failure_ = "a temporary folder for the plain loops could not be created";
        return;
    }
    folder_ = pattern;
    {
        std::ofstream source(folder_ / "loops.cpp");
        source << prelude;
        for (const OwnOp *own : ops) source << loop_source(*own);
    }
    const char *named = std::getenv("CXX");
    const std::string compiler = named ? named : "c++", object = (folder_ / "loops.so").string();
    // Linked without -Ofast. With it GCC adds a start-up function that flushes subnormal numbers to
    // zero in the thread that loads the object, in which our kernels run too.
    const std::string command =
        fmt::format("({0} -std=c++17 -Ofast -march=native -fPIC -c -o '{2}/loops.o' '{2}/loops.cpp' && "
                    "{0} -shared -o '{1}' '{2}/loops.o') > '{2}/messages' 2>&1",
                    compiler, object, folder_.string());
    if (std::system(command.c_str()) != 0) {
        failure_ = fmt::format("the plain loops were not compiled by {}:\n{}", compiler,
                               read_text(folder_ / "messages").substr(0, 2000));
        return;
    }
    object_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!object_) failure_ = fmt::format("the plain loops could not be loaded: {}", dlerror());
}

CompiledLoops::~CompiledLoops() {
    if (object_) dlclose(object_);
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
}

CompiledLoops::Function CompiledLoops::find(const std::string &name) const {
    return object_ ? reinterpret_cast<Function>(dlsym(object_, name.c_str())) : nullptr;
}

} // namespace kumiko::bench

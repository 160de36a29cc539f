#include "dsl/npy.h"

#include "dsl/dense.h"
#include "dsl/types.h"
#include "support/atomic_file.h"
#include "support/error.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <regex>

namespace kumiko {

namespace {

const std::vector<std::pair<std::string, Type>> &npy_types() {
    static const std::vector<std::pair<std::string, Type>> all = {
        {"|b1", boolean}, {"|i1", i8},  {"|u1", u8},  {"<i2", i16}, {"<u2", u16}, {"<i4", i32},
        {"<u4", u32},     {"<i8", i64}, {"<u8", u64}, {"<f2", f16}, {"<f4", f32}, {"<f8", f64},
    };
    return all;
}

constexpr char npy_magic[] = "\x93NUMPY";
constexpr size_t npy_magic_bytes = 6;

} // namespace

Buffer<> load_npy(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in || !std::filesystem::is_regular_file(path)) throw UserError(fmt::format("\"{}\" cannot be read", path));
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto fail = [&](const std::string &cause) {
        throw UserError(fmt::format("\"{}\" is not a NumPy array: {}", path, cause));
    };
    if (bytes.size() < npy_magic_bytes + 4 || bytes.compare(0, npy_magic_bytes, npy_magic) != 0)
        fail("it does not begin with the mark of the format");
    const bool wide = bytes[npy_magic_bytes] > 1; // the header's length has 4 bytes instead of 2
    const size_t begin = npy_magic_bytes + 2 + (wide ? 4 : 2);
    if (bytes.size() < begin) fail("it ends within its header");
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + npy_magic_bytes + 2, wide ? 4 : 2);
    if (length > bytes.size() - begin) fail("it ends within its header");
    constexpr uint32_t longest = 1024; // that a header with few axes has
    if (length > longest) fail(fmt::format("its header has {} bytes; supported are {}", length, longest));
    const std::string header = bytes.substr(begin, length);
    std::smatch found;
    if (!std::regex_search(header, found, std::regex("'descr': *'([^']*)'"))) fail("its header has no element type");
    const std::string name = found[1];
    const auto type =
        std::find_if(npy_types().begin(), npy_types().end(), [&](const auto &t) { return t.first == name; });
    if (type == npy_types().end())
        throw Unsupported(
            fmt::format("\"{}\" has elements of {}; supported are bool, integers of 8 to 64 bits, f16, f32 "
                        "and f64, little-endian",
                        path, name));
    if (!std::regex_search(header, std::regex("'fortran_order': *False")))
        throw Unsupported(
            fmt::format("\"{}\" is stored in column-major order; store it with numpy.ascontiguousarray", path));
    if (!std::regex_search(header, found, std::regex("'shape': *\\(([0-9, L]*)\\)"))) fail("its header has no shape");
    const std::string shape = found[1];
    std::vector<int64_t> extents;
    int64_t elements = 1;
    const std::regex digits("[0-9]+");
    for (std::sregex_iterator n(shape.begin(), shape.end(), digits), end; n != end; ++n) {
        if (n->length() > 18) fail("its shape is too large");
        extents.push_back(std::stoll(n->str()));
        if (__builtin_mul_overflow(elements, extents.back(), &elements)) fail("its shape is too large");
    }
    const size_t rest = bytes.size() - begin - length;
    if (elements > int64_t(rest) || size_t(elements) * size_t(type->second.bytes()) != rest)
        fail(fmt::format("it has {} bytes of data for {} elements of {}", rest, elements, type_name(type->second)));
    Buffer<> array(type->second, extents);
    if (rest > 0) std::memcpy(array.data(), bytes.data() + begin + length, rest);
    if (type->second == boolean) { // a byte of another value means true
        auto *bits = static_cast<uint8_t *>(array.data());
        for (size_t n = 0; n < rest; n++) bits[n] = bits[n] != 0;
    }
    return array;
}

void save_npy(const std::string &path, const Buffer<> &array) {
    const Type own = array.type();
    const auto type =
        std::find_if(npy_types().begin(), npy_types().end(), [&](const auto &t) { return t.second == own; });
    if (type == npy_types().end())
        throw Unsupported(fmt::format("NumPy has no element type {}; cast it to f32 first", type_name(own)));
    std::string shape;
    for (const int64_t e : array.extents()) shape += std::to_string(e) + ",";
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->first, shape);
    constexpr size_t alignment = 64;
    const size_t before = npy_magic_bytes + 4;
    header.append(alignment - (before + header.size() + 1) % alignment, ' ');
    header += '\n';
    const auto length = static_cast<uint16_t>(header.size());
    std::string bytes(npy_magic, npy_magic_bytes);
    bytes.append({'\x01', '\x00'});
    bytes.append(reinterpret_cast<const char *>(&length), 2);
    bytes += header;
    const Buffer<> elements = dense(array);
    if (elements.number_of_elements() > 0)
        bytes.append(static_cast<const char *>(elements.data()), elements.number_of_elements() * size_t(own.bytes()));
    write_file_atomically(path, bytes);
}

} // namespace kumiko

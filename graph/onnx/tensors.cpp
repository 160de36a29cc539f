// Tensors and other values in protocol buffers and files.
#include "graph/onnx/decode.h"

#include "dsl/dense.h"
#include "dsl/narrow_types.h"
#include "graph/ir/strings.h"
#include "graph/onnx/model.h"
#include "support/atomic_file.h"
#include "support/error.h"

#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace kumiko::graph {

namespace fs = std::filesystem;

namespace {

// A file that stays mapped as long as a buffer refers to it.
struct Mapping {
    void *data = nullptr;
    size_t bytes = 0;
    Mapping(const Mapping &) = delete;
    explicit Mapping(const fs::path &file) {
        const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat info {};
        if (fd < 0 || fstat(fd, &info) != 0) {
            const std::string why = std::strerror(errno);
            if (fd >= 0) close(fd);
            throw UserError(fmt::format("the external data \"{}\" cannot be read: {}", file.string(), why));
        }
        bytes = static_cast<size_t>(info.st_size);
        if (bytes > 0) data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (data == MAP_FAILED) {
            data = nullptr;
            throw UserError(
                fmt::format("the external data \"{}\" cannot be mapped: {}", file.string(), std::strerror(errno)));
        }
    }
    ~Mapping() {
        if (data) munmap(data, bytes);
    }
};

std::vector<int64_t> extents_of(const onnx::TensorProto &t, const Source &source) {
    std::vector<int64_t> extents;
    int64_t all = 1;
    for (const int64_t d : t.dims()) {
        if (d < 0 || (d > 0 && all > INT64_MAX / 16 / d))
            throw UserError(
                fmt::format("{}: tensor \"{}\" has the extent {}; legal are extents whose product is a size "
                            "in memory",
                            source.name, t.name(), d));
        all *= std::max<int64_t>(d, 1);
        extents.push_back(d);
    }
    return extents;
}

// Throws std::invalid_argument if the text is not a number alone.
int64_t bytes_in(const std::string &text) {
    size_t end = 0;
    const int64_t value = std::stoll(text, &end);
    if (end != text.size()) throw std::invalid_argument(text);
    return value;
}

// Elements of less than a byte are packed in files, the first one in the lowest bits.
bool is_packed(Type type) { return is_narrow(type) && type.bits() < 8; }
int64_t packed_bytes(Type type, int64_t elements) {
    return is_packed(type) ? (elements * type.bits() + 7) / 8 : elements * type.bytes();
}

Buffer<> unpacked(Type type, const std::vector<int64_t> &extents, const uint8_t *from) {
    Buffer<> b(type, extents);
    auto *to = static_cast<uint8_t *>(b.data());
    const int bits = type.bits(), unused = 8 - bits, in_byte = 8 / bits;
    for (size_t n = 0; n < b.number_of_elements(); n++) {
        const auto high = static_cast<uint8_t>(from[n / size_t(in_byte)] << (unused - int(n % size_t(in_byte)) * bits));
        to[n] = static_cast<uint8_t>(type.is_int() ? static_cast<int8_t>(high) >> unused : high >> unused);
    }
    return b;
}

std::string packed(const Buffer<> &dense) {
    const Type type = dense.type();
    std::string bytes(size_t(packed_bytes(type, int64_t(dense.number_of_elements()))), '\0');
    const auto *from = static_cast<const uint8_t *>(dense.data());
    const int bits = type.bits(), in_byte = 8 / bits;
    for (size_t n = 0; n < dense.number_of_elements(); n++)
        bytes[n / size_t(in_byte)] |=
            static_cast<char>((from[n] & ((1 << bits) - 1)) << (int(n % size_t(in_byte)) * bits));
    return bytes;
}

// The bytes of external data, with an owner.
Buffer<> external_tensor(const onnx::TensorProto &t, const Source &source, Type type,
                         const std::vector<int64_t> &extents, int64_t bytes) {
    std::string location;
    int64_t offset = 0, length = -1;
    for (const auto &entry : t.external_data()) {
        try {
            if (entry.key() == "location") location = entry.value();
            if (entry.key() == "offset") offset = bytes_in(entry.value());
            if (entry.key() == "length") length = bytes_in(entry.value());
        } catch (const std::logic_error &) {
            throw UserError(fmt::format("{}: the {} of tensor \"{}\" is \"{}\"; legal is a number of bytes",
                                        source.name, entry.key(), t.name(), entry.value()));
        }
    }
    const fs::path path(location), folder = fs::weakly_canonical(source.folder);
    const fs::path target = fs::weakly_canonical(folder / path), inside = target.lexically_relative(folder);
    if (location.empty() || path.is_absolute() || inside.empty() || *inside.begin() == "..")
        throw UserError(fmt::format("{}: the external data of tensor \"{}\" are in \"{}\"; legal is a path in the "
                                    "model's folder",
                                    source.name, t.name(), location));
    if (!fs::is_regular_file(target))
        throw UserError(
            fmt::format("{}: the external data of tensor \"{}\" are in \"{}\", which is no file that can be read",
                        source.name, t.name(), location));
    const auto file = std::make_shared<const Mapping>(target);
    if (length < 0) length = bytes;
    if (length != bytes || offset < 0 || offset > static_cast<int64_t>(file->bytes) - bytes)
        throw UserError(fmt::format("{}: tensor \"{}\" needs {} bytes of \"{}\" from byte {} on, which has {}",
                                    source.name, t.name(), bytes, location, offset, file->bytes));
    auto *begin = static_cast<uint8_t *>(file->data) + offset;
    if (is_packed(type)) return unpacked(type, extents, begin);
    const bool aligned = reinterpret_cast<uintptr_t>(begin) % static_cast<uintptr_t>(type.bytes()) == 0;
    if (!aligned) {
        Buffer<> b(type, extents);
        std::memcpy(b.data(), begin, static_cast<size_t>(bytes));
        return b;
    }
    return Buffer<>::wrap(type, begin, extents).owned_by(file);
}

template<typename T, typename Field>
void copy_field(const Field &field, Buffer<> &b) {
    auto *to = static_cast<T *>(b.data());
    for (const auto &v : field) *to++ = static_cast<T>(v);
}

// Copies the typed field of a tensor's data; returns its number of elements.
int64_t copy_typed(const onnx::TensorProto &t, Type type, Buffer<> &b, int64_t elements) {
    const auto fits = [&](int64_t n) { return n == elements; };
    if (type == f32) {
        if (fits(t.float_data_size())) copy_field<float>(t.float_data(), b);
        return t.float_data_size();
    }
    if (type == f64) {
        if (fits(t.double_data_size())) copy_field<double>(t.double_data(), b);
        return t.double_data_size();
    }
    if (type == i64) {
        if (fits(t.int64_data_size())) copy_field<int64_t>(t.int64_data(), b);
        return t.int64_data_size();
    }
    if (type == u64 || type == u32) {
        if (fits(t.uint64_data_size()))
            type == u64 ? copy_field<uint64_t>(t.uint64_data(), b) : copy_field<uint32_t>(t.uint64_data(), b);
        return t.uint64_data_size();
    }
    if (!fits(t.int32_data_size())) return t.int32_data_size();
    switch (type.bytes()) { // narrower integers, booleans, and the bits of 16-bit floats
    case 1:
        copy_field<uint8_t>(t.int32_data(), b);
        break;
    case 2:
        copy_field<uint16_t>(t.int32_data(), b);
        break;
    default:
        copy_field<int32_t>(t.int32_data(), b);
    }
    return t.int32_data_size();
}

} // namespace

std::string data_type_name(int type) {
    const std::string name = onnx::TensorProto::DataType_IsValid(type)
                                 ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
                                 : "";
    std::string lower = name.empty() ? "type " + std::to_string(type) : name;
    for (char &c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
}

Buffer<> decode_tensor(const onnx::TensorProto &t, const Source &source) {
    const auto type = type_of_onnx(t.data_type());
    if (!type)
        throw Unsupported(
            fmt::format("{}: tensor \"{}\" has elements of {}; supported are bool, integers, floats and strings",
                        source.name, t.name(), data_type_name(t.data_type())));
    const std::vector<int64_t> extents = extents_of(t, source);
    int64_t elements = 1;
    for (const int64_t e : extents) elements *= e;
    if (*type == string_type) {
        if (t.string_data_size() != elements)
            throw UserError(fmt::format("{}: tensor \"{}\" holds {} strings where its shape needs {}", source.name,
                                        t.name(), t.string_data_size(), elements));
        return string_tensor({t.string_data().begin(), t.string_data().end()}, extents);
    }
    const int64_t bytes = packed_bytes(*type, elements);
    if (t.data_location() == onnx::TensorProto::EXTERNAL && elements > 0)
        return external_tensor(t, source, *type, extents, bytes);
    const bool raw = t.has_raw_data();
    if (raw && static_cast<int64_t>(t.raw_data().size()) != bytes)
        throw UserError(fmt::format("{}: tensor \"{}\" holds {} bytes where its shape needs {}", source.name, t.name(),
                                    t.raw_data().size(), bytes));
    if (!raw && elements > 0) { // before memory is allocated for a shape that the data do not fill
        const int64_t most =
            std::max({int64_t(t.float_data_size()), int64_t(t.double_data_size()), int64_t(t.int64_data_size()),
                      int64_t(t.uint64_data_size()), int64_t(t.int32_data_size())});
        const int64_t needed = is_packed(*type) ? bytes : elements;
        if (most != needed)
            throw UserError(fmt::format("{}: tensor \"{}\" holds {} elements where its shape needs {}", source.name,
                                        t.name(), most, needed));
    }
    if (is_packed(*type)) {
        std::string from = t.raw_data();
        if (!raw) from.assign(t.int32_data().begin(), t.int32_data().end());
        if (int64_t(from.size()) == bytes)
            return unpacked(*type, extents, reinterpret_cast<const uint8_t *>(from.data()));
    }
    Buffer<> b(*type, extents);
    if (elements == 0) return b;
    if (raw)
        std::memcpy(b.data(), t.raw_data().data(), static_cast<size_t>(bytes));
    else if (const int64_t n = copy_typed(t, *type, b, elements); n != elements)
        throw UserError(fmt::format("{}: tensor \"{}\" holds {} elements of its type where its shape needs {}",
                                    source.name, t.name(), n, elements));
    if (*type == boolean) { // a byte of another value means true
        auto *bits = static_cast<uint8_t *>(b.data());
        for (int64_t n = 0; n < elements; n++) bits[n] = bits[n] != 0;
    }
    return b;
}

Value decode_sequence(const onnx::SequenceProto &sequence, const Source &source) {
    Value::Sequence all;
    for (const auto &t : sequence.tensor_values()) all.emplace_back(decode_tensor(t, source));
    for (const auto &s : sequence.sequence_values()) all.push_back(decode_sequence(s, source));
    for (const auto &o : sequence.optional_values()) all.push_back(decode_optional(o, source));
    if (sequence.sparse_tensor_values_size() > 0 || sequence.map_values_size() > 0)
        throw Unsupported(fmt::format("{}: a sequence of sparse tensors or maps; supported are sequences of tensors, "
                                      "sequences and optionals",
                                      source.name));
    return all;
}

Value decode_optional(const onnx::OptionalProto &optional, const Source &source) {
    switch (optional.elem_type()) {
    case onnx::OptionalProto::UNDEFINED:
        return {};
    case onnx::OptionalProto::TENSOR:
        return optional.has_tensor_value() ? Value(decode_tensor(optional.tensor_value(), source)) : Value();
    case onnx::OptionalProto::SEQUENCE:
        return optional.has_sequence_value() ? decode_sequence(optional.sequence_value(), source) : Value();
    case onnx::OptionalProto::OPTIONAL:
        return optional.has_optional_value() ? decode_optional(optional.optional_value(), source) : Value();
    default:
        throw Unsupported(fmt::format("{}: an optional sparse tensor or map; supported are optional tensors and "
                                      "sequences",
                                      source.name));
    }
}

onnx::TensorProto encode_tensor(const Buffer<> &tensor, const std::string &name) {
    onnx::TensorProto t;
    t.set_name(name);
    t.set_data_type(onnx_type(tensor.type()));
    for (const int64_t e : tensor.extents()) t.add_dims(e);
    if (Type(tensor.type()) == string_type) {
        for (const std::string &text : strings_of(tensor)) t.add_string_data(text);
        return t;
    }
    const Buffer<> elements = dense(tensor);
    if (is_packed(tensor.type())) {
        t.set_raw_data(packed(elements));
        return t;
    }
    t.set_raw_data(elements.data(),
                   static_cast<size_t>(elements.number_of_elements()) * size_t(elements.type().bytes()));
    return t;
}

std::string file_bytes(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    if (!in || error) throw UserError(fmt::format("\"{}\" cannot be read", path));
    if (size > max_file_bytes)
        throw UserError(fmt::format("\"{}\" has {} bytes; an ONNX file has at most {}, and larger weights are in "
                                    "external data",
                                    path, size, max_file_bytes));
    return {std::istreambuf_iterator<char>(in), {}};
}

namespace {

template<class Proto>
Proto parsed(const std::string &path, const char *kind) {
    Proto proto;
    const std::string bytes = file_bytes(path);
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        throw UserError(fmt::format("\"{}\" is no {} of ONNX, or a part of one", path, kind));
    return proto;
}

} // namespace

Buffer<> load_tensor(const std::string &path) {
    return decode_tensor(parsed<onnx::TensorProto>(path, "tensor"),
                         {path, fs::absolute(path).parent_path().string(), {}});
}

Value load_value(const std::string &path, ValueInfo::Kind kind) {
    const Source source{path, fs::absolute(path).parent_path().string(), {}};
    if (kind == ValueInfo::Kind::Sequence)
        return decode_sequence(parsed<onnx::SequenceProto>(path, "sequence"), source);
    if (kind == ValueInfo::Kind::Optional)
        return decode_optional(parsed<onnx::OptionalProto>(path, "optional"), source);
    return load_tensor(path);
}

void save_tensor(const std::string &path, const Buffer<> &tensor, const std::string &name) {
    write_file_atomically(path, encode_tensor(tensor, name).SerializeAsString());
}

} // namespace kumiko::graph

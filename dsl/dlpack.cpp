#include "dsl/dlpack.h"

#include "dsl/types.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace kumiko {

namespace dlpack {
namespace {

// The layouts of dlpack.h 1.x.
struct Tensor {
    void *data;
    int32_t device, device_id;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct Managed {
    Tensor tensor;
    void *context;
    void (*deleter)(Managed *);
};
struct Versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(Versioned *);
    uint64_t flags;
    Tensor tensor;
};
static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(Versioned) == 80);

enum { cpu = 1 };
enum Code : uint8_t { Int = 0, UInt = 1, Float = 2, Bfloat = 4, Bool = 6 };

std::optional<Type> type_of(const Tensor &t) {
    if (t.lanes != 1) return {};
    for (const Type type : {i8, i16, i32, i64}) {
        if (t.code == Int && t.bits == type.bits()) return type;
    }
    for (const Type type : {u8, u16, u32, u64}) {
        if (t.code == UInt && t.bits == type.bits()) return type;
    }
    for (const Type type : {f16, f32, f64}) {
        if (t.code == Float && t.bits == type.bits()) return type;
    }
    if (t.code == Bfloat && t.bits == 16) return bf16;
    if (t.code == Bool && t.bits == 8) return boolean;
    return {};
}

Buffer<> view(const Tensor &t) {
    if (t.device != cpu)
        throw Unsupported(fmt::format("a tensor of DLPack is on a device of kind {}; legal is 1, the CPU", t.device));
    const std::optional<Type> type = type_of(t);
    if (!type)
        throw Unsupported(
            fmt::format("a tensor of DLPack has elements of type code {}, {} bits and {} lanes; legal are "
                        "bool, integers of 8 to 64 bits, float16, bfloat16, float32 and float64",
                        t.code, t.bits, t.lanes));
    if (t.rank < 0) throw UserError(fmt::format("a tensor of DLPack has {} axes; legal are 0 or more", t.rank));
    std::vector<int64_t> extents, strides;
    bool elements = true;
    for (int d = 0; d < t.rank; d++) {
        if (t.shape[d] < 0)
            throw UserError(fmt::format("axis {} of a tensor of DLPack has {} elements; legal are 0 to {}", d,
                                        t.shape[d], INT32_MAX));
        elements = elements && t.shape[d] > 0;
        extents.push_back(t.shape[d]);
        if (t.strides) strides.push_back(t.strides[d]);
    }
    auto *data = static_cast<uint8_t *>(t.data) + (t.data ? t.byte_offset : 0);
    if (elements && !t.data) throw UserError("a tensor of DLPack has elements, but its address is null");
    if (reinterpret_cast<uintptr_t>(data) % uintptr_t(type->bytes()) != 0)
        throw UserError(
            fmt::format("a tensor of DLPack has an address that is no multiple of {} bytes, an element of {}",
                        type->bytes(), type_name(*type)));
    return Buffer<>::wrap(*type, data, extents, strides);
}

template<typename M>
Buffer<> take_over(M *managed) {
    const Buffer<> buffer = view(managed->tensor);
    return buffer.owned_by(std::shared_ptr<const void>(managed, [](const void *p) {
        auto *m = const_cast<M *>(static_cast<const M *>(p));
        if (m->deleter) m->deleter(m);
    }));
}

template<typename M>
struct Exported {
    M managed = {};
    Buffer<> buffer;
    std::vector<int64_t> shape, strides;
};

template<typename M>
M *export_as(const Buffer<> &buffer) {
    auto *e = new Exported<M>{{}, buffer, buffer.extents(), {}};
    for (size_t d = 0; d < buffer.rank(); d++) e->strides.push_back(buffer.stride(d));
    const Type type = buffer.type();
    e->managed.tensor = {const_cast<void *>(static_cast<const void *>(buffer.data())),
                         cpu,
                         0,
                         static_cast<int32_t>(buffer.rank()),
                         type.is_bool()     ? Bool
                         : type.is_bfloat() ? Bfloat
                         : type.is_float()  ? Float
                         : type.is_uint()   ? UInt
                                            : Int,
                         static_cast<uint8_t>(8 * type.bytes()),
                         1,
                         e->shape.data(),
                         e->strides.data(),
                         0};
    e->managed.context = e;
    e->managed.deleter = [](M *m) { delete static_cast<Exported<M> *>(m->context); };
    return &e->managed;
}

} // namespace
} // namespace dlpack

Buffer<> from_dlpack(DLManagedTensor *tensor) {
    if (!tensor) throw UserError("a tensor of DLPack is null");
    return dlpack::take_over(reinterpret_cast<dlpack::Managed *>(tensor));
}

Buffer<> from_dlpack(DLManagedTensorVersioned *tensor) {
    if (!tensor) throw UserError("a tensor of DLPack is null");
    auto *managed = reinterpret_cast<dlpack::Versioned *>(tensor);
    if (managed->major != 1)
        throw UserError(
            fmt::format("a tensor is of version {}.{} of DLPack; legal is version 1", managed->major, managed->minor));
    return dlpack::take_over(managed);
}

Buffer<> borrow_dlpack_at(const void *tensor) { return dlpack::view(*static_cast<const dlpack::Tensor *>(tensor)); }

DLManagedTensor *to_dlpack(const Buffer<> &buffer) {
    return reinterpret_cast<DLManagedTensor *>(dlpack::export_as<dlpack::Managed>(buffer));
}

DLManagedTensorVersioned *to_dlpack_versioned(const Buffer<> &buffer) {
    auto *managed = dlpack::export_as<dlpack::Versioned>(buffer);
    managed->major = 1;
    return reinterpret_cast<DLManagedTensorVersioned *>(managed);
}

} // namespace kumiko

// DLPack import and export (https://dmlc.github.io/dlpack): passes arrays between frameworks
// without copying. Shapes and strides have the same axis order as ours. Include this where
// <dlpack/dlpack.h> is installed; nothing else depends on it.
#pragma once

#include "dsl/buffers.h"

#include <dlpack/dlpack.h>

namespace kumiko {

// A view of the memory of a DLTensor, which must outlive the buffer.
// Throws Unsupported if the tensor is not on the CPU, has vector elements, or has a type that
// Kumiko does not have.
inline Buffer<> borrow_dlpack(const DLTensor &t) {
    if (t.device.device_type != kDLCPU) throw Unsupported("a DLPack tensor must be on the CPU");
    if (t.dtype.lanes != 1) throw Unsupported("a DLPack tensor must have scalar elements");
    Type type;
    switch (t.dtype.code) {
    case kDLInt:
        type = Int(t.dtype.bits);
        break;
    case kDLUInt:
        type = UInt(t.dtype.bits);
        break;
    case kDLFloat:
        type = Float(t.dtype.bits);
        break;
    case kDLBfloat:
        type = BFloat(t.dtype.bits);
        break;
    case 6:
        type = Bool();
        break; // kDLBool; older headers lack the name
    default:
        throw Unsupported("a DLPack tensor has elements of a type that Kumiko does not know: code " +
                          std::to_string(t.dtype.code));
    }
    const std::vector<int64_t> extents(t.shape, t.shape + t.ndim);
    std::vector<int64_t> strides;
    if (t.strides) strides.assign(t.strides, t.strides + t.ndim);
    return Buffer<>::wrap(type, static_cast<uint8_t *>(t.data) + t.byte_offset, extents, strides);
}

// Takes ownership: the deleter runs when the last buffer that shares the memory is destroyed.
inline Buffer<> from_dlpack(DLManagedTensor *tensor) {
    const std::shared_ptr<DLManagedTensor> owner(tensor, [](DLManagedTensor *t) {
        if (t->deleter) t->deleter(t);
    });
    return borrow_dlpack(tensor->dl_tensor).owned_by(owner);
}

// The receiver owns the result; its deleter releases the buffer.
inline DLManagedTensor *to_dlpack(const Buffer<> &buffer) {
    struct Export {
        DLManagedTensor tensor{};
        Buffer<> buffer;
        std::vector<int64_t> shape, strides;
    };
    auto e = std::make_unique<Export>();
    e->buffer = buffer;
    e->shape = buffer.extents();
    for (size_t d = 0; d < buffer.rank(); d++) e->strides.push_back(buffer.stride(d));
    const Type t = buffer.type();
    DLTensor &dl = e->tensor.dl_tensor;
    dl.data = buffer.raw_buffer()->host;
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int>(e->shape.size());
    dl.dtype.code = static_cast<uint8_t>(t.is_bfloat()  ? kDLBfloat
                                         : t.is_float() ? kDLFloat
                                         : t.is_int()   ? kDLInt
                                                        : kDLUInt);
    dl.dtype.bits = static_cast<uint8_t>(t.is_bool() ? 8 : t.bits());
    dl.dtype.lanes = 1;
    dl.shape = e->shape.data();
    dl.strides = e->strides.data();
    e->tensor.manager_ctx = e.get();
    e->tensor.deleter = [](DLManagedTensor *self) { delete static_cast<Export *>(self->manager_ctx); };
    return &e.release()->tensor;
}

} // namespace kumiko

// Arrays of other libraries, by DLPack (dlpack.h 1.x), in both directions without copies. Nothing
// of DLPack is needed: its two structures are known here by name only, so that a program may
// include any version of dlpack.h beside this header.
#pragma once

#include "dsl/buffers.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace kumiko {

// The tensor's elements as a buffer, which takes the tensor over: its deleter is called when the
// last copy of the buffer has gone. Strides are kept. Tensors that are read only must not be
// written; the buffer does not know.
//
// Throws Unsupported if the tensor is not on the CPU, or has elements of a type that Kumiko does
// not have. Throws UserError if it is null, if its version of DLPack is not 1, if an extent is
// negative or above 2^31 - 1, or if its address is no multiple of the size of an element. The
// caller then keeps the tensor.
Buffer<> from_dlpack(DLManagedTensor *tensor);
Buffer<> from_dlpack(DLManagedTensorVersioned *tensor);

Buffer<> borrow_dlpack_at(const void *tensor); // of the following function
// The same of the memory of a DLTensor, which must outlive the buffer. It has no name that could be
// declared here.
template<typename DLTensor>
Buffer<> borrow_dlpack(const DLTensor &tensor) {
    static_assert(sizeof(DLTensor) == 48, "borrow_dlpack takes a DLTensor");
    return borrow_dlpack_at(&tensor);
}

// The buffer as a tensor on the CPU. Its deleter releases the buffer's memory. If the buffer wraps
// memory of the caller, this memory must outlive the tensor.
DLManagedTensor *to_dlpack(const Buffer<> &buffer);
DLManagedTensorVersioned *to_dlpack_versioned(const Buffer<> &buffer); // version 1.0

} // namespace kumiko

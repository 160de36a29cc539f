// Buffers from and to DLPack: who owns the memory, and tensors that are refused.
#if __has_include(<dlpack/dlpack.h>)
#include "dsl/dlpack.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("export and import by DLPack share the memory and release it") {
    DLManagedTensor *out;
    {
        Buffer<float> b({2, 3});
        for (int l = 0; l < 6; l++) b.data()[l] = static_cast<float>(l);
        out = to_dlpack(b);
    }
    CHECK(out->dl_tensor.shape[0] == 2);
    CHECK(out->dl_tensor.strides[0] == 3);
    Buffer<> kept;
    {
        Buffer<float> back = from_dlpack(out);
        CHECK(back(1, 2) == 5);
        kept = back;
    }
    CHECK(element(kept.raw_buffer(), {1, 1}) == 4);
}

TEST_CASE("DLPack tensors that are not ours are refused") {
    float data[4] = {};
    int64_t shape[] = {4};
    DLTensor t{data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    CHECK(borrow_dlpack(t).extents() == std::vector<int64_t>{4});
    t.device.device_type = kDLCUDA;
    CHECK_THROWS_AS(borrow_dlpack(t), Unsupported);
    t.device.device_type = kDLCPU;
    t.dtype.lanes = 4;
    CHECK_THROWS_AS(borrow_dlpack(t), Unsupported);
}
#endif

// Arrays of other libraries by DLPack.
// Links: graph/build
// Levels: no
#include "dsl/dlpack.h"
#include "graph/build/compiled_model.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kumiko;

namespace {

// Written from dlpack.h 1.x, as another library would.
struct ForeignTensor {
    void *data;
    int32_t device, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct ForeignManaged {
    ForeignTensor tensor;
    void *context;
    void (*deleter)(ForeignManaged *);
};
struct ForeignVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(ForeignVersioned *);
    uint64_t flags;
    ForeignTensor tensor;
};

void count_end(ForeignManaged *m) { ++*static_cast<int *>(m->context); }
void count_end_versioned(ForeignVersioned *m) { ++*static_cast<int *>(m->context); }

DLManagedTensor *as_dlpack(ForeignManaged &m) { return reinterpret_cast<DLManagedTensor *>(&m); }
DLManagedTensorVersioned *as_dlpack(ForeignVersioned &m) { return reinterpret_cast<DLManagedTensorVersioned *>(&m); }

} // namespace

TEST_CASE("a tensor becomes a buffer without a copy, and ends with its last copy") {
    float values[7] = {-1, 1, 2, 3, 4, 5, 6};
    int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
    int ended = 0;
    ForeignManaged m{{values, 1, 0, 2, 2, 32, 1, shape, nullptr, 4}, &ended, count_end};
    {
        Buffer<> kept;
        {
            const Buffer<> b = from_dlpack(as_dlpack(m));
            CHECK_EQ(b.data(), values + 1);
            CHECK_EQ(b.extents(), std::vector<int64_t>{2, 3});
            CHECK_EQ(Buffer<float>(b)(1, 0), 4);
            kept = b;
        }
        CHECK_EQ(ended, 0);
    }
    CHECK_EQ(ended, 1);
    CHECK_EQ(Buffer<float>(borrow_dlpack(m.tensor))(0, 2), 3);
    ForeignVersioned v{1, 7, &ended, count_end_versioned, 1, {values, 1, 0, 2, 2, 32, 1, shape, strides, 4}};
    CHECK_EQ(Buffer<float>(from_dlpack(as_dlpack(v)))(1, 2), 6);
    CHECK_EQ(ended, 2);
}

TEST_CASE("a buffer becomes a tensor that keeps its memory") {
    for (const Type type : {boolean, i8, i64, u16, f16, bf16, f32, f64}) {
        CAPTURE(type);
        Buffer<> b = random_buffer(type, {2, 3, 4}, 1);
        const Buffer<> want = b.copy();
        DLManagedTensor *m = to_dlpack(b);
        DLManagedTensorVersioned *v = to_dlpack_versioned(b.transposed(0, 2));
        const auto &t = reinterpret_cast<ForeignManaged *>(m)->tensor;
        CHECK_EQ(t.data, b.data());
        CHECK_EQ(t.shape[2], 4);
        CHECK_EQ(t.strides[0], 12);
        b = Buffer<>();
        CHECK(equal_bits(from_dlpack(m), want));
        const Buffer<> back = from_dlpack(v);
        CHECK_EQ(back.extents(), std::vector<int64_t>{4, 3, 2});
        CHECK(equal_bits(back, want.transposed(0, 2)));
    }
}

TEST_CASE("tensors that are no arrays of this machine are refused, and stay the caller's") {
    float values[4] = {};
    int64_t shape[1] = {2};
    int ended = 0;
    const ForeignTensor good{values, 1, 0, 1, 2, 32, 1, shape, nullptr, 0};
    const auto refused = [&](auto change) {
        ForeignManaged m{good, &ended, count_end};
        change(m.tensor);
        return refusal([&] { from_dlpack(as_dlpack(m)); });
    };
    CHECK_EQ(refused([](ForeignTensor &t) { t.device = 2; }),
             "a tensor of DLPack is on a device of kind 2; legal is 1, the CPU");
    CHECK_EQ(refused([](ForeignTensor &t) { t.code = 5, t.bits = 64; }),
             "a tensor of DLPack has elements of type code 5, 64 bits and 1 lanes; legal are bool, integers of 8 to 64 "
             "bits, float16, bfloat16, float32 and float64");
    CHECK_EQ(refused([](ForeignTensor &t) { t.byte_offset = 2; }),
             "a tensor of DLPack has an address that is no multiple of 4 bytes, an element of f32");
    CHECK_EQ(refused([](ForeignTensor &t) { t.data = nullptr; }),
             "a tensor of DLPack has elements, but its address is null");
    shape[0] = -1;
    CHECK_EQ(refused([](ForeignTensor &) {}),
             "axis 0 of a tensor of DLPack has -1 elements; legal are 0 to 2147483647");
    ForeignVersioned v{2, 0, &ended, count_end_versioned, 0, good};
    CHECK_EQ(message_of([&] { from_dlpack(as_dlpack(v)); }),
             "a tensor is of version 2.0 of DLPack; legal is version 1");
    CHECK_EQ(message_of([] { from_dlpack(static_cast<DLManagedTensor *>(nullptr)); }), "a tensor of DLPack is null");
    CHECK_EQ(ended, 0);
}

TEST_CASE("a model runs on bound arrays") {
    const auto model = graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                                                "g (float[2,3] x) => (float[3,2] y) { t = Transpose(x) y = Neg(t) }",
                                                "m");
    const auto compiled = graph::CompiledModel::compile(model);
    float x[6] = {1, 2, 3, 4, 5, 6};
    int64_t shape[2] = {2, 3};
    int ended = 0;
    ForeignManaged m{{x, 1, 0, 2, 2, 32, 1, shape, nullptr, 0}, &ended, count_end};
    Buffer<float> y({3, 2});
    {
        const auto bound = compiled.bind({from_dlpack(as_dlpack(m))}, {y});
        bound.run();
        CHECK_EQ(y(2, 1), -6);
        x[5] = 9; // read in place by the next run
        bound.run();
        CHECK_EQ(y(2, 1), -9);
        CHECK_EQ(ended, 0);
    }
    CHECK_EQ(ended, 1);

    // Strides: `run` makes a dense copy, `bind` refuses.
    const Buffer<float> columns({3, 2});
    for (int i = 0; i < 6; i++) columns(i / 2, i % 2) = float(i);
    const Buffer<> strided = Buffer<>(columns).transposed(0, 1);
    CHECK_EQ(Buffer<float>(compiled.run({strided})[0])(2, 1), -5);
    CHECK_EQ(message_of([&] { compiled.bind({strided}, {y}); }),
             "m: input \"x\" is f32[2, 3] with strides [1, 2]; legal are arrays that are dense in row-major order");
    CHECK_EQ(message_of([&] { compiled.bind({Buffer<float>({2, 3})}, {}); }), "m takes 1 outputs, and 0 are given");
    CHECK_EQ(message_of([&] {
                 compiled.bind({Buffer<float>({2, 3})}, {Buffer<float>({2, 3})});
             }),
             "m: output \"y\" is f32[3,2]; given is f32[2,3]");
}

// Products of matrices: C[m,n] = A[m,k] B[k,n].
#include "bench/shapes.h"

#include <array>

namespace kumiko::bench {

namespace {

struct Product {
    int m, n, k;
};

const int squares[] = {64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1536, 2048};

// BERT-base, hidden size 768, for 128 and 384 tokens: projections, both layers of the feed-forward
// part, the three input projections at once, and a head's scores and values.
const Product bert[] = {{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {128, 2304, 768},
                        {384, 768, 768}, {384, 3072, 768}, {384, 768, 3072}, {128, 128, 64},
                        {128, 64, 128},  {384, 384, 64},   {384, 64, 384}};

// ResNet-50's convolutions as products (filters x pixels x window), and its last layer for 32
// images.
const Product resnet[] = {{64, 12544, 147}, {64, 3136, 64},  {64, 3136, 576}, {256, 3136, 64},  {64, 3136, 256},
                          {128, 784, 1152}, {512, 784, 128}, {128, 784, 512}, {256, 196, 2304}, {1024, 196, 256},
                          {512, 49, 4608},  {2048, 49, 512}, {512, 49, 2048}, {32, 1000, 2048}};

// Few rows, few columns, a long sum, a short one, sides that no vector divides, and tiny ones.
const Product odd[] = {{4, 1024, 1024},    {16, 1024, 1024}, {32, 2048, 512},  {2048, 64, 512}, {4096, 32, 256},
                       {1024, 8, 1024},    {64, 64, 8192},   {1024, 1024, 16}, {127, 129, 131}, {333, 555, 777},
                       {1000, 1000, 1000}, {16, 16, 16},     {32, 32, 32}};

Json parameters(const Product &p, const Json &more = Json::object()) {
    Json all = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
    all.update(more);
    return all;
}

template<typename List>
void add(Shapes &shapes, const List &list, const Json &more = Json::object()) {
    for (const Product &p : list) shapes.push_back({"matmul", parameters(p, more)});
}

void add_squares(Shapes &shapes, const std::vector<int> &sides, const Json &more = Json::object()) {
    for (int n : sides) shapes.push_back({"matmul", parameters({n, n, n}, more)});
}

} // namespace

Shapes gemm_f32_shapes() {
    Shapes shapes;
    add_squares(shapes, {std::begin(squares), std::end(squares)});
    add(shapes, bert);
    add(shapes, resnet);
    add(shapes, odd);
    return shapes;
}

Shapes gemm_f64_shapes() {
    const Json type = {{"type", "f64"}};
    Shapes shapes;
    add_squares(shapes, {64, 128, 256, 512, 1024}, type);
    add(shapes, std::vector<Product>{{128, 768, 768}, {2048, 64, 512}, {16, 1024, 1024}, {333, 555, 777}}, type);
    return shapes;
}

Shapes gemm_bf16_shapes() {
    const Json wide = {{"type", "bf16"}, {"output", "f32"}}, narrow = {{"type", "bf16"}};
    Shapes shapes;
    add_squares(shapes, {64, 128, 256, 512, 1024}, wide);
    add(shapes,
        std::vector<Product>{{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {16, 1024, 1024}, {333, 555, 777}},
        wide);
    add_squares(shapes, {256, 512}, narrow);
    return shapes;
}

Shapes gemm_int8_shapes() {
    const Json bytes = {{"type", "u8"}, {"b_type", "i8"}};
    Shapes shapes;
    add_squares(shapes, {64, 128, 256, 512, 1024}, bytes);
    add(shapes,
        std::vector<Product>{{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {16, 1024, 1024}, {333, 555, 777}},
        bytes);
    return shapes;
}

Shapes gemm_small_shapes() {
    Shapes shapes;
    add_squares(shapes, {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 20, 23, 24, 25, 28, 32, 40, 48, 55, 64});
    return shapes;
}

// A matrix times a column, and a row times a matrix.
Shapes gemv_shapes() {
    Shapes shapes;
    for (const auto &[m, k] : std::vector<std::pair<int, int>>{
             {64, 64}, {256, 256}, {768, 768}, {1024, 1024}, {3072, 768}, {768, 3072}, {1000, 2048}, {4096, 4096}})
        shapes.push_back({"gemv", {{"m", m}, {"k", k}}});
    add(shapes, std::vector<Product>{{1, 768, 768}, {1, 3072, 768}, {1, 768, 3072}, {1, 1000, 2048}, {1, 4096, 4096}});
    return shapes;
}

// BERT-base's heads, longer ones, heads with shared keys, and one new token with many earlier ones.
Shapes attention_shapes() {
    return {{"attention", {{"heads", 12}, {"s", 128}, {"t", 128}, {"d", 64}}},
            {"attention", {{"heads", 12}, {"s", 512}, {"t", 512}, {"d", 64}}},
            {"attention", {{"heads", 12}, {"s", 512}, {"t", 512}, {"d", 64}, {"causal", true}}},
            {"attention", {{"heads", 8}, {"s", 1024}, {"t", 1024}, {"d", 64}}},
            {"attention", {{"heads", 8}, {"s", 256}, {"t", 256}, {"d", 128}, {"groups", 2}}},
            {"attention", {{"heads", 12}, {"s", 1}, {"t", 1024}, {"d", 64}}}};
}

// One sequence and several, small and large states.
Shapes recurrent_shapes() {
    Shapes shapes;
    for (const char *op : {"rnn", "gru", "lstm"}) {
        for (const auto &[t, b, i, u] : std::vector<std::array<int, 4>>{
                 {20, 4, 32, 64}, {100, 1, 128, 128}, {50, 1, 64, 256}, {50, 16, 64, 256}, {30, 32, 512, 512}})
            shapes.push_back({op, {{"t", t}, {"b", b}, {"i", i}, {"u", u}}});
    }
    return shapes;
}

} // namespace kumiko::bench

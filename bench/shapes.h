// The shapes that the suites time, by suite.
#pragma once

#include "support/json.h"

#include <string>
#include <utility>
#include <vector>

namespace kumiko::bench {

using Shapes = std::vector<std::pair<std::string, Json>>; // op of the registry, parameters

// bench/shapes_gemm.cpp
Shapes gemm_f32_shapes();
Shapes gemm_f64_shapes();
Shapes gemm_bf16_shapes();
Shapes gemm_int8_shapes();
Shapes gemm_small_shapes();
Shapes gemv_shapes();
Shapes attention_shapes();
Shapes recurrent_shapes();

// bench/shapes_conv.cpp
Shapes conv_f32_shapes();
Shapes conv_int8_shapes();
Shapes conv_u8s8_shapes();
Shapes depthwise_shapes();

// bench/shapes_memory.cpp
Shapes rows_shapes();
Shapes elementwise_shapes();
Shapes transpose_shapes();

// bench/shapes_moves.cpp
Shapes pool_shapes();
Shapes moves_shapes();

} // namespace kumiko::bench

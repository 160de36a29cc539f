// The simulator's inner loops: one operation over a range of units, for all four cycles of a step.
// Compiled once for each host instruction set (baseline.cpp, avx2.cpp, avx512.cpp include
// implementation.h); all produce the same bits.
//
// A value of a step is eight rows: row[2·t + j] holds word j of cycle t, 8 bytes for each PE; a row
// continues through the PEs of the chip. A kernel works on `bytes` bytes of each row from `at` on
// (32 bytes, four PEs, are one MAB).
#pragma once

#include "sim/isa.h"

#include <cstddef>
#include <cstdint>

namespace kumiko::sim {

struct Rows {
    const uint8_t *row[8] = {};
};
struct RowsOut {
    uint8_t *row[8] = {};
};

// The range that a kernel processes. Results are written at `out_at` of their rows.
struct Range {
    size_t at = 0, bytes = 0, out_at = 0;
};

// A face of a MAB: 256 floats. f16: [column][lane], the 16 rows in the order 0 1 4 5 8 9 12 13, 2 3
// 6 7 10 11 14 15, in which two rows of planes hold y. f32: [column][row], 8 by 8. The bits of the
// f16 values, [row][column], are stored separately for matrix reads.
constexpr size_t face_floats = 256;

struct MatrixArgs {
    const float *face; // of the first MAB of the range
    const uint16_t *face_bits;
    Rows x, c;
    RowsOut out;
    bool add_c, narrow_c, narrow_y, negate;
    int half;
};

struct VectorArgs {
    Rows a, b, c;
    RowsOut out;
    bool narrow_c, narrow_y, negate;
};

struct FaceArgs {
    float *face;         // of the first MAB of the range
    uint16_t *face_bits; // null if no matrix read needs them
    Rows from;
    RowsOut out;
    int part, width;
};

struct Kernels {
    const char *name;
    // out = a op b, lane by lane; null for types that the operation lacks. Width 1: rows 0, 2, 4,
    // 6.
    using AluKernel = void (*)(const Rows &a, const Rows &b, const RowsOut &out, const Range &range, int width);
    AluKernel alu[alu_op_count][type_count];
    // The same for one lane; null where `alu` is.
    using AluLane = uint32_t (*)(uint32_t a, uint32_t b);
    AluLane lane[alu_op_count][type_count];
    void (*rotate)(const Rows &a, const RowsOut &out, const Range &range, int width, int rotation);
    void (*select)(const Rows &a, const Rows &b, const Rows &mask, const RowsOut &out, const Range &range, int width);

    void (*matrix_f16)(const MatrixArgs &args, const Range &range);
    void (*matrix_f32)(const MatrixArgs &args, const Range &range);
    void (*vector_f16[3])(const VectorArgs &args, const Range &range); // Vfma, Vmul, Vadd
    void (*vector_f32[3])(const VectorArgs &args, const Range &range);
    // Pass with a result rounded to fp16.
    void (*narrow_pass)(const Rows &a, const RowsOut &out, const Range &range);
    void (*face_write_f16)(const FaceArgs &args, const Range &range);
    void (*face_write_f32)(const FaceArgs &args, const Range &range);
    void (*face_read_f16)(const FaceArgs &args, const Range &range);
    void (*face_read_f32)(const FaceArgs &args, const Range &range);

    // out = a combined with b, as lanes of 32 bits.
    void (*combine[reduction_count])(const uint8_t *a, const uint8_t *b, uint8_t *out, size_t bytes);
    // to = (to and not mask) or (from and mask).
    void (*blend)(const uint8_t *from, const uint8_t *mask, uint8_t *to, size_t bytes);
};

// Null if this build or this machine does not support them.
const Kernels *baseline_kernels();
const Kernels *avx2_kernels();
const Kernels *avx512_kernels();

} // namespace kumiko::sim

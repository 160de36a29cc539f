// The chip's memories, and which of their words have been written.
#pragma once

#include "sim/config.h"
#include "sim/engine/defined.h"
#include "sim/engine/planes.h"
#include "sim/kernels/kernels.h"

#include <array>

namespace kumiko::sim {

constexpr int mask_entries = 20; // 0: all ones; 1..15 written; 16..19: PE 0..3
constexpr int forward_count = 4; // aluf, mauf, lbf, mreadf

struct ChipState {
    explicit ChipState(const Config &config);

    // The words of one unit's L1BM or L2BM.
    uint64_t *l1bm_words(size_t l1b) const { return reinterpret_cast<uint64_t *>(l1bm[l1b]); }
    uint64_t *l2bm_words(size_t l2b) const { return reinterpret_cast<uint64_t *>(l2bm[l2b]); }
    const uint8_t *mask_row(int entry, int t) const { return masks[size_t(4 * entry + t)]; }
    // The elements of a face (0 or 1) of a matrix register, as floats; and its words of f16 as they
    // were written.
    float *face(int which, size_t mab) const {
        return reinterpret_cast<float *>(faces.begin()) + (which * mabs + mab) * face_floats;
    }
    uint16_t *face_bits(int which, size_t mab) const {
        return reinterpret_cast<uint16_t *>(face_bit_bytes.begin()) + (which * mabs + mab) * face_floats;
    }

    size_t plane_bytes; // of all PEs
    size_t mabs;
    std::array<Planes, 5> pe;             // LM0, LM1, GRF0, GRF1, T (address 2·t + word)
    std::array<DefinedPlanes, 5> defined; // of them
    Planes masks;                         // [4·entry + t], all ones in the lanes that are set
    DefinedPlanes masks_defined;
    Planes forwards[forward_count][2]; // [of even and odd steps][2·t + word]
    Planes id, immediate;              // one plane each
    uint64_t immediate_value = 0;
    Planes l1bm, l2bm; // [unit], as many bytes as it has
    DefinedWords l1bm_defined, l2bm_defined;
    ZeroedBytes faces, face_bit_bytes;
    struct Face {
        uint32_t rows = 0; // rows written since the face was last started
        bool f16 = true;
    } face_state[2];
    int16_t base[4] = {};
};

} // namespace kumiko::sim

#include "sim/engine/chip_state.h"

#include <cstring>

namespace kumiko::sim {

ChipState::ChipState(const Config &c) : plane_bytes(size_t(c.total_pes()) * 8), mabs(size_t(c.total_mabs())) {
    const size_t counts[5] = {size_t(c.sizes.lm), size_t(c.sizes.lm), size_t(c.sizes.grf), size_t(c.sizes.grf), 8};
    for (int i = 0; i < 5; i++) {
        pe[i] = Planes(counts[i], plane_bytes);
        defined[i] = DefinedPlanes(counts[i], plane_bytes);
    }
    for (auto &kind : forwards)
        for (Planes &p : kind) p = Planes(8, plane_bytes);
    masks = Planes(4 * mask_entries, plane_bytes);
    masks_defined = DefinedPlanes(4 * mask_entries, plane_bytes);
    for (int t = 0; t < 4; t++) {
        std::memset(masks[size_t(t)], 0xff, plane_bytes);
        masks_defined.set_whole(size_t(t));
        for (size_t p = 0; p < 4; p++) {
            const size_t plane = 4 * (16 + p) + size_t(t);
            for (size_t m = 0; m < mabs; m++) std::memset(masks[plane] + 32 * m + 8 * p, 0xff, 8);
            masks_defined.set_whole(plane);
        }
    }
    id = Planes(1, plane_bytes);
    immediate = Planes(1, plane_bytes);
    auto *ids = reinterpret_cast<uint16_t *>(id[0]);
    for (size_t i = 0; i < size_t(c.total_pes()); i++) {
        const size_t mab = i / 4, l1b = mab / size_t(c.mabs), l2b = l1b / size_t(c.l1bs);
        ids[4 * i] = uint16_t(i % 4);
        ids[4 * i + 1] = uint16_t(mab % size_t(c.mabs));
        ids[4 * i + 2] = uint16_t(l1b % size_t(c.l1bs));
        ids[4 * i + 3] = uint16_t(l2b);
    }
    l1bm = Planes(size_t(c.total_l1bs()), size_t(c.sizes.l1bm) * 8);
    l2bm = Planes(size_t(c.total_l2bs()), size_t(c.sizes.l2bm) * 8);
    l1bm_defined = DefinedWords(size_t(c.total_l1bs()), size_t(c.sizes.l1bm));
    l2bm_defined = DefinedWords(size_t(c.total_l2bs()), size_t(c.sizes.l2bm));
    faces = ZeroedBytes(2 * mabs * face_floats * sizeof(float));
    face_bit_bytes = ZeroedBytes(2 * mabs * face_floats * sizeof(uint16_t));
}

} // namespace kumiko::sim

// Transfers along the tree: L1 (between L1BM and PEs) and L2 (between L2BM and L1BMs).
#include "sim/engine/runner.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kumiko::sim {

Runner::Extent Runner::extent(const TreeAddress &a, int64_t words, int64_t size, const char *memory, Slot slot) const {
    const int64_t at = a.at + iteration_[0] * a.repeat[0] + iteration_[1] * a.repeat[1];
    if (at < 0 || at + words > size)
        fail(slot, fmt::format("addresses {}..{} are outside {} of {} LW", at, at + words - 1, memory, size));
    return {at, at + words};
}

// ---- L1 ----------------------------------------------------------------------------------------

void Runner::l1_extent(const PlannedWord &p) {
    const L1 &l = p.word.l1;
    now_.l1 = extent(l.at, l1_words(l, config_), config_.sizes.l1bm, "L1BM", Slot::L1);
    now_.l1_partial = p.l1_mabs != (config_.mabs >= 32 ? all_units : (1u << config_.mabs) - 1);
    if (now_.l1_partial && (!selected_known_ || selected_set_ != p.l1_mabs)) {
        for (size_t m = 0; m < chip_.mabs; m++)
            std::memset(selected_[0] + 32 * m, p.l1_mabs >> (m % size_t(config_.mabs)) & 1 ? 0xff : 0, 32);
        selected_known_ = true, selected_set_ = p.l1_mabs;
    }
    if (is_upward(l.op)) return;
    if (options_.hazards) hazards_.read_l1bm(now_.l1.begin, now_.l1.end, step_, index_, Slot::L1);
    if (options_.undefined == Undefined::Error) check_l1_source(p);
}

void Runner::check_l1_source(const PlannedWord &p) {
    for (size_t b = 0; b < size_t(config_.total_l1bs()); b++) {
        int64_t missing =
            chip_.l1bm_defined.first_undefined(b, size_t(now_.l1.begin), size_t(now_.l1.end - now_.l1.begin));
        // Only what the chosen MABs receive.
        if (missing >= 0 && info(p.word.l1.op).words == L1Words::Whole) {
            missing = -1;
            for (int t = 0; t < 4; t++)
                for (int m = 0; m < config_.mabs && missing < 0; m++)
                    if (p.l1_mabs >> m & 1)
                        missing = chip_.l1bm_defined.first_undefined(
                            b, size_t(now_.l1.begin + t * config_.pes_per_l1b() + 4 * m), 4);
        }
        if (missing >= 0)
            fail(Slot::L1, fmt::format("it reads L1BM[{}] of L1B {}, which was never written", missing, b));
    }
}

void Runner::l1_down(const Resolved &r, size_t l1b, size_t out_at) const {
    const PlannedWord &p = *r.word;
    const L1 &l = p.word.l1;
    const uint64_t *from = chip_.l1bm_words(l1b) + r.l1.begin;
    const size_t w = l.width, mabs = size_t(config_.mabs), pes = 4 * mabs;
    for (size_t t = 0; t < 4; t++) {
        for (size_t j = 0; j < w; j++) {
            auto *to = reinterpret_cast<uint64_t *>(r.out[2].row[2 * t + j] + out_at);
            switch (info(l.op).words) {
            case L1Words::Pe:
                std::fill_n(to, pes, from[w * t + j]);
                break;
            case L1Words::Mab:
            case L1Words::FourMabs: {
                const bool four = info(l.op).words == L1Words::FourMabs;
                for (size_t m = 0; m < mabs; m++) {
                    const uint64_t *source = from + (four ? w * mabs * t + 4 * w * (m / 4) : 4 * w * t) + j;
                    for (size_t i = 0; i < 4; i++) to[4 * m + i] = source[w * i];
                }
                break;
            }
            case L1Words::Whole:
                std::memcpy(to, from + pes * t, 8 * pes);
                break;
            }
            for (size_t m = 0; m < mabs; m++)
                if (!(p.l1_mabs >> m & 1)) std::memset(to + 4 * m, 0, 32);
        }
    }
}

void Runner::l1_up(const Resolved &r, size_t l1b, size_t at) {
    const PlannedWord &p = *r.word;
    const L1 &l = p.word.l1;
    const Rows &rows = r.rows[int(l.from)];
    uint64_t *to = chip_.l1bm_words(l1b) + r.l1.begin;
    const size_t w = l.width, mabs = size_t(config_.mabs);
    const auto source = [&](size_t t, size_t j, size_t m) {
        return reinterpret_cast<const uint64_t *>(rows.row[2 * t + j] + at) + 4 * m;
    };
    const auto defined = [&](size_t address, size_t count) {
        chip_.l1bm_defined.set(l1b, size_t(r.l1.begin) + address, count);
    };
    if (!info(l.op).reduces) {
        for (size_t t = 0; t < 4; t++) {
            for (size_t m = 0; m < mabs; m++) {
                if (!(p.l1_mabs >> m & 1)) continue;
                std::memcpy(to + 4 * mabs * t + 4 * m, source(t, 0, m), 32);
                defined(4 * mabs * t + 4 * m, 4);
            }
        }
        return;
    }
    // Reduces pairs of neighbours among the chosen MABs, level by level; an odd one is passed up.
    const bool four = info(l.op).words == L1Words::FourMabs;
    for (size_t first = 0; first < mabs; first += four ? 4 : mabs) {
        for (size_t t = 0; t < 4; t++) {
            for (size_t j = 0; j < w; j++) {
                size_t count = 0;
                for (size_t m = first; m < first + (four ? 4 : mabs); m++)
                    if (p.l1_mabs >> m & 1) std::memcpy(&reduce_[4 * count++], source(t, j, m), 32);
                if (!count) continue;
                while (count > 1) {
                    for (size_t i = 0; i < count / 2; i++)
                        kernels_.combine[int(l.reduction)](reinterpret_cast<uint8_t *>(&reduce_[8 * i]),
                                                           reinterpret_cast<uint8_t *>(&reduce_[8 * i + 4]),
                                                           reinterpret_cast<uint8_t *>(&reduce_[4 * i]), 32);
                    if (count % 2) std::memmove(&reduce_[4 * (count / 2)], &reduce_[4 * (count - 1)], 32);
                    count = (count + 1) / 2;
                }
                const size_t base = four ? w * mabs * t + 4 * w * (first / 4) : 4 * w * t;
                for (size_t i = 0; i < 4; i++) {
                    to[base + w * i + j] = reduce_[i];
                    defined(base + w * i + j, 1);
                }
            }
        }
    }
}

// ---- L2 ----------------------------------------------------------------------------------------

void Runner::l2_extents(const PlannedWord &p) {
    const L2 &l = p.word.l2;
    const L2Info &op = info(l.op);
    const bool up = op.up, multicast = op.multicast(), twice = op.second == L2Second::L2bm;
    const int64_t words = l2_words_of_l1bm(l, config_);
    l2_l1bm_ = extent(l.l1bm, words, config_.sizes.l1bm, "L1BM", Slot::L2);
    if (!multicast) l2_l2bm_ = extent(l.l2bm, l2_words_of_l2bm(l, config_), config_.sizes.l2bm, "L2BM", Slot::L2);
    if (multicast) l2_second_ = extent(l.second, words, config_.sizes.l1bm, "L1BM", Slot::L2);
    if (twice) l2_second_ = extent(l.second, words, config_.sizes.l2bm, "L2BM", Slot::L2);
    if (!options_.hazards) return;
    if (multicast)
        hazards_.read_l1bm(l2_second_.begin, l2_second_.end, step_, index_, Slot::L2);
    else if (up)
        hazards_.read_l1bm(l2_l1bm_.begin, l2_l1bm_.end, step_, index_, Slot::L2);
    else
        hazards_.read_l2bm(l2_l2bm_.begin, l2_l2bm_.end, step_, index_, Slot::L2);
    if (!multicast) hazards_.check_moves(l2_l2bm_.begin, l2_l2bm_.end, up, step_, index_);
    if (twice) {
        hazards_.read_l2bm(l2_second_.begin, l2_second_.end, step_, index_, Slot::L2);
        hazards_.check_moves(l2_second_.begin, l2_second_.end, false, step_, index_);
    }
}

// The data that the L2 slot transfers, as it was before this step: for each L2B a piece of
// l2_data_.
void Runner::l2_read(const PlannedWord &p) {
    const L2 &l = p.word.l2;
    const L2Info &op = info(l.op);
    const size_t b = size_t(cycles_per_step * config_.links.l2_broadcast), s = size_t(config_.links.l2_scatter),
                 L = size_t(config_.l1bs);
    const size_t piece = std::max(2 * b, 4 * s * L);
    const bool zero = options_.undefined == Undefined::Zero;
    const auto from_l2bm = [&](size_t unit, const Extent &e) {
        const int64_t missing =
            zero ? -1 : chip_.l2bm_defined.first_undefined(unit, size_t(e.begin), size_t(e.end - e.begin));
        if (missing >= 0)
            fail(Slot::L2, fmt::format("it reads L2BM[{}] of L2B {}, which was never written", missing, unit));
        return chip_.l2bm_words(unit) + e.begin;
    };
    const auto from_l1bm = [&](size_t unit, const Extent &e) {
        const int64_t missing =
            zero ? -1 : chip_.l1bm_defined.first_undefined(unit, size_t(e.begin), size_t(e.end - e.begin));
        if (missing >= 0)
            fail(Slot::L2, fmt::format("it reads L1BM[{}] of L1B {}, which was never written", missing, unit));
        return chip_.l1bm_words(unit) + e.begin;
    };
    for (size_t u = 0; u < size_t(config_.total_l2bs()); u++) {
        uint64_t *data = &l2_data_[u * piece];
        if (op.multicast()) {
            std::memcpy(data, from_l1bm(u * L + l.child, l2_second_), 8 * b);
        } else if (!op.up) {
            std::memcpy(data, from_l2bm(u, l2_l2bm_), 8 * (op.distributes ? 4 * s * L : b));
            if (op.second == L2Second::L2bm) std::memcpy(data + b, from_l2bm(u, l2_second_), 8 * b);
        } else if (op.child) {
            std::memcpy(data, from_l1bm(u * L + l.child, l2_l1bm_), 8 * b);
        } else if (!op.reduces) {
            for (size_t c = 0; c < L; c++) {
                if (!(p.l2_l1bs >> c & 1)) continue;
                const uint64_t *from = from_l1bm(u * L + c, l2_l1bm_);
                for (size_t t = 0; t < 4; t++) std::memcpy(data + s * L * t + s * c, from + s * t, 8 * s);
            }
        } else {
            std::vector<uint64_t> level(L * b);
            size_t count = 0;
            for (size_t c = 0; c < L; c++)
                if (p.l2_l1bs >> c & 1) std::memcpy(&level[b * count++], from_l1bm(u * L + c, l2_l1bm_), 8 * b);
            while (count > 1) {
                for (size_t i = 0; i < count / 2; i++)
                    kernels_.combine[int(l.reduction)](reinterpret_cast<uint8_t *>(&level[2 * i * b]),
                                                       reinterpret_cast<uint8_t *>(&level[(2 * i + 1) * b]),
                                                       reinterpret_cast<uint8_t *>(&level[i * b]), 8 * b);
                if (count % 2) std::memmove(&level[count / 2 * b], &level[(count - 1) * b], 8 * b);
                count = (count + 1) / 2;
            }
            std::memcpy(data, level.data(), 8 * b);
        }
    }
}

void Runner::l2_write(const PlannedWord &p) {
    const L2 &l = p.word.l2;
    const L2Info &op = info(l.op);
    const size_t b = size_t(cycles_per_step * config_.links.l2_broadcast), s = size_t(config_.links.l2_scatter),
                 L = size_t(config_.l1bs);
    const size_t piece = std::max(2 * b, 4 * s * L);
    const bool up = op.up;
    if (up)
        hazards_.write_l2bm(l2_l2bm_.begin, l2_l2bm_.end, stamp(Slot::L2));
    else
        hazards_.write_l1bm(l2_l1bm_.begin, l2_l1bm_.end, stamp(Slot::L2));
    const auto to_l1bm = [&](size_t unit, const uint64_t *data, size_t words) {
        std::memcpy(chip_.l1bm_words(unit) + l2_l1bm_.begin, data, 8 * words);
        chip_.l1bm_defined.set(unit, size_t(l2_l1bm_.begin), words);
    };
    for (size_t u = 0; u < size_t(config_.total_l2bs()); u++) {
        const uint64_t *data = &l2_data_[u * piece];
        if (up) {
            uint64_t *to = chip_.l2bm_words(u) + l2_l2bm_.begin;
            if (!op.distributes) {
                std::memcpy(to, data, 8 * b);
                chip_.l2bm_defined.set(u, size_t(l2_l2bm_.begin), b);
                continue;
            }
            for (size_t t = 0; t < 4; t++) {
                for (size_t c = 0; c < L; c++) {
                    if (!(p.l2_l1bs >> c & 1)) continue;
                    std::memcpy(to + s * L * t + s * c, data + s * L * t + s * c, 8 * s);
                    chip_.l2bm_defined.set(u, size_t(l2_l2bm_.begin) + s * L * t + s * c, s);
                }
            }
            continue;
        }
        if (op.unicast()) {
            to_l1bm(u * L + l.child, data, b);
            continue;
        }
        for (size_t c = 0; c < L; c++) {
            if (!(p.l2_l1bs >> c & 1)) continue;
            if (op.distributes) {
                uint64_t slice[4 * 64];
                for (size_t t = 0; t < 4; t++) std::memcpy(slice + s * t, data + s * L * t + s * c, 8 * s);
                to_l1bm(u * L + c, slice, 4 * s);
            } else {
                to_l1bm(u * L + c, op.second == L2Second::L2bm && c >= L / 2 ? data + b : data, b);
            }
        }
    }
}

} // namespace kumiko::sim

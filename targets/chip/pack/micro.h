// One operation for the packer: a word fragment, or two in consecutive steps if the second uses the
// first's forward; with the units it occupies and the words that it reads and writes.
//
//   Micro m;
//   m.word().l1 = {.op = L1Op::MabBroadcast, .width = 2, .at = {64}};
//   m.use(Unit::L1).touch_range(Space::L1bm, 64, 32, false);
//   m.next();                                                            // the second fragment
//   m.word().mw = {.on = true, .face = 1, .from = Source::Lbf};
//   m.use(Unit::Mw).touch(Space::Face, 1, true);
#pragma once

#include "sim/isa.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kumiko::chip {

// The units that a fragment occupies in its step. A memory port serves one fragment; sharing it for
// equal addresses is not tried.
enum class Unit : uint8_t {
    Control,
    Mv,
    L2,
    L1,
    Mw,
    Mr,
    Mau,
    Alu,
    Mask,
    Grf0Read,
    Grf0Write,
    Grf1Read,
    Grf1Write,
    TRead,
    TWrite,
    Lm0Read,
    Lm0Write,
    Lm1Read,
    Lm1Write,
    F16,
    F32
};
constexpr uint32_t bit(Unit u) { return 1u << int(u); }

enum class Space : uint8_t { Lm0, Lm1, Grf0, Grf1, T, Mask, Face, L1bm, L2bm };
constexpr int space_count = 9;

// Words of one memory: `times` runs of `width` words, with stride `stride`.
struct Touch {
    Space space;
    bool write = false;
    bool by_l2 = false; // L1BM and L2BM: accessed by the L2 slot
    uint8_t part = 0;
    int32_t at = 0, width = 1, stride = 0, times = 1;
};

class Micro {
public:
    sim::Word &word() { return words_[size_t(parts_ - 1)]; }
    const sim::Word &word(int part) const { return words_[size_t(part)]; }
    int parts() const { return parts_; }
    uint32_t uses(int part) const { return uses_[size_t(part)]; }
    const std::vector<Touch> &touches() const { return touches_; }

    Micro &next() {
        parts_++;
        return *this;
    }
    Micro &use(Unit u) {
        uses_[size_t(parts_ - 1)] |= bit(u);
        return *this;
    }
    Micro &touch(Space space, int at, bool write) { return touch_range(space, at, 1, write); }
    Micro &touch_range(Space space, int64_t at, int64_t count, bool write, bool by_l2 = false) {
        touches_.push_back({space, write, by_l2, uint8_t(parts_ - 1), int32_t(at), int32_t(count), 0, 1});
        return *this;
    }
    // Encodes a source operand: LM or GRF with a start and stride for the four cycles, `width` LW
    // per cycle; or an operand without an address. Returns the slot's source.
    sim::Source read(const sim::Operand &operand, int width);
    // The same for a destination operand.
    uint8_t write(const sim::Operand &operand, int width);

private:
    std::array<sim::Word, 2> words_;
    std::array<uint32_t, 2> uses_{};
    int parts_ = 1;
    std::vector<Touch> touches_;
    void port(const sim::Operand &operand, int width, bool write);
};

} // namespace kumiko::chip

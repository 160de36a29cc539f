// The road of a tensor between DRAM and the units, for one stage: in which order its words lie in DRAM, L2BM and L1BM, and the
// operations that carry them.
//
// A tensor that the host packs: the order comes from the use: the loops of the stage that a unit runs through below the place of the copy are the addresses in
// its memory; L1BM, L2BM and DRAM hold the same words in the order in which the tree deals them out. So each step of the road is
// one kind of tree operation at its full rate: broadcast where the levels below need the same, scatter or gather where each needs
// its own. Where the loops outside choose the tile, DRAM holds tile behind tile, in the order of the loops.
//
// A row-major tensor (dram_order.h) takes the same road from L2BM on: each block of 64 LW that L2BM needs has to be one of DRAM.
#pragma once

#include "targets/chip/pack/packer.h"
#include "targets/chip/plan/stage_plan.h"
#include "targets/chip/road/dram_order.h"
#include "targets/chip/road/planner.h"

#include <functional>
#include <memory>
#include <optional>

namespace kumiko::chip {

// How the elements of one access lie in the words of a unit (a PE, or a MAB's four).
enum class Form : uint8_t {
    Pe,     // the lanes of the vectorized loops, in each PE its own
    Vector, // 16 elements over the four PEs: x of the matrix unit
    Face,   // 16 × 16 elements in 64 words of L1BM, as matrix writes take them
    Result  // 16 elements over the four PEs: y of the matrix unit, in one word (fp16) or two (fp32) each
};          // where the matrix unit multiplies fp32: 8 elements, 8 × 8 in 32 words, one word

struct RoadShape {
    std::string name; // for people: "A.LM0"
    TensorAccess access;
    Type type; // of an element as it travels
    Form form = Form::Pe;
    std::vector<size_t> keys;                 // time loops that choose the tile, outermost first
    std::vector<size_t> digits;               // time loops inside a tile on which the tensor depends, outermost first
    size_t row = SIZE_MAX, column = SIZE_MAX; // lane loops: of the vector's elements, or the face's rows and columns
    bool single = false;                      // the matrix unit multiplies fp32
    std::vector<size_t> lanes;                // of Pe: lane loops, outermost first; none: all lanes have the same,
    int64_t copies = 1;                       // as many
    bool store = false;
    // Of Pe, with words of one LW: where the lanes do not go along the tensor's last axis, but the accesses do, so many of them in a
    // row. Words come as they lie in DRAM, 16 × 16 elements (8 × 8 of 32 bits) in 16 words of a MAB's PEs, and change places there.
    int64_t transposed = 0;
    int64_t together = 1; // tiles that one copy in L2BM holds
    // Where the tensor lies in DRAM, when it lies row-major; else the host packs it in the order of the road.
    std::shared_ptr<const DramOrder> order;
    bool zeros = false;   // what lies beyond the tensor is zero; else it may be anything
    bool clamped = false; // or the nearest element: the host packs so
    // Row-major: where a group keeps a table of granules of 16 LW, which are moved where whole blocks are not contiguous; and from
    // where on nobody reads, LW from the tensor's first, for granules of a store that have no place.
    std::function<int64_t(int group, const std::vector<uint32_t> &entries)> table;
    int64_t nowhere = 0;
};
constexpr int64_t nowhere_room = 8192; // granules

class Road {
public:
    Road(const StagePlan &plan, const sim::Config &config, RoadShape shape);

    const RoadShape &shape() const { return shape_; }
    int words() const { return words_; }                 // LW of an access in a unit
    int64_t access_words() const;                        // in L1BM
    int64_t accesses() const { return accesses_; }       // of a tile
    int64_t unit_words() const { return unit_words_; }   // LW of a tile in a unit; of Face: in L1BM
    int64_t key(const Values &values) const;             // number of the tile
    int64_t index(const Values &values) const;           // of the access in its tile
    int64_t access_stride(size_t loop) const;            // what a step of the loop adds to index; 0 when it is no digit
    int64_t l1_words() const { return l1_words_; }       // LW of a tile in L1BM
    int64_t per_address() const { return per_address_; } // of those that one address of the units takes
    bool at_once() const { return by_mab_ || shape_.transposed; } // no access is there before all are
    int64_t l2_words() const { return l1_words_ * l2_times_; }    // in L2BM
    int64_t chunk() const { return chunk_; }                      // LW of L1BM that are carried at once
    int64_t l2_chunk() const { return chunk_ * l2_times_; }
    int64_t dram_words() const;            // of each group
    uint32_t groups_of(int64_t key) const; // those whose DRAM holds the tile
    int64_t run() const { return run_; }   // tiles in a row that come from the same groups, where groups take turns
    int64_t tiles() const { return tiles_; }
    bool takes_row_major(const DramOrder &order) const; // the loops take whole blocks of a tensor that lies so
    bool from_one_mab() const { return shape_.store && deal_ == Deal::Mab; } // all MABs have the same to store

    // The steps of the road, for words [x, x + n) of the tile in L1BM's order (multiples of chunk()); or for so many whole tiles from
    // `key` on. A store may be limited to some groups.
    void moves(Packer &p, int64_t key, int64_t x, int64_t n, int64_t dram, int64_t l2bm, int64_t tiles = 1,
               uint32_t groups = ~0u) const;
    void l2(Packer &p, int64_t n, int64_t l2bm, int64_t l1bm) const;
    // Downwards into LM: words [x, x + n) of a tile that stands from `at` on, counted over LM0 and LM1.
    void l1_down(Packer &p, int64_t x, int64_t n, int64_t l1bm, int64_t at) const;
    // Of a transposed one: elements change places, from `from` to `to` in LM.
    void transpose(Packer &p, int64_t from, int64_t to) const;

    // Every word of DRAM that the tensor has: its group, its address from the tensor's first, and for each of its elements the
    // offset in the row-major tensor, or −1 for padding. Several words may hold one element.
    void each_word(const WordVisitor &f) const;

    std::string to_string() const; // the order of the words in DRAM, outermost first

private:
    const StagePlan &plan_;
    const sim::Config &config_;
    RoadShape shape_;
    int words_ = 1;
    int per_word_ = 1; // elements
    int64_t accesses_ = 1, unit_words_ = 1, l1_words_ = 1, per_address_ = 1, chunk_ = 64, tiles_ = 1;
    bool by_mab_ = false; // at L1: MAB after MAB
    int64_t segment_ = 0; // LW of a MAB then
    int64_t unit_ = 64;   // LW that are contiguous in DRAM: blocks, or granules
    enum class Deal { Scatter, Mab, Pe, Face } deal_ = Deal::Scatter; // at L1
    mutable int64_t nowhere_ = 0;                                     // granules that had no place so far
    bool interleaved_ = false;                                        // at L2: scatter or gather, not L1Bs one by one
    int64_t l2_times_ = 1;
    int64_t run_ = 1;
    bool local_ = true; // each group keeps what its L2Bs use

    // The address digits of a tile, outermost first: a loop, or several whose steps along an axis overlap (a window and its taps), which
    // then share the elements. A digit counts Σ weight · loop.
    struct Digit {
        std::vector<size_t> loops;
        std::vector<int64_t> weights;
        int64_t extent = 1;
        std::vector<std::vector<int64_t>> ways; // of several loops: their values for each count
    };
    std::vector<Digit> digits_;
    std::vector<bool> shared_; // by loop: it is one of several of a digit
    void find_digits();
    std::vector<std::pair<int64_t, int64_t>>
        pairs_; // parts that L2 sends at once; second: −1, or the one for the upper half
    std::vector<int> l1b_of_part_;
    uint32_t l1bs_of_part(int64_t part) const;
    int64_t slots() const; // words of a tile in a group's DRAM, in l2_words()
    struct Home {
        int group;
        int64_t slot;
        int g, l; // an L2B whose data it is
    };
    std::vector<Home> homes(int64_t key) const;
    int64_t l2_offset(int64_t part, int64_t x) const;
    void set_key(Values &values, int64_t key) const;
    // Sets the loops to those of a word of a tile in L1BM's order; the lanes' to those of its first element. Returns the access, and the
    // word of it.
    void set_lane(Values &values, int64_t w, int64_t e) const;
    std::pair<int64_t, int64_t> set_word(Values &values, int64_t part, int64_t x, int64_t e = 0) const;
    void set_digits(Values &values, int64_t access) const;
    uint32_t mabs_of_part(int64_t part) const;
    // Of a row-major tensor.
    // "" when each block of 64 LW of L2BM is one of DRAM; or of so many.
    std::string why_not_row_major(const DramOrder &order, bool interleaved, int64_t unit = 64) const;
    void row_moves(Packer &p, int64_t key, int64_t begin, int64_t words, int64_t dram, int64_t l2bm,
                   uint32_t groups) const;
    // Where in DRAM the words stand that are at y in L2BM's order. None: a store's, beyond the tensor.
    std::optional<DramPlace> block(Values &values, int64_t y, bool &there) const; // there: it has elements
    void granules(const std::vector<std::optional<DramPlace>> &places, sim::Mv move, int64_t dram,
                  std::vector<sim::Mv> &all) const;
};

} // namespace kumiko::chip

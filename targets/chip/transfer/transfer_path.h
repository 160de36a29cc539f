// The transfer path of a tensor between DRAM and the units, for one stage: the order of its words
// in DRAM, L2BM and L1BM, and the operations that transfer them.
//
// Host-packed tensors are stored in consumption order. The loops of the stage inside the copy are
// the addresses in a unit's memory; L1BM, L2BM and DRAM hold the same words in the order in which
// the tree distributes them. So each step of the path is one kind of tree operation at its full
// rate: a broadcast if the levels below need the same words, a scatter or gather if each needs its
// own. If outer loops select the tile, DRAM holds the tiles one after the other, in loop order.
//
// A row-major tensor (dram_order.h) uses the same path from L2BM on; each block of 64 LW that L2BM
// needs has to be a block of DRAM.
#pragma once

#include "targets/chip/pack/packer.h"
#include "targets/chip/plan/stage_plan.h"
#include "targets/chip/transfer/dram_order.h"
#include "targets/chip/transfer/planner.h"

#include <functional>
#include <memory>
#include <optional>

namespace kumiko::chip {

// The arrangement of the elements of one access in the words of a unit (a PE, or the four PEs of a
// MAB).
enum class Form : uint8_t {
    Pe,     // the lanes of the vectorized loops, separate for each PE
    Vector, // 16 elements over the four PEs: x of the matrix unit
    Face,   // 16 × 16 elements in 64 words of L1BM, the format of matrix writes
    // 16 elements over the four PEs: y of the matrix unit, in one word (fp16) or two (fp32) each.
    // If the matrix unit multiplies fp32: 8 elements, 8 × 8 in 32 words, one word.
    Result
};

struct TransferPathShape {
    std::string name; // for messages: "A.LM0"
    TensorAccess access;
    Type type; // element type in transit
    Form form = Form::Pe;
    std::vector<size_t> keys; // time loops that select the tile, outermost first
    // Time loops inside a tile on which the tensor depends, outermost first.
    std::vector<size_t> digits;
    // Lane loops: of the vector's elements, or of the face's rows and columns.
    size_t row = SIZE_MAX, column = SIZE_MAX;
    bool single = false; // the matrix unit multiplies fp32
    // Form::Pe: lane loops, outermost first. If there are none, all `copies` lanes are equal.
    std::vector<size_t> lanes;
    int64_t copies = 1;
    bool store = false;
    // Form::Pe with words of one LW: if the lanes do not run along the tensor's last axis but the
    // accesses do, this is the number of consecutive accesses. Words arrive in DRAM order, 16 × 16
    // elements (8 × 8 for 32 bits) in 16 words of a MAB's PEs, and are transposed there.
    int64_t transposed = 0;
    int64_t together = 1; // tiles in one L2BM copy
    // The DRAM layout if the tensor is row-major; null if the host packs it in the order of the
    // path.
    std::shared_ptr<const DramOrder> order;
    bool zeros = false;   // elements beyond the tensor are zero; otherwise undefined
    bool clamped = false; // or the nearest element: the host packs them so
    // Row-major: returns the address of a group's table of granules of 16 LW, which are moved if
    // whole blocks are not contiguous. `nowhere` is the start of an unused area, in LW relative to
    // the tensor, for stored granules without a destination.
    std::function<int64_t(int group, const std::vector<uint32_t> &entries)> table;
    int64_t nowhere = 0;

    int64_t face_words() const { return single ? 32 : 64; }
    int64_t elements_of_pe() const { return single ? 2 : 4; } // of a vector
};
constexpr int64_t nowhere_room = 8192; // granules

// It has more than 40 methods, since the tiles, moves and tree steps of a path share its digits; 13
// of them are accessors of one line.
class TransferPath {
public:
    TransferPath(const StagePlan &plan, const sim::Config &config, TransferPathShape shape);

    const TransferPathShape &shape() const { return shape_; }
    int words() const { return words_; }               // LW of an access in a unit
    int64_t access_words() const;                      // in L1BM
    int64_t accesses() const { return accesses_; }     // of a tile
    int64_t unit_words() const { return unit_words_; } // LW of a tile in a unit; of Face: in L1BM
    int64_t key(const Values &values) const;           // number of the tile
    int64_t index(const Values &values) const;         // index of the access in its tile
    // The change of index() for one step of the loop; 0 if it is no digit.
    int64_t access_stride(size_t loop) const;
    int64_t l1_words() const { return l1_words_; } // LW of a tile in L1BM
    // The LW of a tile in L1BM that one address of the units holds.
    int64_t per_address() const { return per_address_; }
    // Whether no access is available before all are.
    bool at_once() const { return by_mab_ || shape_.transposed; }
    int64_t l2_words() const { return l1_words_ * l2_times_; } // in L2BM
    // LW of L1BM that are transferred at once.
    int64_t chunk() const { return chunk_; }
    int64_t l2_chunk() const { return chunk_ * l2_times_; }
    int64_t dram_words() const;            // of each group
    uint32_t groups_of(int64_t key) const; // groups whose DRAM holds the tile
    // The number of consecutive tiles from the same groups, if groups alternate.
    int64_t run() const { return run_; }
    int64_t tiles() const { return tiles_; }
    // Whether the loops read whole blocks of a tensor with this layout.
    bool takes_row_major(const DramOrder &order) const;
    // A store for which all MABs have the same data.
    bool from_one_mab() const { return shape_.store && distribution_ == Distribution::Mab; }

    // The moves for words [x, x + n) of the tile in L1BM's order (multiples of chunk()), or for
    // `tiles` whole tiles from `key` on. A store may be restricted to some groups.
    void moves(Packer &p, int64_t key, int64_t x, int64_t n, int64_t dram, int64_t l2bm, int64_t tiles = 1,
               uint32_t groups = ~0u) const;
    // From L2BM to L1BM, or for a store the reverse: n LW of L1BM.
    void l2(Packer &p, int64_t n, int64_t l2bm, int64_t l1bm) const;
    // From L1BM to LM: words [x, x + n) of a tile that begins at `at`, with LM0 and LM1 numbered
    // consecutively.
    void l1_down(Packer &p, int64_t x, int64_t n, int64_t l1bm, int64_t at) const;
    // Transposes the elements of a transposed tile from `from` to `to` in LM.
    void transpose(Packer &p, int64_t from, int64_t to) const;

    // Visits every word of DRAM that the tensor has: its group, its address relative to the tensor,
    // and for each element the offset in the row-major tensor, or −1 for padding. Several words may
    // hold one element.
    void each_word(const WordVisitor &f) const;

    std::string to_string() const; // the order of the words in DRAM, outermost first

private:
    const StagePlan &plan_;
    const sim::Config &config_;
    TransferPathShape shape_;
    int words_ = 1;
    int per_word_ = 1; // elements
    int64_t accesses_ = 1, unit_words_ = 1, l1_words_ = 1, per_address_ = 1, chunk_ = 64, tiles_ = 1;
    bool by_mab_ = false; // at L1: one MAB after the other
    int64_t segment_ = 0; // LW of a MAB in that case
    int64_t unit_ = 64;   // LW that are contiguous in DRAM: a block or a granule
    // How L1 distributes words: one to each PE, or the same to each MAB, PE or face.
    enum class Distribution { Scatter, Mab, Pe, Face } distribution_ = Distribution::Scatter;
    // Granules without a destination so far.
    mutable int64_t nowhere_ = 0;
    // Of a transposed tile, from address 0 of LM0 to 0 of LM1; planned when it is first needed.
    mutable std::vector<MicroOp> transposition_;
    // At L2: scatter or gather instead of one L1B after the other.
    bool interleaved_ = false;
    int64_t l2_times_ = 1;
    int64_t run_ = 1;
    bool local_ = true; // each group stores what its L2Bs use

    // The address digits of a tile, outermost first. A digit is one loop, or several whose steps
    // along an axis overlap (a window and its taps), which then share the elements. Its value is Σ
    // weight · loop.
    struct Digit {
        std::vector<size_t> loops;
        std::vector<int64_t> weights;
        int64_t extent = 1;
        // For several loops: their values for each digit value.
        std::vector<std::vector<int64_t>> ways;
    };
    std::vector<Digit> digits_;
    // Maps x, in the order in which L1BM holds the segments of MABs, to the number of the MAB's
    // part and the offset in its segment. Each MAB has rows of one group's memory, and neighbours
    // have different groups; rows of all groups alternate, so that all groups are busy.
    static std::pair<int64_t, int64_t> in_segment(int64_t x, int64_t segment, int64_t parts, int64_t piece,
                                                  int64_t groups);
    // Sets the number of words of an access.
    void set_words();
    // Decides how L1 distributes the words.
    void arrange_l1();
    // Decides how L2 distributes the parts.
    void arrange_l2();
    // Finds moves for a row-major tensor.
    void arrange_rows();
    std::vector<bool> shared_; // by loop: whether it shares a digit with others
    // Finds the digits of a tile.
    void find_digits();
    // Parts that L2 sends at once; second: −1, or the part for the upper half.
    std::vector<std::pair<int64_t, int64_t>> pairs_;
    std::vector<int> l1b_of_part_;
    // The L1Bs that hold a part.
    uint32_t l1bs_of_part(int64_t part) const;
    int64_t slots() const; // of a tile in one group's DRAM, in units of l2_words()
    struct Home {
        int group;
        int64_t slot;
        int g, l; // an L2B that owns the data
    };
    // Where the groups store the tile.
    std::vector<Home> homes(int64_t key) const;
    // The address in L2BM of word x of a part.
    int64_t l2_offset(int64_t part, int64_t x) const;
    // Sets the loops to the values of a tile.
    void set_key(Values &values, int64_t key) const;
    // Sets the loops to the values of a word of a tile in L1BM's order, and the lane loops to those
    // of its element e. Returns the access and the index of the word in it.
    void set_lane(Values &values, int64_t w, int64_t e) const;
    std::pair<int64_t, int64_t> set_word(Values &values, int64_t part, int64_t x, int64_t e = 0) const;
    // Sets the loops to the values of an access.
    void set_digits(Values &values, int64_t access) const;
    // The MABs that hold a part.
    uint32_t mabs_of_part(int64_t part) const;
    // For a row-major tensor. "" if each `unit` LW of L2BM are contiguous in DRAM; otherwise the
    // reason.
    std::string why_not_row_major(const DramOrder &order, bool interleaved, int64_t unit = 64) const;
    // The moves of a row-major tensor for some words of L2BM.
    void row_moves(Packer &p, int64_t key, int64_t begin, int64_t words, int64_t dram, int64_t l2bm,
                   uint32_t groups) const;
    struct RowPart;
    std::vector<RowPart> row_parts(int64_t key, int64_t begin, int64_t words, uint32_t groups) const;
    void block_moves(const RowPart &part, int64_t dram, int64_t l2bm, std::vector<sim::Mv> &all) const;
    // The position in DRAM of the words at y in L2BM's order; nullopt for a store beyond the
    // tensor. `there` is set to whether it holds elements.
    std::optional<DramPlace> block(Values &values, int64_t y, bool &there) const;
    // Moves of granules through a table.
    void granules(const std::vector<std::optional<DramPlace>> &places, sim::Mv move, int64_t dram,
                  std::vector<sim::Mv> &all) const;
};

} // namespace kumiko::chip

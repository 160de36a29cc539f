// State shared by all stages of a program during code generation: the packer, the address planner,
// the place of each tensor in DRAM.
#pragma once

#include "targets/chip/transfer/dram_order.h"
#include "targets/chip/transfer/transfer_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

namespace kumiko::chip {

// A tensor that the host writes or reads: from `dram` on, `words` LW in each group.
struct HostTensor {
    std::string name;
    bool output = false;
    int64_t dram = 0, words = 0;
    std::function<void(const WordVisitor &)> each_word;
};

// Words that the host writes before the program runs, such as tables of moves.
struct HostConstant {
    int group = 0;
    int64_t dram = 0;
    std::vector<uint64_t> words;
};

struct Context {
    explicit Context(const sim::Config &config, Packing packing = Packing::Full,
                     const std::atomic<bool> *stop = nullptr)
        : config(config), packer(config, packing, stop), planner(config) {}

    const sim::Config &config;
    Packer packer;
    Planner planner;
    std::vector<HostTensor> tensors;
    std::vector<HostConstant> constants;
    std::map<std::string, double> needed; // bytes of an input that are read, if not all
    std::string l3, l2;                   // printable levels
    // The maximum number of LW allocated at once, by memory.
    std::array<int64_t, bank_count> taken{};
    void note_taken() {
        for (int m = 0; m < bank_count; m++) taken[size_t(m)] = std::max(taken[size_t(m)], planner.taken(Bank(m)));
    }

    // Allocates and registers a tensor in DRAM, at the same address in each group, in the order of
    // a path or row-major.
    int64_t take_dram(std::shared_ptr<const StagePlan> plan, std::shared_ptr<const TransferPath> path,
                      const std::string &name, bool output);
    int64_t take_dram(std::shared_ptr<const DramOrder> order, const std::string &name, bool output);
    // The address of a table with these entries in a group's DRAM.
    int64_t table(int group, const std::vector<uint32_t> &entries);
};

// A copy that place_in made for the stage, and its location in the unit.
struct Copy {
    const StageState *stage = nullptr;
    Bank memory = Bank::Lm0;
    size_t at = 0; // position of the loop at which it is loaded
};

// The value of an out-of-bounds read of an input: undefined, zero, or the nearest element.
enum class Border : uint8_t { None, Zeros, Nearest };

// The copies through which the stage reads `tensor`, beginning with the one that it reads directly.
// The last one copies an input, whose name is assigned to `source`. `packed` receives the prepacked
// copy of the input, if there is one. Throws UserError if the stage reads an input directly,
// Unsupported for other stages in between.
std::vector<Copy> copies_of(const ScheduleState &state, const StagePlan &plan, const std::string &tensor,
                            std::string &source, const StageState **packed = nullptr, Border *border = nullptr);
// The number of buffers of a copy. Throws Unsupported for more than `most`.
int buffers_of(const Copy &copy, int most);
// The axes of an input as stored in DRAM, outermost first: in order, or as given by prepack. Throws
// Unsupported for blocked axes.
std::vector<size_t> storage_order(const ScheduleState &state, const std::string &input, const StageState *packed);

// Ring buffers in L1BM and L2BM through which tiles pass.
struct Rings {
    Ring l1, l2;
    int64_t move = 0; // LW of L1BM, in the tile's order, that one move transfers
};
// Divides the free space of L1BM and L2BM among the paths that use them. `moves`: the number of
// moves in flight that L2BM has room for, for each path; at least two for results.
std::vector<Rings> share_rings(Context &c,
                               const std::vector<std::pair<const TransferPath *, std::pair<bool, bool>>> &users,
                               int moves = 3);

// Loads tiles of an input to the units when they are needed and not present.
class Loader {
public:
    // `copies` as returned by copies_of.
    Loader(Context &c, std::shared_ptr<const TransferPath> path, std::vector<Copy> copies, int64_t dram,
           const StagePlan &plan);

    const TransferPath &path() const { return *path_; }
    const Copy &copy() const { return copies_.front(); }
    bool through_l1() const { return copies_.front().memory != Bank::L1bm; }
    bool through_l2() const { return copies_.size() < 2; }
    void set_rings(const Rings &rings) { rings_ = rings; }

    // Assigns a buffer to the tile of these values. Its words are loaded when first needed, in
    // order, so that the paths of several operands interleave.
    void ensure(const Values &values);
    // Ensures that the words of accesses up to and including this one are loaded or in flight.
    void need(int64_t access);
    // Whether some copy is partly in LM0, partly in LM1.
    bool crosses_lm() const;
    int64_t last_key() const { return last_key_; } // of the most recently loaded tile
    // The address of the current tile in the copy's memory; LM0 and LM1 are numbered consecutively.
    int64_t base() const { return slots_[size_t(current_)].at; }

private:
    struct Slot {
        int64_t at = 0, key = -1;
        int64_t used = 0;   // time of the last use
        int64_t loaded = 0; // words, in L1BM's order
    };
    Context &c_;
    std::shared_ptr<const TransferPath> path_;
    std::vector<Copy> copies_;
    int64_t dram_;
    Rings rings_;
    std::vector<Slot> slots_, l2_slots_;
    int64_t untransposed_ = 0;      // address of a tile before it is transposed
    int64_t tiles_per_l2_tile_ = 1; // tiles of a unit in one L2BM tile
    int current_ = 0;
    int64_t clock_ = 0, last_key_ = 0;

    int find(std::vector<Slot> &slots, int64_t key, bool &there);
    void load(Slot &slot, int64_t until);
};

// The reads of tensors in an expression, in order, each distinct one once.
std::vector<Expr> reads_in(const Expr &e);
// The same, once per occurrence, including a cast directly around it.
std::vector<Expr> reads_with_casts(const Expr &e);

// The operand for four words of LM0 and LM1, which are numbered consecutively.
sim::Operand lm_operand(const sim::Config &config, int64_t at, int64_t stride);

// Stores one part of a result tile. `gather` places the operation that transfers word w of the
// accesses [4n, 4n + 4) from the units to L1BM at the given address. A tile has store_parts()
// parts, with one move of each L2B for each. store_part moves the words to L2BM; StoredPart::place
// issues the moves, and has to be called for all groups before the ring reuses the words, at most
// store_ahead parts later.
struct StoredPart {
    int64_t l2bm, words; // of an L2B
    std::function<void(uint32_t groups)> place;
};
StoredPart store_part(Context &c, const TransferPath &path, Rings &rings, int64_t dram, int64_t key, int64_t part,
                      const std::function<void(int64_t n, int w, int64_t l1bm)> &gather);
inline int64_t store_ahead(const TransferPath &r, const Rings &rings) {
    return rings.l2.words() / (rings.move / r.chunk() * r.l2_chunk()) - 1;
}
int64_t store_parts(const TransferPath &path, const Rings &rings);

} // namespace kumiko::chip

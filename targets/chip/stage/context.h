// What the stages of a program share while they become words: the packer, the planner of addresses, the place of each tensor in DRAM.
#pragma once

#include "targets/chip/road/dram_order.h"
#include "targets/chip/road/road.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

namespace kumiko::chip {

// A tensor that the host writes or reads: in DRAM from `dram` on, so many words of each group.
struct HostTensor {
    std::string name;
    bool output = false;
    int64_t dram = 0, words = 0;
    std::function<void(const WordVisitor &)> each_word;
};

// Words that the host writes before the program runs: tables of moves.
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
    std::map<std::string, double> needed;      // bytes of an input, where not all of it is read
    std::string l3, l2;                        // for people
    std::array<int64_t, memory_count> taken{}; // LW of each memory that were held at a time, at most
    void note_taken() {
        for (int m = 0; m < memory_count; m++) taken[size_t(m)] = std::max(taken[size_t(m)], planner.taken(Bank(m)));
    }

    // A place in DRAM, the same in each group, for a tensor in the order of a road, or row-major. The tensor is entered.
    int64_t take_dram(std::shared_ptr<const StagePlan> plan, std::shared_ptr<const Road> road, const std::string &name,
                      bool output);
    int64_t take_dram(std::shared_ptr<const DramOrder> order, const std::string &name, bool output);
    // Where a table with these entries stands in a group's DRAM.
    int64_t table(int group, const std::vector<uint32_t> &entries);
};

// A copy that place_in made for the stage, and where the unit finds it.
struct Copy {
    const StageState *stage = nullptr;
    Bank memory = Bank::Lm0;
    size_t at = 0; // position of the loop at which it is made
};

// What a read finds beyond an input: nothing that matters, zeros, or the nearest element.
enum class Border : uint8_t { None, Zeros, Nearest };

// The copies through which the stage reads `tensor`, the one that it reads first; the last is one of an input, whose name becomes
// `source`. Throws UserError where the stage reads an input itself, Unsupported for what else stands between.
// `packed`: the prepacked copy of the input, where there is one.
std::vector<Copy> copies_of(const ScheduleState &state, const StagePlan &plan, const std::string &tensor,
                            std::string &source, const StageState **packed = nullptr, Border *border = nullptr);
// How many of a copy are kept in turn. Throws Unsupported for more than `most`, of which the stage would make no use.
int kept(const Copy &copy, int most);
// The axes of an input as they lie in DRAM, outermost first: in order, or as prepack says. Throws Unsupported for blocks of axes.
std::vector<size_t> storage_order(const ScheduleState &state, const std::string &input, const StageState *packed);

// Words in L1BM and L2BM through which tiles pass.
struct Rings {
    Ring l1, l2;
    int64_t move = 0; // LW of L1BM in the tile's order that one move carries
};
// Deals what L1BM and L2BM have left to the roads that pass through them.
// `moves`: how many find room in L2BM at a time, for each of them; of results two at least.
std::vector<Rings> share_rings(Context &c, const std::vector<std::pair<const Road *, std::pair<bool, bool>>> &users,
                               int moves = 3);

// Brings tiles of an input to the units, when they are needed and not there yet.
class Loader {
public:
    // `copies` as copies_of gives them.
    Loader(Context &c, std::shared_ptr<const Road> road, std::vector<Copy> copies, int64_t dram, const StagePlan &plan);

    const Road &road() const { return *road_; }
    const Copy &copy() const { return copies_.front(); }
    bool through_l1() const { return copies_.front().memory != Bank::L1bm; }
    bool through_l2() const { return copies_.size() < 2; }
    void set_rings(const Rings &rings) { rings_ = rings; }

    // The tile for these values has a place from now on. Its words are brought when they are first needed, in order, so that the
    // roads of several operands take turns.
    void ensure(const Values &values);
    // The words of the accesses up to and with this one are there, or on their way.
    void need(int64_t access);
    // Where it begins, in the copy's memory; LM0 and LM1 count through.
    bool crosses_lm() const;                       // some copy stands partly in LM0, partly in LM1
    int64_t last_key() const { return last_key_; } // of the tile loaded last
    int64_t base() const { return slots_[size_t(current_)].at; }

private:
    struct Slot {
        int64_t at = 0, key = -1;
        int64_t used = 0;   // when last
        int64_t loaded = 0; // words, in L1BM's order
    };
    Context &c_;
    std::shared_ptr<const Road> road_;
    std::vector<Copy> copies_;
    int64_t dram_;
    Rings rings_;
    std::vector<Slot> slots_, l2_slots_;
    int64_t as_it_came_ = 0; // where a transposed tile stands first
    int64_t between_ = 1;    // tiles of a unit in one of L2BM
    int current_ = 0;
    int64_t clock_ = 0, last_key_ = 0;

    int find(std::vector<Slot> &slots, int64_t key, bool &there);
    void load(Slot &slot, int64_t until);
};

// The reads of tensors in an expression, in order, each shared one once.
std::vector<Expr> reads_in(const Expr &e);
// The same, each as often as it stands, with the cast that stands directly around it.
std::vector<Expr> reads_with_casts(const Expr &e);

// The operand that reads four words of LM0 and LM1, counted through, or writes them.
sim::Operand lm_operand(const sim::Config &config, int64_t at, int64_t stride);

// Carries a part of the tile of a result away: `gather` places the operation that brings the words of accesses [4n, 4n + 4), word w, from the
// units to L1BM at the address given.
// It goes in parts, one move of each L2B; [0, store_parts) are all. Brings it to L2BM; what places the moves has to be called for all
// groups before the ring comes round to the same words: store_ahead parts later at most.
struct StoredPart {
    int64_t l2bm, words; // of an L2B
    std::function<void(uint32_t groups)> place;
};
StoredPart store_part(Context &c, const Road &road, Rings &rings, int64_t dram, int64_t key, int64_t part,
                      const std::function<void(int64_t n, int w, int64_t l1bm)> &gather);
inline int64_t store_ahead(const Road &r, const Rings &rings) {
    return rings.l2.words() / (rings.move / r.chunk() * r.l2_chunk()) - 1;
}
int64_t store_parts(const Road &road, const Rings &rings);

} // namespace kumiko::chip

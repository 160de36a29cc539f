// Where the words of a tensor lie in DRAM: row-major, the last axis contiguous. A row is padded to whole blocks of 64 LW, the unit
// of moves, so that rows and blocks of rows are strided blocks for a move. Rows go to the groups in turns, 16 at a time (fewer where
// there are few): neighbouring tiles of a matrix come from different groups, and each group has a share of every part. A tensor of
// one axis is cut into rows of one block.
//
// The place depends on the tensor's shape alone, so what one stage writes another may read. Padding is zero, and at least one
// whole row of zeros stands behind the last: what reads beyond a tensor reads that row.
#pragma once

#include "sim/config.h"

#include <functional>
#include <vector>

namespace kumiko::chip {

struct DramPlace {
    int group = 0;
    int64_t address = 0; // LW, from the tensor's first word
    bool operator==(const DramPlace &) const = default;
};

// Calls with each word: its group, its address from the tensor's first, for each of its elements the offset in the row-major array
// that the host has, or −1 for padding.
using WordVisitor = std::function<void(int group, int64_t word, const std::vector<int64_t> &elements)>;

class DramOrder {
public:
    // `extents`: of the host's array. `order`: its axes as they lie in DRAM, outermost first. Elements of 2 or 4 bytes. `pitch`: rows
    // are padded to a multiple of it, of so many LW, a multiple of 64; for what no other stage reads.
    DramOrder(std::vector<int64_t> extents, int element_bytes, const sim::Config &config, std::vector<size_t> order,
              int64_t pitch = 64);

    const std::vector<size_t> &order() const { return order_; }
    bool one_axis() const { return order_.size() < 2; }
    int64_t per_word() const { return per_word_; }     // elements
    int64_t pitch() const { return pitch_; }           // LW of a row; of one axis: of all
    int64_t rows() const { return rows_; }             // rows with elements, over all outer axes; of one axis: 1
    int64_t words() const { return words_; }           // of each group
    int64_t together() const { return together_; }     // neighbouring rows, or blocks of one axis, of a group
    void take_more(int64_t words) { words_ += words; } // behind it, for what has no place
    // The row of these indices (of the host's axes; the last in order is not looked at); that of zeros when one is outside.
    int64_t row(const std::vector<int64_t> &index) const;
    int64_t zero_row() const { return rows_; }
    DramPlace place(int64_t row, int64_t word) const; // word < pitch()

    void each_word(const WordVisitor &visit) const;
    std::string to_string() const;

private:
    std::vector<int64_t> extents_;
    std::vector<size_t> order_;
    int groups_;
    int64_t per_word_, length_, pitch_, rows_, together_, words_;
};

// Blocks of 64 LW of DRAM, in the order in which they lie in L2BM, as few strided moves.
struct BlockRun {
    DramPlace at;
    int64_t first = 0;           // position of its first block in the list
    int64_t count = 1, size = 1; // pieces, and blocks in each
    int64_t stride = 0;          // LW from piece to piece
    int64_t blocks() const { return count * size; }
};
std::vector<BlockRun> join_blocks(const std::vector<DramPlace> &blocks);

} // namespace kumiko::chip

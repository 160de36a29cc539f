// The DRAM layout of a tensor: row-major, the last axis contiguous. A row is padded to whole blocks
// of 64 LW, the unit of moves, so that rows and blocks of rows are strided blocks of a move. Rows
// are distributed to the groups round-robin, 16 at a time (fewer for small tensors), so
// neighbouring tiles of a matrix come from different groups, and each group holds a share of every
// part. A tensor of one axis is split into rows of one block.
//
// The layout depends on the tensor's shape only, so one stage may read what another writes. Padding
// is zero, and at least one row of zeros follows the last row; out-of-bounds reads use it.
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

// Calls the visitor with each word: its group, its address relative to the tensor, and for each of
// its elements the offset in the host's row-major array, or −1 for padding.
using WordVisitor = std::function<void(int group, int64_t word, const std::vector<int64_t> &elements)>;

class DramOrder {
public:
    // `extents` are the host array's. `order` lists its axes as stored in DRAM, outermost first.
    // Elements have 2 or 4 bytes. Rows are padded to a multiple of `pitch` LW, a multiple of 64,
    // which may differ from 64 only for tensors that no other stage reads.
    DramOrder(std::vector<int64_t> extents, int element_bytes, const sim::Config &config, std::vector<size_t> order,
              int64_t pitch = 64);

    const std::vector<size_t> &order() const { return order_; }
    bool one_axis() const { return order_.size() < 2; }
    int64_t per_word() const { return per_word_; } // elements
    int64_t pitch() const { return pitch_; }       // LW of a row; with one axis: of the tensor
    // Rows with elements, over all outer axes; with one axis: 1.
    int64_t rows() const { return rows_; }
    int64_t words() const { return words_; } // of each group
    // The number of consecutive rows (with one axis: blocks) in one group.
    int64_t together() const { return together_; }
    void take_more(int64_t words) { words_ += words; } // scratch space behind the tensor
    // The row of these indices (of the host's axes; the last in `order` is ignored); the zero row
    // if one is out of bounds.
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

// Blocks of 64 LW of DRAM, in the order in which L2BM holds them, as few strided moves.
struct BlockRun {
    DramPlace at;
    int64_t first = 0;           // position of its first block in the list
    int64_t count = 1, size = 1; // pieces, and blocks per piece
    int64_t stride = 0;          // LW from piece to piece
    int64_t blocks() const { return count * size; }
};
std::vector<BlockRun> join_blocks(const std::vector<DramPlace> &blocks);

} // namespace kumiko::chip

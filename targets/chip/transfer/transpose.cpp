#include "targets/chip/transfer/transpose.h"

#include "targets/chip/move/move.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

namespace {

// Sorts a move that writes one face while it reads the one before: the reads of a face directly
// after its writes. Program order is the packer's priority, and reads make room for the next tile.
std::vector<MicroOp> face_by_face(std::vector<MicroOp> ops) {
    struct Keyed {
        int face;
        bool reads;
        MicroOp op;
    };
    std::vector<Keyed> all;
    int written = -1, read = -1;
    for (MicroOp &op : ops) {
        const sim::Word &w = op.word();
        written += w.mw.on && w.mw.part == 0;
        read += w.mr.on && w.mr.part == 0;
        const bool reads = w.mr.on;
        all.push_back({reads ? read : written, reads, std::move(op)});
    }
    std::stable_sort(all.begin(), all.end(), [](const Keyed &a, const Keyed &b) {
        return a.face != b.face ? a.face < b.face : a.reads < b.reads;
    });
    ops.clear();
    for (Keyed &k : all) ops.push_back(std::move(k.op));
    return ops;
}

} // namespace

std::vector<MicroOp> plan_transposition(const TransposedTile &tile, const sim::Config &config) {
    const int size = sim::pes_per_mab * tile.per_word;
    const ElementType type = tile.per_word == 4 ? ElementType::F16 : ElementType::F32;
    const int64_t run = tile.faces * size; // words
    const std::string lanes = fmt::format("(4_PE:1, {}_W:1)", tile.per_word);
    const Layout from = Layout::parse(
        fmt::format("(({}:{}), ({}:1), ({}:{}), {})", tile.runs, run, tile.faces, size, tile.faces, lanes), type);
    const Layout to = Layout::parse(
        fmt::format("(({}:{}), ({}:{}), {}, ({}:1))", tile.runs, run, tile.faces, size, lanes, size), type);
    // All MABs do the same.
    sim::Config one = config;
    one.groups = one.l2bs = one.l1bs = one.mabs = 1;
    return face_by_face(plan_move({Memory::Lm0, from, 0}, {Memory::Lm1, to, 0}, Scratch{}, one).ops);
}

} // namespace kumiko::chip

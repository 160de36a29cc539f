#include "targets/chip/stage/row_product_columns.h"

#include "dsl/types.h"

#include <algorithm>
#include <numeric>

namespace kumiko::chip {

using namespace sim;

// The operand for rows of a matrix in LM: four cycles, with one word of each PE for a row.
Operand MatrixFaces::rows_at(int64_t at) const { return lm_operand(c_.config, at, 2); }

void MatrixFaces::write(int64_t at) {
    const int64_t rows = f_.sides > 1 ? 4 : 8; // per step
    for (int64_t h = 0; h < f_.side / rows; h++) {
        MicroOp m;
        MatrixWrite mw;
        mw.on = true;
        mw.precision = f_.single ? sim::Type::F32 : sim::Type::F16;
        mw.face = uint8_t(face_);
        mw.part = uint8_t(h);
        mw.width = uint8_t(rows / 4);
        mw.from = m.read(rows_at(at + 8 * h));
        m.word().mw = mw;
        c_.packer.place(m);
    }
}

void ProductColumns::require(ColumnPanel &panel, int64_t block, int64_t piece) {
    while (!panel.loaded[size_t(block)][size_t(piece)]) pending_.empty() ? load_next(panel) : transfer_next();
}

void ProductColumns::transfer_all() {
    while (!pending_.empty()) transfer_next();
}

void ProductColumns::transfer_next() {
    pending_.front()();
    pending_.pop_front();
}

int64_t PieceColumns::loads_until(int64_t blocks) const {
    return ceil_div(blocks, m_.w_blocks) * m_.early_pieces(f_).count();
}

// Starts loading blocks [block, block + w_blocks) of the matrices of one piece. One L1B at a time,
// so that moves are short and come from all groups round-robin; a scatter then serves all L1Bs.
// During computation, when L2 time is scarce, two at a time: one for each half of the L1Bs, from
// different groups if possible.
PieceColumns::PendingLoad PieceColumns::begin_load(ColumnPanel &panel, int64_t block, int64_t piece, bool late) {
    // The very first moves are shorter, so that they arrive sooner.
    const int64_t most = !panel.first && !block && !piece ? 8 : f_.side;
    PendingLoad c{panel,
                  block,
                  std::min(m_.w_blocks, f_.blocks - block),
                  piece,
                  late ? m_.late_loads : m_.w_loads,
                  late ? m_.late_l1 : m_.l1_loads,
                  0,
                  std::min(late ? m_.l1_rows : m_.w_rows, most),
                  std::min(m_.l1_rows, most),
                  std::vector<int64_t>(size_t(f_.l1bs * f_.of_piece)),
                  std::vector<int64_t>(static_cast<size_t>(f_.of_piece)),
                  {},
                  {}};
    for (int64_t part = 0; part < f_.l1bs * f_.of_piece; part++)
        c.groups.push_back(f_.w.order->place(column_classes(c, part, 0, 1).front().rows.front(), 0).group);
    const auto group = [&](int64_t part) { return c.groups[size_t(part)]; };
    if ((m_.spilled_tiles || late) && f_.l1bs % 2 == 0 &&
        c.loads.words() >= 4 * f_.of_piece * c.w_rows * m_.w_blocks * block_words) {
        const int64_t half = f_.l1bs / 2;
        std::vector<int64_t> others(static_cast<size_t>(half));
        std::iota(others.begin(), others.end(), half);
        for (int64_t l = 0; l < half; l++) {
            auto other = std::find_if(others.begin(), others.end(),
                                      [&](int64_t o) { return group(o * f_.of_piece) != group(l * f_.of_piece); });
            if (other == others.end()) other = others.begin();
            c.batches.emplace_back();
            for (int64_t e = 0; e < f_.of_piece; e++)
                c.batches.back().insert(c.batches.back().end(), {l * f_.of_piece + e, *other * f_.of_piece + e});
            others.erase(other);
        }
        return c;
    }
    std::vector<int64_t> before(size_t(c_.config.groups)), turn;
    for (int64_t part = 0; part < f_.l1bs * f_.of_piece; part++) {
        c.batches.push_back({part});
        turn.push_back(before[size_t(group(part))]++);
    }
    std::stable_sort(c.batches.begin(), c.batches.end(),
                     [&](const auto &a, const auto &b) { return turn[size_t(a[0])] < turn[size_t(b[0])]; });
    return c;
}

// Rows [begin, begin + n) of a matrix of an L1B.
std::vector<L2bRows> PieceColumns::column_classes(const PendingLoad &c, int64_t part, int64_t begin, int64_t n) const {
    return f_.classes(f_.tiles[c.panel.first], [&](Values &values, L2bRows &made) {
        const ProductForm::Matrix &matrix = f_.of_l1b[size_t(c.piece * f_.of_piece + part % f_.of_piece)];
        f_.set_tile(values, matrix.number);
        f_.plan->set_unit(values, Tier::Mab, int(matrix.side));
        f_.plan->set_unit(values, Tier::L1b, int(part / f_.of_piece));
        for (values[f_.row] = begin; values[f_.row] < begin + n; values[f_.row]++)
            made.rows.push_back(f_.w.row(values));
    });
}

// Transfers the current rows of one matrix of one L1B, or of pairs of them, to L1BM.
void PieceColumns::transfer_to_l1(PendingLoad &c, const std::vector<int64_t> &parts) {
    std::vector<int64_t> loads = parts;
    std::stable_sort(loads.begin(), loads.end(),
                     [&](int64_t a, int64_t b) { return c.groups[size_t(a)] < c.groups[size_t(b)]; });
    for (const int64_t part : loads) {
        if (c.begin % c.w_rows) continue;
        c.l2bm[size_t(part)] = c.loads.next(c.w_rows * c.count * block_words);
        moves_.load(f_.w, column_classes(c, part, c.begin, c.w_rows), c.block, c.count, c.l2bm[size_t(part)]);
    }
    for (size_t p = 0; p < parts.size(); p += 2) {
        const bool two = p + 1 < parts.size();
        for (int64_t x = 0; x < c.l1_rows * c.count; x++) {
            const int64_t row = (c.begin % c.w_rows * c.count + x) * block_words;
            L2 s;
            s.op = two ? L2Op::Broadcast2 : L2Op::UnicastDown;
            s.child = two ? 0 : uint8_t(parts[p] / f_.of_piece);
            if (two) s.l1bs = 1u << parts[p] / f_.of_piece | 1u << parts[p + 1] / f_.of_piece;
            if (two) s.second.at = uint16_t(c.l2bm[size_t(parts[p + 1])] + row);
            // Rows of a block are adjacent.
            moves_.l2_step(s, c.l2bm[size_t(parts[p])] + row,
                           c.l1bm[size_t(parts[p] % f_.of_piece)] +
                               (x % c.count * c.l1_rows + x / c.count) * block_words);
        }
    }
}

// Distributes the current rows of a matrix, of all L1Bs, to LM.
void PieceColumns::distribute_matrix(const PendingLoad &c, int64_t e) {
    const ProductForm::Matrix &matrix = f_.of_l1b[size_t(c.piece * f_.of_piece + e)];
    for (int64_t b = 0; b < c.count; b++) {
        for (int64_t r = 0; r < c.l1_rows; r += f_.rows_of_step) {
            for (int64_t h = 0; h < f_.sets_of_block; h += f_.sets_of_step) {
                const int64_t first = (c.block + b) * f_.sets_of_block + h;
                if (first >= f_.sets) break;
                moves_.distribute(
                    c.l1bm[size_t(e)] + (b * c.l1_rows + r) * block_words + h * f_.distribution,
                    [&](int64_t row, int64_t set) {
                        return f_.face_at(c.panel, matrix.number, first + set) +
                               (c.begin + r + row) * (f_.sides > 1 ? 2 : 1);
                    },
                    true, f_.mabs_of(matrix.side));
            }
        }
    }
}

void PieceColumns::mark_loaded(const PendingLoad &c) {
    for (int64_t b = c.block; b < c.block + c.count; b++) c.panel.loaded[size_t(b)][size_t(c.piece)] = true;
}

void PieceColumns::load_piece(ColumnPanel &panel, int64_t block, int64_t piece) {
    PendingLoad c = begin_load(panel, block, piece, false);
    for (; c.begin < f_.side; c.begin += c.l1_rows) {
        for (int64_t &at : c.l1bm) at = c.l1_loads.next(c.l1_rows * c.count * block_words);
        for (const std::vector<int64_t> &parts : c.batches) transfer_to_l1(c, parts);
        for (int64_t e = 0; e < f_.of_piece; e++) distribute_matrix(c, e);
    }
    mark_loaded(c);
}

// In short steps.
void PieceColumns::queue_late(ColumnPanel &panel) {
    for (int64_t block = 0; block < f_.blocks; block += m_.w_blocks) {
        for (int64_t piece = m_.late_pieces(f_).begin; piece < m_.late_pieces(f_).end; piece++) {
            const auto c = std::make_shared<PendingLoad>(begin_load(panel, block, piece, true));
            for (int64_t begin = 0; begin < f_.side; begin += c->l1_rows) {
                pending_.emplace_back([this, c, begin] {
                    c->begin = begin;
                    for (int64_t &at : c->l1bm) at = c->l1_loads.next(c->l1_rows * c->count * block_words);
                });
                for (const std::vector<int64_t> &parts : c->batches)
                    pending_.emplace_back([this, c, &parts] { transfer_to_l1(*c, parts); });
                for (int64_t e = 0; e < f_.of_piece; e++)
                    pending_.emplace_back([this, c, e] { distribute_matrix(*c, e); });
            }
            pending_.emplace_back([this, c] { mark_loaded(*c); });
        }
    }
    late_steps_ = int64_t(pending_.size()), late_groups_ = 0;
}

void PieceColumns::share_late() {
    const int64_t groups = (m_.before_late - 1) * ceil_div(f_.sets, f_.sets_of_step);
    late_groups_++;
    while (!pending_.empty() && (late_steps_ - int64_t(pending_.size())) * groups < late_steps_ * late_groups_)
        transfer_next();
}

void PieceColumns::load_next(ColumnPanel &panel) {
    const int64_t pieces = m_.early_pieces(f_).count(), number = int64_t(panel.loads_done++);
    load_piece(panel, number / pieces * m_.w_blocks, number % pieces);
}

int64_t AcrossColumns::loads_until(int64_t blocks) const { return blocks * (f_.pieces / f_.chunk_pieces); }

void AcrossColumns::load_next(ColumnPanel &panel) {
    const int64_t chunks = f_.pieces / f_.chunk_pieces, number = int64_t(panel.loads_done++);
    load_across(panel, number / chunks, number % chunks);
}

void AcrossColumns::load_across(ColumnPanel &panel, int64_t block, int64_t chunk) {
    // Pieces of 8 LW of an L1B.
    const int64_t first = chunk * f_.chunk_pieces, units = 16 * f_.chunk_pieces;
    const int64_t end = std::min(f_.sets, (block + 1) * f_.sets_of_block);
    const int64_t K = f_.plan->extent_of(f_.stage.def.reduction_axes.front());
    for (int64_t s = block * f_.sets_of_block; s < end; s++) {
        bool zeros = false;
        for (int64_t m = 0; m < f_.mabs && !zeros; m++) {
            zeros = (s * f_.mabs + m) * 16 >= K; // for this MAB and all later ones
            const auto all = f_.classes(f_.tiles[panel.first], [&](Values &values, L2bRows &c) {
                f_.set_tile(values, first * f_.of_piece);
                c.word = f_.w.last(values) / f_.w.order->per_word();
                std::vector<int64_t> index;
                for (const Affine &a : f_.w.access.index) index.push_back(a.at(values));
                for (int64_t i = 0; i < 16; i++) {
                    index[f_.w.k] = (s * f_.mabs + m) * 16 + i;
                    c.rows.push_back(f_.w.order->row(index));
                }
            });
            const int64_t l2bm = m_.w_loads.next(units * 8 * f_.l1bs), l1bm = m_.l1_loads.next(units * 8);
            moves_.load(f_.w, all, 0, units / 16 * 8 * f_.l1bs / block_words, l2bm);
            for (int64_t u = 0; u < units; u += cycles_per_step) {
                L2 slot;
                slot.op = L2Op::Scatter;
                moves_.l2_step(slot, l2bm + u * 8 * f_.l1bs, l1bm + u * 8);
            }
            for (int64_t u = 0; u < units; u += 2) {
                std::array<int, 4> at;
                for (int64_t i = 0; i < 4; i++) {
                    const int64_t row = (u + i / 2) / f_.chunk_pieces, piece = first + (u + i / 2) % f_.chunk_pieces;
                    at[size_t(i)] = int(f_.face_at(panel, piece * f_.of_piece + i % 2, s) + row);
                }
                moves_.to_pes(L1Op::MabBroadcast, 1, l1bm + u * 8, at, true,
                              zeros ? (1u << f_.mabs) - (1u << m) : 1u << m);
            }
        }
        for (int64_t t = first * f_.of_piece; t < (first + f_.chunk_pieces) * f_.of_piece; t++, faces_.next()) {
            const int64_t at = f_.face_at(panel, t, s);
            faces_.write(at);
            for (int h = 0; h < 2; h++) {
                MicroOp m;
                MatrixRead &mr = m.word().mr;
                mr.on = true;
                mr.face = uint8_t(faces_.current()), mr.part = uint8_t(h);
                mr.to = m.write(faces_.rows_at(at + 8 * h));
                c_.packer.place(m);
            }
        }
    }
    for (int64_t p = first; p < first + f_.chunk_pieces; p++) panel.loaded[size_t(block)][size_t(p)] = true;
}

std::unique_ptr<ProductColumns> make_columns(Context &c, const ProductForm &form, ProductMemory &memory,
                                             MatrixFaces &faces) {
    if (form.parts > 1) return std::make_unique<HalvesColumns>(c, form, memory);
    if (form.w.across) return std::make_unique<AcrossColumns>(c, form, memory, faces);
    return std::make_unique<PieceColumns>(c, form, memory);
}

} // namespace kumiko::chip

// The epilogue of a row product: registers, operands, and the vector program.
#include "targets/chip/stage/row_product_epilogue.h"

#include "dsl/types.h"
#include "support/error.h"
#include "targets/chip/stage/epilogue_program.h"

#include <algorithm>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

Operand words_in(Bank bank, int64_t at, int stride) {
    return bank == Bank::Lm1    ? lm1(int(at), stride)
           : bank == Bank::Grf1 ? grf1(int(at), stride)
                                : grf0(int(at), stride);
}

} // namespace

void ProductEpilogue::begin(const ScheduleState &state) {
    c_.planner.take(Bank::Grf0, f_.sum_words * f_.vectors * f_.matrices, "sums of " + f_.stage.name());
    if (f_.narrows || f_.epilogue.defined() || f_.sides > 1) take_registers();
    take_operands(state);
    Planner &plan = c_.planner;
    const int64_t words = int64_t(operands_.size()) * (f_.narrows ? 4 : 8);
    if (words) {
        if (plan.free_words(Bank::Grf1) >= words + m_.set_words + 24) operands_bank_ = Bank::Grf1;
        operands_ring_ = Ring(plan.take(operands_bank_, words, "epilogue operands"), words);
    }
    if (!f_.epilogue.defined() && !f_.narrows) return;
    std::array<RegisterRange, 2> registers;
    for (int b = 0; b < 2 && f_.epilogue.defined(); b++) {
        const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
        const int64_t free = plan.free_words(bank) - (b ? m_.set_words : 0), size = std::clamp<int64_t>(free, 8, 96);
        registers[size_t(b)] = {int(plan.take(bank, size, "epilogue values of " + f_.stage.name())), int(size)};
    }
    const std::string who = "the epilogue of stage " + f_.stage.name();
    code_ = std::make_unique<VectorEmitter>(c_.packer, who, registers, f_.narrows);
    std::vector<Expr> reads;
    for (const EpilogueOperand &o : operands_) reads.push_back(o.read);
    const Expr value = f_.epilogue.defined() && f_.narrows ? f_.finished->def.value : f_.epilogue;
    program_ = epilogue_program(value, f_.stage.name(), reads, who);
}

void ProductEpilogue::take_registers() {
    Planner &plan = c_.planner;
    const int64_t words = 2 * f_.slots * (plan.free_words(Bank::Grf1) >= 4 * f_.slots + 4 * m_.set_words ? 2 : 1);
    // GRF1 must first hold two buffers of vectors.
    if (m_.complete >= 0)
        registers_bank_ = Bank::Lm1;
    else if (plan.free_words(Bank::Grf1) < words + 2 * m_.set_words && plan.free_words(Bank::Grf0) >= words)
        registers_bank_ = Bank::Grf0;
    registers_ = Ring(plan.take(registers_bank_, words, "joined sums"), words);
}

void ProductEpilogue::take_operands(const ScheduleState &state) {
    for (const Expr &e : f_.epilogue.defined() ? reads_with_casts(f_.epilogue) : std::vector<Expr>()) {
        const ir::Cast *cast = e.as<ir::Cast>();
        const Expr read = cast ? cast->value : e;
        const std::string tensor = read.as<ir::Call>()->name;
        if (tensor == f_.stage.name()) continue;
        if (!state.is_input(tensor))
            throw Unsupported("the end of " + f_.stage.name() + " reads " + tensor + ", which another stage computes");
        if (read.type() != f_.type || (cast && cast->type != f32))
            throw Unsupported("the end of " + f_.stage.name() + " reads elements of " + type_name(read.type()) +
                              "; those of the result's type, " + type_name(f_.type) + ", are supported");
        if (std::any_of(operands_.begin(), operands_.end(),
                        [&](const EpilogueOperand &o) { return ir::equal(o.read, read); }))
            continue;
        EpilogueOperand o;
        o.read = read;
        const TensorAccess access = f_.plan->access(state, read);
        std::vector<size_t> order(access.index.size());
        std::iota(order.begin(), order.end(), 0);
        const Affine &last = access.index.back(), &own = f_.y.access.index.back();
        if (last.coefficients != own.coefficients || last.constant != own.constant)
            throw Unsupported("the end of " + f_.stage.name() + " reads " + tensor +
                              " at another last index than its own; rows of columns are supported");
        o.view = dram_view(c_, access, tensor, false, order);
        operands_.push_back(std::move(o));
    }
}

void ProductEpilogue::load(const Values &tile) {
    for (EpilogueOperand &o : operands_) {
        o.l2bm = m_.epilogue_loads.next(f_.vectors * f_.row_words);
        const auto all = f_.classes(tile, [&](Values &values, L2bRows &c) {
            c.word = o.view.last(values) / o.view.order->per_word();
            for (int64_t v = 0; v < f_.vectors; v++) {
                values[f_.vector] = v;
                c.rows.push_back(o.view.row(values));
            }
        });
        const bool whole = f_.row_words % block_words == 0;
        const int64_t unit = whole ? block_words : c_.config.moves.granule;
        std::vector<Mv> moves;
        for (const L2bRows &c : all) {
            std::vector<DramPlace> list;
            for (const int64_t r : c.rows) {
                // Words beyond the row are not stored.
                for (int64_t w = c.word; w < c.word + f_.row_words; w += unit)
                    list.push_back(o.view.order->place(r, w < o.view.order->pitch() ? w : 0));
            }
            if (!whole) {
                moves_.granules(o.view, list, o.l2bm, c.l2bs, false, moves);
                continue;
            }
            for (const BlockRun &run : join_blocks(list)) {
                Mv m = moves_.between(c.l2bs, run.at.group, false);
                m.address = uint32_t(o.view.dram + run.at.address);
                m.blocks = uint16_t(run.count);
                m.size = uint16_t(run.size);
                m.stride = int32_t(run.stride);
                m.l2bm = uint16_t(o.l2bm + run.first * block_words);
                moves.push_back(m);
            }
        }
        c_.packer.place(moves);
    }
}

// Loads the words of an operand for four words of every MAB: pieces from `piece` on, in the
// arrangement of the sums.
void ProductEpilogue::load_pieces(int64_t piece) {
    for (EpilogueOperand &o : operands_) load_epilogue(o, piece);
}

Operand ProductEpilogue::joined(int64_t at, int stride) const { return words_in(registers_bank_, at, stride); }

void ProductEpilogue::load_epilogue(EpilogueOperand &o, int64_t piece) {
    const int64_t pieces = f_.narrows ? 2 * f_.mabs : cycles_per_step;
    const int64_t l1bm = m_.l1_loads.next(f_.epilogue_words());
    for (int64_t i = 0; i < pieces; i += cycles_per_step) {
        L2 s;
        s.op = L2Op::Scatter;
        moves_.l2_step(s, o.l2bm + (piece + i) * 8 * f_.l1bs, l1bm + i * 8);
    }
    const int width = f_.narrows ? 1 : 2;
    o.here = words_in(operands_bank_, operands_ring_.next(cycles_per_step * width), width);
    MicroOp m;
    m.word().l1.op = f_.narrows ? L1Op::Scatter : L1Op::MabBroadcast;
    m.word().l1.width = uint8_t(width);
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(o.here);
    c_.packer.place(m);
}

// One of the words of an epilogue operand in a step.
Operand ProductEpilogue::read(const Operand &sums, int which, int word) const {
    return next_word(which ? operands_[size_t(which - 1)].here : sums, word);
}

// The epilogue in f32 on four reloaded rows of 8 LW: each PE has two words of each.
Operand ProductEpilogue::finished(const Operand &sums, int64_t piece) {
    load_pieces(piece);
    const Operand result = code_->take(2, 1);
    for (int word = 0; word < 2; word++)
        code_->run(
            program_, [&](int which, int) { return read(sums, which, word); },
            [&](int) { return next_word(result, word); });
    return result;
}

Operand ProductEpilogue::reload(int64_t l1bm, uint32_t mabs, int64_t at, int64_t stride) {
    const Operand to = joined(at, int(stride));
    MicroOp m;
    m.word().l1.op = L1Op::MabBroadcast;
    m.word().l1.width = 2;
    m.word().l1.mabs = mabs;
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(to);
    c_.packer.place(m);
    return to;
}

} // namespace kumiko::chip

// Stores the sums of a packed contraction: epilogue, assembly in L1BM, moves to DRAM.
#include "targets/chip/stage/contraction.h"
#include "targets/chip/stage/epilogue_program.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

// Epilogue operands are loaded to LM at the loop of the accumulators, double-buffered by tile.
void Contraction::begin_epilogue(const ScheduleState &state) {
    for (const Expr &e : reads_with_casts(epilogue_)) {
        const ir::Cast *cast = e.as<ir::Cast>();
        const Expr read = cast ? cast->value : e;
        const std::string tensor = read.as<ir::Call>()->name;
        if (tensor == stage_.name()) continue;
        if (!state.is_input(tensor))
            throw Unsupported("the end of " + stage_.name() + " reads " + tensor + ", which another stage computes");
        if ((read.type() != f32 && (read.type() != f16 || single_)) || (cast && cast->type != f32))
            throw Unsupported("the end of " + stage_.name() + " reads elements of " + type_name(read.type()) +
                              (single_ ? "; f32 is supported" : "; f16 and f32 are supported"));
        bool known = false;
        for (const EpilogueOperand &o : epilogue_operands_) known = known || ir::equal(o.read, read);
        if (known) continue;
        EpilogueOperand o;
        o.read = read;
        o.copy = std::make_shared<StageState>();
        o.copy->def.name = tensor + ".LM";
        o.copy->buffers = 2;
        TransferPathShape s;
        s.name = o.copy->def.name;
        s.access = plan_->access(state, read);
        s.type = read.type();
        s.form = Form::Result;
        s.single = single_;
        s.row = row_;
        for (const size_t t : time_) {
            if (s.access.depends(t)) (t <= accumulate_at_ ? s.keys : s.digits).push_back(t);
        }
        const auto path = std::make_shared<const TransferPath>(*plan_, c_.config, s);
        const int64_t dram = c_.take_dram(plan_, path, tensor, false);
        o.loader = std::make_unique<Loader>(c_, path, std::vector<Copy>{{o.copy.get(), Bank::Lm, accumulate_at_}}, dram,
                                            *plan_);
        epilogue_operands_.push_back(std::move(o));
    }
    std::array<RegisterRange, 2> registers;
    for (int b = 0; b < 2; b++) {
        const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
        const int64_t words = std::clamp<int64_t>(c_.planner.free_words(bank), 24, 96);
        registers[size_t(b)] = {int(c_.planner.take(bank, words, "epilogue values of " + stage_.name())), int(words)};
    }
    const std::string who = "the epilogue of stage " + stage_.name();
    code_ = std::make_unique<VectorEmitter>(c_.packer, who, registers, !single_);
    std::vector<Expr> reads;
    for (const EpilogueOperand &o : epilogue_operands_) reads.push_back(o.read);
    const bool cast = epilogue_value_.type() == f16;
    epilogue_program_ = epilogue_program(cast ? epilogue_value_ : epilogue_, stage_.name(), reads, who);
}

// The four words, or `part` of them, of an epilogue operand for the current four accesses.
Operand Contraction::epilogue_operand(const EpilogueOperand &o, int part) {
    const TransferPath &r = o.loader->path();
    o.loader->ensure(epilogue_values_[0]);
    PointAddresses at;
    int64_t last = 0;
    for (size_t t = 0; t < at.size(); t++) {
        at[t] = r.index(epilogue_values_[t]);
        last = std::max(last, at[t]);
    }
    o.loader->need(last);
    for (int64_t &a : at) a = o.loader->base() + (r.words() == 2 ? 2 * a + part : a);
    return words_at(c_.config, Bank::Lm, at);
}

// Unused entries of the last group of four repeat the last result.
Values Contraction::values_of_access(int64_t access) const {
    Values v = pending_->values;
    access = std::min(access, store_->accesses() - 1);
    const auto &digits = store_->shape().digits;
    for (size_t i = digits.size(); i-- > 0;) {
        v[digits[i]] = access % plan_->loops()[digits[i]].extent;
        access /= plan_->loops()[digits[i]].extent;
    }
    return v;
}

// Transfers the tile's next results to L1BM and on.
void Contraction::drain_part() {
    release_stores(store_ahead(*store_, store_rings_));
    auto store = store_part(c_, *store_, store_rings_, store_dram_, pending_->key, pending_->part,
                            [&](int64_t n, int w, int64_t l1bm) { gather(n, w, l1bm); });
    stores_.push_back({block_ + lag_, (1u << plan_->used(Tier::Group)) - 1, std::move(store)});
    if (++pending_->part == store_parts(*store_, store_rings_)) pending_.reset();
}

// Word w of the finished results of four accesses, from the PEs to L1BM. If each is one word, it is
// forwarded.
void Contraction::gather(int64_t n, int w, int64_t l1bm) {
    const bool bank = pending_->bank, one_word = store_->words() == 1;
    const int64_t at = sum_words_ * cycles_per_step * n;
    MicroOp m;
    L1 l1;
    l1.op = L1Op::Gather;
    l1.at.at = uint16_t(l1bm);
    if (epilogue_.defined() && one_word) {
        m = code_->run_to_last(epilogue_program_, epilogue_reader(n, bank));
        l1.from = VectorEmitter::forward(m);
        m.next();
    } else if (one_word && !single_) {
        Alu alu;
        alu.op = AluOp::Narrow;
        alu.type = sim::Type::F32;
        alu.a = m.read(sums(at, sum_words_, bank));
        m.word().alu = alu;
        m.next();
        l1.from = Source::Aluf;
    } else if (epilogue_.defined()) {
        if (w == 0) {
            epilogue_words_ = code_->take(2, 1);
            code_->run(epilogue_program_, epilogue_reader(n, bank),
                       [&](int part) { return next_word(*epilogue_words_, part); });
        }
        l1.from = m.read(next_word(*epilogue_words_, w));
    } else {
        l1.from = m.read(sums(at + w, sum_words_, bank));
    }
    m.word().l1 = l1;
    c_.packer.place(m);
    if (epilogue_words_ && w == 1) {
        code_->give_back(*epilogue_words_);
        epilogue_words_.reset();
    }
}

// The reads of the epilogue for four accesses: their sums and the other operands.
std::function<Operand(int, int)> Contraction::epilogue_reader(int64_t n, bool bank) {
    for (int64_t t = 0; t < cycles_per_step; t++)
        epilogue_values_[size_t(t)] = values_of_access(n * cycles_per_step + t);
    return [this, bank, at = sum_words_ * cycles_per_step * n](int which, int part) {
        return which ? epilogue_operand(epilogue_operands_[size_t(which - 1)], part)
                     : sums(at + part, sum_words_, bank);
    };
}

} // namespace kumiko::chip

#include "targets/chip/vector/emit.h"

#include "sim/operations.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;
using Kind = VectorOp::Kind;

namespace {

// Whether one word cannot read both operands: they have the same port and different addresses, or
// are an immediate and in LM0.
bool clash(const Operand &a, const Operand &b) {
    if (a.source == b.source) return a.source == Source::Imm ? a.immediate != b.immediate : !(a.address == b.address);
    return (a.source == Source::Imm && b.source == Source::Lm0) || (a.source == Source::Lm0 && b.source == Source::Imm);
}

uint64_t filled(uint32_t bits, sim::Type t) {
    return bits_of(t) == 32 ? uint64_t(bits) << 32 | bits : uint64_t(bits & 0xffff) * 0x0001000100010001;
}

constexpr int allocation_words = 2 * cycles_per_step; // registers are allocated in this unit

int bank_of(const Operand &o) { return o.source == Source::Grf1; }

} // namespace

Operand next_word(Operand o, int words) {
    for (uint16_t &at : o.address.at) at = uint16_t(at + words);
    return o;
}

void pass(Packer &packer, const Operand &from, const Operand &to, int width) {
    MicroOp m;
    Alu u;
    u.op = AluOp::Pass;
    u.type = sim::Type::I32;
    u.width = uint8_t(width);
    u.a = m.read(from);
    u.to = m.write(to);
    m.word().alu = u;
    packer.place(m);
}

VectorEmitter::VectorEmitter(Packer &packer, std::string who, std::array<RegisterRange, 2> registers, bool four,
                             int first_mask)
    : packer_(packer), who_(std::move(who)), four_(four) {
    for (size_t b = 0; b < 2; b++) {
        for (int at = 0; at + allocation_words <= registers[b].words; at += allocation_words)
            free_[b].push_back(registers[b].at + at);
    }
    for (int m = first_mask; m < 16; m++) free_masks_.push_back(m);
}

Operand VectorEmitter::take(int parts, int bank) {
    size_t b = size_t(bank);
    if (free_[b].empty()) b ^= 1;
    if (free_[b].empty()) throw Unsupported(who_ + ": the expression has more intermediate values than registers");
    const int at = free_[b].front();
    free_[b].pop_front();
    return b ? grf1(at, parts) : grf0(at, parts);
}

void VectorEmitter::give_back(const Operand &o) { free_[size_t(bank_of(o))].push_back(o.address.at[0]); }

const VectorEmitter::Planned &VectorEmitter::planned(const VectorProgram &program) {
    size_t hash = 0;
    for (const VectorOp &op : program.ops)
        hash = hash * 31 + (size_t(op.bits) ^ size_t(op.kind) << 32 ^ size_t(op.alu) << 40 ^ size_t(op.mau) << 48);
    std::deque<Planned> &like = planned_[hash];
    for (const Planned &p : like) {
        if (p.program.ops == program.ops) return p;
    }
    Planned p;
    p.program = program;
    const size_t n = program.ops.size();
    p.bank.assign(n, -1);
    p.uses.assign(n, 0);
    p.choices.assign(n, 0);
    std::vector<std::vector<Id>> beside(n);
    for (const VectorOp &op : program.ops) {
        for (size_t i = 0; i < 3; i++) {
            if (op.from[i] < 0) continue;
            p.uses[size_t(op.from[i])]++;
            if (op.alu == AluOp::Select && op.kind == Kind::Alu && i == 2) {
                p.choices[size_t(op.from[i])]++;
                continue;
            }
            for (size_t j = 0; j < 3; j++) {
                if (j != i && op.from[j] >= 0 && op.from[j] != op.from[i])
                    beside[size_t(op.from[i])].push_back(op.from[j]);
            }
        }
    }
    int last = 1;
    for (size_t i = 0; i < n; i++) {
        if (program.ops[i].kind != Kind::Alu && program.ops[i].kind != Kind::Mau) continue;
        std::array<int, 2> met{};
        for (const Id other : beside[i]) {
            if (p.bank[size_t(other)] >= 0) met[size_t(p.bank[size_t(other)])]++;
        }
        p.bank[i] = met[0] == met[1] ? 1 - last : met[1] < met[0];
        last = p.bank[i];
    }
    like.push_back(std::move(p));
    return like.back();
}

Operand VectorEmitter::operand(Id id, int part) const {
    const VectorOp &op = plan_->program.ops[size_t(id)];
    if (op.kind == Kind::Read) return (*read_)(int(op.bits), part);
    if (op.kind == Kind::Number) return immediate(filled(op.bits, op.type));
    return next_word(*values_[size_t(id)].at, part);
}

// A constant in registers, in pairs of words, for operations that already have an immediate or read
// LM0. It is kept.
Operand VectorEmitter::constant(uint64_t bits, int bank) {
    const auto known = constants_.find({bits, bank});
    if (known != constants_.end()) return known->second;
    const Operand at = take(2, bank);
    pass(packer_, immediate(bits), at, 2);
    constants_[{bits, bank}] = at;
    return at;
}

// The GRF that no operand except `but` reads; −1 if there is none.
int VectorEmitter::free_bank(const std::vector<From> &from, const From &but) {
    std::array<bool, 2> taken{};
    for (const From &f : from) {
        if (&f != &but && f.at.source == Source::Grf0) taken[0] = true;
        if (&f != &but && f.at.source == Source::Grf1) taken[1] = true;
    }
    return !taken[0] ? 0 : !taken[1] ? 1 : -1;
}

// A second copy of a value in that GRF, as long as the value lives.
Operand VectorEmitter::copied(Id id, int part, int width, int bank) {
    Value &v = values_[size_t(id)];
    const int n = parts(plan_->program.ops[size_t(id)].type);
    if (bank < 0 || (v.copy ? bank_of(*v.copy) != bank : free_[size_t(bank)].empty()))
        throw Unsupported(who_ + ": an operation of three values for which the GRFs have no room");
    if (!v.copy) {
        v.copy = take(n, bank);
        pass(packer_, operand(id, 0), *v.copy, n);
    }
    return width == 2 ? *v.copy : next_word(*v.copy, n == 2 ? part : 0);
}

bool VectorEmitter::whole(Id id) const {
    const VectorOp &op = plan_->program.ops[size_t(id)];
    return op.kind == Kind::Mau ? op.of == sim::Type::F16 : op.alu == AluOp::Widen || op.alu == AluOp::Narrow;
}

MicroOp VectorEmitter::make(Id id, int part, bool both) {
    const VectorOp &op = plan_->program.ops[size_t(id)];
    std::vector<From> from; // its operands
    const bool select = op.kind == Kind::Alu && op.alu == AluOp::Select;
    const bool copy = op.kind == Kind::Read || op.kind == Kind::Number;
    for (size_t i = 0; i < (copy ? 1 : 3); i++) {
        const Id f = copy ? id : op.from[i];
        if (f < 0 || (select && i == 2)) continue;
        const bool two = parts(copy ? op.type : plan_->program.ops[size_t(f)].type) == 2;
        const bool together = both || whole(id);
        from.push_back({f, operand(f, together || !two ? 0 : part), two && together ? 2 : 1});
        if (both) from.back().width = 2;
    }
    MicroOp m;
    bool passed = false; // one operand comes from the ALU's forward
    for (size_t i = 0; i < from.size(); i++) {
        for (size_t j = 0; j < i; j++) {
            if (!clash(from[i].at, from[j].at)) continue;
            const bool first = plan_->program.ops[size_t(from[j].id)].kind == Kind::Number;
            From &moves = from[first ? j : i]; // a constant if there is one
            const int bank = free_bank(from, moves);
            const bool number = plan_->program.ops[size_t(moves.id)].kind == Kind::Number;
            if (number && bank >= 0 && (constants_.count({moves.at.immediate, bank}) || !free_[size_t(bank)].empty())) {
                moves.at = constant(moves.at.immediate, bank);
            } else if (!passed) {
                Alu u;
                u.op = AluOp::Pass;
                u.type = sim::Type::I32;
                u.width = uint8_t(moves.width);
                u.a = m.read(moves.at);
                m.word().alu = u;
                m.next();
                moves.at = aluf();
                passed = true;
            } else {
                moves.at = copied(moves.id, part, moves.width, bank);
            }
        }
    }
    if (op.kind == Kind::Mau) {
        Mau u;
        u.op = op.mau;
        u.precision = op.of;
        u.negate = op.negate;
        u.narrow_c = op.narrow_c;
        u.narrow_y = op.type == sim::Type::F16;
        size_t next = 0;
        u.a = m.read(from[next].at), next++;
        if (op.from[1] >= 0) u.b = m.read(from[next].at), next++;
        if (op.from[2] >= 0) u.c = m.read(from[next].at), next++;
        m.word().mau = u;
        return m;
    }
    Alu u;
    u.op = copy ? AluOp::Pass : op.alu;
    u.type = copy ? sim::Type::I32 : op.of;
    u.width = both ? 2 : 1;
    u.a = m.read(from[0].at);
    if (from.size() > 1) u.b = m.read(from[1].at);
    if (is_comparison(op)) {
        if (const int mask = values_[size_t(id)].masks[size_t(part)]; mask >= 0) u.mask = uint8_t(mask);
    }
    if (select) {
        const int mask = values_[size_t(op.from[2])].masks[size_t(part)];
        m.word().mask.mode = MaskMode::Select;
        m.word().mask.entry = uint8_t(mask);
    }
    m.word().alu = u;
    return m;
}

void VectorEmitter::finish(Id id) {
    for (const Id f : plan_->program.ops[size_t(id)].from) {
        if (f < 0) continue;
        Value &v = values_[size_t(f)];
        if (--v.uses > 0) continue;
        for (std::optional<Operand> *at : {&v.at, &v.copy}) {
            if (*at) give_back(**at);
            at->reset();
        }
        for (int &mask : v.masks) {
            if (mask >= 0) free_masks_.push_back(mask);
            mask = -1;
        }
    }
}

// An LM has one port, so no operation reads and writes it, or uses LM0 together with an immediate.
bool VectorEmitter::shares_port(Id id, const Operand &to) const {
    const VectorOp &op = plan_->program.ops[size_t(id)];
    const auto shares = [&](const Operand &from) {
        return (to.source == Source::Lm0 || to.source == Source::Lm1) &&
               (from.source == to.source || (from.source == Source::Imm && to.source == Source::Lm0));
    };
    if (op.kind == Kind::Read || op.kind == Kind::Number) return shares(operand(id, 0));
    return std::any_of(op.from.begin(), op.from.end(), [&](Id f) {
        const bool valued = f >= 0 && (plan_->program.ops[size_t(f)].kind == Kind::Read ||
                                       plan_->program.ops[size_t(f)].kind == Kind::Number);
        return valued && shares(operand(f, 0));
    });
}

// Places an operation with its result in registers or at its destination.
void VectorEmitter::place(Id id, const Place *to) {
    const VectorOp &op = plan_->program.ops[size_t(id)];
    Value &v = values_[size_t(id)];
    const int n = parts(op.type);
    if (to && shares_port(id, (*to)(0))) { // through registers
        const Operand between = take(n, 0);
        const Place there = [&](int part) { return next_word(between, part); };
        place(id, &there);
        MicroOp m;
        Alu u;
        u.op = AluOp::Pass;
        u.type = sim::Type::I32;
        u.width = uint8_t(n);
        u.a = m.read(between);
        u.to = m.write((*to)(0));
        m.word().alu = u;
        packer_.place(m);
        give_back(between);
        return;
    }
    const int choices = plan_->choices[size_t(id)];
    if (choices > 0) {
        for (int p = 0; p < n; p++) {
            if (free_masks_.empty())
                throw Unsupported(who_ + ": the expression has more selects than there are mask entries");
            v.masks[size_t(p)] = free_masks_.front();
            free_masks_.pop_front();
        }
    }
    const bool valued = to || choices < plan_->uses[size_t(id)];
    if (valued && !to) v.at = take(n, plan_->bank[size_t(id)]);
    const auto put = [&](MicroOp m, int part, int width) {
        if (valued) {
            const Operand at = to ? (*to)(part) : next_word(*v.at, part);
            const uint8_t set = m.write(at);
            (m.word().alu.op != AluOp::None ? m.word().alu.to : m.word().mau.to) = set;
        }
        packer_.place(m);
    };
    const bool copy = op.kind == Kind::Read || op.kind == Kind::Number;
    bool both = n == 2 && (copy || (op.kind == Kind::Alu && info(op.alu).max_width == 2 && op.alu != AluOp::Select));
    if (both && !copy && op.from[1] >= 0) both = !clash(operand(op.from[0], 0), operand(op.from[1], 0));
    if (n == 1 || both || whole(id)) {
        put(make(id, 0, both), 0, n);
    } else {
        for (int p = 0; p < n; p++) put(make(id, p, false), p, 1);
    }
    if (!copy) finish(id);
}

void VectorEmitter::run_all(const VectorProgram &program, const Read &read) {
    plan_ = &planned(program);
    read_ = &read;
    values_.assign(program.ops.size(), {});
    for (size_t i = 0; i < program.ops.size(); i++) {
        values_[i].uses = plan_->uses[i];
        const VectorOp &op = program.ops[i];
        if (!four_ && bits_of(op.type) == 16)
            throw Unsupported(who_ + " computes elements of 16 bits, but its words have two lanes; vectorize four");
        if (Id(i) != program.result && (op.kind == Kind::Alu || op.kind == Kind::Mau)) place(Id(i), nullptr);
    }
}

void VectorEmitter::run(const VectorProgram &program, const Read &read, const Place &to) {
    run_all(program, read);
    place(program.result, &to);
    read_ = nullptr;
}

MicroOp VectorEmitter::run_to_last(const VectorProgram &program, const Read &read) {
    run_all(program, read);
    const Id last = program.result;
    MicroOp m = make(last, 0, false);
    const VectorOp &op = plan_->program.ops[size_t(last)];
    if (op.kind == Kind::Alu || op.kind == Kind::Mau) finish(last);
    read_ = nullptr;
    if (m.parts() == 1) return m;
    // It takes a step of its own; a copy is the last operation.
    const Operand at = take(1, 0);
    const uint8_t set = m.write(at);
    (m.word().alu.op != AluOp::None ? m.word().alu.to : m.word().mau.to) = set;
    packer_.place(m);
    MicroOp pass;
    Alu u;
    u.op = AluOp::Pass;
    u.type = sim::Type::I32;
    u.a = pass.read(at);
    pass.word().alu = u;
    give_back(at);
    return pass;
}

Source VectorEmitter::forward(const MicroOp &last) {
    return last.word(0).alu.op != AluOp::None ? Source::Aluf : Source::Mauf;
}

} // namespace kumiko::chip

#include "targets/chip/stage/stages.h"

#include "dsl/print.h"
#include "support/error.h"

#include <cstring>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

class Pointwise {
public:
    Pointwise(Context &c, const ScheduleState &state, const StageState &stage)
        : c_(c), state_(state), stage_(stage), plan_(std::make_shared<StagePlan>(state, stage, c.config)) {
        value_ = inlined(stage.def.value);
        const auto &loops = plan_->loops();
        std::vector<size_t> lanes;
        for (size_t l = 0; l < loops.size(); l++) {
            if (loops[l].kind == PlannedLoop::Kind::Time) time_.push_back(l);
            if (loops[l].kind == PlannedLoop::Kind::Lane) lanes.push_back(l);
        }
        struct Reads : ir::IRGraphVisitor {
            using IRGraphVisitor::visit;
            std::vector<Expr> all;
            void visit(const ir::Call *op) override {
                if (op->call_type == ir::Call::Image) all.push_back(Expr(op));
                IRGraphVisitor::visit(op);
            }
        } reads;
        value_.accept(&reads);
        bool placed = false;
        for (const Expr &e : reads.all) {
            bool known = false;
            for (const Operand_ &o : operands_) known = known || ir::equal(o.read, e);
            if (known) continue;
            Operand_ o;
            o.read = e;
            const TensorAccess access = plan_->access(state, e);
            std::string source;
            const std::vector<Copy> copies = copies_of(state, *plan_, access.tensor, source);
            for (const Operand_ &other : operands_) {
                if (other.copy == access.tensor)
                    throw Unsupported("stage " + stage.name() + " reads " + source + " at two places; the chip's vectors read a copy at one");
            }
            if (copies.front().memory == Bank::L1bm || copies.front().memory == Bank::L2bm)
                throw Unsupported(source + " of " + stage.name() + " is placed in " + memory_name(copies.front().memory) +
                                  "; vectors read LM, LM0 and LM1");
            o.copy = access.tensor;
            RoadShape s;
            s.name = copies.front().stage->name();
            s.access = access;
            s.type = e.type();
            s.form = Form::Pe;
            s.lanes = lanes;
            for (const size_t t : time_) {
                if (access.depends(t)) (t <= copies.front().at ? s.keys : s.digits).push_back(t);
            }
            for (const size_t k : s.keys) {
                if (copies.size() > 1 && k > copies.back().at) s.together *= loops[k].extent;
            }
            const auto road = std::make_shared<const Road>(*plan_, c_.config, s);
            if (road->words() != 1)
                throw Unsupported("stage " + stage.name() + " reads elements of " + type_name(e.type()) +
                                  " beside narrower ones; the chip's vectors take one width");
            const int64_t dram = c_.take_dram(*road, source);
            c_.tensors.push_back({source, false, dram, plan_, road});
            o.loader = std::make_unique<Loader>(c_, road, copies, dram, *plan_);
            tile_at_ = placed ? std::max(tile_at_, copies.front().at) : copies.front().at;
            placed = true;
            operands_.push_back(std::move(o));
        }
        if (!placed) throw Unsupported("stage " + stage.name() + " reads no tensor");
        result_ = plan_->own();
        RoadShape s;
        s.name = stage.name();
        s.access = result_;
        s.type = stage.def.type;
        s.form = Form::Pe;
        s.lanes = lanes;
        s.store = true;
        for (const size_t t : time_) {
            if (!result_.depends(t)) throw InternalError("a loop over nothing");
            (t <= tile_at_ ? s.keys : s.digits).push_back(t);
        }
        store_ = std::make_shared<const Road>(*plan_, c_.config, s);
        if (store_->words() != 1)
            throw Unsupported("stage " + stage.name() + " computes elements of " + type_name(s.type) + " from narrower ones");
        store_dram_ = c_.take_dram(*store_, stage.name());
        c_.tensors.push_back({stage.name(), true, store_dram_, plan_, store_});
        if (s.digits.size() > 1 && loops[s.digits.back()].extent % cycles_per_step != 0)
            throw Unsupported(fmt::format("stage {}: loop {} runs {} times; the innermost of several has to run a multiple of {}", stage.name(),
                                          loops[s.digits.back()].name, loops[s.digits.back()].extent, cycles_per_step));
        const int64_t half = c_.config.sizes.grf;
        c_.planner.take(Bank::Grf0, half, "intermediate values");
        c_.planner.take(Bank::Grf1, half, "intermediate values");
        registers_[0] = Ring(0, half);
        registers_[1] = Ring(0, half);
        std::vector<std::pair<const Road *, std::pair<bool, bool>>> users;
        for (const Operand_ &o : operands_) users.push_back({&o.loader->road(), {true, o.loader->through_l2()}});
        users.push_back({store_.get(), {true, true}});
        const auto rings = share_rings(c_, users);
        for (size_t i = 0; i < operands_.size(); i++) operands_[i].loader->set_rings(rings[i]);
        store_rings_ = rings.back();
        c_.l2 += "stage " + stage.name() + "\n" + c_.planner.to_string();
    }

    void run() {
        values_.assign(plan_->loops().size(), 0);
        enter(SIZE_MAX);
        walk(0);
    }

private:
    struct Operand_ {
        Expr read;
        std::string copy;
        std::unique_ptr<Loader> loader;
    };
    Context &c_;
    const ScheduleState &state_;
    const StageState &stage_;
    std::shared_ptr<StagePlan> plan_;
    Expr value_;
    std::vector<size_t> time_;
    std::vector<Operand_> operands_;
    size_t tile_at_ = 0;
    TensorAccess result_;
    std::shared_ptr<const Road> store_;
    int64_t store_dram_ = 0;
    Rings store_rings_;
    std::array<Ring, 2> registers_;
    int next_register_ = 0;
    Values values_;

    Expr inlined(const Expr &e) {
        struct Inline : ir::IRGraphMutator {
            using IRGraphMutator::visit;
            const ScheduleState *state;
            Expr visit(const ir::Call *op) override {
                Expr e = IRGraphMutator::visit(op);
                op = e.as<ir::Call>();
                if (!op || op->call_type != ir::Call::Image) return e;
                const StageState *s = state->find(op->name);
                if (!s || s->placement.kind != Placement::Kind::Inline) return e;
                std::map<std::string, Expr> args;
                for (size_t d = 0; d < op->args.size(); d++) args[s->def.axes[d].name()] = op->args[d];
                return mutate(ir::substitute(args, s->def.value));
            }
        } inliner;
        inliner.state = &state_;
        return inliner.mutate(e);
    }

    void enter(size_t at) {
        for (Operand_ &o : operands_) {
            size_t place = SIZE_MAX;
            for (const size_t t : time_) {
                if (t <= o.loader->copy().at) place = t;
            }
            if (place == at) o.loader->ensure(values_);
        }
    }

    void walk(size_t depth) {
        if (depth == time_.size() || time_[depth] > tile_at_) {
            tile();
            return;
        }
        for (int64_t v = 0; v < plan_->loops()[time_[depth]].extent; v++) {
            values_[time_[depth]] = v;
            enter(time_[depth]);
            walk(depth + 1);
        }
        values_[time_[depth]] = 0;
    }

    void tile() {
        const auto &digits = store_->shape().digits;
        const auto &loops = plan_->loops();
        const int64_t words = store_->l1_words() / store_->unit_words() * cycles_per_step;
        const auto gather = [&](int64_t n, int, int64_t l1bm) {
            int64_t access = n * cycles_per_step;
            for (size_t i = digits.size(); i-- > 0;) {
                values_[digits[i]] = access % loops[digits[i]].extent;
                access /= loops[digits[i]].extent;
            }
            const Value v = evaluate(value_);
            // The last operation again, now followed by the gather that takes its forward.
            Micro m = operation(v);
            const Source forward = m.word().alu.op != AluOp::None ? Source::Aluf : Source::Mauf;
            m.next().use(Unit::L1);
            L1 l1;
            l1.op = L1Op::Gather;
            l1.from = forward;
            l1.at.at = uint16_t(l1bm);
            m.word().l1 = l1;
            m.touch_range(Space::L1bm, l1bm, words, true);
            c_.packer.place(m);
        };
        const int64_t key = store_->key(values_);
        for (int64_t part = 0; part < store_parts(*store_, store_rings_); part++)
            store_part(c_, *store_, store_rings_, store_dram_, key, part, gather).place(~0u);
        for (const size_t d : digits) values_[d] = 0;
    }

    // A value: where its four words stand, or the operation that makes them.
    struct Value {
        Operand at;
        bool made = false; // `at` holds it; else `op` makes it from a and b
        Expr op;
        std::vector<Operand> from;
        kumiko::Type type;
    };

    Micro operation(const Value &v) {
        Micro m;
        if (v.made) {
            m.use(Unit::Alu);
            Alu alu;
            alu.op = AluOp::Pass;
            alu.type = alu_type(v.type);
            alu.a = m.read(v.at, 1);
            m.word().alu = alu;
            return m;
        }
        const bool half = v.type == f16;
        const auto mau = [&](MauOp op, int a, int b, int c, bool negate) {
            m.use(Unit::Mau).use(half ? Unit::F16 : Unit::F32);
            Mau u;
            u.op = op;
            u.precision = half ? sim::Type::F16 : sim::Type::F32;
            u.negate = negate;
            u.narrow_c = half && c >= 0;
            u.narrow_y = half;
            u.a = m.read(v.from[size_t(a)], 1);
            if (b >= 0) u.b = m.read(v.from[size_t(b)], 1);
            if (c >= 0) u.c = m.read(v.from[size_t(c)], 1);
            m.word().mau = u;
        };
        const auto alu = [&](AluOp op) {
            m.use(Unit::Alu);
            Alu u;
            u.op = op;
            u.type = alu_type(v.type);
            u.a = m.read(v.from[0], 1);
            u.b = m.read(v.from[1], 1);
            m.word().alu = u;
        };
        if (v.op.as<ir::Add>() && v.type.is_float())
            mau(MauOp::Vadd, 0, -1, 1, false);
        else if (v.op.as<ir::Sub>() && v.type.is_float())
            mau(MauOp::Vadd, 1, -1, 0, true); // −b + a
        else if (v.op.as<ir::Mul>() && v.type.is_float())
            mau(MauOp::Vmul, 0, 1, -1, false);
        else if (v.op.as<ir::Add>())
            alu(AluOp::Add);
        else if (v.op.as<ir::Sub>())
            alu(AluOp::Sub);
        else
            throw InternalError("an operation that was not chosen");
        return m;
    }

    static sim::Type alu_type(kumiko::Type t) {
        if (t == f16) return sim::Type::F16;
        if (t == f32) return sim::Type::F32;
        if (t == i32) return sim::Type::I32;
        if (t == i16) return sim::Type::I16;
        if (t == Halide::UInt(32)) return sim::Type::U32;
        if (t == Halide::UInt(16)) return sim::Type::U16;
        throw Unsupported("the chip's vectors have no elements of " + type_name(t));
    }

    // The four words of a value into registers.
    Operand stored(const Value &v) {
        if (v.made) return v.at;
        const int bank = next_register_;
        next_register_ ^= 1;
        const int at = int(registers_[size_t(bank)].next(cycles_per_step));
        const Operand to = bank ? grf1(at, 1) : grf0(at, 1);
        Micro m = operation(v);
        const uint8_t set = m.write(to, 1);
        (m.word().alu.op != AluOp::None ? m.word().alu.to : m.word().mau.to) = set;
        c_.packer.place(m);
        return to;
    }

    static Operand constant(const Expr &e) {
        double value = 0;
        if (const auto f = ir::as_const_float(e)) value = *f;
        if (const auto i = ir::as_const_int(e)) value = double(*i);
        if (e.type() == f16) return immediate_f16(float(value));
        if (e.type() == f32) return immediate_f32(float(value));
        if (e.type().bits() == 32) return immediate_i32(int32_t(value));
        return immediate_i16(int16_t(value));
    }

    // Two operands that one word cannot fetch: the same port at another address, or an immediate beside LM0.
    static bool clash(const Operand &a, const Operand &b) {
        if (a.source == b.source) return a.source != Source::Imm ? !(a.address == b.address) : a.immediate != b.immediate;
        return (a.source == Source::Imm && b.source == Source::Lm0) || (a.source == Source::Lm0 && b.source == Source::Imm);
    }

    Operand moved(const Operand &from, kumiko::Type type, int bank) {
        const int at = int(registers_[size_t(bank)].next(cycles_per_step));
        const Operand to = bank ? grf1(at, 1) : grf0(at, 1);
        Micro m;
        m.use(Unit::Alu);
        Alu alu;
        alu.op = AluOp::Pass;
        alu.type = alu_type(type);
        alu.a = m.read(from, 1);
        alu.to = m.write(to, 1);
        m.word().alu = alu;
        c_.packer.place(m);
        return to;
    }

    Value evaluate(const Expr &e) {
        Value v;
        v.type = e.type();
        if (const ir::Call *read = e.as<ir::Call>(); read && read->call_type == ir::Call::Image) {
            for (const Operand_ &o : operands_) {
                if (!ir::equal(o.read, e)) continue;
                const Road &r = o.loader->road();
                const auto &digits = store_->shape().digits;
                const int64_t stride = digits.empty() ? 0 : r.access_stride(digits.back());
                o.loader->need(r.index(values_) + (cycles_per_step - 1) * stride);
                v.at = lm_operand(c_.config, o.loader->base() + r.index(values_), stride);
                v.made = true;
                return v;
            }
        }
        if (ir::is_const(e)) {
            v.at = constant(e);
            v.made = true;
            return v;
        }
        const auto binary = [&](const Expr &a, const Expr &b) {
            v.op = e;
            v.from = {stored(evaluate(a)), stored(evaluate(b))};
            if (clash(v.from[0], v.from[1])) {
                const bool first_in_1 = v.from[0].source == Source::Grf1;
                v.from[1] = moved(v.from[1], b.type(), first_in_1 ? 0 : 1);
            }
            return v;
        };
        const bool number = e.type().is_float() || e.type().bits() == 32 || e.type().bits() == 16;
        if (const auto *op = e.as<ir::Add>(); op && number) return binary(op->a, op->b);
        if (const auto *op = e.as<ir::Sub>(); op && number) return binary(op->a, op->b);
        if (const auto *op = e.as<ir::Mul>(); op && e.type().is_float()) return binary(op->a, op->b);
        throw Unsupported("stage " + stage_.name() + ": the chip's vectors do not compute " + to_string(e) +
                          " yet; sums, differences and products are built");
    }
};

} // namespace

void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage) { Pointwise(c, state, stage).run(); }

} // namespace kumiko::chip

#include "targets/chip/stage/stages.h"
#include "targets/chip/stage/vector_code.h"

#include "dsl/print.h"
#include "support/error.h"

#include <fmt/format.h>
#include <numeric>

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
        bool placed = false;
        for (const Expr &e : reads_in(value_)) {
            bool known = false;
            for (const Operand_ &o : operands_) known = known || ir::equal(o.read, e);
            if (known) continue;
            Operand_ o;
            o.read = e;
            const TensorAccess access = plan_->access(state, e);
            std::string source;
            const StageState *packed = nullptr;
            const std::vector<Copy> copies = copies_of(state, *plan_, access.tensor, source, &packed);
            for (const Operand_ &other : operands_) {
                if (other.copy == access.tensor)
                    throw Unsupported("stage " + stage.name() + " reads " + source +
                                      " at two places; the chip's vectors read a copy at one");
            }
            if (copies.front().memory == Bank::L1bm || copies.front().memory == Bank::L2bm)
                throw Unsupported(source + " of " + stage.name() + " is placed in " +
                                  memory_name(copies.front().memory) + "; vectors read LM, LM0 and LM1");
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
            if (!packed) {
                s.order = std::make_shared<const DramOrder>(access.extents, e.type().bytes(), c_.config,
                                                            storage_order(state, source, nullptr));
                if (copies.size() > 1)
                    throw Unsupported("copy " + copies.back().stage->name() + ": rows of " + source +
                                      " pass through L2BM; prepack it to keep a copy there");
            }
            const auto road = std::make_shared<const Road>(*plan_, c_.config, s);
            if (road->words() != 1)
                throw Unsupported("stage " + stage.name() + " reads elements of " + type_name(e.type()) +
                                  " beside narrower ones; the chip's vectors take one width");
            const int64_t dram =
                packed ? c_.take_dram(plan_, road, source, false) : c_.take_dram(s.order, source, false);
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
        std::vector<size_t> order(result_.index.size());
        std::iota(order.begin(), order.end(), 0);
        s.order = std::make_shared<const DramOrder>(result_.extents, result_.type.bytes(), c_.config, order);
        store_ = std::make_shared<const Road>(*plan_, c_.config, s);
        if (store_->words() != 1)
            throw Unsupported("stage " + stage.name() + " computes elements of " + type_name(s.type) +
                              " from narrower ones");
        store_dram_ = c_.take_dram(s.order, stage.name(), true);
        if (s.digits.size() > 1 && loops[s.digits.back()].extent % cycles_per_step != 0)
            throw Unsupported(
                fmt::format("stage {}: loop {} runs {} times; the innermost of several has to run a multiple of {}",
                            stage.name(), loops[s.digits.back()].name, loops[s.digits.back()].extent, cycles_per_step));
        const int64_t half = c_.config.sizes.grf;
        c_.planner.take(Bank::Grf0, half, "intermediate values");
        c_.planner.take(Bank::Grf1, half, "intermediate values");
        code_ =
            std::make_unique<VectorCode>(c_, "stage " + stage.name(), std::array<Ring, 2>{Ring(0, half), Ring(0, half)},
                                         [this](const Expr &e) { return word_of(e); });
        std::vector<std::pair<const Road *, std::pair<bool, bool>>> users;
        for (const Operand_ &o : operands_) users.push_back({&o.loader->road(), {true, o.loader->through_l2()}});
        users.push_back({store_.get(), {true, true}});
        const auto rings = share_rings(c_, users, 2);
        for (size_t i = 0; i < operands_.size(); i++) operands_[i].loader->set_rings(rings[i]);
        store_rings_ = rings.back();
        c_.l2 += "stage " + stage.name() + "\n" + c_.planner.to_string();
    }

    void run() {
        values_.assign(plan_->loops().size(), 0);
        enter(SIZE_MAX);
        walk(0);
        leave();
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
    std::unique_ptr<VectorCode> code_;
    Values values_;
    std::optional<StoredPart> leaving_;

    void leave() {
        if (leaving_) leaving_->place(~0u);
        leaving_.reset();
    }

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
            // The last operation leaves by its forward.
            Micro m = code_->last(code_->evaluate(value_));
            L1 l1;
            l1.op = L1Op::Gather;
            l1.from = VectorCode::forward(m);
            m.next().use(Unit::L1);
            l1.at.at = uint16_t(l1bm);
            m.word().l1 = l1;
            m.touch_range(Space::L1bm, l1bm, words, true);
            c_.packer.place(m);
        };
        const int64_t key = store_->key(values_);
        for (int64_t part = 0; part < store_parts(*store_, store_rings_); part++) {
            // A part's move comes behind the loads of the next, where L2BM has room for both.
            StoredPart stored = store_part(c_, *store_, store_rings_, store_dram_, key, part, gather);
            leave();
            leaving_ = std::move(stored);
            if (store_ahead(*store_, store_rings_) < 1) leave();
        }
        for (const size_t d : digits) values_[d] = 0;
    }

    // Where the four words of an operand stand.
    Operand word_of(const Expr &e) {
        for (const Operand_ &o : operands_) {
            if (!ir::equal(o.read, e)) continue;
            const Road &r = o.loader->road();
            const auto &digits = store_->shape().digits;
            const int64_t stride = digits.empty() ? 0 : r.access_stride(digits.back());
            o.loader->need(r.index(values_) + (cycles_per_step - 1) * stride);
            return lm_operand(c_.config, o.loader->base() + r.index(values_), stride);
        }
        throw Unsupported("stage " + stage_.name() + ": the chip's vectors do not compute " + to_string(e) + " yet");
    }
};

} // namespace

void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage) {
    Pointwise(c, state, stage).run();
}

} // namespace kumiko::chip

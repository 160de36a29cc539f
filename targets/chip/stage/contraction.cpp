#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/end_program.h"
#include "targets/chip/stage/row_product.h"
#include "targets/chip/stage/stages.h"
#include "targets/chip/vector/emit.h"

#include "dsl/print.h"
#include "support/error.h"

#include <deque>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

class Contraction {
public:
    Contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished)
        : c_(c), stage_(stage), finished_(finished), plan_(std::make_shared<StagePlan>(state, stage, c.config)) {
        const auto &loops = plan_->loops();
        for (size_t l = 0; l < loops.size(); l++) {
            if (loops[l].kind == PlannedLoop::Kind::Time) time_.push_back(l);
            if (loops[l].kind == PlannedLoop::Kind::Lane) (loops[l].reduction ? column_ : row_) = l;
        }
        const Component &component = stage.def.components.front();
        const std::vector<Expr> reads = reads_in(component.term);
        if (reads.size() != 2) throw InternalError("a tensorized block reads other than two operands");
        for (const Expr &e : reads) {
            const TensorAccess a = plan_->access(state, e);
            (a.depends(row_) ? matrix_ : vector_) = a;
        }
        if (!stage.accumulate)
            throw UserError("stage " + stage.name() +
                            " is tensorized, but its sums have no place; accumulate_in(\"GRF0\", …)");
        result_ = plan_->own();
        accumulate_at_ = plan_->loop(stage.accumulate->loop);
        for (const size_t t : time_) {
            if (loops[t].reduction && t <= accumulate_at_)
                throw Unsupported("stage " + stage.name() + ": reduction loop " + loops[t].name +
                                  " stands outside of " + stage.accumulate->loop +
                                  ", so sums would leave and come back; the chip keeps them until they are complete");
            if (matrix_.depends(t)) last_matrix_loop_ = t, has_matrix_loop_ = true;
        }
        for (const size_t t : time_) {
            if (!has_matrix_loop_ || t > last_matrix_loop_) vectors_.push_back(t);
        }
        for (const size_t v : vectors_) {
            if (!result_.depends(v))
                throw Unsupported(fmt::format(
                    "stage {}: the matrix of {} is used for vectors of the loops inside those on which it depends; "
                    "all of them have to run over the result, {} does not",
                    stage.name(), matrix_.tensor, loops[v].name));
        }
        if (stage.accumulate->level != "GRF0" && stage.accumulate->level != "GRF1")
            throw Unsupported("stage " + stage.name() + " accumulates in " + stage.accumulate->level +
                              "; the matrix unit's sums stand in GRF0 or GRF1");
        bank_ = stage.accumulate->level == "GRF1";
        single_ = matrix_.type == f32;
        if (single_ != (vector_.type == f32) || (!single_ && (matrix_.type != f16 || vector_.type != f16)))
            throw Unsupported("stage " + stage.name() + ": the matrix unit multiplies f16 by f16 and f32 by f32, not " +
                              type_name(matrix_.type) + " by " + type_name(vector_.type));
        sum_words_ = single_ ? 1 : 2;

        x_ = loader(state, vector_, Form::Vector, {Bank::Lm, Bank::Lm0, Bank::Lm1}, "LM, LM0 or LM1");
        w_ = loader(state, matrix_, Form::Face, {Bank::L1bm}, "L1BM");
        store_ = store_road();
        store_dram_ = c_.take_dram(plan_, store_, output_name(), true);
        find_points();
        const int64_t sums = (store_->accesses() + (spare_ ? cycles_per_step : 0)) * sum_words_;
        const int banks = stage.write_back.empty() ? 1 : 2;
        for (int b = 0; b < banks; b++)
            c_.planner.take((bank_ ^ b) ? Bank::Grf1 : Bank::Grf0, sums, stage.name() + (b ? " (second)" : ""));
        if (end_.defined()) begin_end(state);
        std::vector<std::pair<const Road *, std::pair<bool, bool>>> users = {{&x_->road(), {true, x_->through_l2()}},
                                                                             {&w_->road(), {false, w_->through_l2()}},
                                                                             {store_.get(), {true, true}}};
        for (const EndOperand &o : end_operands_) users.push_back({&o.loader->road(), {true, true}});
        const auto rings = share_rings(c_, users);
        for (size_t i = 0; i < end_operands_.size(); i++) end_operands_[i].loader->set_rings(rings[3 + i]);
        x_->set_rings(rings[0]);
        w_->set_rings(rings[1]);
        store_rings_ = rings[2];
        // As many blocks as L2BM holds matrices ahead.
        lag_ = stage.write_back.empty() ? 0
               : w_->through_l2()       ? rings[1].l2.words() / w_->road().l2_chunk()
                                        : 2 * w_->road().shape().together * w_->road().accesses();
        describe();
    }

    void run() {
        values_.assign(plan_->loops().size(), 0);
        for (int bank = 0; spare_ && bank < (stage_.write_back.empty() ? 1 : 2); bank++)
            clear_spare(bank_ ^ bool(bank));
        enter(SIZE_MAX);
        walk(0);
        nothing_comes_ = true;
        drain_pending();
        release_stores(0);
    }

private:
    Context &c_;
    const StageState &stage_;
    const StageState *finished_;
    std::shared_ptr<StagePlan> plan_;
    std::vector<size_t> time_, vectors_;
    size_t row_ = 0, column_ = 0, accumulate_at_ = 0, last_matrix_loop_ = 0;
    bool has_matrix_loop_ = false;
    TensorAccess matrix_, vector_, result_;
    bool single_ = false; // operands of f32: matrices of 8 × 8, sums of one LW in each PE
    int sum_words_ = 2;
    std::unique_ptr<Loader> x_, w_;
    std::shared_ptr<const Road> store_;
    int64_t store_dram_ = 0;
    Rings store_rings_;
    Values values_;
    int face_ = 0;
    bool bank_ = false; // where the sums are: GRF1
    struct Drain {      // of a complete tile
        int64_t key;
        bool bank;
        Values values;
        int64_t part = 0; // the next
    };
    std::optional<Drain> pending_;
    // Moves of results, each with the block behind which it is placed: behind the loads that come before in time, which matter more.
    struct Store {
        int64_t due;
        uint32_t groups; // still to be placed
        StoredPart part;
    };
    std::deque<Store> stores_;
    struct PointOffset { // of a vector of the matrix: its accesses, from those of the first
        int64_t x, sum;
    };
    std::vector<PointOffset> points_;
    bool spare_ = false; // fours that are not full write what nobody reads, behind the sums
    int64_t block_ = 0, lag_ = 0;
    bool nothing_comes_ = false;    // all operands are there
    int64_t blocks_ = 0, pace_ = 1; // blocks of the tile so far; how many of them between two parts of a drain

    // What finishes the sums, when it is more than a cast: an expression of f32, and the operands beside the sums.
    struct EndOperand {
        Expr read; // as the expression has it, with its cast to f32 where it is narrower
        std::shared_ptr<StageState> copy;
        std::unique_ptr<Loader> loader;
    };
    Expr end_;
    std::vector<EndOperand> end_operands_;
    std::unique_ptr<VectorEmitter> code_;
    VectorProgram end_program_;
    Expr end_value_;                                 // with its cast
    std::optional<Operand> end_made_;                // finished words, both parts, on their way out
    std::array<Values, cycles_per_step> end_values_; // of the four accesses that are finished

    // Operands of the end come to LM at the loop of the accumulators, two tiles in turn.
    void begin_end(const ScheduleState &state) {
        for (const Expr &e : reads_with_casts(end_)) {
            const ir::Cast *cast = e.as<ir::Cast>();
            const Expr read = cast ? cast->value : e;
            const std::string tensor = read.as<ir::Call>()->name;
            if (tensor == stage_.name()) continue;
            if (!state.is_input(tensor))
                throw Unsupported("the end of " + stage_.name() + " reads " + tensor +
                                  ", which another stage computes");
            if ((read.type() != f32 && (read.type() != f16 || single_)) || (cast && cast->type != f32))
                throw Unsupported("the end of " + stage_.name() + " reads elements of " + type_name(read.type()) +
                                  (single_ ? "; f32 is built" : "; f16 and f32 are built"));
            bool known = false;
            for (const EndOperand &o : end_operands_) known = known || ir::equal(o.read, read);
            if (known) continue;
            EndOperand o;
            o.read = read;
            o.copy = std::make_shared<StageState>();
            o.copy->def.name = tensor + ".LM";
            o.copy->buffers = 2;
            RoadShape s;
            s.name = o.copy->def.name;
            s.access = plan_->access(state, read);
            s.type = read.type();
            s.form = Form::Result;
            s.single = single_;
            s.row = row_;
            for (const size_t t : time_) {
                if (s.access.depends(t)) (t <= accumulate_at_ ? s.keys : s.digits).push_back(t);
            }
            const auto road = std::make_shared<const Road>(*plan_, c_.config, s);
            const int64_t dram = c_.take_dram(plan_, road, tensor, false);
            o.loader = std::make_unique<Loader>(c_, road, std::vector<Copy>{{o.copy.get(), Bank::Lm, accumulate_at_}},
                                                dram, *plan_);
            end_operands_.push_back(std::move(o));
        }
        std::array<RegisterRange, 2> registers;
        for (int b = 0; b < 2; b++) {
            const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
            const int64_t words = std::clamp<int64_t>(c_.planner.free_words(bank), 24, 96);
            registers[size_t(b)] = {int(c_.planner.take(bank, words, "values of the end of " + stage_.name())),
                                    int(words)};
        }
        const std::string who = "the end of stage " + stage_.name();
        code_ = std::make_unique<VectorEmitter>(c_.packer, who, registers, !single_);
        std::vector<Expr> reads;
        for (const EndOperand &o : end_operands_) reads.push_back(o.read);
        const bool cast = end_value_.type() == f16;
        end_program_ = end_program(cast ? end_value_ : end_, stage_.name(), reads, who);
    }

    // The four words, or so many parts of them, of an operand of the end, for the four accesses at hand.
    Operand end_operand(const EndOperand &o, int part) {
        const Road &r = o.loader->road();
        o.loader->ensure(end_values_[0]);
        Four at;
        int64_t last = 0;
        for (size_t t = 0; t < at.size(); t++) {
            at[t] = r.index(end_values_[t]);
            last = std::max(last, at[t]);
        }
        o.loader->need(last);
        for (int64_t &a : at) a = o.loader->base() + (r.words() == 2 ? 2 * a + part : a);
        return words_at(c_.config, Bank::Lm, at);
    }

    std::string output_name() const { return finished_ ? finished_->name() : stage_.name(); }

    std::unique_ptr<Loader> loader(const ScheduleState &state, const TensorAccess &access, Form form,
                                   const std::vector<Bank> &legal, const std::string &names) {
        std::string source;
        const StageState *packed = nullptr;
        const std::vector<Copy> copies = copies_of(state, *plan_, access.tensor, source, &packed);
        if (!packed)
            throw Unsupported(
                fmt::format("{} of {} lies in DRAM row-major, and the units would take it in another order; "
                            "prepack(\"{}\", …) has it packed ahead of time, and products of matrices whose "
                            "reduction is bound to MABs take rows as they are",
                            source, stage_.name(), source));
        if (std::find(legal.begin(), legal.end(), copies.front().memory) == legal.end())
            throw Unsupported(fmt::format("{} of {} is placed in {}; the matrix unit takes its {} from {}", source,
                                          stage_.name(), memory_name(copies.front().memory),
                                          form == Form::Face ? "matrix" : "vectors", names));
        RoadShape s;
        s.name = copies.front().stage->name();
        s.access = access;
        s.type = access.type;
        s.form = form;
        s.single = single_;
        s.row = row_;
        s.column = column_;
        for (const size_t t : time_) {
            if (!access.depends(t)) continue;
            (t <= copies.front().at ? s.keys : s.digits).push_back(t);
        }
        for (const size_t k : s.keys) {
            if (copies.size() > 1 && k > copies.back().at) s.together *= plan_->loops()[k].extent;
        }
        const auto road = std::make_shared<const Road>(*plan_, c_.config, s);
        const int64_t dram = c_.take_dram(plan_, road, source, false);
        return std::make_unique<Loader>(c_, road, copies, dram, *plan_);
    }

    std::shared_ptr<const Road> store_road() {
        kumiko::Type type = stage_.def.type;
        if (finished_) {
            const Expr &v = finished_->def.value;
            type = v.type();
            end_ = end_value_ = v;
            if (const ir::Cast *cast = v.as<ir::Cast>(); cast && type == f16) end_ = cast->value;
            if (end_.type() != f32 || (type != f16 && type != f32))
                throw Unsupported("stage " + finished_->name() + " finishes " + stage_.name() + " with " +
                                  to_string(v) +
                                  "; behind the matrix unit elements of f32 are computed, and cast to f16 at last");
            if (const ir::Call *read = end_.as<ir::Call>(); read && read->name == stage_.name())
                end_ = Expr(); // the sum itself
        }
        for (size_t l = 0; l < plan_->loops().size(); l++) {
            const PlannedLoop &p = plan_->loops()[l];
            if (p.kind == PlannedLoop::Kind::Unit && !result_.depends(l))
                throw Unsupported("stage " + stage_.name() + ": its result does not depend on loop " + p.name +
                                  ", bound to " + level_names[size_t(p.level)]);
        }
        if (single_ && type == f16)
            throw Unsupported("stage " + stage_.name() +
                              ": products of f32 with results of f16; results of f32 are built");
        RoadShape s;
        s.name = output_name();
        s.access = result_;
        s.type = type;
        s.form = Form::Result;
        s.single = single_;
        s.row = row_;
        s.store = true;
        for (const size_t t : time_) {
            if (result_.depends(t)) (t <= accumulate_at_ ? s.keys : s.digits).push_back(t);
        }
        return std::make_shared<const Road>(*plan_, c_.config, s);
    }

    // What is copied at the loop at position `at` (SIZE_MAX: outside of all time loops) now.
    void enter(size_t at) {
        for (Loader *l : {x_.get(), w_.get()}) {
            size_t place = SIZE_MAX; // the innermost time loop that stands no deeper
            for (const size_t t : time_) {
                if (t <= l->copy().at) place = t;
            }
            if (place == at) l->ensure(values_);
        }
    }

    void walk(size_t depth) {
        if (depth == time_.size() - vectors_.size()) {
            block();
            return;
        }
        const size_t loop = time_[depth];
        for (int64_t v = 0; v < plan_->loops()[loop].extent; v++) {
            values_[loop] = v;
            enter(loop);
            walk(depth + 1);
            if (loop == accumulate_at_) leave();
        }
        values_[loop] = 0;
    }

    sim::Type precision() const { return single_ ? sim::Type::F32 : sim::Type::F16; }
    Operand sums(int64_t at, int64_t stride, bool bank) const {
        return bank ? grf1(int(at), int(stride)) : grf0(int(at), int(stride));
    }

    // One matrix and its vectors.
    void block() {
        w_->need(w_->road().index(values_));
        const int64_t from = w_->base() + w_->road().index(values_) * w_->road().access_words();
        for (int h = 0; h < (single_ ? 1 : 2); h++) {
            Micro m;
            m.use(Unit::L1);
            m.word().l1.op = L1Op::MabBroadcast;
            m.word().l1.width = 2;
            m.word().l1.at.at = uint16_t(from + 32 * h);
            m.touch_range(Space::L1bm, from + 32 * h, 32, false);
            m.next().use(Unit::Mw).use(single_ ? Unit::F32 : Unit::F16);
            MatrixWrite &mw = m.word().mw;
            mw.on = true;
            mw.precision = precision();
            mw.face = uint8_t(face_);
            mw.part = uint8_t(h);
            mw.from = Source::Lbf;
            m.touch(Space::Face, face_, true);
            c_.packer.place(m);
        }
        vectors();
        face_ ^= 1;
        block_++;
        release_stores(INT64_MAX);
        if (pending_ && ++blocks_ % pace_ == 0)
            drain_part();
        else if (!pending_)
            blocks_++;
    }

    void find_points() {
        const Values zero(plan_->loops().size(), 0);
        Values v = zero;
        int64_t count = 1;
        for (const size_t l : vectors_) count *= plan_->loops()[l].extent;
        for (int64_t p = 0; p < count; p++) {
            int64_t rest = p;
            for (size_t i = vectors_.size(); i-- > 0;) {
                v[vectors_[i]] = rest % plan_->loops()[vectors_[i]].extent;
                rest /= plan_->loops()[vectors_[i]].extent;
            }
            points_.push_back({x_->road().index(v), store_->index(v)});
        }
        // Four vectors come from one LM: those of a tile that lies across the border may not.
        bool even = count % cycles_per_step == 0;
        for (int64_t p = 0; even && p < count; p++)
            even = points_[size_t(p)].x % cycles_per_step == p % cycles_per_step;
        for (const size_t t : time_) {
            const bool is_vector = std::find(vectors_.begin(), vectors_.end(), t) != vectors_.end();
            even = even && (is_vector || x_->road().access_stride(t) % cycles_per_step == 0);
        }
        spare_ = count % cycles_per_step != 0 || (!even && x_->crosses_lm());
    }

    void clear_spare(bool bank) { c_.clear(sums(sum_words_ * store_->accesses(), sum_words_, bank), sum_words_); }

    // Of f32, first what belongs to the even columns of the matrix, then to the odd.
    void vectors() {
        for (int half = 0; half < (single_ ? 2 : 1); half++) vectors(half);
    }
    void vectors(int half) {
        bool first = half == 0;
        for (const size_t t : time_) first = first && (!plan_->loops()[t].reduction || values_[t] == 0);
        const int64_t x = x_->road().index(values_), sum = store_->index(values_), lm = c_.config.sizes.lm;
        for (size_t p = 0; p < points_.size();) {
            Four from, to;
            size_t n = 0;
            for (; n < from.size() && p < points_.size(); n++, p++) {
                x_->need(x + points_[p].x);
                from[n] = x_->base() + x + points_[p].x;
                to[n] = sum_words_ * (sum + points_[p].sum);
                if ((from[n] >= lm) != (from[0] >= lm)) break;
            }
            for (; n < from.size(); n++) {
                from[n] = from[0];
                to[n] = sum_words_ * (store_->accesses() + int64_t(n));
            }
            Micro m;
            m.use(Unit::Mau).use(single_ ? Unit::F32 : Unit::F16);
            Mau mau;
            mau.op = first ? MauOp::Mmul : MauOp::Mfma;
            mau.precision = precision();
            mau.face = uint8_t(face_);
            mau.half = uint8_t(half);
            mau.a = m.read(words_at(c_.config, Bank::Lm, from), 1);
            const Operand sums = words_at(c_.config, bank_ ? Bank::Grf1 : Bank::Grf0, to);
            if (!first) mau.c = m.read(sums, sum_words_);
            mau.to = m.write(sums, sum_words_);
            m.word().mau = mau;
            m.touch(Space::Face, face_, false);
            c_.packer.place(m);
        }
    }

    // The sums of a tile are complete.
    void leave() {
        drain_pending(); // of the tile before
        pending_ = Drain{store_->key(values_), bank_, values_};
        // Spread over the first half of the next tile's blocks.
        pace_ = std::max<int64_t>(1, blocks_ / (2 * store_parts(*store_, store_rings_)));
        blocks_ = 0;
        if (stage_.write_back.empty())
            drain_pending();
        else
            bank_ = !bank_;
    }

    void drain_pending() {
        while (pending_) drain_part();
    }

    // Places the moves that are due, and all but so many.
    void release_stores(int64_t keep) {
        const uint32_t all = (1u << plan_->used(Tier::Group)) - 1, reading = w_->road().groups_of(w_->last_key());
        while (!stores_.empty() && int64_t(stores_.size()) > keep) {
            stores_.front().part.place(stores_.front().groups);
            stores_.pop_front();
        }
        if (nothing_comes_) return; // a move for each group by itself would take a tag each
        if ((reading & all) != all) {
            // The groups that are not read have time until their turn comes again.
            const Road &w = w_->road();
            int64_t until = 0;
            for (int g = 0; g < c_.config.groups; g++) {
                if (reading >> g & 1) until = std::max(until, c_.packer.group_free(g));
            }
            until += (w.run() - 1 - w_->last_key() % w.run()) * (w.l2_words() / c_.config.moves.dram_rate);
            uint32_t open = all & ~reading;
            for (Store &s : stores_) {
                const int64_t ready = c_.packer.movable(s.part.l2bm, s.part.words);
                const int64_t lasts = plan_->used(Tier::L2b) * s.part.words / c_.config.moves.dram_rate;
                for (int g = 0; g < c_.config.groups; g++) {
                    if (!(s.groups & open & 1u << g)) continue;
                    const int64_t begin = std::max(ready, c_.packer.group_free(g) + c_.config.moves.turnaround);
                    if (begin + lasts + c_.config.moves.turnaround > until) {
                        open &= ~(1u << g);
                        continue;
                    }
                    s.part.place(1u << g);
                    s.groups &= ~(1u << g);
                }
            }
        } else {
            for (Store &s : stores_) {
                if (s.due > block_) break;
                s.part.place(s.groups);
                s.groups = 0;
            }
        }
        while (!stores_.empty() && !stores_.front().groups) stores_.pop_front();
    }

    // What fills the last four up is a result once more.
    Values values_of_access(int64_t access) const {
        Values v = pending_->values;
        access = std::min(access, store_->accesses() - 1);
        const auto &digits = store_->shape().digits;
        for (size_t i = digits.size(); i-- > 0;) {
            v[digits[i]] = access % plan_->loops()[digits[i]].extent;
            access /= plan_->loops()[digits[i]].extent;
        }
        return v;
    }

    void drain_part() {
        const bool bank = pending_->bank;
        const bool one_word = store_->words() == 1; // that a PE sends for each access
        const int64_t words = store_->per_address() * cycles_per_step;
        release_stores(store_ahead(*store_, store_rings_));
        auto store = store_part(c_, *store_, store_rings_, store_dram_, pending_->key, pending_->part,
                                [&](int64_t n, int w, int64_t l1bm) {
                                    Micro m;
                                    L1 l1;
                                    l1.op = L1Op::Gather;
                                    l1.at.at = uint16_t(l1bm);
                                    const int64_t at = sum_words_ * cycles_per_step * n;
                                    Operand result = sums(at, sum_words_, bank);
                                    if (end_.defined()) {
                                        for (int64_t t = 0; t < cycles_per_step; t++)
                                            end_values_[size_t(t)] = values_of_access(n * cycles_per_step + t);
                                    }
                                    const auto read = [&](int which, int part) {
                                        return which ? end_operand(end_operands_[size_t(which - 1)], part)
                                                     : sums(at + part, sum_words_, bank);
                                    };
                                    if (one_word && end_.defined()) {
                                        m = code_->run_to_last(end_program_, read);
                                        l1.from = VectorEmitter::forward(m);
                                        m.next();
                                    } else if (end_.defined()) {
                                        if (w == 0) {
                                            end_made_ = code_->take(2, 1);
                                            code_->run(end_program_, read, [&](int part) {
                                                Operand to = *end_made_;
                                                to.address.at[0] = uint16_t(to.address.at[0] + part);
                                                return to;
                                            });
                                        }
                                        result = *end_made_;
                                        result.address.at[0] = uint16_t(result.address.at[0] + w);
                                    } else if (one_word && !single_) {
                                        m.use(Unit::Alu);
                                        Alu alu;
                                        alu.op = AluOp::Narrow;
                                        alu.type = sim::Type::F32;
                                        alu.a = m.read(result, 2);
                                        m.word().alu = alu;
                                        m.next();
                                        l1.from = Source::Aluf;
                                    } else {
                                        result = sums(at + w, sum_words_, bank);
                                    }
                                    m.use(Unit::L1);
                                    if (!one_word || (single_ && !end_.defined())) l1.from = m.read(result, 1);
                                    m.word().l1 = l1;
                                    m.touch_range(Space::L1bm, l1bm, words, true);
                                    c_.packer.place(m);
                                    if (end_made_ && w == 1) {
                                        code_->give_back(*end_made_);
                                        end_made_.reset();
                                    }
                                });
        stores_.push_back({block_ + lag_, (1u << plan_->used(Tier::Group)) - 1, std::move(store)});
        if (++pending_->part == store_parts(*store_, store_rings_)) pending_.reset();
    }

    void describe() {
        std::string indent;
        const auto line = [&](const std::string &t) { c_.l2 += indent + t + "\n"; };
        line("stage " + output_name());
        const auto &loops = plan_->loops();
        for (size_t l = 0; l < loops.size(); l++) {
            indent += "  ";
            const PlannedLoop &p = loops[l];
            if (p.kind == PlannedLoop::Kind::Unit)
                line(fmt::format("on each {} {} in 0..{}", level_names[size_t(p.level)], p.name, p.extent));
            else if (p.kind == PlannedLoop::Kind::Lane)
                line(fmt::format("lanes {} in 0..{}", p.name, p.extent));
            else
                line(fmt::format("for {} in 0..{}{}", p.name, p.extent, p.reduction ? " (reduction)" : ""));
            const std::string before = indent;
            indent += "  ";
            for (const Loader *loader : {x_.get(), w_.get()}) {
                if (loader->copy().at == l)
                    line(fmt::format("move to {}, {} LW: {}", loader->copy().stage->name(), loader->road().unit_words(),
                                     loader->road().to_string()));
            }
            if (stage_.accumulate->loop == p.name)
                line(fmt::format("sums in {}, {} LW; at the end: move to {}: {}", stage_.accumulate->level,
                                 sum_words_ * store_->accesses(), output_name(), store_->to_string()));
            indent = before;
        }
        indent += "  ";
        line(fmt::format("{}: {} times {}", stage_.tensorize->instruction, matrix_.tensor, vector_.tensor));
        c_.l2 += c_.planner.to_string();
    }
};

} // namespace

void lower_contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished) {
    if (RowProduct::is_one(stage)) {
        RowProduct(c, state, stage, finished).run();
        return;
    }
    Contraction(c, state, stage, finished).run();
}

} // namespace kumiko::chip

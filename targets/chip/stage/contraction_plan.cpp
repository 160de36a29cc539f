// Analyses the loops of a packed contraction, and allocates its memory.
#include "targets/chip/stage/contraction.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

Contraction::Contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished)
    : c_(c), stage_(stage), finished_(finished), plan_(std::make_shared<StagePlan>(stage, c.config)) {
    analyze(state);
    take_memory(state);
    describe();
}

void Contraction::analyze(const ScheduleState &state) {
    const auto &loops = plan_->loops();
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Time) time_.push_back(l);
        if (loops[l].kind == PlannedLoop::Kind::Lane) (loops[l].reduction ? column_ : row_) = l;
    }
    const Component &component = stage_.def.components.front();
    const std::vector<Expr> reads = reads_in(component.term);
    if (reads.size() != 2) throw InternalError("a tensorized block must read two operands");
    for (const Expr &e : reads) {
        const TensorAccess a = plan_->access(state, e);
        (a.depends(row_) ? matrix_ : vector_) = a;
    }
    if (!stage_.accumulate)
        throw UserError("stage " + stage_.name() +
                        " is tensorized, but its sums have no memory level; use accumulate_in(\"GRF0\", …)");
    result_ = plan_->own();
    accumulate_at_ = plan_->loop(stage_.accumulate->loop);
    for (const size_t t : time_) {
        if (loops[t].reduction && t <= accumulate_at_)
            throw Unsupported(
                "stage " + stage_.name() + ": reduction loop " + loops[t].name + " is outside of " +
                stage_.accumulate->loop +
                ", so incomplete sums would be stored and reloaded; the chip keeps sums until they are complete");
        if (matrix_.depends(t)) last_matrix_loop_ = t, has_matrix_loop_ = true;
    }
    for (const size_t t : time_) {
        if (!has_matrix_loop_ || t > last_matrix_loop_) vectors_.push_back(t);
    }
    for (const size_t v : vectors_) {
        if (!result_.depends(v))
            throw Unsupported(fmt::format("stage {}: the matrix of {} is used for vectors of the loops inside those on "
                                          "which it depends; each must be a loop of the result, and {} does not",
                                          stage_.name(), matrix_.tensor, loops[v].name));
    }
    if (stage_.accumulate->level != "GRF0" && stage_.accumulate->level != "GRF1")
        throw Unsupported("stage " + stage_.name() + " accumulates in " + stage_.accumulate->level +
                          "; the matrix unit's sums can be in GRF0 or GRF1");
    bank_ = stage_.accumulate->level == "GRF1";
    single_ = matrix_.type == f32;
    if (single_ != (vector_.type == f32) || (!single_ && (matrix_.type != f16 || vector_.type != f16)))
        throw Unsupported("stage " + stage_.name() + ": the matrix unit multiplies f16 by f16 and f32 by f32, not " +
                          type_name(matrix_.type) + " by " + type_name(vector_.type));
    sum_words_ = single_ ? 1 : 2;
}

void Contraction::take_memory(const ScheduleState &state) {
    x_ = loader(state, vector_, Form::Vector, {Bank::Lm, Bank::Lm0, Bank::Lm1}, "LM, LM0 or LM1");
    w_ = loader(state, matrix_, Form::Face, {Bank::L1bm}, "L1BM");
    store_ = store_path();
    store_dram_ = c_.take_dram(plan_, store_, output_name(), true);
    find_points();
    const int64_t sums = (store_->accesses() + (spare_ ? cycles_per_step : 0)) * sum_words_;
    const int banks = stage_.write_back.empty() ? 1 : 2;
    for (int b = 0; b < banks; b++)
        c_.planner.take((bank_ ^ b) ? Bank::Grf1 : Bank::Grf0, sums, stage_.name() + (b ? " (second)" : ""));
    if (epilogue_.defined()) begin_epilogue(state);
    std::vector<std::pair<const TransferPath *, std::pair<bool, bool>>> users = {
        {&x_->path(), {true, x_->through_l2()}},
        {&w_->path(), {false, w_->through_l2()}},
        {store_.get(), {true, true}}};
    for (const EpilogueOperand &o : epilogue_operands_) users.push_back({&o.loader->path(), {true, true}});
    const auto rings = share_rings(c_, users);
    for (size_t i = 0; i < epilogue_operands_.size(); i++) epilogue_operands_[i].loader->set_rings(rings[3 + i]);
    x_->set_rings(rings[0]);
    w_->set_rings(rings[1]);
    store_rings_ = rings[2];
    // As many blocks as L2BM holds matrices ahead.
    lag_ = stage_.write_back.empty() ? 0
           : w_->through_l2()        ? rings[1].l2.words() / w_->path().l2_chunk()
                                     : 2 * w_->path().shape().together * w_->path().accesses();
}

std::unique_ptr<Loader> Contraction::loader(const ScheduleState &state, const TensorAccess &access, Form form,
                                            const std::vector<Bank> &legal, const std::string &names) {
    std::string source;
    const StageState *packed = nullptr;
    const std::vector<Copy> copies = copies_of(state, *plan_, access.tensor, source, &packed);
    if (!packed)
        throw Unsupported(
            fmt::format("{} of {} is row-major in DRAM, and the units read it in another order; prepack(\"{}\", …) "
                        "makes the host pack it, and products whose reduction is bound to MABs read rows",
                        source, stage_.name(), source));
    if (std::find(legal.begin(), legal.end(), copies.front().memory) == legal.end())
        throw Unsupported(fmt::format("{} of {} is placed in {}; the matrix unit takes its {} from {}", source,
                                      stage_.name(), memory_name(copies.front().memory),
                                      form == Form::Face ? "matrix" : "vectors", names));
    TransferPathShape s;
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
    const auto path = std::make_shared<const TransferPath>(*plan_, c_.config, s);
    const int64_t dram = c_.take_dram(plan_, path, source, false);
    return std::make_unique<Loader>(c_, path, copies, dram, *plan_);
}

std::shared_ptr<const TransferPath> Contraction::store_path() {
    kumiko::Type type = stage_.def.type;
    if (finished_) {
        const Expr &v = finished_->def.value;
        type = v.type();
        epilogue_ = epilogue_value_ = v;
        if (const ir::Cast *cast = v.as<ir::Cast>(); cast && type == f16) epilogue_ = cast->value;
        if (epilogue_.type() != f32 || (type != f16 && type != f32))
            throw Unsupported(
                "stage " + finished_->name() + " finishes " + stage_.name() + " with " + to_string(v) +
                "; the epilogue of a product is computed in f32, and its last operation may be a cast to f16");
        if (const ir::Call *read = epilogue_.as<ir::Call>(); read && read->name == stage_.name())
            epilogue_ = Expr(); // the sum itself
    }
    for (size_t l = 0; l < plan_->loops().size(); l++) {
        const PlannedLoop &p = plan_->loops()[l];
        if (p.kind == PlannedLoop::Kind::Unit && !result_.depends(l))
            throw Unsupported("stage " + stage_.name() + ": its result does not depend on loop " + p.name +
                              ", bound to " + level_names[size_t(p.level)]);
    }
    if (single_ && type == f16)
        throw Unsupported("stage " + stage_.name() +
                          ": products of f32 with results of f16; results of f32 are supported");
    TransferPathShape s;
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
    return std::make_shared<const TransferPath>(*plan_, c_.config, s);
}

void Contraction::find_points() {
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
        points_.push_back({x_->path().index(v), store_->index(v)});
    }
    // Four vectors come from one LM, so none of a tile that crosses the boundary may be split.
    bool even = count % cycles_per_step == 0;
    for (int64_t p = 0; even && p < count; p++) even = points_[size_t(p)].x % cycles_per_step == p % cycles_per_step;
    for (const size_t t : time_) {
        const bool is_vector = std::find(vectors_.begin(), vectors_.end(), t) != vectors_.end();
        even = even && (is_vector || x_->path().access_stride(t) % cycles_per_step == 0);
    }
    spare_ = count % cycles_per_step != 0 || (!even && x_->crosses_lm());
}

void Contraction::describe() {
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
                line(fmt::format("move to {}, {} LW: {}", loader->copy().stage->name(), loader->path().unit_words(),
                                 loader->path().to_string()));
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

} // namespace kumiko::chip

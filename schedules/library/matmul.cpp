#include "schedules/library/matmul.h"

#include "schedules/library/matmul_plan.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::library {

namespace {

// Splits the reduction into parts of `steps` steps, each summed by a stage that is returned; C adds
// the parts in order.
StageHandle parts_of_sums(Schedule &s, StageHandle C, const MatmulPlan &plan, int64_t steps) {
    const MatmulRoles &r = plan.r;
    StageHandle parts = C.rfactor(C.split(r.k, steps, {r.k + ".part", r.k + ".rest"}).first);
    std::vector<std::string> stored, axes;
    for (const Axis &a : parts.state().def.axes) axes.push_back(a.name());
    stored.push_back(axes.back());
    stored.insert(stored.end(), axes.begin(), axes.end() - 1);
    parts.compute_root().layout(stored);
    if (plan.product.lanes > 1) {
        auto [o, in] = C.split(r.j, plan.product.lanes);
        std::vector<LoopName> order;
        for (const std::string &l : C.state().order) {
            if (l != in.name) order.push_back(l);
        }
        order.push_back(in);
        C.reorder(order).vectorize(in);
        s.accumulate_in(C.name(), "registers", o);
    }
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    return parts;
}

void check_strategy(const MatmulPlan &plan) {
    const MatmulParameters &p = plan.p;
    if (plan.product.tiles() && (p.parallel.is("grid") || p.parallel.is("depth")))
        throw Unsupported("parallel=" + std::string(p.parallel) + " with multiply=" + plan.product.instruction +
                          "; take \"rows\", \"columns\" or \"none\", or another way to multiply");
    if (!plan.product.tiles() && p.pack_b.is("ahead") && plan.product.group > 1 && !plan.r.K)
        throw Unsupported("pack_b=ahead with multiply=" + plan.product.instruction + ", which takes " +
                          std::to_string(plan.product.group) + " steps at once, where " + plan.r.k +
                          " is known only at run time; give it a number, or take multiply=widened or pack_b=none");
}

// The loops of a product in vectors, and its packed copies. schedule() calls the steps in the order
// of their declaration.
class MatmulLoops {
public:
    // `needs`: the value range that the multiplication strategy requires.
    MatmulLoops(const Op &op, const Machine &machine, MatmulPlan &plan, const std::optional<ValuesWithin> &needs)
        : op_(op), machine_(machine), plan_(plan), s_(op, machine) {
        if (needs) s_.assume(within(needs->input, needs->range.min, needs->range.max));
    }

    Schedule schedule() {
        plan_.copies_a = p_.pack_a || converts_a() || (group_ > 1 && !contiguous_in(r_.a, r_.k));
        plan_.copies_b = !p_.pack_b.is("none") || converts_b() || group_ > 1;
        const std::string A = plan_.copies_a ? tensor_by_axes(s_, C_.name(), r_.a) : r_.a.tensor,
                          B = plan_.copies_b ? tensor_by_axes(s_, C_.name(), r_.b) : r_.b.tensor;
        // Batches that share B are inside of the loop at which B is copied, so that it is copied
        // once.
        const bool once =
            p_.pack_b.is("blocks") && p_.outer.is("depth") && (p_.parallel.is("rows") || p_.parallel.is("none"));
        for (const std::string &b : r_.batches) (once && !r_.b.axes.count(b) ? sharing_ : order_).push_back(b);
        if (p_.parallel.is("depth")) divide_depth();
        split_blocks();
        order_blocks();
        split_steps();
        finish_order();
        place_copies(A, B);
        C_.accumulate_in("registers", io_, p_.join ? "join" : "reload");
        if (!r_.contraction.consumer.empty() && !p_.parallel.is("depth")) C_.finish_in(r_.contraction.consumer);
        if (group_ > 1) C_.tensorize(ji_, plan_.product.instruction);
        return std::move(s_);
    }

private:
    bool converts_a() const { return plan_.product.a != op_.find_input(r_.a.tensor)->type; }
    bool converts_b() const { return plan_.product.b != op_.find_input(r_.b.tensor)->type; }

    void divide_depth() {
        K_ = *r_.K / parts_of_depth(r_, plan_.product, threads_);
        C_ = parts_of_sums(s_, C_, plan_, *K_);
        k_ = C_.state().def.reduction_axes.back().name();
        order_.push_back(C_.state().def.axes.back().name());
        C_.parallel(order_.back());
    }

    // Splits rows for L2, columns for threads, depth for L1; then rows and columns by the tile.
    void split_blocks() {
        const std::string i = r_.i, j = r_.j;
        auto [ic, it] = C_.split(i, p_.row_block, {i + ".c", i + ".t"});
        auto [io, ii] = C_.split(it, p_.rows, {i + ".o", i + ".i"});
        LoopName jt = j;
        if (p_.parallel.is("columns") || p_.parallel.is("grid")) std::tie(jc_, jt) = split_columns_for_threads();
        auto [jo, ji] = C_.split(jt, plan_.columns, {j + ".o", j + ".i"});
        auto [ko, ki] = C_.split(k_, p_.depth, {r_.k + ".o", r_.k + ".i"});
        ic_ = ic, io_ = io, ii_ = ii, jo_ = jo, ji_ = ji, ko_ = ko, ki_ = ki;
    }

    std::pair<LoopName, LoopName> split_columns_for_threads() {
        const bool by_grid = p_.parallel.is("grid");
        const int64_t down =
            by_grid && r_.M ? std::clamp<int64_t>((*r_.M + p_.row_block - 1) / p_.row_block, 1, threads_) : 1;
        const int64_t across = (threads_ + down - 1) / down;
        const int64_t block =
            r_.N ? balanced_block(*r_.N, (*r_.N + across - 1) / across, plan_.columns) : plan_.columns * 8;
        auto loops = C_.split(r_.j, block, {r_.j + ".c", r_.j + ".t"});
        if (by_grid && group_ > 1 && (!r_.N || *r_.N % block))
            throw Unsupported(fmt::format(
                "parallel=grid with multiply={}, where blocks of {} columns leave {}; take \"rows\" "
                "or \"columns\", or another way to multiply",
                plan_.product.instruction, block,
                r_.N ? fmt::format("a rest of {}", *r_.N % block) : "a rest that is known only at run time"));
        return loops;
    }

    // The order of the loops over blocks and tiles.
    void order_blocks() {
        shared_ = ic_;
        if (p_.parallel.is("columns")) order_.push_back(shared_ = jc_);
        if (p_.parallel.is("grid")) {
            std::vector<LoopName> all = order_;
            all.insert(all.end(), {jc_, ic_, io_, ii_, jo_, ji_, ko_, ki_});
            shared_ = ic_ = C_.reorder(all).fuse(jc_, ic_, "blocks");
        }
        if (p_.outer.is("rows")) {
            order_.insert(order_.end(), {ic_, ko_, jo_, io_, ki_});
            return;
        }
        order_.push_back(ko_);
        order_.insert(order_.end(), sharing_.begin(), sharing_.end());
        order_.insert(order_.end(), {ic_, jo_, io_, ki_});
        const auto outermost =
            sharing_.empty() ? std::nullopt : constant_extent(*find_axis(*r_.contraction.sum, sharing_[0].name));
        if (outermost.value_or(0) >= threads_) shared_ = sharing_.front();
    }

    // Splits the steps of a block: runs that packing keeps together, unrolled steps, and those that
    // an instruction takes at once.
    void split_steps() {
        // A's packed rows keep a vector's worth of contiguous steps together, so that packing uses
        // whole vectors. Not if the depth leaves a remainder, which would duplicate the code of all
        // tiles.
        plan_.panels = !p_.pack_b.is("blocks") && !p_.pack_b.is("ahead");
        const int64_t run = plan_.product.lanes * group_;
        const bool whole_runs = plan_.copies_a && contiguous_in(r_.a, r_.k) && plan_.product.lanes > 1 && K_ &&
                                *K_ % run == 0 && p_.depth % run == 0;
        plan_.together = whole_runs ? run : group_;
        step_ = ki_;
        if (plan_.together > group_) {
            auto [kb, km] = C_.split(ki_, plan_.together, {r_.k + ".b", r_.k + ".m"});
            order_.back() = kb;
            order_.push_back(step_ = km);
        }
        copies_ = plan_.together > group_ ? std::min<int64_t>(plan_.together / group_, p_.unroll_depth)
                                          : int64_t(p_.unroll_depth);
        if (copies_ > 1) {
            auto [ks, ku] = C_.split(step_, copies_ * group_, {r_.k + ".s", r_.k + ".u"});
            order_.back() = ks;
            order_.push_back(step_ = ku);
        }
        if (group_ > 1) {
            auto [kp, kg] = C_.split(step_, group_, {r_.k + ".p", r_.k + ".g"});
            order_.back() = step_ = kp;
            taken_ = kg;
        }
        first_step_ = *std::next(
            std::find_if(order_.begin(), order_.end(), [&](const LoopName &l) { return l.name == io_.name; }));
    }

    // Adds the loops inside of a tile and sets the order; vectorizes, unrolls and shares loops.
    void finish_order() {
        order_.push_back(ii_);
        if (group_ > 1) {
            auto [jv, jl] = C_.split(ji_, plan_.product.lanes, {r_.j + ".v", r_.j + ".l"});
            order_.insert(order_.end(), {jv, jl, taken_});
            C_.reorder(order_).unroll(jv);
            ji_ = jl;
        } else {
            order_.push_back(ji_);
            C_.reorder(order_);
            if (plan_.product.lanes > 1) C_.vectorize(ji_, plan_.product.lanes);
        }
        if (copies_ > 1) C_.unroll(step_);
        C_.unroll(ii_);
        if (p_.parallel.is("rows") || p_.parallel.is("columns") || p_.parallel.is("grid")) C_.parallel(shared_);
    }

    void place_copies(const std::string &A, const std::string &B) {
        const bool ahead = p_.pack_b.is("ahead");
        if (plan_.copies_a) copy_rows(op_, plan_, s_.place_in(A, "L2", C_.name(), p_.outer.is("rows") ? ko_ : ic_));
        if (ahead) {
            if (s_.state().find(B)) s_.stage(B).compute_root();
            copy_columns(op_, plan_, s_.prepack(B, columns_layout(plan_)));
        } else if (plan_.copies_b) {
            const int64_t panel = p_.depth * plan_.columns * plan_.product.b.bytes();
            const std::string near =
                panel <= cache_bytes(machine_, "L1", panel) ? "L1" : smallest_level(machine_, panel);
            StageHandle copy = s_.place_in(B, plan_.panels ? near : "L3", C_.name(), plan_.panels ? jo_ : ko_);
            copy_columns(op_, plan_, copy);
            copy.layout(columns_layout(plan_));
        }
        if (p_.prefetch_c) C_.prefetch(C_.name(), io_, 1);
        if (p_.prefetch_b && !plan_.copies_b && !ahead) C_.prefetch(r_.b.tensor, first_step_, 1, C_.name(), jo_);
    }

    const Op &op_;
    const Machine &machine_;
    MatmulPlan &plan_;
    const MatmulRoles &r_ = plan_.r;
    const MatmulParameters &p_ = plan_.p;
    const int64_t threads_ = std::max<int64_t>(2, threads_of(machine_)), group_ = plan_.product.group;
    Schedule s_;
    StageHandle C_ = s_.stage(r_.contraction.sum->name);
    std::string k_ = r_.k;                  // the reduction axis of C_
    std::optional<int64_t> K_ = r_.K;       // its extent
    std::vector<LoopName> order_, sharing_; // all loops; batches that share B
    // Loops: c over blocks, o over tiles (k: over blocks), i inside.
    LoopName ic_ = "", io_ = "", ii_ = "", jc_ = "", jo_ = "", ji_ = "", ko_ = "", ki_ = "";
    LoopName shared_ = "";            // the loop that cores divide
    LoopName step_ = "", taken_ = ""; // unrolled steps; those that an instruction takes at once
    LoopName first_step_ = "";        // the outermost loop inside of a tile
    int64_t copies_ = 1;              // unrolled steps
};

// Schedules one multiplication strategy. `needs`: the value range that it requires.
Schedule schedule_one(const Op &op, const Machine &machine, const MatmulRoles &r, const MatmulParameters &p,
                      const std::string &strategy, const std::optional<ValuesWithin> &needs) {
    MatmulPlan plan{.r = r, .p = p, .product = product(strategy, r.contraction, op, r.a, r.b, machine)};
    plan.columns = p.vectors * plan.product.lanes;
    check_strategy(plan);
    if (plan.product.tiles()) return schedule_tiles(op, machine, plan);
    return MatmulLoops(op, machine, plan, needs).schedule();
}

} // namespace

bool is_matmul(const Op &op) { return matmul_roles(op).has_value(); }

Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p) {
    const MatmulRoles r = *matmul_roles(op);
    Schedule s = schedule_one(op, machine, r, p, p.multiply, std::nullopt);
    if (!p.narrow || p.pack_b.is("ahead")) return s;
    const NarrowStrategy strategy = *narrow_strategy(r.contraction, op, r.a, r.b, machine);
    // Blocks of as many bytes as the other kernel's have more steps if the copies' elements are
    // smaller.
    const Product wide = product(p.multiply, r.contraction, op, r.a, r.b, machine),
                  narrow = product(strategy.instruction, r.contraction, op, r.a, r.b, machine);
    const int64_t times = std::max(1, std::min(wide.a.bytes() / narrow.a.bytes(), wide.b.bytes() / narrow.b.bytes()));
    MatmulParameters deeper = p;
    if (r.K && times > 1) {
        const int64_t depth = std::min(*r.K, balanced_block(*r.K, std::min(*r.K, p.depth * times), narrow.lanes));
        deeper.depth = Tile(depth, {depth});
    }
    return s.specialize(within(strategy.needs.input, strategy.needs.range.min, strategy.needs.range.max),
                        schedule_one(op, machine, r, deeper, strategy.instruction, strategy.needs));
}

Schedule matmul(const Op &op, const Machine &machine) {
    if (!is_matmul(op))
        throw UserError("op \"" + op.name() + "\" is not a product of matrices; it is:\n" + op.to_string());
    return schedule_matmul(op, machine, matmul_parameters(op, machine));
}

} // namespace kumiko::library

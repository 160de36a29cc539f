#include "schedules/frame.h"

#include "dsl/float_casts.h"
#include "schedules/linear.h"
#include "support/error.h"

#include <numeric>
#include <set>

namespace kumiko {

using namespace Halide::Internal;

namespace {

Expr simple_size(const Expr &e) {
    const auto n = number_of(e);
    return n ? Expr(static_cast<int>(*n)) : simplify(e);
}

// Proves or refutes a <= b + slack from the linear ranges; nullopt if unknown.
std::optional<bool> always_at_most(const Expr &a, const Expr &b, int64_t slack, const Bounds &bounds) {
    LinearSum difference;
    if (!difference.add(a, 1) || !difference.add(b, -1)) return std::nullopt;
    const auto range = difference.range(bounds);
    return range ? std::optional(range->second <= slack) : std::nullopt;
}

// A min or max among the terms of a sum.
Expr choice_in(const Expr &e) {
    if (e.as<Min>() || e.as<Max>()) return e;
    const auto either = [](const Expr &a, const Expr &b) {
        const Expr first = choice_in(a);
        return first.defined() ? first : choice_in(b);
    };
    if (const auto *op = e.as<Add>()) return either(op->a, op->b);
    if (const auto *op = e.as<Sub>()) return either(op->a, op->b);
    if (const auto *op = e.as<Mul>()) return either(op->a, op->b);
    return Expr();
}

// Whether a <= b + slack can be proved if loop extents are quotients of sizes and bounds are min or
// max expressions.
bool at_most_by_bounds(const Expr &a, const Expr &b, int64_t slack, const Bounds &bounds, int choices = 4) {
    const Expr parts[] = {a, b};
    for (const bool of_b : {false, true}) {
        if (const Expr choice = choices > 0 ? choice_in(parts[of_b]) : Expr(); choice.defined()) {
            const auto *least = choice.as<Min>();
            const auto *greatest = choice.as<Max>();
            const auto with = [&](const Expr &taken) {
                const Expr e = substitute(choice, taken, parts[of_b]);
                return at_most_by_bounds(of_b ? a : e, of_b ? e : b, slack, bounds, choices - 1);
            };
            const Expr &first = least ? least->a : greatest->a, &second = least ? least->b : greatest->b;
            return with(first) && with(second);
        }
    }
    LinearSum difference;
    if (!difference.add_bound(a, 1) || !difference.add_bound(b, -1) || !difference.put_bounds(bounds)) return false;
    const auto range = difference.range(bounds);
    return range && range->second <= slack;
}

bool holds_by_bounds(const Expr &condition, const Bounds &bounds) {
    const auto at_most = [&](const Expr &a, const Expr &b, int64_t slack) {
        return a.type() == Int(32) && at_most_by_bounds(a, b, slack, bounds);
    };
    if (const auto *op = condition.as<LE>()) return at_most(op->a, op->b, 0);
    if (const auto *op = condition.as<LT>()) return at_most(op->a, op->b, -1);
    if (const auto *op = condition.as<GE>()) return at_most(op->b, op->a, 0);
    if (const auto *op = condition.as<GT>()) return at_most(op->b, op->a, -1);
    return false;
}

std::optional<bool> plainly(const Expr &condition, const Bounds &bounds) {
    if (const auto *op = condition.as<LE>()) return always_at_most(op->a, op->b, 0, bounds);
    if (const auto *op = condition.as<LT>()) return always_at_most(op->a, op->b, -1, bounds);
    if (const auto *op = condition.as<GE>()) return always_at_most(op->b, op->a, 0, bounds);
    if (const auto *op = condition.as<GT>()) return always_at_most(op->b, op->a, -1, bounds);
    if (const auto *op = condition.as<EQ>()) {
        const auto a = number_of(op->a), b = number_of(op->b);
        if (a && b) return *a == *b;
    }
    return std::nullopt;
}

} // namespace

Expr simplify_index(const Expr &e, const Bounds &bounds) {
    const auto n = number_of(e);
    return n ? Expr(static_cast<int>(*n)) : simplified(e, bounds);
}

namespace {

struct Term {
    Expr e;
    int64_t factor;
};

// Whether a and b differ by a multiple of the block: divisions then agree up to whole blocks, and
// remainders are equal.
bool blocks_apart(const Expr &a, const Expr &b, int64_t block) {
    if (equal(a, b)) return true;
    const ModulusRemainder n = modulus_remainder(simplify(a - b));
    return n.modulus % block == 0 && n.remainder % block == 0;
}

void add_terms(const Expr &e, int64_t factor, std::vector<Term> &terms) {
    const auto *sum = e.as<Add>();
    const auto *difference = e.as<Sub>();
    const auto *product = e.as<Mul>();
    const auto n = product ? as_const_int(product->b) : std::nullopt;
    if (sum) {
        add_terms(sum->a, factor, terms);
        add_terms(sum->b, factor, terms);
    } else if (difference) {
        add_terms(difference->a, factor, terms);
        add_terms(difference->b, -factor, terms);
    } else if (n) {
        add_terms(product->a, factor * *n, terms);
    } else {
        terms.push_back({e, factor});
    }
}

} // namespace

Expr join_remainders(const Expr &index) {
    std::vector<Term> terms;
    if (index.type() == Int(32)) add_terms(index, 1, terms);
    bool joined = false;
    for (size_t m = 0; m < terms.size(); m++) {
        const Mod *rest = terms[m].e.as<Mod>();
        const auto c = rest ? as_const_int(rest->b) : std::nullopt;
        if (!c) continue;
        const Div *inner = rest->a.as<Div>(); // x / b / c is written x / (b * c)
        const auto b = inner ? as_const_int(inner->b) : std::nullopt;
        const auto blocks = std::find_if(terms.begin(), terms.end(), [&](const Term &t) {
            const Div *d = t.e.as<Div>();
            if (!d || t.factor != terms[m].factor * *c) return false;
            return (is_const(d->b, *c) && blocks_apart(d->a, rest->a, *c)) ||
                   (b && is_const(d->b, *b * *c) && equal(d->a, inner->a));
        });
        if (blocks == terms.end()) continue;
        const Div *d = blocks->e.as<Div>();
        const Term whole{is_const(d->b, *c) ? d->a : rest->a, terms[m].factor};
        const size_t other = size_t(blocks - terms.begin());
        terms.erase(terms.begin() + std::max(other, m));
        terms.erase(terms.begin() + std::min(other, m));
        add_terms(whole.e, whole.factor, terms);
        joined = true;
        m = size_t(-1); // restart
    }
    if (!joined) return index;
    Expr sum = 0;
    for (const Term &t : terms) {
        if (t.factor > INT32_MAX || t.factor < INT32_MIN) return index;
        sum = sum + t.e * static_cast<int>(t.factor);
    }
    return simplify(sum);
}

namespace {

class SplitBlocks : public IRMutator {
public:
    explicit SplitBlocks(const Bounds &bounds) : bounds_(bounds) {}

private:
    using IRMutator::visit;
    const Bounds &bounds_;

    struct Parts {
        Expr blocks, within;
        int64_t size;
    };

    // Splits e into whole blocks and a rest within a block, for the largest block size that divides
    // `of`; nullopt if there is none.
    std::optional<Parts> parts(const Expr &e, int64_t of) const {
        std::vector<Term> terms;
        add_terms(e, 1, terms);
        std::set<int64_t, std::greater<>> sizes;
        for (const Term &t : terms) sizes.insert(std::gcd(t.factor, of));
        for (const int64_t size : sizes) {
            if (size <= 1 || size >= of) continue;
            Parts p{0, 0, size};
            for (const Term &t : terms) {
                if (t.factor % size)
                    p.within = p.within + t.e * static_cast<int>(t.factor);
                else
                    p.blocks = p.blocks + t.e * static_cast<int>(t.factor / size);
            }
            const Interval range = range_of(simplified(p.within), bounds_);
            if (range.is_bounded() && proves(range.min >= 0, bounds_) &&
                proves(range.max < static_cast<int>(size), bounds_))
                return p;
        }
        return std::nullopt;
    }

    template<typename Op>
    std::optional<Parts> parts_of(const Op *op) const {
        const auto c = as_const_int(op->b);
        return c && *c > 1 && op->type == Int(32) ? parts(op->a, *c) : std::nullopt;
    }

    Expr visit(const Div *op) override {
        const Expr e = IRMutator::visit(op);
        op = e.as<Div>();
        const auto p = op ? parts_of(op) : std::nullopt;
        return p ? p->blocks / static_cast<int>(*as_const_int(op->b) / p->size) : e;
    }
    Expr visit(const Mod *op) override {
        const Expr e = IRMutator::visit(op);
        op = e.as<Mod>();
        const auto p = op ? parts_of(op) : std::nullopt;
        const int size = p ? static_cast<int>(p->size) : 1;
        return p ? p->blocks % static_cast<int>(*as_const_int(op->b) / size) * size + p->within : e;
    }
};

} // namespace

Expr split_blocks(const Expr &index, const Bounds &bounds) { return SplitBlocks(bounds).mutate(index); }

bool proves(const Expr &condition, const Bounds &bounds) {
    if (const auto *both = condition.as<And>()) return proves(both->a, bounds) && proves(both->b, bounds);
    if (const auto known = plainly(condition, bounds)) return *known;
    if (holds_by_bounds(condition, bounds)) return true;
    if (casts_floats(condition)) {
        FloatCasts casts(bounds);
        const Expr hidden = casts.hide(condition);
        return proves(hidden, casts.scope());
    }
    const Expr e = simplify(condition, true, bounds);
    if (is_const_one(e)) return true;
    if (is_const(e)) return false;
    if (can_prove(e, bounds)) return true;
    // For loops whose extent is an expression of sizes: a condition holds if it holds at the
    // bounds.
    const LE *le = condition.as<LE>();
    const LT *lt = condition.as<LT>();
    if (!le && !lt) return false;
    const Expr a = le ? le->a : lt->a, b = le ? le->b : lt->b;
    if (a.type() != Int(32)) return false;
    Bounds loops;
    for (auto v = bounds.cbegin(); v != bounds.cend(); ++v) {
        if (v.value().has_upper_bound() && !is_const(v.value().max)) loops.push(v.name(), v.value());
    }
    const Interval i = bounds_of_expr_in_scope(simplify(a - b), loops);
    return i.has_upper_bound() && can_prove(le ? i.max <= 0 : i.max < 0, bounds);
}

std::optional<int64_t> most_of(const Expr &extent, const Bounds &bounds) {
    constexpr int64_t unbounded = int64_t(1) << 30;
    const Expr bound = find_constant_bound(extent, Direction::Upper, bounds);
    const auto most = bound.defined() ? as_const_int(bound) : std::nullopt;
    return most && *most < unbounded ? std::optional<int64_t>(*most) : std::nullopt;
}

Expr Region::end(size_t d) const {
    return step_of(d) == 1 ? min[d] + extent[d] : min[d] + (extent[d] - 1) * step_of(d) + 1;
}

Region whole_region(const Stage &stage) {
    Region r;
    for (const Axis &a : stage.axes) {
        r.min.push_back(0);
        r.extent.push_back(a.extent());
    }
    return r;
}

Frame::Frame(const StageState &stage, const Region &region, std::string prefix)
    : stage_(&stage), region_(region), prefix_(std::move(prefix)), modes_(stage.relations.size(), Mode::Whole) {
    derive();
}

void Frame::derive() {
    extents_.clear();
    for (size_t d = 0; d < stage_->def.axes.size(); d++) extents_[stage_->def.axes[d].name()] = region_.extent[d];
    for (const Axis &a : stage_->def.reduction_axes) extents_[a.name()] = a.extent();
    for (size_t r = 0; r < stage_->relations.size(); r++) {
        for (const auto &[loop, e] : overridden_) extents_[loop] = e;
        if (const auto *s = std::get_if<SplitRelation>(&stage_->relations[r])) {
            const Expr parent = extents_.at(s->parent);
            const Expr f = static_cast<int>(s->factor);
            switch (modes_[r]) {
            case Mode::Whole:
                extents_[s->outer] = simple_size(count_blocks(parent, s->factor));
                extents_[s->inner] = f;
                break;
            case Mode::Main:
                extents_[s->outer] = simple_size(parent / f);
                extents_[s->inner] = f;
                break;
            case Mode::Rest:
                extents_[s->outer] = 1;
                extents_[s->inner] = simple_size(parent % f);
                break;
            case Mode::Clip:
                extents_[s->outer] = simple_size((parent + f - 1) / f);
                extents_[s->inner] = simple_size(min(parent - value(s->outer) * f, f));
                break;
            }
        } else {
            const auto &f = std::get<FuseRelation>(stage_->relations[r]);
            extents_[f.fused] = simple_size(extents_.at(f.outer) * extents_.at(f.inner));
        }
    }
    for (const auto &[loop, e] : overridden_) extents_[loop] = e;
}

Expr Frame::variable(const std::string &loop) const { return Variable::make(Int(32), prefix_ + loop); }

Expr Frame::extent(const std::string &loop) const { return extents_.at(loop); }

Expr Frame::value(const std::string &loop) const {
    if (auto it = pinned_.find(loop); it != pinned_.end()) return it->second;
    if (stage_->has_loop(loop)) return is_const_one(extents_.at(loop)) && !kept(loop) ? Expr(0) : variable(loop);
    for (const Relation &r : stage_->relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r); s && s->parent == loop) {
            const Expr f = static_cast<int>(s->factor);
            Expr start = value(s->outer) * f;
            // A shifted last block ends at the extent. If the extent is smaller than a block, it
            // starts at 0 and is guarded.
            if (s->tail == Tail::Shift) start = max(min(start, extents_.at(loop) - f), 0);
            return start + value(s->inner);
        }
        if (const auto *f = std::get_if<FuseRelation>(&r)) {
            if (f->outer == loop) return value(f->fused) / extents_.at(f->inner);
            if (f->inner == loop) return value(f->fused) % extents_.at(f->inner);
        }
    }
    throw InternalError("loop " + loop + " of stage " + stage_->name() + " has no value");
}

Expr Frame::index(const std::string &axis) const {
    for (size_t d = 0; d < stage_->def.axes.size(); d++) {
        if (stage_->def.axes[d].name() == axis) {
            const Expr v = value(axis);
            return region_.min[d] + (region_.step_of(d) == 1 ? v : v * region_.step_of(d));
        }
    }
    const auto first = first_steps_.find(axis);
    return first == first_steps_.end() ? value(axis) : first->second + value(axis);
}

void Frame::run_steps(const std::string &axis, const Expr &first, const Expr &extent) {
    first_steps_[axis] = first;
    override_extent(axis, extent);
}

Expr Frame::first_step(const std::string &loop) const {
    const auto first = first_steps_.find(loop);
    return first == first_steps_.end() ? Expr(0) : first->second;
}

void Frame::set_mode(size_t relation, Mode mode) {
    modes_[relation] = mode;
    derive();
}

void Frame::pin(const std::string &loop, const Expr &value) { pinned_[loop] = value; }

void Frame::override_extent(const std::string &loop, const Expr &extent) {
    overridden_[loop] = extent;
    derive();
}

std::set<std::string> Frame::standing(const std::string &loop) const {
    if (stage_->has_loop(loop)) return {loop};
    for (const Relation &r : stage_->relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r); s && s->parent == loop) {
            std::set<std::string> all = standing(s->outer);
            all.merge(standing(s->inner));
            return all;
        }
        if (const auto *f = std::get_if<FuseRelation>(&r); f && (f->outer == loop || f->inner == loop))
            return standing(f->fused);
    }
    return {};
}

Interval Frame::axis_interval(const std::string &axis, size_t depth, const Bounds &bounds) const {
    Bounds scope;
    for (size_t i = depth; i < stage_->order.size(); i++) {
        const std::string &loop = stage_->order[i];
        if (pinned(loop)) continue;
        scope.push(prefix_ + loop, Interval(0, simple_size(extents_.at(loop) - 1)));
    }
    const Expr e = simplify_index(index(axis), bounds);
    Interval i = bounds_of_expr_in_scope(e, scope);
    if (!i.is_bounded()) throw InternalError("axis " + axis + " of stage " + stage_->name() + " is not bounded");
    i.min = simplify_index(i.min, bounds);
    i.max = simplify_index(i.max, bounds);
    return i;
}

Region region_union(const Region &a, const Region &b, const Bounds &known) {
    Region u;
    for (size_t d = 0; d < a.min.size(); d++) {
        const Expr lo = simplify_index(Min::make(a.min[d], b.min[d]), known);
        const Expr hi = simplify_index(Max::make(a.end(d), b.end(d)), known);
        u.min.push_back(lo);
        u.extent.push_back(simplify_index(hi - lo, known));
    }
    return u;
}

namespace {

// The indices of every read of a tensor.
std::vector<std::vector<Expr>> reads_of(const Expr &e, const std::string &tensor) {
    struct Reads : IRGraphVisitor {
        using IRGraphVisitor::visit;
        const std::string *tensor;
        std::vector<std::vector<Expr>> found;
        void visit(const Call *op) override {
            if (op->call_type == Call::Image && op->name == *tensor) found.push_back(op->args);
            IRGraphVisitor::visit(op);
        }
    } reads;
    reads.tensor = &tensor;
    e.accept(&reads);
    return reads.found;
}

// Decomposes an index: its value with all varying variables of the scope at their first value, and
// the greatest common divisor of the strides of these variables; 1 if a stride is not constant.
std::pair<Expr, int64_t> lattice_of(const Expr &index, const Bounds &scope, const Bounds &known) {
    Expr first = index;
    int64_t step = 0;
    for (auto v = scope.cbegin(); v != scope.cend(); ++v) {
        if (!expr_uses_var(index, v.name())) continue;
        const Interval &i = v.value();
        first = substitute(v.name(), i.min, first);
        if (i.is_single_point() || proves(i.max <= i.min, known)) continue;
        const Expr x = Variable::make(Int(32), v.name());
        const auto grows = as_const_int(simplify(substitute(v.name(), x + 1, index) - index));
        step = grows ? std::gcd(step, *grows) : 1;
    }
    return {first, step};
}

} // namespace

std::optional<Interval> index_range(const Expr &index, const Bounds &scope) {
    if (!tensors_read(index).empty()) return std::nullopt;
    const Interval i = range_of(simplified(index), scope);
    return i.is_bounded() ? std::optional(i) : std::nullopt;
}

std::optional<Region> region_read(const Expr &e, const std::string &tensor, const Bounds &scope, const Region &whole,
                                  const Bounds &known) {
    std::optional<Region> all;
    for (const auto &args : reads_of(e, tensor)) {
        Region r;
        for (size_t d = 0; d < args.size(); d++) {
            const Interval i =
                index_range(args[d], scope).value_or(Interval(whole.min[d], whole.min[d] + whole.extent[d] - 1));
            const Expr lo = simplify_index(i.min, known);
            r.min.push_back(lo);
            r.extent.push_back(simplify_index(i.max - lo + 1, known));
        }
        all = all ? region_union(*all, r, known) : r;
    }
    return all;
}

std::optional<Region> lattice_read(const std::vector<Expr> &all, const std::string &tensor, const Bounds &scope,
                                   const Region &whole, const Bounds &known) {
    std::optional<Region> region;
    std::vector<std::vector<Expr>> reads;
    for (const Expr &e : all) {
        if (auto read = region_read(e, tensor, scope, whole, known))
            region = region ? region_union(*region, *read, known) : read;
        for (auto &args : reads_of(e, tensor)) reads.push_back(args);
    }
    if (!region) return region;
    std::vector<int> steps;
    for (size_t d = 0; d < whole.min.size(); d++) {
        int64_t step = 0;
        Expr first;
        for (const auto &args : reads) {
            if (!tensors_read(args[d]).empty()) step = 1; // data-dependent
            if (step == 1) break;
            const auto [at, grows] = lattice_of(args[d], scope, known);
            step = std::gcd(step, grows);
            if (first.defined()) {
                const auto distance = as_const_int(simplify_index(at - first, known));
                step = distance ? std::gcd(step, *distance) : 1;
            }
            first = at;
        }
        // A single index needs no step, and the first stored index must be one that is read.
        const bool apart =
            step > 1 && step < (1 << 20) && proves((first - region->min[d]) % static_cast<int>(step) == 0, known);
        steps.push_back(apart ? static_cast<int>(step) : 1);
        if (steps[d] > 1) region->extent[d] = simplify_index((region->extent[d] - 1) / steps[d] + 1, known);
    }
    if (std::any_of(steps.begin(), steps.end(), [](int s) { return s > 1; })) region->step = steps;
    return region;
}

} // namespace kumiko

// Stores zeros in the elements of buffers that kernels read and no stage writes.
//
// The last vector of a loop whose length the vector does not divide, and the last block of a tensor
// instruction, load whole registers from buffers that are stored rounded up
// (Storage::covers_reads), and compute on all lanes; their stores mask the lanes beyond the end.
// These lanes must be initialized: a workspace holds the values of its last use, and arithmetic on
// denormal numbers takes a microcode assist.
//
//   allocate W.L2[24 stored as 32]                allocate W.L2[24 stored as 32]
//   for o in 0..24: W.L2(o) = W(o)           →    vectorized o in 16..32: W.L2(o) = 0
//   vectorized v in 0..32: … W.L2(v) …            for o in 0..24: W.L2(o) = W(o)
//                                                 vectorized v in 0..32: … W.L2(v) …
//
// `build` inserts a mark before the loops that fill a buffer. This pass finds how far the lanes of
// all reads reach, and replaces each mark by loops that store zeros from the end of the written
// elements to there. Zeros are stored in whole vectors; these may overlap elements that the stage
// writes afterwards. Reads of a buffer without a mark are predicated where their lanes may reach
// too far.
#include "dsl/reach.h"
#include "schedules/storage.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;
using Halide::DeviceAPI;
using Halide::MemoryType;
using Halide::Partition;

namespace {

const std::string mark = "kumiko.pad";

// The indices [first, end) of one buffer that lanes read along each dimension; undefined if they
// stay within the written elements.
struct Reached {
    std::vector<Expr> first, end;
    std::vector<bool> blocks; // or to the end of the last block of the storage order
    explicit Reached(size_t rank = 0) : first(rank), end(rank), blocks(rank) {}
    bool beyond() const {
        const auto defined = [](const Expr &e) { return e.defined(); };
        return std::any_of(first.begin(), first.end(), defined) || std::any_of(end.begin(), end.end(), defined);
    }
};

bool uses_any(const Expr &e, const std::set<std::string> &names) {
    struct Uses : IRGraphVisitor {
        using IRGraphVisitor::visit;
        const std::set<std::string> *names;
        bool found = false;
        void visit(const Variable *op) override { found = found || names->count(op->name); }
    } uses;
    uses.names = &names;
    e.accept(&uses);
    return uses.found;
}

// Finds the reads of all buffers, each relative to the loops between its allocation and the read.
class FindReads : public IRVisitor {
public:
    explicit FindReads(const Lowering &l) : l_(l), bounds_(l.facts.bounds()) {}
    std::map<std::string, Reached> reached;

private:
    using IRVisitor::visit;
    struct Loop { // or a let
        std::string name;
        Interval range;
    };
    const Lowering &l_;
    Bounds bounds_; // of all loops around
    std::vector<Loop> loops_;
    struct Scope {
        size_t loops, conditions; // around the allocation
    };
    std::map<std::string, Scope> allocated_; // buffers in scope
    std::vector<Expr> conditions_;           // that hold at the statement being visited
    std::set<std::string> lanes_;            // variables that differ between lanes
    // Those of lanes_ in blocks that a tensor instruction processes with all lanes.
    std::set<std::string> short_;

    void visit(const For *op) override {
        const Interval range(op->min, simplify_index(op->min + op->extent - 1, bounds_));
        const auto use = l_.tensorized.find(op->name);
        const bool lanes = op->for_type == ForType::Vectorized || use != l_.tensorized.end();
        Interval reached = range;
        if (use != l_.tensorized.end() && !use->second.reductions.count(op->name) && !as_const_int(op->extent)) {
            // A partial block of unknown size becomes a masked vector of as many lanes as it can
            // have.
            const Expr most = find_constant_bound(op->extent, Direction::Upper, bounds_);
            if (most.defined()) reached.max = simplify_index(op->min + most - 1, bounds_);
        }
        loops_.push_back({op->name, reached});
        bounds_.push(op->name, range);
        if (lanes) lanes_.insert(op->name);
        if (lanes && is_short(op)) short_.insert(op->name);
        op->body.accept(this);
        lanes_.erase(op->name), short_.erase(op->name);
        bounds_.pop(op->name);
        loops_.pop_back();
    }
    bool is_short(const For *op) const {
        const auto use = l_.tensorized.find(op->name);
        const auto extent = as_const_int(op->extent);
        if (use == l_.tensorized.end() || use->second.reductions.count(op->name) || !extent) return false;
        const auto &operands = use->second.instruction.operands;
        return std::any_of(operands.begin(), operands.end(),
                           [&](const InstructionOperand &o) { return o.accumulator && *extent < o.lanes; });
    }
    void visit(const LetStmt *op) override {
        op->value.accept(this);
        const bool lanes = uses_any(op->value, lanes_);
        if (lanes) lanes_.insert(op->name);
        loops_.push_back({op->name, Interval::single_point(op->value)});
        op->body.accept(this);
        loops_.pop_back();
        if (lanes) lanes_.erase(op->name);
    }
    void visit(const Allocate *op) override {
        allocated_[op->name] = {loops_.size(), conditions_.size()};
        op->body.accept(this);
        allocated_.erase(op->name);
    }
    // `if (x < 3) … else …` restricts the range of loop x.
    void visit(const IfThenElse *op) override {
        op->condition.accept(this);
        conditions_.push_back(op->condition);
        narrowed(bounds_in(op->condition), false, op->then_case);
        conditions_.pop_back();
        if (!op->else_case.defined()) return;
        const auto all = bounds_in(op->condition);
        conditions_.push_back(!op->condition);
        narrowed(all.size() == 1 && all[0].same_as(op->condition) ? all : std::vector<Expr>{}, true, op->else_case);
        conditions_.pop_back();
    }
    void narrowed(const std::vector<Expr> &conditions, bool fails, const Stmt &body) {
        const std::vector<Loop> before = loops_;
        for (const Expr &c : conditions) {
            const bool strict = c.as<LT>();
            const Expr a = strict ? c.as<LT>()->a : c.as<LE>()->a, b = strict ? c.as<LT>()->b : c.as<LE>()->b;
            const auto *v = a.as<Variable>();
            const auto loop =
                std::find_if(loops_.begin(), loops_.end(), [&](const Loop &l) { return v && l.name == v->name; });
            // Disabled lanes load, too.
            if (loop == loops_.end() || lanes_.count(loop->name)) continue;
            Expr &min = loop->range.min, &max = loop->range.max;
            if (fails)
                min = simplify_index(Halide::max(min, strict ? b : b + 1), bounds_);
            else
                max = simplify_index(Halide::min(max, strict ? b - 1 : b), bounds_);
        }
        body.accept(this);
        loops_ = before;
    }

    void visit(const Call *op) override {
        if (op->name == "kumiko.prefetch") return; // reads no values
        IRVisitor::visit(op);
        if (op->call_type != Call::Image || lanes_.empty()) return;
        const Storage &s = l_.storage.at(op->name);
        const std::string &buffer = s.buffer.empty() ? op->name : s.buffer;
        const auto scope = allocated_.find(buffer);
        if (scope == allocated_.end() || s.covers_lanes || s.written.end.empty()) return;
        size_t outside = scope->second.loops;
        if (!s.buffer.empty()) outside = inside_of(l_.copies_by.at(buffer), outside);
        Reached &r = reached.try_emplace(buffer, op->args.size()).first->second;
        for (size_t d = 0; d < op->args.size(); d++) {
            // If an index does not differ between lanes, some enabled lane reads at the same index.
            if (!uses_any(op->args[d], lanes_)) continue;
            r.blocks[d] = r.blocks[d] || uses_any(op->args[d], short_);
            if (!s.covers_reads) continue; // predicates disable the other lanes
            Expr end = simplify_index(most(op->args[d], outside, true) + 1, bounds_);
            Expr first = most(op->args[d], outside, false);
            const bool ends = proves(end <= s.written.end[d], bounds_),
                       begins = proves(first >= s.written.first[d], bounds_);
            if (const Expr c = runs_if(scope->second, outside); c.defined()) {
                end = Select::make(c, end, s.written.end[d]);
                first = Select::make(c, first, s.written.first[d]);
            }
            if (!ends) r.end[d] = r.end[d].defined() ? simplify_index(max(r.end[d], end), bounds_) : end;
            if (!begins) r.first[d] = r.first[d].defined() ? simplify_index(min(r.first[d], first), bounds_) : first;
        }
    }
    // The number of loops around the body of `loop`, if it is inside the `outside` outermost ones.
    size_t inside_of(const std::string &loop, size_t outside) const {
        for (size_t l = loops_.size(); l-- > outside;) {
            if (loops_[l].name == loop) return l + 1;
        }
        return outside;
    }
    // The part of the current statement's conditions that is known where the buffer is allocated;
    // undefined if there is none.
    Expr runs_if(const Scope &scope, size_t outside) const {
        Expr all;
        for (size_t n = scope.conditions; n < conditions_.size(); n++) {
            bool known = tensors_read(conditions_[n]).empty();
            for (size_t l = outside; l < loops_.size(); l++)
                known = known && !expr_uses_var(conditions_[n], loops_[l].name);
            if (known) all = all.defined() ? all && conditions_[n] : conditions_[n];
        }
        return all;
    }
    // The maximum or minimum of an index in terms of the variables that are defined where the
    // buffer is allocated. limit() if the index is data-dependent.
    Expr most(Expr index, size_t outside, bool greatest) const {
        for (size_t l = loops_.size(); l-- > outside;) {
            if (!expr_uses_var(index, loops_[l].name)) continue;
            if (!tensors_read(loops_[l].range.min).empty()) return limit(greatest);
            Bounds one;
            one.push(loops_[l].name, loops_[l].range);
            const auto range = index_range(index, one);
            if (!range) return limit(greatest);
            index = simplify_index(greatest ? range->max : range->min, bounds_);
        }
        return index;
    }
    static Expr limit(bool greatest) { return greatest ? Int(32).max() / 2 : Int(32).min() / 2; }
};

class StoreZeros : public IRMutator {
public:
    StoreZeros(Lowering &l, const std::map<std::string, Reached> &reached)
        : l_(l), reached_(reached), bounds_(l.facts.bounds()) {}

private:
    using IRMutator::visit;
    Lowering &l_;
    const std::map<std::string, Reached> &reached_;
    Bounds bounds_;
    std::map<std::string, MemoryType> memory_;

    struct Range {
        Expr first, end; // relative to the first stored element
    };

    Stmt visit(const For *op) override {
        bounds_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        Stmt s = IRMutator::visit(op);
        bounds_.pop(op->name);
        return s;
    }
    Stmt visit(const Allocate *op) override {
        memory_[op->name] = op->memory_type;
        return IRMutator::visit(op);
    }
    Stmt visit(const Evaluate *op) override {
        const auto *call = op->value.as<Call>();
        return call && call->name == mark ? zeros(l_.pads.at(*as_const_int(call->args[0]))) : Stmt(op);
    }

    Expr simple(const Expr &e) const { return simplify_index(e, bounds_); }

    Stmt zeros(const Pad &pad) {
        const Storage &s = l_.storage.at(pad.buffer);
        const size_t rank = s.axes.size();
        std::vector<Range> all(rank), inside(rank); // what is read, and what of it is written
        std::vector<bool> beyond(rank), before(rank);
        const auto found = reached_.find(s.buffer.empty() ? pad.buffer : s.buffer);
        if (found == reached_.end() && !pad.whole) return Evaluate::make(0);
        bool any = false;
        for (size_t d = 0; d < rank; d++) {
            if (s.ring == d) {
                all[d] = inside[d] = {0, s.region.extent[d]};
                continue;
            }
            const int step = s.region.step_of(d);
            // The first stored element at or after the index.
            const auto stored = [&](const Expr &index) {
                return simple((index - s.region.min[d] + (step - 1)) / step);
            };
            const Expr room = simple(capacity(s, d, 1)), extent = s.region.extent[d];
            inside[d] = {stored(s.written.first[d]), stored(s.written.end[d])};
            Expr first = pad.whole ? Expr() : found->second.first[d], end = pad.whole ? Expr() : found->second.end[d];
            if (pad.whole) {
                all[d] = {inside[d].first, room};
            } else {
                const auto there = [&](const Expr &e) {
                    return pad.variable.empty() ? e : substitute(pad.variable, pad.at, e);
                };
                all[d] = inside[d];
                if (first.defined()) all[d].first = simple(max(min(stored(there(first)), inside[d].first), 0));
                if (end.defined()) all[d].end = simple(min(max(stored(there(end)), inside[d].end), extent));
                if (found->second.blocks[d]) {
                    const Expr block = block_of(s, d);
                    all[d].end = simple(max(all[d].end, min((inside[d].end + (block - 1)) / block * block, room)));
                }
            }
            beyond[d] = !proves(all[d].end <= inside[d].end, bounds_);
            before[d] = !proves(all[d].first >= inside[d].first, bounds_);
            any = any || beyond[d] || before[d];
        }
        std::vector<Stmt> boxes;
        // Registers need constant indices: zero everything; code generation removes most of it.
        if (any && in_registers(pad)) {
            for (size_t d = 0; d < rank; d++) all[d] = {0, s.region.extent[d]};
            return store_box(pad, s, all, rank);
        }
        for (size_t d = 0; any && d < rank; d++) {
            std::vector<Range> box = all;
            if (beyond[d]) {
                box[d].first = simple(max(inside[d].end, 0));
                boxes.push_back(store_box(pad, s, box, d));
            }
            if (before[d]) {
                box[d] = {all[d].first, inside[d].first};
                boxes.push_back(store_box(pad, s, box, rank));
            }
        }
        return boxes.empty() ? Evaluate::make(0) : Block::make(boxes);
    }

    // The number of elements of an axis that the storage order keeps in one block.
    static Expr block_of(const Storage &s, size_t d) {
        for (const LayoutTerm &t : s.layout) {
            if (t.axis == s.axes[d] && t.part == LayoutTerm::Part::Inner) return static_cast<int>(t.block);
        }
        return 1;
    }

    // The number of elements along an axis that the storage has room for, in multiples of `lanes`;
    // undefined if such vectors would leave the axis.
    static Expr capacity(const Storage &s, size_t d, int lanes) {
        Expr n = s.region.extent[d];
        for (const LayoutTerm &t : storage_terms(s.layout, s.axes)) {
            if (t.axis != s.axes[d] || t.part != LayoutTerm::Part::Inner) continue;
            if (t.block % lanes != 0) return Expr();
            const int block = static_cast<int>(t.block);
            n = (n + (block - 1)) / block * block;
        }
        return n;
    }

    // Stores zeros to a box. `padded`: the axis along which vectors may begin before the box.
    Stmt store_box(const Pad &pad, const Storage &s, const std::vector<Range> &box, size_t padded) {
        const auto terms = storage_terms(s.layout, s.axes);
        const auto axis_of = [&](const LayoutTerm &t) {
            return size_t(std::find(s.axes.begin(), s.axes.end(), t.axis) - s.axes.begin());
        };
        const size_t inner = terms.empty() ? 0 : axis_of(terms.back());
        std::vector<size_t> order;
        for (const LayoutTerm &t : terms) {
            const size_t d = axis_of(t);
            if (d != inner && std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
        }
        std::vector<Expr> index(s.axes.size());
        const std::string prefix = "pad" + std::to_string(count_++) + "." + pad.buffer + ".";
        const auto variable = [&](size_t d, const char *suffix) {
            return Variable::make(Int(32), prefix + s.axes[d] + suffix);
        };
        const auto at = [&](size_t d, const Expr &element) {
            index[d] = s.region.min[d] + element * s.region.step_of(d);
        };
        struct Loop {
            Expr variable, min, extent;
            ForType type;
        };
        std::vector<Loop> loops;
        const ForType serial = in_registers(pad) ? ForType::Unrolled : ForType::Serial;
        const auto over = [&](const Expr &v, const Range &r) {
            Expr n = simple(r.end - r.first);
            if (!proves(n >= 0, bounds_)) n = simple(max(n, 0));
            loops.push_back({v, r.first, n, serial});
        };
        for (const size_t d : order) {
            over(variable(d, ""), box[d]);
            at(d, loops.back().variable);
        }
        if (!s.axes.empty()) {
            const Range &r = box[inner];
            const int lanes = vector_lanes(s, r, inner, inner == padded || is_const_zero(r.first));
            if (lanes == 1) {
                over(variable(inner, ""), r);
                at(inner, loops.back().variable);
            } else {
                over(variable(inner, ".o"), {simple(r.first / lanes), simple((r.end + (lanes - 1)) / lanes)});
                const Expr block = loops.back().variable, lane = variable(inner, ".v");
                loops.push_back({lane, 0, lanes, ForType::Vectorized});
                at(inner, block * lanes + lane);
            }
        }
        Stmt body = Provide::make(pad.buffer, {make_zero(s.type)}, index, const_true());
        for (size_t n = loops.size(); n-- > 0;) {
            const Loop &l = loops[n];
            const std::string &name = l.variable.as<Variable>()->name;
            if (is_const_one(l.extent))
                body = substitute(name, l.min, body);
            else
                body = For::make(name, l.min, l.extent, l.type, Partition::Never, DeviceAPI::None, body);
        }
        return body;
    }

    // The widest vector whose multiples cover a range of an axis and stay in the buffer.
    int vector_lanes(const Storage &s, const Range &r, size_t d, bool may_begin_before) const {
        const int most = std::max(1, l_.state.machine->vector_bits / 8 / s.type.bytes());
        for (int lanes = most; lanes > 1; lanes /= 2) {
            const Expr room = capacity(s, d, lanes);
            if (!room.defined() || !proves((r.end + (lanes - 1)) / lanes * lanes <= room, bounds_)) continue;
            if (may_begin_before || proves(r.first % lanes == 0, bounds_)) return lanes;
        }
        return 1;
    }

    bool in_registers(const Pad &pad) const {
        const auto found = memory_.find(base(pad));
        return found != memory_.end() && found->second == MemoryType::Register;
    }
    const std::string &base(const Pad &pad) const {
        const Storage &s = l_.storage.at(pad.buffer);
        return s.buffer.empty() ? pad.buffer : s.buffer;
    }

    int count_ = 0;
};

} // namespace

Stmt pad_mark(Lowering &l, const Pad &pad) {
    l.pads.push_back(pad);
    return Evaluate::make(Call::make(Int(32), mark, {static_cast<int>(l.pads.size() - 1)}, Call::Intrinsic));
}

void fill_pads(Lowering &l) {
    FindReads reads(l);
    l.nest.body.accept(&reads);
    std::set<std::string> filled;
    for (const Pad &pad : l.pads) {
        const Storage &s = l.storage.at(pad.buffer);
        filled.insert(s.buffer.empty() ? pad.buffer : s.buffer);
    }
    for (auto &[name, s] : l.storage) {
        const std::string &buffer = s.buffer.empty() ? name : s.buffer;
        const auto found = reads.reached.find(buffer);
        if (found == reads.reached.end() || filled.count(buffer)) continue;
        if (found->second.beyond()) s.covers_reads = false;
    }
    l.nest.body = StoreZeros(l, reads.reached).mutate(l.nest.body);
}

} // namespace kumiko

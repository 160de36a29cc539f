// Work done ahead of time: copies that one iteration fills for a later one, and prefetches.
#include "targets/lower/nest_loop_builder.h"

#include "machine/machine.h"
#include "schedules/storage.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;
using Halide::DeviceAPI;
using Halide::Partition;

// Allocates n copies for each stage in `staged` (n is the stage's buffer count) around the loop at
// `depth`, which runs from `min` over `extent`. The copies of the first n - 1 iterations are filled
// here; `fills` receives the statement that fills the copy for the iteration n - 1 later.
Stmt NestLoopBuilder::with_staged(Frame &f, size_t depth, const std::vector<const StageState *> &staged, size_t k,
                                  const Expr &min, const Expr &extent, std::vector<Stmt> &fills,
                                  const std::function<Stmt()> &loop) {
    if (k == staged.size()) return loop();
    const StageState &p = *staged[k];
    const int ahead = p.buffers - 1;
    const std::string variable = f.prefix() + f.stage().order[depth];
    const Expr v = Variable::make(Int(32), variable);
    const Region region = *needed(p, f, depth + 1);
    return with_storage(
        p, region,
        [&] {
            const std::map<std::string, std::string> use = buffers_;
            // The storage seen from iteration `at` of the loop.
            const auto view = [&](const std::string &suffix, const Expr &at) {
                for (const std::string &t : names_of(p)) {
                    const std::string name = use.at(t);
                    Storage s = l_.storage.at(name);
                    for (Expr &e : s.region.extent) {
                        if (expr_uses_var(e, variable)) {
                            throw Unsupported("multiple buffers of stage " + p.name() +
                                              ", whose size changes with loop " + variable +
                                              "; split the loop so that blocks are of one size");
                        }
                    }
                    for (auto *ends : {&s.region.min, &s.written.first, &s.written.end}) {
                        for (Expr &e : *ends) e = simplify_index(substitute(variable, at, e), bounds_);
                    }
                    s.buffer = name;
                    l_.copies_by[name] = variable;
                    s.copy = simplify_index((at - min) % p.buffers, bounds_);
                    l_.storage[name + suffix] = s;
                    buffers_[t] = name + suffix;
                }
            };
            const auto filled = [&](const Expr &at) {
                Region r = region;
                for (Expr &e : r.min) e = simplify_index(substitute(variable, at, e), bounds_);
                for (Expr &e : r.extent) e = simplify_index(substitute(variable, at, e), bounds_);
                std::vector<Stmt> all;
                for (const std::string &t : names_of(p)) all.push_back(pad_mark(l_, {buffers_.at(t), variable, at}));
                all.push_back(nest({{&p, r}}));
                return Block::make(all);
            };
            // In its own loop if there are several.
            const std::string early = ahead > 1 ? fresh_instance("first." + variable) : "";
            const Expr at_first = ahead > 1 ? min + Variable::make(Int(32), early) : min;
            if (ahead > 1) bounds_.push(early, Interval(0, ahead - 1));
            view("'first", at_first);
            Stmt first = filled(at_first);
            if (ahead > 1) {
                bounds_.pop(early);
                const Expr there = simplify_index(Halide::min(extent, ahead), bounds_);
                first = For::make(early, 0, there, ForType::Serial, Partition::Never, DeviceAPI::None, first);
            } else if (!proves(extent > 0, bounds_)) {
                first = IfThenElse::make(simplify_index(extent > 0, bounds_), first);
            }
            const Expr last = simplify(min + extent - 1);
            if (!proves(extent <= ahead, bounds_)) {
                bounds_.push(variable, Interval(min, simplify(last - ahead)));
                view("'next", v + ahead);
                fills.push_back(IfThenElse::make(simplify(v <= last - ahead), filled(v + ahead)));
                bounds_.pop(variable);
            }
            view("'now", v);
            ahead_.insert(p.name());
            Stmt rest = with_staged(f, depth, staged, k + 1, min, extent, fills, loop);
            ahead_.erase(p.name());
            buffers_ = use;
            return Block::make(first, rest);
        },
        p.buffers);
}

namespace {

// The contiguous dimension of a stored tensor, and the number of elements along it in one cache
// line. `along` is the number of dimensions if there is none.
struct PrefetchDimension {
    size_t along;
    int64_t step;
};

PrefetchDimension prefetch_dimension(const Storage &stored, int line_bytes) {
    PrefetchDimension p{stored.axes.size(), std::max(1, line_bytes / stored.type.bytes())};
    if (stored.external) {
        for (size_t d = 0; d < stored.strides.size(); d++) {
            if (is_const_one(stored.strides[d])) p.along = d;
        }
    } else if (!stored.axes.empty()) {
        const LayoutTerm last = storage_terms(stored.layout, stored.axes).back();
        p.along = std::find(stored.axes.begin(), stored.axes.end(), last.axis) - stored.axes.begin();
        if (last.part == LayoutTerm::Part::Inner) p.step = std::min<int64_t>(p.step, last.block);
        if (last.part == LayoutTerm::Part::Outer) p.step = 1;
    }
    return p;
}

// Loops with these variables and extents around a prefetch, unrolled if they are few iterations;
// undefined if an extent is 0.
Stmt prefetch_loops(const std::vector<std::pair<std::string, Expr>> &loops, Stmt body) {
    constexpr int64_t few = 16;
    int64_t lines = 1;
    for (const auto &[variable, count] : loops) {
        const int64_t n = as_const_int(count).value_or(few + 1);
        if (n <= 0) return {};
        lines *= n;
    }
    const ForType type = lines <= few ? ForType::Unrolled : ForType::Serial;
    for (size_t n = loops.size(); n-- > 0;) {
        body = For::make(loops[n].first, 0, loops[n].second, type, Partition::Never, DeviceAPI::None, body);
    }
    return body;
}

} // namespace

// Prefetches the cache lines that are read `distance` iterations later.
Stmt NestLoopBuilder::fetch_ahead(const Frame &f, size_t depth, const Prefetch &p) {
    const StageState &s = f.stage();
    const bool own = p.tensor == s.name(); // its partial results
    const std::string &tensor = own ? s.tensor() : p.tensor;
    bool reads = false; // inlining may have removed all reads
    for (const Expr &e : expressions_of(s)) reads = reads || tensors_read(e).count(tensor);
    if (!reads) return Evaluate::make(0);
    const auto found = buffer_of(tensor);
    if (found == buffers_.end()) throw UserError("tensor " + tensor + " is prefetched where it has not been computed");
    const Storage &stored = l_.storage.at(found->second);
    const Bounds scope = scope_of(f, depth + 1);
    std::optional<Region> region;
    for (const Expr &e : expressions_of(s)) {
        if (auto r = region_read(e, tensor, scope, stored.region, bounds_))
            region = region ? region_union(*region, *r, bounds_) : r;
    }
    if (own) {
        region.emplace();
        for (const Axis &a : s.def.axes) {
            const Interval i = scope.get(a.name());
            region->min.push_back(i.min);
            region->extent.push_back(simplify_index(i.max - i.min + 1, bounds_));
        }
    }
    if (!region) return Evaluate::make(0);
    const Frame *of = &f; // the frame of the loop that the distance counts
    if (!p.of.empty()) {
        of = p.consumer == s.name() ? &f : around_[p.consumer];
        // A peeled iteration with its own copy of the body.
        if (!of || of->pinned(p.of)) return Evaluate::make(0);
    }
    const std::string &loop = p.of.empty() ? s.order[depth] : p.of;
    const Expr extent = of->extent(loop), later = of->variable(loop) + static_cast<int>(p.distance),
               ahead = p.of.empty() ? later : simplify_index(min(later, extent - 1), bounds_);
    const auto [along, step] = prefetch_dimension(stored, line_bytes());
    std::vector<Expr> index;
    std::vector<std::pair<std::string, Expr>> loops;
    for (size_t d = 0; d < stored.axes.size(); d++) {
        const Expr first = stored.region.min[d], end = stored.region.end(d);
        Expr lo = substitute(of->prefix() + loop, ahead, region->min[d]);
        // Prefetches beyond the end do not fault, and a constant number of them is cheaper.
        Expr hi = lo + substitute(of->prefix() + loop, ahead, region->extent[d]);
        if (!is_const(region->extent[d])) hi = simplify_index(min(hi, end), bounds_);
        lo = simplify_index(max(lo, first), bounds_);
        Expr count = simplify_index(hi - lo, bounds_), at = lo;
        if (is_const_one(count)) {
            index.push_back(at);
            continue;
        }
        const std::string variable = fresh_instance("ahead." + tensor + "." + stored.axes[d]);
        const Expr v = Variable::make(Int(32), variable);
        if (d == along && step > 1) {
            const Expr n = static_cast<int>(step);
            const bool aligned = proves(lo % n == 0, bounds_);
            count = simplify_index(aligned ? (count + n - 1) / n : (count + n - 2) / n + 1, bounds_);
            at = aligned ? lo + v * n : min(lo + v * n, hi - 1);
        } else {
            at = lo + v;
        }
        loops.emplace_back(variable, count);
        index.push_back(at);
    }
    const Expr read = read_tensor(stored.type, found->second, index);
    Stmt body = Evaluate::make(Call::make(Int(32), "kumiko.prefetch",
                                          {StringImm::make(found->second), read, 3, own ? 1 : 0}, Call::Intrinsic));
    body = prefetch_loops(loops, body);
    if (!body.defined()) return Evaluate::make(0);
    if (p.of.empty()) return IfThenElse::make(ahead < extent, body);
    const Expr turn = of == &f ? simplify_index(has_turn(f, depth, p.of, *region), bounds_) : const_true();
    return is_const_one(turn) ? body : IfThenElse::make(turn, body);
}

// Iterations of the loops between `of` and the one at `depth` that read the same region would all
// prefetch it. Instead they share the requests round-robin, by the iteration of the loop at
// `depth`. A loop that ends early omits some requests.
Expr NestLoopBuilder::has_turn(const Frame &f, size_t depth, const std::string &of, const Region &region) {
    const StageState &s = f.stage();
    Expr turn = 0, turns = 1;
    for (size_t d = s.position(of) + 1; d < depth; d++) {
        const std::string &between = s.order[d];
        const auto varies = [&](const Expr &e) { return expr_uses_var(e, f.prefix() + between); };
        const Expr extent = f.extent(between);
        if (std::any_of(region.min.begin(), region.min.end(), varies) ||
            std::any_of(region.extent.begin(), region.extent.end(), varies) || as_const_int(extent).value_or(2) <= 1)
            continue;
        turn = turn * extent + f.value(between) % extent, turns = turns * extent;
    }
    return is_const_one(turns) ? const_true() : f.variable(s.order[depth]) % turns == turn;
}

int NestLoopBuilder::line_bytes() const {
    for (const MemoryLevel &m : state_.machine->memory) {
        if (m.line_bytes > 0) return m.line_bytes;
    }
    return 64;
}

} // namespace kumiko

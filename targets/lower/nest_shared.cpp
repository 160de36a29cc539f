// Stages in one nest (compute_with). Each stage is built by itself, and shared loops have the same
// variables. The nests are then merged from the outermost loop inwards. Two statements of a shared
// loop become one loop. All other statements keep their order. The stages do not depend on each
// other, so every such order is correct.
#include "schedules/shared_loops.h"
#include "support/error.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

std::set<std::string> loops_in(const Stmt &s) {
    struct Find : IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> found;
        void visit(const For *op) override {
            found.insert(op->name);
            IRVisitor::visit(op);
        }
    } find;
    s.accept(&find);
    return find.found;
}

class Zip {
public:
    // `shared` has the variables of the loops to merge. The other arguments are for messages:
    // `prefix` precedes a loop's name in a variable.
    Zip(const std::set<std::string> &shared, const std::string &prefix, const std::string &leader,
        const std::string &stage)
        : shared_(shared), prefix_(prefix), leader_(leader), stage_(stage) {}

    Stmt operator()(const Stmt &a, const Stmt &b) const {
        if (is_no_op(a)) return b;
        if (is_no_op(b)) return a;
        const auto is_list = [](const Stmt &s) { return s.as<Block>() || s.as<Allocate>(); };
        if (is_list(a) || is_list(b)) return lists(a, b);
        if (!alike(a, b)) {
            check_apart(a);
            check_apart(b);
            return Block::make(a, b);
        }
        if (const auto *x = a.as<For>()) {
            return For::make(x->name, x->min, x->extent, x->for_type, x->partition_policy, x->device_api,
                             (*this)(x->body, b.as<For>()->body));
        }
        const auto *x = a.as<IfThenElse>(), *y = b.as<IfThenElse>();
        const Stmt otherwise = x->else_case.defined() ? (*this)(x->else_case, y->else_case) : Stmt();
        return IfThenElse::make(x->condition, (*this)(x->then_case, y->then_case), otherwise);
    }

private:
    using Loops = std::set<std::string>;
    struct Statement {
        Stmt stmt;
        Loops loops; // the shared ones in it
    };

    const Loops &shared_;
    const std::string &prefix_, &leader_, &stage_;

    Loops shared_in(const Stmt &s) const {
        Loops found = loops_in(s);
        std::erase_if(found, [&](const std::string &loop) { return !shared_.count(loop); });
        return found;
    }

    // The consecutive statements, and the buffers around some of them, which may be moved around
    // all.
    void flatten(const Stmt &s, std::vector<Statement> &all, std::vector<const Allocate *> &buffers) const {
        if (const auto *block = s.as<Block>()) {
            flatten(block->first, all, buffers);
            flatten(block->rest, all, buffers);
        } else if (const auto *buffer = s.as<Allocate>()) {
            buffers.push_back(buffer);
            flatten(buffer->body, all, buffers);
        } else {
            all.push_back({s, shared_in(s)});
        }
    }

    // The same shared loop, or the same condition.
    bool alike(const Stmt &a, const Stmt &b) const {
        const auto *x = a.as<For>(), *y = b.as<For>();
        if (x && y)
            return shared_.count(x->name) && x->name == y->name && x->for_type == y->for_type &&
                   equal(x->min, y->min) && equal(x->extent, y->extent);
        const auto *p = a.as<IfThenElse>(), *q = b.as<IfThenElse>();
        return p && q && equal(p->condition, q->condition) && p->else_case.defined() == q->else_case.defined();
    }

    [[noreturn]] void refuse(const Loops &loops) const {
        const std::string loop = loops.begin()->substr(prefix_.size());
        throw Unsupported("stages " + leader_ + " and " + stage_ + " share loop " + loop +
                          ", which differs in the two, for example because the last block of one is partial, or one "
                          "computes more rows; share fewer loops, or split by a factor that divides the extent");
    }

    void check_apart(const Stmt &s) const {
        if (const Loops loops = shared_in(s); !loops.empty()) refuse(loops);
    }

    // Merges statements with the same shared loops. If only one stage keeps partial results in
    // registers, the begin or the end of its reduction has no partner. It has fewer of the shared
    // loops than the steps, and stays separate.
    Stmt lists(const Stmt &first, const Stmt &second) const {
        std::vector<Statement> a, b;
        std::vector<const Allocate *> buffers;
        flatten(first, a, buffers);
        flatten(second, b, buffers);
        std::vector<Stmt> all;
        std::vector<Loops> paired, unpaired;
        size_t next = 0; // of b
        const auto pass = [&](const Statement &s) {
            if (!s.loops.empty()) unpaired.push_back(s.loops);
            all.push_back(s.stmt);
        };
        for (const Statement &s : a) {
            size_t k = next;
            while (k < b.size() && (s.loops.empty() || b[k].loops != s.loops)) k++;
            if (k == b.size()) {
                pass(s);
                continue;
            }
            for (; next < k; next++) pass(b[next]);
            all.push_back((*this)(s.stmt, b[next++].stmt));
            paired.push_back(s.loops);
        }
        for (; next < b.size(); next++) pass(b[next]);
        for (const Loops &one : unpaired) {
            const auto holds = [&](const Loops &pair) {
                return one.size() < pair.size() && std::includes(pair.begin(), pair.end(), one.begin(), one.end());
            };
            if (std::none_of(paired.begin(), paired.end(), holds)) refuse(one);
        }
        Stmt result = Block::make(all);
        for (size_t n = buffers.size(); n-- > 0;) {
            const Allocate *o = buffers[n];
            result = Allocate::make(o->name, o->type, o->memory_type, o->extents, o->condition, result, o->new_expr,
                                    o->free_function, o->padding);
        }
        return result;
    }
};

} // namespace

// The stage whose loops compute `s`: itself, or the reduction that it is fused into.
const StageState &NestReads::loops_of(const StageState &s) const {
    const StageState *by = finisher_of(s.name());
    return by ? *by : s;
}

// False if another stage starts the nest at the same place. Two stages in merged loops have
// different places; their nests are merged when those loops are zipped.
bool NestReads::starts_nest(const StageState &s) const {
    const StageState &loops = loops_of(s);
    if (!loops.shared) return true;
    return loops.placement.consumer != state_.stage(loops.shared->stage).placement.consumer;
}

// The stages that are stored by other loops in the nest of `s`.
std::vector<const StageState *> NestReads::in_nest_of(const StageState &s) const {
    std::vector<const StageState *> all;
    for (const StageState *other : sharing_loops(state_, loops_of(s).name())) {
        const StageState &stored = head_of(state_, *other);
        if (!starts_nest(stored)) all.push_back(&stored);
    }
    return all;
}

// For a stage in the loops of another: the prefix that these have in the current copy of the nest.
std::string NestBuilder::prefix_of(const StageState &s) {
    std::vector<std::string> &own = prefixes_[s.name()];
    std::string prefix;
    if (s.shared) {
        const std::vector<std::string> &of_leader = prefixes_[s.shared->stage];
        if (own.size() >= of_leader.size())
            throw Unsupported("stage " + s.name() + " in the loops of " + s.shared->stage +
                              ", which are computed after it; let " + s.shared->stage + " run in those of " + s.name());
        prefix = of_leader[own.size()];
        for (size_t l = 0; l <= s.position(s.shared->loop); l++) shared_.insert(prefix + s.order[l]);
    } else {
        prefix = fresh_instance("loops of " + s.name()).substr(9) + ".";
    }
    own.push_back(prefix);
    return prefix;
}

Stmt NestBuilder::nest(const std::vector<Run> &runs) {
    Stmt all;
    std::map<std::string, Region> regions;
    for (const Run &run : runs) regions[loops_of(*run.stage).name()] = run.region;
    const auto regions_around = std::exchange(shared_regions_, std::move(regions));
    const auto buffers_around = std::exchange(shared_buffers_, {});
    const auto visited_around = std::exchange(copies_visited_, {});
    for (const Run &run : runs) {
        const StageState &s = loops_of(*run.stage);
        const std::string prefix = prefix_of(s);
        copies_visited_.clear();
        const Stmt one = stage(s, run.region, prefix);
        if (!all.defined()) {
            all = one;
            continue;
        }
        // Loops of one name are merged down to the loop that the stage shares; inside of it they
        // are the stage's own. Other loops are merged if both nests have them, since stages inside
        // share them.
        std::set<std::string> shared;
        for (size_t l = 0; l <= s.position(s.shared->loop); l++) shared.insert(prefix + s.order[l]);
        const std::set<std::string> ours = loops_in(all), theirs = loops_in(one);
        for (const std::string &loop : shared_) {
            if (loop.rfind(prefix, 0) != 0 && ours.count(loop) && theirs.count(loop)) shared.insert(loop);
        }
        all = Zip(shared, prefix, loops_of(*runs[0].stage).name(), s.name())(all, one);
    }
    shared_regions_ = regions_around;
    shared_buffers_ = buffers_around;
    copies_visited_ = visited_around;
    return all;
}

// A frame for `s` whose shared loops have the values of the frame `f`. Nullopt unless `s` shares
// all loops of the frame's stage outside of `depth`.
std::optional<Frame> NestReads::frame_beside(const StageState &s, const Frame &f, size_t depth) {
    const auto run = shared_regions_.find(s.name());
    if (depth == 0 || run == shared_regions_.end() || !s.shared || s.shared->stage != f.stage().name() ||
        s.position(s.shared->loop) + 1 < depth)
        return std::nullopt;
    Frame beside(s, clipped(s, run->second), f.prefix());
    for (size_t l = 0; l < depth; l++) {
        if (f.pinned(s.order[l])) beside.pin(s.order[l], f.value(s.order[l]));
    }
    return beside;
}

// Remembers the buffers of a stage in the loop at `depth` for the stages that share this loop.
void NestBuilder::remember_buffers(const StageState &p, const Frame &f, size_t depth) {
    const StageState &s = f.stage();
    for (const StageState *other : sharing_loops(state_, s.name())) {
        if (!kumiko::one_loop(state_, s.name(), other->name(), s.order[depth])) continue;
        std::map<std::string, std::string> buffers;
        for (const std::string &tensor : names_of(p)) buffers[tensor] = buffers_.at(tensor);
        shared_buffers_[p.name()].push_back(std::move(buffers));
        return;
    }
}

// The body of the loop at `depth`, which the frame's stage shares, with the buffers that the other
// stage has in this loop in scope.
Stmt NestBuilder::with_shared_buffers(Frame &f, size_t depth, const std::function<Stmt()> &body) {
    const StageState &s = f.stage();
    if (shared_buffers_.empty() || !s.shared || depth > s.position(s.shared->loop)) return body();
    std::map<std::string, std::string> around;
    for (const StageState &p : state_.stages) {
        const Placement &at = p.placement;
        if (at.kind != Placement::Kind::At || at.consumer != s.shared->stage || at.loop != s.order[depth]) continue;
        const auto made = shared_buffers_.find(p.name());
        if (made == shared_buffers_.end()) continue; // an output has no buffer
        const size_t copy = copies_visited_[p.name()]++;
        if (copy >= made->second.size())
            throw Unsupported("stage " + s.name() + " has more copies of loop " + s.order[depth] + " than " +
                              s.shared->stage + ", which computes " + p.name() +
                              " there; split both by factors that divide their extents");
        for (const auto &[tensor, buffer] : made->second[copy])
            around[tensor] = std::exchange(buffers_[tensor], buffer);
    }
    const Stmt inside = body();
    for (const auto &[tensor, buffer] : around) buffers_[tensor] = buffer;
    return inside;
}

Stmt NestBuilder::with_storage(const std::vector<Run> &runs, const std::function<Stmt()> &body) {
    std::function<Stmt()> inner = body;
    for (size_t n = runs.size(); n-- > 0;)
        inner = [this, &run = runs[n], inner] { return with_storage(*run.stage, run.region, inner); };
    return inner();
}

} // namespace kumiko

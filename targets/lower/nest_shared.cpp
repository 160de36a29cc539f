// Stages in one nest (compute_with). Each stage is built by itself, with the same names of loop
// variables. Then the nests are zipped from the outermost loop inwards: two statements of a shared
// loop become one loop, and all other statements keep their order. The stages do not depend on each
// other, so every such order is correct.
#include "schedules/shared_loops.h"
#include "support/error.h"
#include "targets/lower/nest_builder.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

class Zip {
public:
    // `shared`: the variables of the loops that become one.
    Zip(const std::set<std::string> &shared, const std::string &stage) : shared_(shared), stage_(stage) {}

    Stmt operator()(const Stmt &a, const Stmt &b) const {
        if (is_no_op(a)) return b;
        if (is_no_op(b)) return a;
        if (const auto *x = a.as<Allocate>()) return around(x, (*this)(x->body, b));
        if (const auto *y = b.as<Allocate>()) return around(y, (*this)(a, y->body));
        if (a.as<Block>() || b.as<Block>()) return blocks(list_of(a), list_of(b));
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
    const std::set<std::string> &shared_;
    const std::string &stage_;

    static Stmt around(const Allocate *a, const Stmt &body) {
        return Allocate::make(a->name, a->type, a->memory_type, a->extents, a->condition, body, a->new_expr,
                              a->free_function, a->padding);
    }

    static std::vector<Stmt> list_of(const Stmt &s) {
        std::vector<Stmt> all;
        Stmt rest = s;
        for (; rest.as<Block>(); rest = rest.as<Block>()->rest) {
            const std::vector<Stmt> first = list_of(rest.as<Block>()->first);
            all.insert(all.end(), first.begin(), first.end());
        }
        all.push_back(rest);
        return all;
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

    bool has_shared(const Stmt &s) const {
        struct Find : IRVisitor {
            using IRVisitor::visit;
            const std::set<std::string> *names;
            bool found = false;
            void visit(const For *op) override {
                found = found || names->count(op->name);
                if (!found) IRVisitor::visit(op);
            }
        } find;
        find.names = &shared_;
        s.accept(&find);
        return find.found;
    }

    void check_apart(const Stmt &s) const {
        if (has_shared(s))
            throw Unsupported("stage " + stage_ +
                              " in the loops of another: a loop that they share runs differently in the two, as where "
                              "its last block is not full in one of them; share fewer loops, or split by a factor "
                              "that divides the extent");
    }

    Stmt blocks(const std::vector<Stmt> &a, const std::vector<Stmt> &b) const {
        std::vector<Stmt> all;
        size_t next = 0; // of b
        const auto pass = [&](const Stmt &s) {
            check_apart(s);
            all.push_back(s);
        };
        for (const Stmt &s : a) {
            size_t k = next;
            while (k < b.size() && !has_shared(b[k])) k++;
            if (k == b.size() || !has_shared(s)) {
                pass(s);
                continue;
            }
            for (; next < k; next++) pass(b[next]);
            all.push_back((*this)(s, b[next++]));
        }
        for (; next < b.size(); next++) pass(b[next]);
        return Block::make(all);
    }
};

} // namespace

// The stage whose loops compute it: itself, or the reduction that it is finished in.
const StageState &NestBuilder::loops_of(const StageState &s) const {
    const StageState *by = finisher_of(s.name());
    return by ? *by : s;
}

// False where another stage starts the nest at the same place. Two that stand in loops that are one
// have different places; their nests meet when those loops are zipped.
bool NestBuilder::starts_nest(const StageState &s) const {
    const StageState &loops = loops_of(s);
    if (!loops.shared) return true;
    return loops.placement.consumer != state_.stage(loops.shared->stage).placement.consumer;
}

// The stages that are stored by other loops in the nest of `s`.
std::vector<const StageState *> NestBuilder::in_nest_of(const StageState &s) const {
    std::vector<const StageState *> all;
    for (const StageState *other : sharing_loops(state_, loops_of(s).name())) {
        const StageState &stored = head_of(state_, *other);
        if (!starts_nest(stored)) all.push_back(&stored);
    }
    return all;
}

// Of a stage in the loops of another: the prefix that these have in the copy of the nest at hand.
std::string NestBuilder::prefix_of(const StageState &s) {
    std::vector<std::string> &own = prefixes_[s.name()];
    std::string prefix;
    if (s.shared && own.size() < prefixes_[s.shared->stage].size()) {
        prefix = prefixes_[s.shared->stage][own.size()];
        for (size_t l = 0; l <= s.position(s.shared->loop); l++) shared_.insert(prefix + s.order[l]);
    } else {
        prefix = fresh_instance("loops of " + s.name()).substr(9) + ".";
    }
    own.push_back(prefix);
    return prefix;
}

Stmt NestBuilder::nest(const std::vector<Run> &runs) {
    Stmt all;
    for (const Run &run : runs) {
        const StageState &s = loops_of(*run.stage);
        const std::string prefix = prefix_of(s);
        const Stmt one = stage(s, run.region, prefix);
        all = all.defined() ? Zip(shared_, s.name())(all, one) : one;
    }
    return all;
}

Stmt NestBuilder::with_storage(const std::vector<Run> &runs, const std::function<Stmt()> &body) {
    std::function<Stmt()> inner = body;
    for (size_t n = runs.size(); n-- > 0;)
        inner = [this, &run = runs[n], inner] { return with_storage(*run.stage, run.region, inner); };
    return inner();
}

} // namespace kumiko

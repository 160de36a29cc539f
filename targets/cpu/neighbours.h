// Accesses to one array at constant distances from each other.
#pragma once

#include "dsl/halide_passes.h"
#include "targets/cpu/narrow_index.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace kumiko::cpu {

// to - from, in elements; nullopt if it is not constant.
inline std::optional<int64_t> distance(const Expr &from, const Expr &to) {
    return Halide::Internal::as_const_int(Halide::Internal::simplify(narrow_index(to) - narrow_index(from)));
}

// Groups accesses for which alike(access, first of the group) holds and whose ramps begin at a
// constant distance from the first's; that distance becomes their `place`. A group is sorted by
// place, ties in the given order. Once there are `most_groups`, accesses that would begin another
// group are dropped.
template<class Access, class Alike>
std::vector<std::vector<Access>> neighbours(std::vector<Access> all, const Alike &alike,
                                            size_t most_groups = std::numeric_limits<size_t>::max()) {
    std::vector<std::vector<Access>> groups;
    for (Access &c : all) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<Access> &g) {
            if (!alike(c, g[0])) return false;
            const auto place = distance(g[0].ramp->base, c.ramp->base);
            c.place = place.value_or(0);
            return place.has_value();
        });
        if (same != groups.end())
            same->push_back(c);
        else if (groups.size() < most_groups)
            groups.push_back({c});
    }
    for (std::vector<Access> &g : groups)
        std::stable_sort(g.begin(), g.end(), [](const Access &a, const Access &b) { return a.place < b.place; });
    return groups;
}

// Calls `use` for loads that are executed whatever the values are, at indices that are valid
// outside of the expression too.
inline void for_each_certain_load(const Expr &e, std::function<void(const Halide::Internal::Load *)> use) {
    using namespace Halide::Internal;
    struct Find : IRVisitor {
        using IRVisitor::visit;
        std::function<void(const Load *)> use;
        void visit(const Let *op) override { op->value.accept(this); }
        void visit(const Call *op) override {
            if (!op->is_intrinsic(Call::if_then_else)) return IRVisitor::visit(op);
            op->args[0].accept(this);
        }
        void visit(const Load *op) override {
            use(op);
            IRVisitor::visit(op);
        }
    } find;
    find.use = std::move(use);
    e.accept(&find);
}

} // namespace kumiko::cpu

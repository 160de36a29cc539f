// Loads of every second to fourth element: dense pieces are loaded and shuffled.
//
// A load with stride s takes element p of every s elements of a window that is loaded whole; p can
// be chosen. Windows of neighbouring loads, such as the taps of a strided convolution, begin at the
// same address if possible and are loaded once. A load reads nothing beyond its own first and last
// element, except that consecutive stores may read between the elements that any of them certainly
// reads.
#include "targets/cpu/lane_runs.h"
#include "targets/cpu/neighbours.h"
#include "targets/cpu/statements.h"
#include "targets/cpu/zero_lanes.h"

#include <llvm/IR/Constants.h>

#include <numeric>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

constexpr size_t most_groups = 64; // each new load is compared with all

// A strided load that is executed whatever the values are.
struct Strided {
    const Load *load;
    const Ramp *ramp;
    int64_t place = 0;           // of its base, relative to that of the group's first
    int64_t first = 0, last = 0; // of its enabled elements
};

bool is_few(const Expr &stride) {
    const auto *s = stride.as<IntImm>();
    return s && s->value >= 2 && s->value <= 4;
}

} // namespace

// Finds what may be read beside each strided load of these stores.
void Statements::find_reaches(const std::vector<const Store *> &stores) {
    std::vector<Strided> all;
    std::set<std::string> stored;
    for (const Store *s : stores) {
        stored.insert(s->name);
        if (!is_const_one(s->predicate)) continue;
        for_each_certain_load(s->value, [&](const Load *op) {
            const auto *r = op->index.as<Ramp>();
            const bool known = !op->predicate.defined() || is_constant(op->predicate);
            if (known && r && is_few(r->stride) && r->base.type().is_scalar()) all.push_back({op, r});
        });
    }
    // If accumulators fill most registers, shared pieces that stay live until another load uses
    // them would cause spills.
    size_t accumulators = 0;
    for (const std::string &name : stored) {
        const Array *array = arrays_.find(name);
        if (array && array->in_registers) accumulators += array->pieces.size();
    }
    if (2 * accumulators > size_t(options_.target.vector_registers())) return;
    std::vector<Strided> inside;
    for (Strided &c : all) {
        const Array *array = arrays_.find(c.load->name);
        if (!array || array->in_registers || stored.count(c.load->name)) continue;
        int from = 0, to = c.ramp->lanes - 1;
        if (c.load->predicate.defined() && !is_const_one(c.load->predicate)) {
            const auto on = lanes_on(condition(c.load->predicate));
            if (!on) continue;
            while (from <= to && !(*on)[size_t(from)]) from++;
            while (to >= from && !(*on)[size_t(to)]) to--;
            if (from > to) continue;
        }
        const int64_t stride = *as_const_int(c.ramp->stride);
        c.first = from * stride, c.last = to * stride;
        inside.push_back(c);
    }
    const auto alike = [](const Strided &a, const Strided &b) { return a.load->name == b.load->name; };
    for (std::vector<Strided> &g : neighbours(inside, alike, most_groups)) {
        for (Strided &c : g) c.first += c.place, c.last += c.place;
        std::stable_sort(g.begin(), g.end(), [](const Strided &a, const Strided &b) { return a.first < b.first; });
        for (size_t first = 0; first < g.size();) { // ranges that overlap or touch
            int64_t last = g[first].last;
            size_t end = first + 1;
            for (; end < g.size() && g[end].first <= last + 1; end++) last = std::max(last, g[end].last);
            for (size_t i = first; i < end; i++) reaches_[g[i].load] = {g[first].first - g[i].place, last - g[i].place};
            first = end;
        }
    }
}

// A dense vector from `from` on. Only its elements within the reach whose lane is enabled are
// defined; the others are zero if `zeros` is set to true.
Value *Accesses::load_within(const Array &array, const std::string &name, Type t, Value *base, int64_t from,
                             const Reach &reach, const std::vector<bool> &on, bool &zeros) {
    const int n = t.lanes();
    const unsigned align = unsigned(t.element_of().bytes());
    zeros = false;
    if (reach.first <= from && from + n - 1 <= reach.last)
        return load_dense(array, name, t, ir_.CreateNSWAdd(base, i64(from)), nullptr, align);
    const int64_t last = reach.last - n + 1, at = std::clamp(from, reach.first, std::max(reach.first, last));
    const bool some_off = std::find(on.begin(), on.end(), false) != on.end();
    const bool masks = some_off && options_.target.has("avx2") && t.bits() >= 32;
    if (masks || last < reach.first) {
        std::vector<llvm::Constant *> wanted;
        for (int i = 0; i < n; i++)
            wanted.push_back(ir_.getInt1(on[size_t(i)] && reach.first <= from + i && from + i <= reach.last));
        zeros = true;
        return load_dense(array, name, t, ir_.CreateNSWAdd(base, i64(from)), llvm::ConstantVector::get(wanted), align);
    }
    Value *v = load_dense(array, name, t, ir_.CreateNSWAdd(base, i64(at)), nullptr, align);
    std::vector<int> moved;
    for (int i = 0; i < n; i++) {
        const int64_t lane = from + i - at;
        moved.push_back(lane >= 0 && lane < n ? int(lane) : -1);
    }
    return lanes_of(v, moved);
}

// Lanes that the constant mask disables are zero.
Value *Accesses::load_strided(const Array &array, const std::string &name, Type t, Value *base, int64_t stride,
                              Value *mask, std::optional<Reach> reach) {
    const int n = t.lanes();
    std::vector<bool> on(size_t(n), true);
    if (mask) on = *lanes_on(mask);
    const auto first_on = std::find(on.begin(), on.end(), true);
    if (first_on == on.end()) return llvm::Constant::getNullValue(type(t));
    const int64_t first = (first_on - on.begin()) * stride;
    const int64_t last = (on.rend() - std::find(on.rbegin(), on.rend(), true) - 1) * stride;
    Reach all = reach.value_or(Reach{first, last});

    // Choose the position p of the first element in its window by how many window vectors cannot be
    // loaded whole.
    const auto needed = [&](int64_t p, int k) { // whether some enabled lane needs window vector k
        for (int i = 0; i < n; i++) {
            if (on[size_t(i)] && (i * stride + p) / n == k) return true;
        }
        return false;
    };
    int64_t p = 0;
    int least = 0;
    for (int64_t candidate = 0; candidate < stride; candidate++) {
        // Windows are shared if they begin at the first element of the reach.
        int cost = (-candidate - all.first) % stride == 0 ? 0 : 1;
        for (int k = 0; k < stride; k++) {
            const int64_t from = int64_t(k) * n - candidate, to = from + n - 1;
            if (needed(candidate, k) && (from < all.first || to > all.last)) cost += 2;
        }
        if (candidate == 0 || cost < least) p = candidate, least = cost;
    }

    std::vector<Value *> pieces;
    std::vector<bool> zeros; // whether a piece has zeros in disabled lanes
    for (int k = 0; k < stride; k++) {
        std::vector<bool> wanted;
        for (int i = 0; i < n; i++) wanted.push_back(on[size_t((k * n + i) / stride)]);
        bool none = true;
        pieces.push_back(needed(p, k) ? load_within(array, name, t, base, int64_t(k) * n - p, all, wanted, none)
                                      : llvm::Constant::getNullValue(type(t)));
        zeros.push_back(none);
    }
    bool clear = true;
    for (int i = 0; i < n; i++) clear = clear && (on[size_t(i)] || zeros[size_t((i * stride + p) / n)]);
    std::vector<int> order(size_t(n), 0), taken;
    std::iota(order.begin(), order.end(), 0);
    if (deinterleaved_) order = deinterleaved_lanes();
    for (const int i : order) taken.push_back(int(i * stride + p));
    Value *v = lanes_of(concat(pieces), taken);
    if (mask && deinterleaved_) mask = lanes_of(mask, order);
    return !clear ? ir_.CreateSelect(mask, v, llvm::Constant::getNullValue(type(t))) : v;
}

} // namespace kumiko::cpu

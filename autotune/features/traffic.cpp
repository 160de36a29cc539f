#include "autotune/features/traffic.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

constexpr double cache_line = 64;

// An access in a loop body, as seen from the enclosing loops.
struct Seen {
    const Access *access;
    double fetched = 0;   // lines loaded by one run of the loops so far
    double footprint = 0; // distinct lines among them
};

// Distinct lines touched by an access if the loops `inside` (up to its own loop) run once each.
double footprint(const LoopTree &tree, const Access &a, const std::vector<int> &inside, double line) {
    const ArrayInfo &array = tree.arrays.at(a.array);
    const double whole = array.size > 0 ? std::ceil(array.size * a.bytes / line) : 1e18;
    if (!a.known) {
        double times = a.elements;
        for (int l : inside) times *= std::max(1.0, tree.loops[static_cast<size_t>(l)].extent);
        return std::min(whole, times);
    }
    double run = (a.past - a.lowest) * a.bytes, pieces = 1;
    const double dense = a.elements * a.bytes;
    if (dense * 2 < run && a.constants.size() > 1) { // rows with gaps
        const double each = std::max(dense / static_cast<double>(a.constants.size()), static_cast<double>(a.bytes));
        if (run / static_cast<double>(a.constants.size()) > line) {
            pieces = static_cast<double>(a.constants.size());
            run = each;
        }
    }
    std::vector<std::pair<double, double>> steps; // bytes per step, number of steps
    for (int l : inside) {
        const double stride = std::abs(a.index.coefficient(l)) * a.bytes,
                     extent = tree.loops[static_cast<size_t>(l)].extent;
        if (stride > 0 && extent > 1) steps.emplace_back(stride, extent);
    }
    std::sort(steps.begin(), steps.end());
    for (const auto &[stride, extent] : steps) {
        if (stride <= run + line)
            run += (extent - 1) * stride;
        else
            pieces *= extent;
    }
    return std::min(whole, pieces * (std::floor(run / line) + 1));
}

class Counter {
public:
    Counter(const LoopTree &tree, double capacity, double line = cache_line)
        : tree_(tree), capacity_(capacity), line_(line) {}

    // The accesses in the loop and its inner loops, for one run of the loop.
    std::vector<Seen> run(int node) {
        const LoopNode &loop = tree_.loops[static_cast<size_t>(node)];
        std::vector<Seen> all;
        for (const Access &a : loop.accesses) {
            const double lines = footprint(tree_, a, {}, line_);
            all.push_back({&a, lines, lines});
        }
        std::map<const Access *, std::vector<int>> &inside = inside_;
        for (const Access &a : loop.accesses) inside[&a] = {};
        for (int child : loop.children) {
            const std::vector<Seen> below = run(child);
            all.insert(all.end(), below.begin(), below.end());
        }
        if (loop.parent < 0) return all;
        double working_set = 0;
        for (const Seen &s : all) working_set += s.footprint * line_;
        const bool kept = working_set <= capacity_;
        for (Seen &s : all) {
            std::vector<int> &loops = inside[s.access];
            loops.push_back(node);
            const double before = std::max(s.footprint, 1e-9), now = footprint(tree_, *s.access, loops, line_);
            s.fetched *= kept ? std::max(1.0, now / before) : std::max(1.0, loop.extent);
            s.footprint = now;
        }
        return all;
    }

private:
    const LoopTree &tree_;
    double capacity_, line_;
    std::map<const Access *, std::vector<int>> inside_; // loops around an access, innermost first
};

} // namespace

std::vector<Traffic> count_traffic(const LoopTree &tree, const std::vector<double> &capacities) {
    std::vector<Traffic> all;
    const auto add = [&](const std::vector<Seen> &seen, auto lines_of) {
        Traffic t;
        for (const Seen &s : seen) (s.access->store ? t.written : t.read) += lines_of(s) * cache_line;
        all.push_back(t);
    };
    for (double capacity : capacities) {
        // An internal array that fits stays in the cache after it is written.
        add(Counter(tree, capacity).run(0), [&](const Seen &s) {
            const ArrayInfo &array = tree.arrays.at(s.access->array);
            return array.internal && 2 * array.size * array.bytes <= capacity ? 0.0 : s.fetched;
        });
    }
    add(Counter(tree, 1e30).run(0), [](const Seen &s) { return s.footprint; });
    return all;
}

double touched_lines(const LoopTree &tree, int node, double line) {
    double lines = 0;
    for (const Seen &s : Counter(tree, 1e30, line).run(node)) lines += s.footprint;
    return lines;
}

} // namespace kumiko

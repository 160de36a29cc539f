// The chip's result of a reduction, to the bit, computed on the host. The arithmetic is defined in
// docs/chip.md, the order in docs/chip-compiler.md. The order depends only on the loops of the
// schedule: loops in time are sequential, loops over units and lanes are trees.
#pragma once

#include "schedules/state.h"

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace kumiko {

// Sums neighbours in pairs, level by level; an odd one moves up.
inline float tree(std::vector<float> v) {
    while (v.size() > 1) {
        for (size_t i = 0; i < v.size(); i += 2) v[i / 2] = i + 1 < v.size() ? v[i] + v[i + 1] : v[i];
        v.resize((v.size() + 1) / 2);
    }
    return v.front();
}

class ReductionOrder {
public:
    using Indices = std::vector<int64_t>; // along the reduction's axes
    int64_t steps = 1, lanes = 1, mabs = 1, pes = 1, l1bs = 1, l2bs = 1, groups = 1;

    explicit ReductionOrder(const StageState &stage) {
        struct Level {
            int64_t *count;
            std::vector<std::pair<std::string, int64_t>> loops; // outermost first
        };
        std::map<std::string, Level> levels{{"", {&steps, {}}},      {"lane", {&lanes, {}}}, {"MAB", {&mabs, {}}},
                                            {"PE", {&pes, {}}},      {"L1B", {&l1bs, {}}},   {"L2B", {&l2bs, {}}},
                                            {"group", {&groups, {}}}};
        bool inside = false;
        bool sides = false; // columns are bound to MABs beside the reduction
        for (const std::string &name : stage.order) {
            const LoopState &l = stage.loop(name);
            sides = sides || (!l.reduction && l.unit == "MAB" && stage.tensorize);
            inside = inside || (stage.tensorize && stage.tensorize->loop == name);
            if (!l.reduction) continue;
            Level &level = levels.at(inside || l.kind == LoopKind::Vectorized ? "lane" : l.unit);
            level.loops.push_back({name, number(l.extent)});
            *level.count *= level.loops.back().second;
        }
        for (int64_t n = 0; n < steps * lanes * mabs * pes * l1bs * l2bs * groups; n++) {
            int64_t left = n;
            std::map<std::string, int64_t> value;
            for (const char *name : {"", "lane", "MAB", "PE", "L1B", "L2B", "group"}) {
                const Level &level = levels.at(name);
                for (size_t l = level.loops.size(); l-- > 0;) {
                    value[level.loops[l].first] = left % level.loops[l].second;
                    left /= level.loops[l].second;
                }
            }
            for (size_t r = stage.relations.size(); r-- > 0;) {
                const auto *s = std::get_if<SplitRelation>(&stage.relations[r]);
                if (s && value.contains(s->inner)) value[s->parent] = value[s->outer] * s->factor + value[s->inner];
            }
            raw_.push_back(value.at(stage.def.reduction_axes.front().name()));
            std::optional<Indices> at = Indices();
            for (const Axis &a : stage.def.reduction_axes) {
                if (at) at->push_back(value.at(a.name()));
                if (value.at(a.name()) >= number(a.extent())) at.reset();
            }
            all_.push_back(at);
        }
        if (sides && (mabs > 1 || l1bs > 1)) alternate(number(stage.def.reduction_axes.front().extent()));
    }
    // Nothing if an index is beyond its axis. L1Bs are counted across all L2Bs.
    const std::optional<Indices> &at(int64_t step, int64_t lane, int64_t mab, int64_t pe = 0, int64_t l1b = 0) const {
        return all_[size_t((((l1b * pes + pe) * mabs + mab) * lanes + lane) * steps + step)];
    }

private:
    std::vector<std::optional<Indices>> all_;
    std::vector<int64_t> raw_; // along the first axis, also beyond its end
    // Words of a row alternate between each two steps.
    void alternate(int64_t extent) {
        const int64_t before = steps;
        steps += steps % 2;
        all_.assign(size_t(l1bs * mabs * lanes * steps), std::nullopt);
        for (int64_t n = 0; n < int64_t(all_.size()); n++) {
            const int64_t step = n % steps, lane = n / steps % lanes, mab = n / steps / lanes % mabs,
                          l1b = n / steps / lanes / mabs;
            const int64_t k = raw_[size_t(l1b * mabs * lanes * before + step / 2 * 2)] + mab * 2 * lanes +
                              lane / 4 * 8 + step % 2 * 4 + lane % 4;
            if (k < extent) all_[size_t(n)] = Indices{k};
        }
    }
    static int64_t number(const Expr &e) { return *Halide::Internal::as_const_int(Halide::Internal::simplify(e)); }
};

// A sum of products in the matrix units. `single`: f32, whose columns are in two halves, the even
// ones first. `pair`: the operands.
inline float sum_of_products(const ReductionOrder &order, bool single,
                             const std::function<std::pair<float, float>(const ReductionOrder::Indices &)> &pair) {
    std::vector<float> of_mabs; // L1Bs one after the other; one of two has one unit
    const int64_t side = order.lanes, halves = single ? 2 : 1;
    for (int64_t unit = 0; unit < order.mabs * order.l1bs; unit++) {
        const int64_t mab = unit % order.mabs, l1b = unit / order.mabs;
        std::optional<float> sum;
        for (int64_t step = 0; step < order.steps; step++) {
            for (int64_t half = 0; half < halves; half++) {
                std::vector<float> level;
                const auto operands = [&](int64_t lane) {
                    const auto &at = order.at(step, lane, mab, 0, l1b);
                    return at ? pair(*at) : std::pair{0.f, 0.f};
                };
                for (int64_t lane = half; lane < side; lane += 2) {
                    const auto [a, b] = operands(lane);
                    if (single) {
                        level.push_back(a * b);
                        continue;
                    }
                    const auto [c, d] = operands(lane + 1);
                    level.push_back(std::fma(c, d, a * b));
                }
                const float y = tree(level);
                sum = sum ? y + *sum : y;
            }
        }
        of_mabs.push_back(*sum);
    }
    return tree(of_mabs);
}

// A sum on the vector units. Each lane of each PE has `chains` partial sums, which take the terms
// in turn. These are then combined: chains, words of a lane, lanes, PEs, MABs, L1Bs, L2Bs. `fold`
// adds a term to the sum unless it is the first; beyond an end it receives no indices.
inline float sum_of_vectors(
    const ReductionOrder &order, int64_t chains,
    const std::function<float(const std::optional<ReductionOrder::Indices> &, std::optional<float> sum)> &fold) {
    std::vector<float> of_l1bs, of_l2bs;
    for (int64_t l1b = 0; l1b < order.l1bs * order.l2bs * order.groups; l1b++) {
        std::vector<float> of_mabs;
        for (int64_t mab = 0; mab < order.mabs; mab++) {
            std::vector<float> of_pes;
            for (int64_t pe = 0; pe < order.pes; pe++) {
                std::vector<float> lanes;
                for (int64_t lane = 0; lane < order.lanes; lane++) {
                    std::vector<std::optional<float>> sums(static_cast<size_t>(chains));
                    for (int64_t step = 0; step < order.steps; step++) {
                        auto &sum = sums[size_t(step % chains)];
                        sum = fold(order.at(step, lane, mab, pe, l1b), sum);
                    }
                    for (size_t c = 1; c < sums.size(); c++) *sums[0] += *sums[c];
                    lanes.push_back(*sums[0]);
                }
                const size_t half = lanes.size() / 2; // word by word
                for (size_t e = 0; lanes.size() == 4 && e < half; e++) lanes[e] += lanes[e + half];
                of_pes.push_back(lanes.size() == 1 ? lanes[0] : lanes[0] + lanes[1]);
            }
            for (size_t r = of_pes.size() / 2; r > 0; r /= 2) { // by rotations
                for (size_t p = 0; p < r; p++) of_pes[p] += of_pes[p + r];
            }
            of_mabs.push_back(of_pes[0]);
        }
        of_l1bs.push_back(tree(of_mabs));
        if (int64_t(of_l1bs.size()) < order.l1bs) continue;
        of_l2bs.push_back(tree(of_l1bs));
        of_l1bs.clear();
    }
    return tree(of_l2bs);
}

} // namespace kumiko

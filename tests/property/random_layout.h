// Random layouts: blocks, cycles, copies, padding, windows, offsets, in any memory.
#pragma once

#include "support/random.h"
#include "targets/chip/layout/placement.h"

#include <algorithm>
#include <optional>

namespace kumiko::chip {

struct RandomLayout {
    Random &random;
    const sim::Config &config;
    bool windows = true; // some axes overlap

    bool chance(int percent) { return random.below(100) < uint64_t(percent); }

    // A layout of a tensor of this shape that fits `words` LW of each unit; nothing if several
    // tries fail.
    std::optional<Layout> make(ElementType type, const std::vector<int64_t> &extents, Memory memory, int64_t words) {
        for (int i = 0; i < 40; i++) {
            Layout l = once(type, extents, memory);
            if (l.words() <= words) return l;
        }
        return std::nullopt;
    }

private:
    Layout once(ElementType type, const std::vector<int64_t> &extents, Memory memory) {
        std::array<int64_t, layout_level_count> left{}, used{};
        for (int l = 0; l <= int(unit_level(memory)); l++) left[size_t(l)] = count_of(Level(l), config);
        left[size_t(Level::Lane)] = elements_per_word(type);
        used.fill(1);
        std::vector<LayoutAxis> axes(extents.size());
        for (size_t a = extents.size(); a-- > 0;) {
            LayoutAxis &axis = axes[a];
            axis.extent = extents[a];
            int64_t rest = extents[a];
            if (windows && rest >= 4 && chance(12)) {
                const int64_t step = random.between(2, 5), inner = step + random.between(0, 2);
                axis.origin = -random.between(0, 1);
                axis.factors = {
                    {std::max<int64_t>(1, (rest - axis.origin - inner + step - 1) / step + 1), Level::Address, 1, step},
                    {inner, Level::Address, 1}};
                continue;
            }
            const bool whole_words = a + 1 == extents.size() && chance(70);
            if (whole_words) {
                const int64_t n = left[size_t(Level::Lane)];
                left[size_t(Level::Lane)] = 0;
                axis.factors.push_back({n, Level::Lane, 1});
                rest = (rest + n - 1) / n;
            }
            while (rest > 1) {
                constexpr int64_t sizes[] = {2, 2, 4, 4, 3, 8};
                const int64_t n = chance(30) ? rest : std::min(rest, sizes[random.below(6)]);
                axis.factors.insert(axis.factors.begin(), Factor{n, Level::Address, 1});
                rest = (rest + n - 1) / n;
            }
        }
        // Levels: any that has room, at the next free stride.
        std::vector<Factor *> in_address;
        for (LayoutAxis &axis : axes)
            for (Factor &f : axis.factors) {
                if (f.level == Level::Lane) continue;
                std::vector<int> fit;
                for (int l = 0; l < layout_level_count; l++)
                    if (left[size_t(l)] / used[size_t(l)] >= f.size && l != int(Level::Address) && left[size_t(l)])
                        fit.push_back(l);
                if (!fit.empty() && chance(f.size > 1 ? 70 : 10)) {
                    const size_t l = size_t(fit[random.below(fit.size())]);
                    f.level = Level(l), f.stride = used[l];
                    used[l] *= f.size;
                } else {
                    in_address.push_back(&f);
                }
            }
        for (size_t i = in_address.size(); i > 1; i--) std::swap(in_address[i - 1], in_address[random.below(i)]);
        int64_t stride = 1;
        for (Factor *f : in_address) {
            f->stride = stride;
            stride *= f->size;
            if (chance(8)) stride += random.between(1, 3);
        }
        std::vector<Factor> copies;
        std::array<int64_t, layout_level_count> offset{};
        unsigned fixed = 0;
        for (int l = 0; l <= int(unit_level(memory)); l++) {
            const int64_t free = left[size_t(l)] / used[size_t(l)];
            if (free > 1 && chance(10)) copies.push_back({random.between(2, free), Level(l), used[size_t(l)]});
            if (free > 1 && used[size_t(l)] == 1 && copies.empty() && chance(20))
                offset[size_t(l)] = random.between(0, free - 1), fixed |= 1u << l;
        }
        return Layout(type, std::move(axes), std::move(copies), offset, fixed);
    }
};

inline std::vector<int64_t> random_extents(Random &r) {
    std::vector<int64_t> e(size_t(r.between(1, 3)));
    constexpr int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 32};
    for (int64_t &x : e) x = sizes[r.below(e.size() == 3 ? 8 : 12)];
    return e;
}

} // namespace kumiko::chip

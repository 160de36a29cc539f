#include "targets/chip/layout/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kumiko::chip {

namespace {

constexpr const char *memory_names[] = {"dram", "pdm", "l2bm", "l1bm", "lm0", "lm1", "grf0", "grf1"};
constexpr const char *printed_names[] = {"DRAM", "PDM", "L2BM", "L1BM", "LM0", "LM1", "GRF0", "GRF1"};

// A place as numbers that can be added: the unit, the address and the lane.
struct Spot {
    int64_t unit = 0, address = 0;
    int lane = 0;
    Spot operator+(const Spot &o) const { return {unit + o.unit, address + o.address, lane + o.lane}; }
};

// The change of the unit's number for one step on a level; 0 for levels below the memory's.
std::array<int64_t, layout_level_count> unit_weights(Memory memory, const sim::Config &c) {
    std::array<int64_t, layout_level_count> w{};
    int64_t weight = 1;
    for (int l = int(unit_level(memory)); l >= 0; l--) {
        w[size_t(l)] = weight;
        weight *= count_of(Level(l), c);
    }
    return w;
}

class Enumerator {
public:
    Enumerator(const Placement &p, const sim::Config &c) : layout_(p.layout), weights_(unit_weights(p.memory, c)) {
        // Offsets of the copies.
        copies_ = {Spot{}};
        const auto repeat = [&](int64_t size, Level level, int64_t stride) {
            std::vector<Spot> more;
            for (int64_t d = 0; d < size; d++)
                for (const Spot &s : copies_) more.push_back(s + spot(level, d * stride));
            copies_ = std::move(more);
        };
        for (const Factor &f : layout_.copies()) repeat(f.size, f.level, f.stride);
        for (int l = 0; l <= int(unit_level(p.memory)); l++)
            if (!layout_.names(Level(l))) repeat(count_of(Level(l), c), Level(l), 1);
        Spot offset;
        for (int l = 0; l < layout_level_count; l++) offset = offset + spot(Level(l), layout_.offset()[size_t(l)]);
        for (Spot &s : copies_) s = s + offset;
    }

    Spot spot(Level level, int64_t coordinate) const {
        if (level == Level::Address) return {0, coordinate, 0};
        if (level == Level::Lane) return {0, 0, int(coordinate)};
        return {coordinate * weights_[size_t(level)], 0, 0};
    }
    const std::vector<Spot> &copies() const { return copies_; }

    // Enumerates the digit combinations of an axis that give an index: f(spot) for each.
    template<typename F>
    void ways(const LayoutAxis &axis, int64_t index, F &&f) const {
        const std::function<void(size_t, int64_t, Spot)> next = [&](size_t k, int64_t left, Spot at) {
            if (k == axis.factors.size()) {
                if (left == 0) f(at);
                return;
            }
            const Factor &factor = axis.factors[k];
            int64_t inside = 0; // maximum reach of the factors inside
            for (size_t i = k + 1; i < axis.factors.size(); i++)
                inside += (axis.factors[i].size - 1) * axis.factors[i].step;
            const int64_t low = left <= inside ? 0 : (left - inside + factor.step - 1) / factor.step;
            const int64_t high = std::min(factor.size - 1, left / factor.step);
            for (int64_t d = low; d <= high; d++)
                next(k + 1, left - d * factor.step, at + spot(factor.level, d * factor.stride));
        };
        next(0, index - axis.origin, {});
    }

    // Enumerates every element at every place, without copies: f(element's number, spot).
    template<typename F>
    void each(F &&f) const {
        struct Way {
            int64_t number;
            Spot spot;
        };
        std::vector<std::vector<Way>> axes;
        int64_t weight = 1;
        for (size_t a = layout_.rank(); a-- > 0;) {
            const LayoutAxis &axis = layout_.axes()[a];
            std::vector<Way> list;
            for (int64_t i = 0; i < axis.extent; i++)
                ways(axis, i, [&](const Spot &s) { list.push_back({i * weight, s}); });
            weight *= axis.extent;
            axes.insert(axes.begin(), std::move(list));
        }
        const std::function<void(size_t, int64_t, Spot)> next = [&](size_t a, int64_t number, Spot at) {
            if (a == axes.size()) return void(f(number, at));
            if (a + 1 == axes.size()) {
                for (const Way &w : axes[a]) f(number + w.number, at + w.spot);
                return;
            }
            for (const Way &w : axes[a]) next(a + 1, number + w.number, at + w.spot);
        };
        next(0, 0, {});
    }

private:
    const Layout &layout_;
    std::array<int64_t, layout_level_count> weights_;
    std::vector<Spot> copies_;
};

std::string index_text(const Layout &layout, int64_t number) {
    std::string s;
    for (size_t a = layout.rank(); a-- > 0;) {
        const int64_t e = layout.axes()[a].extent;
        s = fmt::format("{}{}", number % e, s.empty() ? "" : ", ") + s;
        number /= e;
    }
    return "(" + s + ")";
}

// Whether different digits of the level's factors always give different coordinates, for all axes.
bool nested(const Layout &layout, Level level) {
    std::vector<Factor> all;
    for (const LayoutAxis &a : layout.axes())
        for (const Factor &f : a.factors)
            if (f.level == level && f.size > 1) all.push_back(f);
    for (const Factor &f : layout.copies())
        if (f.level == level && f.size > 1) all.push_back(f);
    std::sort(all.begin(), all.end(), [](const Factor &a, const Factor &b) { return a.stride < b.stride; });
    int64_t reach = 0;
    for (const Factor &f : all) {
        if (f.stride <= reach) return false;
        reach += (f.size - 1) * f.stride;
    }
    return true;
}

void check_collisions(const Placement &p, const sim::Config &c) {
    bool all = true;
    for (int l = 0; l < layout_level_count; l++) all = all && nested(p.layout, Level(l));
    if (all) return;
    const Enumerator e(p, c);
    const int lanes = elements_per_word(p.layout.type());
    const int64_t words = p.layout.words(), units = units_of(p.memory, c);
    if (double(words) * double(units) * lanes > double(int64_t(1) << 28))
        throw Unsupported(
            fmt::format("{}: factors of one level overlap, and the tensor is too large to check whether two elements "
                        "share a place; no check is needed if each stride exceeds the reach of the smaller ones",
                        p.to_string()));
    std::vector<int64_t> seen(size_t(words * units * lanes), -1);
    e.each([&](int64_t number, const Spot &at) {
        for (const Spot &copy : e.copies()) {
            const Spot s = at + copy;
            int64_t &there = seen[size_t((s.unit * words + s.address) * lanes + s.lane)];
            if (there >= 0 && there != number) {
                Place place = place_of(int(s.unit), p.memory, c);
                place.address = s.address + p.base, place.lane = s.lane;
                throw UserError(fmt::format("{}: elements {} and {} are both at {}", p.to_string(),
                                            index_text(p.layout, there), index_text(p.layout, number),
                                            place.to_string(p.memory)));
            }
            there = number;
        }
    });
}

} // namespace

const char *name_of(Memory memory) { return memory_names[int(memory)]; }

Memory memory_named(std::string_view name) {
    for (int m = 0; m < memory_count; m++)
        if (name == memory_names[m]) return Memory(m);
    throw UserError(fmt::format("the chip has no memory '{}'; it has {}", name,
                                fmt::join(std::begin(memory_names), std::end(memory_names), ", ")));
}

Level unit_level(Memory memory) {
    if (memory <= Memory::Pdm) return Level::Group;
    if (memory == Memory::L2bm) return Level::L2b;
    return memory == Memory::L1bm ? Level::L1b : Level::Pe;
}

int count_of(Level level, const sim::Config &c) {
    const int counts[] = {c.groups, c.l2bs, c.l1bs, c.mabs, sim::pes_per_mab};
    return level <= Level::Pe ? counts[int(level)] : 1;
}

int units_of(Memory memory, const sim::Config &c) {
    int n = 1;
    for (int l = 0; l <= int(unit_level(memory)); l++) n *= count_of(Level(l), c);
    return n;
}

int64_t size_of(Memory memory, const sim::Config &c) {
    const int64_t sizes[] = {c.sizes.dram, c.sizes.pdm, c.sizes.l2bm, c.sizes.l1bm,
                             c.sizes.lm,   c.sizes.lm,  c.sizes.grf,  c.sizes.grf};
    return sizes[int(memory)];
}

std::string Place::to_string(Memory memory) const {
    const std::string units[] = {fmt::format("group {}", group), fmt::format("L2B {}", l2b), fmt::format("L1B {}", l1b),
                                 fmt::format("MAB {}", mab), fmt::format("PE {}", pe)};
    std::string s;
    for (int l = 0; l <= int(unit_level(memory)); l++) s += units[l] + ", ";
    return s + fmt::format("{}[{}], lane {}", printed_names[int(memory)], address, lane);
}

int unit_of(const Place &p, Memory memory, const sim::Config &c) {
    const int at[] = {p.group, p.l2b, p.l1b, p.mab, p.pe};
    int unit = 0;
    for (int l = 0; l <= int(unit_level(memory)); l++) unit = unit * count_of(Level(l), c) + at[l];
    return unit;
}

Place place_of(int unit, Memory memory, const sim::Config &c) {
    int at[5] = {};
    for (int l = int(unit_level(memory)); l >= 0; l--) {
        at[l] = unit % count_of(Level(l), c);
        unit /= count_of(Level(l), c);
    }
    return {at[0], at[1], at[2], at[3], at[4]};
}

std::string Placement::to_string() const {
    return fmt::format("{} at {}[{}]", layout.to_string(), name_of(memory), base);
}

void check(const Placement &p, const sim::Config &c) {
    const Layout &layout = p.layout;
    const char *name = printed_names[int(p.memory)];
    for (int l = int(unit_level(p.memory)) + 1; l <= int(Level::Pe); l++)
        if (layout.names(Level(l)))
            throw UserError(fmt::format("{}: a layout in {} cannot name {}, since there is one {} in each {}",
                                        p.to_string(), name, name_of(Level(l)), name,
                                        p.memory <= Memory::Pdm ? "group" : name_of(unit_level(p.memory))));
    constexpr const char *above[] = {"the chip", "a group", "an L2B", "an L1B", "a MAB"};
    for (int l = 0; l <= int(unit_level(p.memory)); l++)
        if (layout.reach(Level(l)) >= count_of(Level(l), c))
            throw UserError(fmt::format("{}: it reaches {} {}, and {} of {} has {}", p.to_string(),
                                        l ? name_of(Level(l)) : "group", layout.reach(Level(l)), above[l], c.name,
                                        count_of(Level(l), c)));
    const int lanes = elements_per_word(layout.type());
    if (layout.reach(Level::Lane) >= lanes)
        throw UserError(fmt::format("{}: it reaches lane {}, and a word holds {} {}", p.to_string(),
                                    layout.reach(Level::Lane), lanes, name_of(layout.type())));
    const int64_t size = size_of(p.memory, c), words = layout.words();
    if (p.base < 0) throw UserError(fmt::format("{}: an address is at least 0", p.to_string()));
    if (p.base + words > size) {
        const int64_t room = std::max<int64_t>(size - p.base, 0);
        throw UserError(fmt::format(
            "{}: it needs {} LW in each {} that holds it, and {} has {} from address {} on ({} in all){}",
            p.to_string(), words, p.memory <= Memory::Pdm ? "group" : name_of(unit_level(p.memory)), name, room, p.base,
            size,
            room == 0 ? std::string("; a lower address would have room")
                      : fmt::format("; spread over {} times as many units, or in tiles of at most {} LW, it would fit",
                                    (words + room - 1) / room, room)));
    }
    check_collisions(p, c);
}

std::vector<Place> places_of(const Placement &p, const std::vector<int64_t> &index, const sim::Config &c) {
    const Enumerator e(p, c);
    std::vector<Spot> spots = e.copies();
    for (size_t a = 0; a < p.layout.rank(); a++) {
        std::vector<Spot> more;
        e.ways(p.layout.axes()[a], index[a], [&](const Spot &way) {
            for (const Spot &s : spots) more.push_back(s + way);
        });
        spots = std::move(more);
    }
    std::vector<Place> places;
    for (const Spot &s : spots) {
        Place place = place_of(int(s.unit), p.memory, c);
        place.address = s.address + p.base, place.lane = s.lane;
        places.push_back(place);
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
}

std::optional<std::vector<int64_t>> element_at(const Placement &p, const Place &place, const sim::Config &c) {
    const Layout &layout = p.layout;
    const int64_t at[] = {place.group, place.l2b, place.l1b, place.mab, place.pe, place.address - p.base, place.lane};
    // The digits that affect the place, level by level; a factor without an axis belongs to a copy.
    struct Digit {
        const Factor *factor;
        int axis;
    };
    std::vector<Digit> digits;
    std::array<int64_t, layout_level_count> left{}, reach{};
    for (int l = 0; l < layout_level_count; l++) {
        if (l <= int(Level::Pe) && (l > int(unit_level(p.memory)) || !layout.names(Level(l)))) {
            if (l <= int(unit_level(p.memory)) && at[l] >= count_of(Level(l), c)) return std::nullopt;
            continue;
        }
        left[size_t(l)] = at[l] - layout.offset()[size_t(l)];
        if (left[size_t(l)] < 0) return std::nullopt;
    }
    for (size_t a = 0; a < layout.rank(); a++)
        for (const Factor &f : layout.axes()[a].factors) digits.push_back({&f, int(a)});
    for (const Factor &f : layout.copies()) digits.push_back({&f, -1});
    // Large strides first, to reject most impossible combinations early.
    std::sort(digits.begin(), digits.end(),
              [](const Digit &a, const Digit &b) { return a.factor->stride > b.factor->stride; });
    for (const Digit &d : digits) reach[size_t(d.factor->level)] += (d.factor->size - 1) * d.factor->stride;
    std::vector<int64_t> index;
    for (const LayoutAxis &a : layout.axes()) index.push_back(a.origin);
    const std::function<bool(size_t, std::array<int64_t, layout_level_count>)> next =
        [&](size_t k, std::array<int64_t, layout_level_count> inside) {
            if (k == digits.size()) {
                for (const int64_t l : left)
                    if (l) return false;
                for (size_t a = 0; a < index.size(); a++)
                    if (index[a] < 0 || index[a] >= layout.axes()[a].extent) return false;
                return true;
            }
            const auto &[f, axis] = digits[k];
            const size_t l = size_t(f->level);
            inside[l] -= (f->size - 1) * f->stride;
            for (int64_t d = 0; d < f->size; d++) {
                const int64_t after = left[l] - d * f->stride;
                if (after < 0) break;
                if (after > inside[l]) continue;
                left[l] = after;
                if (axis >= 0) index[size_t(axis)] += d * f->step;
                if (next(k + 1, inside)) return true;
                if (axis >= 0) index[size_t(axis)] -= d * f->step;
                left[l] = after + d * f->stride;
            }
            return false;
        };
    for (int l = 0; l < layout_level_count; l++)
        if (left[size_t(l)] > reach[size_t(l)]) return std::nullopt;
    if (!next(0, reach)) return std::nullopt;
    return index;
}

Contents contents(const Placement &p, const sim::Config &c) {
    if (p.layout.elements() > INT32_MAX)
        throw Unsupported(fmt::format("{}: more than {} elements", p.to_string(), INT32_MAX));
    Contents all(p.memory, units_of(p.memory, c), p.layout.words(), elements_per_word(p.layout.type()));
    const Enumerator e(p, c);
    e.each([&](int64_t number, const Spot &at) {
        for (const Spot &copy : e.copies()) {
            const Spot s = at + copy;
            all.at(int(s.unit), s.address)[s.lane] = int32_t(number);
        }
    });
    return all;
}

Footprint footprint(const Placement &p, const sim::Config &c) {
    const Contents all = contents(p, c);
    Footprint f;
    int64_t places = 0;
    for (int u = 0; u < all.units(); u++) {
        int64_t here = 0, last = -1;
        for (int64_t a = 0; a < all.words(); a++)
            for (int l = 0; l < all.lanes(); l++)
                if (all.at(u, a)[l] >= 0) here++, last = a;
        f.elements = std::max(f.elements, here);
        f.words = std::max(f.words, last + 1);
        f.units += here > 0;
        places += here;
    }
    f.copies = (places + p.layout.elements() - 1) / p.layout.elements();
    return f;
}

} // namespace kumiko::chip

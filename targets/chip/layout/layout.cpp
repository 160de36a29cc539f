#include "targets/chip/layout/layout.h"

#include "sim/line.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

namespace {

constexpr const char *type_names[] = {"f16", "f32", "i16", "i32"};
constexpr const char *level_names[] = {"G", "L2B", "L1B", "MAB", "PE", "", "W"};
// The limit of sizes, strides and steps: sums stay far from overflow.
constexpr int64_t greatest = int64_t(1) << 40;

std::string text_of(const Factor &f, int64_t natural_step) {
    std::string s = fmt::format("{}", f.size);
    if (f.level != Level::Address) s += fmt::format("_{}", name_of(f.level));
    s += fmt::format(":{}", f.stride);
    if (f.size > 1 && f.step != natural_step) s += fmt::format("/{}", f.step);
    return s;
}

void check_factor(const Factor &f) {
    const auto fail = [&](const char *what, int64_t value, int64_t low) {
        throw UserError(fmt::format("{} of a layout's factor must be in {}..{}, found {}", what, low, greatest, value));
    };
    if (f.size < 1 || f.size > greatest) fail("the size", f.size, 1);
    if (f.stride < 0 || f.stride > greatest) fail("the stride", f.stride, 0);
    if (f.step < 0 || f.step > greatest) fail("the step", f.step, 0);
}

// size[_LEVEL]:stride[/step]
Factor parse_factor(sim::Line &line) {
    Factor f;
    f.size = line.number(1, greatest, "a factor's size");
    if (line.take('_')) {
        const size_t at = line.at();
        const std::string name = line.word();
        int level = -1;
        for (int l = 0; l < layout_level_count; l++)
            if (name == level_names[l] && l != int(Level::Address)) level = l;
        if (level < 0)
            line.fail_at(at, fmt::format("there is no level '{}'; there are G, L2B, L1B, MAB, PE and W", name));
        f.level = Level(level);
    }
    line.expect(":", "before the factor's stride");
    f.stride = line.number(0, greatest, "a factor's stride");
    if (line.take('/')) f.step = line.number(1, greatest, "a factor's step");
    return f;
}

// (factor, factor, ...)
std::vector<Factor> parse_factors(sim::Line &line) {
    std::vector<Factor> all;
    line.expect("(", "before a list of factors");
    if (line.take(')')) return all;
    do all.push_back(parse_factor(line));
    while (line.take(','));
    line.expect(")", "after a list of factors");
    return all;
}

} // namespace

const char *name_of(ElementType t) { return type_names[int(t)]; }
const char *name_of(Level level) { return level_names[int(level)]; }

ElementType element_type(std::string_view name) {
    for (int t = 0; t < 4; t++)
        if (name == type_names[t]) return ElementType(t);
    throw UserError(fmt::format("the chip has no elements of type '{}'; it has f16, f32, i16 and i32", name));
}

int64_t span_of(const std::vector<Factor> &factors) {
    int64_t span = 1;
    for (const Factor &f : factors) span += (f.size - 1) * f.step;
    return span;
}

Layout::Layout(ElementType type, std::vector<LayoutAxis> axes, std::vector<Factor> copies,
               std::array<int64_t, layout_level_count> offset, unsigned fixed)
    : type_(type), axes_(std::move(axes)), copies_(std::move(copies)), offset_(offset), fixed_(fixed) {
    double all = 1;
    for (size_t a = 0; a < axes_.size(); a++) {
        LayoutAxis &axis = axes_[a];
        int64_t span = 1;
        for (size_t k = axis.factors.size(); k-- > 0;) {
            Factor &f = axis.factors[k];
            check_factor(f);
            if (f.step == 0 || f.size == 1) f.step = span;
            if (f.step > span)
                throw UserError(
                    fmt::format("axis {}: index {} has no place, since a digit of {} is worth {} indices and the "
                                "factors inside it reach {}; a step of at most {} leaves no gap",
                                a, axis.origin + span, text_of(f, 0), f.step, span, span));
            if (double(f.size) * double(f.step) > double(greatest))
                throw UserError(fmt::format("axis {}: more than {} indices", a, greatest));
            span += (f.size - 1) * f.step;
        }
        if (axis.origin > 0)
            throw UserError(
                fmt::format("axis {}: its factors begin at index {}, so that index 0 has no place; an origin is at "
                            "most 0",
                            a, axis.origin));
        if (axis.extent == -1) axis.extent = axis.origin + span;
        if (axis.extent < 1 || axis.extent > axis.origin + span)
            throw UserError(
                fmt::format("axis {}: an extent of {}, and its factors reach the indices {}..{}; it can be 1 to {}", a,
                            axis.extent, axis.origin, axis.origin + span - 1, axis.origin + span));
        all *= double(axis.extent);
    }
    if (all > double(greatest)) throw UserError(fmt::format("a tensor of more than {} elements", greatest));
    for (Factor &f : copies_) {
        check_factor(f);
        f.step = 1;
        if (f.level == Level::Lane || f.level == Level::Address)
            throw UserError(
                fmt::format("copies must be on a unit level, G, L2B, L1B, MAB or PE, not {}", text_of(f, 1)));
    }
    for (int l = 0; l < layout_level_count; l++) {
        if (offset_[size_t(l)] < 0)
            throw UserError(fmt::format("an offset of {} on level {}: it is at least 0", offset_[size_t(l)],
                                        l == int(Level::Address) ? "address" : level_names[l]));
        if (offset_[size_t(l)]) fixed_ |= 1u << l;
    }
}

Layout Layout::parse(std::string_view text, ElementType type) {
    sim::Line line(text, "layout:1:");
    std::vector<LayoutAxis> axes;
    std::vector<Factor> copies;
    std::array<int64_t, layout_level_count> offset{};
    unsigned fixed = 0;
    line.expect("(", "before the axes");
    if (!line.take(')')) {
        do {
            LayoutAxis axis;
            if (line.next_is_digit()) {
                axis.extent = line.number(1, greatest, "an extent");
                line.expect("=", "between an extent and its factors");
            }
            axis.factors = parse_factors(line);
            if (line.take('@')) {
                line.expect("-", "before an origin, which is never above 0");
                axis.origin = -line.number(0, greatest, "an origin");
            }
            axes.push_back(std::move(axis));
        } while (line.take(','));
        line.expect(")", "after the axes");
    }
    if (line.take('*')) copies = parse_factors(line);
    if (line.take('@')) {
        line.expect("(", "before the offsets");
        do {
            const size_t at = line.at();
            const int64_t value = line.number(0, greatest, "an offset");
            Level level = Level::Address;
            if (line.take('_')) {
                const std::string name = line.word();
                const auto *found = std::find(std::begin(level_names), std::end(level_names), name);
                if (found == std::end(level_names) || name.empty())
                    line.fail_at(at, fmt::format("there is no level '{}'; there are G, L2B, L1B, MAB, PE and W", name));
                level = Level(found - level_names);
            }
            if (fixed >> int(level) & 1) line.fail_at(at, "this level has an offset already");
            offset[size_t(level)] = value;
            fixed |= 1u << int(level);
        } while (line.take(','));
        line.expect(")", "after the offsets");
    }
    if (!line.done()) line.fail("expected the layout's end, found " + line.found());
    try {
        return Layout(type, std::move(axes), std::move(copies), offset, fixed);
    } catch (const UserError &e) {
        throw UserError("layout: " + std::string(e.what()));
    }
}

std::string Layout::to_string() const {
    const auto list = [](const std::vector<Factor> &factors, bool steps) {
        std::string s;
        for (size_t k = 0; k < factors.size(); k++) {
            const std::vector<Factor> inside(factors.begin() + int64_t(k) + 1, factors.end());
            s += (k ? ", " : "") + text_of(factors[k], steps ? span_of(inside) : factors[k].step);
        }
        return "(" + s + ")";
    };
    std::string s = "(";
    for (size_t a = 0; a < axes_.size(); a++) {
        const LayoutAxis &axis = axes_[a];
        if (a) s += ", ";
        if (axis.extent != axis.origin + span_of(axis.factors)) s += fmt::format("{}=", axis.extent);
        s += list(axis.factors, true);
        if (axis.origin) s += fmt::format("@{}", axis.origin);
    }
    s += ")";
    if (!copies_.empty()) s += " * " + list(copies_, false);
    std::string at;
    for (int l = 0; l < layout_level_count; l++) {
        if (!(fixed_ >> l & 1)) continue;
        at += (at.empty() ? "" : ", ") + fmt::format("{}", offset_[size_t(l)]);
        if (l != int(Level::Address)) at += fmt::format("_{}", level_names[l]);
    }
    if (!at.empty()) s += " @ (" + at + ")";
    return s;
}

Layout Layout::dense(ElementType type, const std::vector<int64_t> &extents) {
    std::vector<LayoutAxis> axes(extents.size());
    const int64_t lanes = elements_per_word(type);
    int64_t stride = 1;
    for (size_t a = extents.size(); a-- > 0;) {
        axes[a].extent = extents[a];
        if (a + 1 == extents.size()) {
            const int64_t words = (extents[a] + lanes - 1) / lanes;
            axes[a].factors = {{words, Level::Address, 1}, {lanes, Level::Lane, 1}};
            stride = words;
        } else {
            axes[a].factors = {{extents[a], Level::Address, stride}};
            stride *= extents[a];
        }
    }
    return Layout(type, std::move(axes));
}

std::vector<int64_t> Layout::extents() const {
    std::vector<int64_t> e;
    for (const LayoutAxis &a : axes_) e.push_back(a.extent);
    return e;
}

int64_t Layout::elements() const {
    int64_t n = 1;
    for (const LayoutAxis &a : axes_) n *= a.extent;
    return n;
}

bool Layout::names(Level level) const {
    const auto on_level = [&](const Factor &f) { return f.level == level; };
    return fixed_ >> int(level) & 1 || std::any_of(copies_.begin(), copies_.end(), on_level) ||
           std::any_of(axes_.begin(), axes_.end(),
                       [&](const LayoutAxis &a) { return std::any_of(a.factors.begin(), a.factors.end(), on_level); });
}

int64_t Layout::reach(Level level) const {
    int64_t reach = offset_[size_t(level)];
    for (const LayoutAxis &a : axes_) {
        // Digits that the extent never reaches do not count.
        const int64_t last = a.extent - 1 - a.origin;
        bool whole = false;
        for (const Factor &f : a.factors) {
            const int64_t digit = whole ? f.size - 1 : std::min(f.size - 1, last / f.step);
            if (f.level == level) reach += digit * f.stride;
            whole = whole || digit > 0;
        }
    }
    for (const Factor &f : copies_)
        if (f.level == level) reach += (f.size - 1) * f.stride;
    return reach;
}

} // namespace kumiko::chip

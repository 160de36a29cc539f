// Queries on the structure of a formula.
#include "autotune/spaces/chip_formula.h"

#include "support/error.h"

#include <algorithm>

namespace kumiko {

bool ChipFormula::Read::uses(size_t axis) const {
    const auto has = [&](const auto &w) {
        return std::any_of(w.begin(), w.end(), [&](const auto &a) { return a.first == axis; });
    };
    return std::find(at.begin(), at.end(), axis) != at.end() || std::any_of(windows.begin(), windows.end(), has);
}

bool ChipFormula::in_window(size_t axis) const {
    for (const Member &m : members) {
        for (const Read &r : m.reads) {
            if (r.uses(axis) && std::find(r.at.begin(), r.at.end(), axis) == r.at.end()) return true;
        }
    }
    return false;
}

bool ChipFormula::Member::has(size_t axis) const {
    return std::any_of(axes.begin(), axes.end(), [&](const auto &a) { return a.second == axis; });
}

bool ChipFormula::Member::reduces(size_t axis) const {
    return std::any_of(stage->reduction_axes.begin(), stage->reduction_axes.end(),
                       [&](const Axis &a) { return axes.at(a.name()) == axis; });
}

std::vector<std::optional<size_t>> ChipFormula::Member::indices() const {
    std::vector<std::optional<size_t>> all;
    for (const Axis &a : stage->axes) all.emplace_back(axes.at(a.name()));
    return all;
}

int ChipFormula::Member::bytes() const {
    return stage->is_reduction() ? stage->components.front().type.bytes() : stage->type.bytes();
}

size_t ChipFormula::axis(const std::string &name) const {
    for (size_t a = 0; a < axes.size(); a++) {
        if (axes[a].name == name) return a;
    }
    throw InternalError("no axis " + name);
}

std::vector<std::string> ChipFormula::inputs() const {
    std::vector<std::string> all;
    for (const Member &m : members) {
        for (const Read &r : m.reads) {
            if (std::find(all.begin(), all.end(), r.tensor) == all.end()) all.push_back(r.tensor);
        }
    }
    return all;
}

std::vector<size_t> ChipFormula::lane_axes() const {
    const Member &out = output();
    // Results are stored along the last axis of the output, unless it is a reduction or a scalar.
    const bool full = !out.stage->is_reduction() && !out.stage->axes.empty();
    bool windows = false;
    std::vector<std::pair<int64_t, size_t>> found;
    for (const Member &m : members) {
        for (const Read &r : m.reads) {
            int64_t size = 1;
            for (const auto &a : r.at) size *= a ? axes[*a].extent : 1;
            if (r.last()) found.emplace_back(-size, *r.last());
            windows = windows || !r.windows.empty();
        }
    }
    std::stable_sort(found.begin(), found.end());
    std::vector<size_t> all;
    const auto add = [&](size_t a) {
        if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
    };
    if (full && (members.size() == 1 || found.empty()))
        return {out.axes.at(joined.empty() ? out.stage->axes.back().name() : joined.back())};
    if (windows) { // the longest one without a window
        found.clear();
        for (size_t a = 0; a < axes.size(); a++) {
            if (!in_window(a)) found.emplace_back(-axes[a].extent, a);
        }
        std::stable_sort(found.begin(), found.end());
    }
    for (const auto &[size, a] : found) add(a);
    if (full && !windows) add(out.axes.at(out.stage->axes.back().name()));
    if (all.size() > 3) all.resize(3);
    return all;
}

} // namespace kumiko

#include "autotune/spaces/chip_formula.h"

#include "dsl/print.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/structure.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko {

namespace {

using library::constant_extent;

const std::string chains =
    "; on the chip the space made from a formula has elementwise stages and reductions, of one output, "
    "whose reads are at axes, and products of matrices";

int bytes_of(const Stage &s) { return s.is_reduction() ? s.components.front().type.bytes() : s.type.bytes(); }

void require_supported(const Op &op) {
    if (op.outputs().size() != 1)
        throw Unsupported("op " + op.name() + " has " + std::to_string(op.outputs().size()) + " outputs" + chains);
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding)
            throw Unsupported("stage " + s.name + " of op " + op.name() + " pads what it reads" + chains);
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                if (!constant_extent(a))
                    throw UserError("axis " + a.name() + " of stage " + s.name +
                                    " has an extent known only at run time; "
                                    "programs of the chip are made for given sizes");
            }
        }
        if (!s.is_reduction()) continue;
        const bool position = s.reduction_kind == "argmax" || s.reduction_kind == "argmin";
        if (!s.properties.associative || !s.properties.commutative || s.components.size() != (position ? 2 : 1))
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " folds in an order, or several values together" + chains);
        if (position && !(op.is_output(s.name) && op.stages().size() == 1))
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " finds positions, which is built for an output that no other stage is beside" + chains);
    }
}

// Which axes of which stages are one.
class Classes {
public:
    using Key = std::pair<std::string, std::string>; // stage, axis
    void add(const Key &k) { of_[k] = of_.size(); }
    size_t of(const Key &k) const { return of_.at(k); }
    bool known(const Key &k) const { return of_.count(k) != 0; }
    // False where a stage would have two axes in one.
    bool unite(const Key &a, const Key &b) {
        const size_t x = of_.at(a), y = of_.at(b);
        if (x == y) return true;
        std::set<std::string> stages;
        for (const auto &[key, c] : of_) {
            if ((c == x || c == y) && !stages.insert(key.first).second) return false;
        }
        for (auto &[key, c] : of_) {
            if (c == y) c = x;
        }
        return true;
    }

private:
    std::map<Key, size_t> of_;
};

std::string variable_name(const Expr &e) {
    const auto *v = e.as<Halide::Internal::Variable>();
    return v ? v->name : "";
}

} // namespace

bool ChipFormula::Read::uses(size_t axis) const { return std::find(at.begin(), at.end(), axis) != at.end(); }

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

int ChipFormula::Member::bytes() const { return bytes_of(*stage); }

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
    // Elements leave along the last axis of the output, which what is not reduced to fewer axes has.
    const bool full = !out.stage->is_reduction() && !out.stage->axes.empty();
    std::vector<std::pair<int64_t, size_t>> found;
    for (const Member &m : members) {
        for (const Read &r : m.reads) {
            int64_t size = 1;
            for (const auto &a : r.at) size *= a ? axes[*a].extent : 1;
            if (r.last()) found.emplace_back(-size, *r.last());
        }
    }
    std::stable_sort(found.begin(), found.end());
    std::vector<size_t> all;
    const auto add = [&](size_t a) {
        if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
    };
    if (full && (members.size() == 1 || found.empty()))
        return {out.axes.at(joined.empty() ? out.stage->axes.back().name() : joined.back())};
    for (const auto &[size, a] : found) add(a);
    if (full) add(out.axes.at(out.stage->axes.back().name()));
    if (all.size() > 3) all.resize(3);
    return all;
}

std::optional<ChipFormula> chip_formula(const Op &op, ChipKeep keep, size_t joined) {
    require_supported(op);
    ChipFormula f;
    const Stage &out = op.stage(op.outputs().front());
    std::map<std::string, std::set<std::string>> readers;
    size_t fewest = out.axes.size(), most = 0;
    for (const Stage &s : op.stages()) {
        for (const auto &[tensor, index] : library::reads_of(op, s, [&] {
                 std::set<std::string> all;
                 for (const Stage &o : op.stages()) all.insert(o.name);
                 return all;
             }()))
            readers[tensor].insert(s.name);
        if (s.is_reduction()) fewest = std::min(fewest, s.axes.size());
        most = std::max(most, s.axes.size() + s.reduction_axes.size());
    }
    std::set<std::string> kept;
    for (const Stage &s : op.stages()) {
        const bool scalar = s.axes.size() <= fewest && fewest < most;
        const bool stays = s.is_reduction() || s.name == out.name || (keep != ChipKeep::None && scalar) ||
                           (keep == ChipKeep::Shared && readers[s.name].size() > 1);
        if (stays)
            kept.insert(s.name);
        else
            f.inlined.push_back(s.name);
    }
    if (joined > 0 && (kept.size() > 1 || out.is_reduction() || joined > out.axes.size() || joined < 2))
        return std::nullopt;

    Classes classes;
    std::map<std::string, library::Reads> reads;
    for (const Stage &s : op.stages()) {
        if (!kept.contains(s.name)) continue;
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) classes.add({s.name, a.name()});
        }
        reads[s.name] = library::reads_of(op, s, kept);
    }
    for (size_t d = out.axes.size() - joined; joined > 0 && d + 1 < out.axes.size(); d++) {
        if (library::joins(op, out, reads[out.name], d) != library::Join::Plain) return std::nullopt;
    }
    // By reads of stages, then by what reads one input.
    std::map<std::pair<std::string, size_t>, std::pair<std::string, std::string>> along;
    for (const bool inputs : {false, true}) {
        for (const Stage &s : op.stages()) {
            for (const auto &[tensor, index] : reads[s.name]) {
                if ((op.find_input(tensor) != nullptr) != inputs) continue;
                for (size_t d = 0; d < index.size(); d++) {
                    const std::string v = variable_name(index[d]);
                    if (v.empty() && inputs && Halide::Internal::is_const(index[d])) continue;
                    if (v.empty() || !classes.known({s.name, v}))
                        throw Unsupported("stage " + s.name + " of op " + op.name() + " reads " + tensor + " at " +
                                          to_string(index[d]) + chains);
                    if (inputs) {
                        const auto [known, first] = along.emplace(std::pair(tensor, d), std::pair(s.name, v));
                        const auto extent = [&](const std::pair<std::string, std::string> &k) {
                            return *constant_extent(*library::find_axis(op.stage(k.first), k.second));
                        };
                        if (!first && extent(known->second) == extent({s.name, v}))
                            classes.unite(known->second, {s.name, v});
                        continue;
                    }
                    const Axis &its = op.stage(tensor).axes[d], &own = *library::find_axis(s, v);
                    if (*constant_extent(its) != *constant_extent(own) ||
                        !classes.unite({tensor, its.name()}, {s.name, v}))
                        throw Unsupported("stage " + s.name + " of op " + op.name() + " reads " + tensor +
                                          " along other axes than it is computed" + chains);
                }
            }
        }
    }
    // The output's axes first.
    std::map<size_t, size_t> position;
    const auto place = [&](const Stage &s, const Axis &a) {
        const size_t c = classes.of({s.name, a.name()});
        if (!position.emplace(c, f.axes.size()).second) return;
        std::string name = a.name();
        for (const ChipAxis &o : f.axes) {
            if (o.name == name) name = s.name + "_" + a.name();
        }
        f.axes.push_back({name, std::max<int64_t>(1, *constant_extent(a))});
    };
    for (size_t d = 0; d < out.axes.size(); d++) {
        if (joined > 0 && d + joined >= out.axes.size() && d + 1 < out.axes.size()) { // the last stands for all of them
            f.joined.push_back(out.axes[d].name());
            continue;
        }
        place(out, out.axes[d]);
    }
    if (joined > 0) {
        f.joined.push_back(out.axes.back().name());
        for (const std::string &a : f.joined) {
            position[classes.of({out.name, a})] = f.axes.size() - 1;
            if (a != f.joined.back()) f.axes.back().extent *= *constant_extent(*library::find_axis(out, a));
        }
    }
    for (const Stage &s : op.stages()) {
        if (!kept.contains(s.name)) continue;
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) place(s, a);
        }
    }
    for (const Stage &s : op.stages()) {
        if (!kept.contains(s.name)) continue;
        ChipFormula::Member m;
        m.stage = &s;
        m.operations += chip_operations(op, s, kept);
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) m.axes[a.name()] = position.at(classes.of({s.name, a.name()}));
        }
        if (bytes_of(s) == 2 || (s.is_reduction() && s.components.back().type.bytes() == 2)) f.lanes = 4;
        for (const auto &[tensor, index] : reads[s.name]) {
            const Input *in = op.find_input(tensor);
            if (!in) continue;
            if (in->type.bytes() == 2) f.lanes = 4;
            ChipFormula::Read r{tensor, in->type.bytes(), {}};
            for (const Expr &e : index) {
                const std::string v = variable_name(e);
                r.at.push_back(v.empty() ? std::nullopt : std::optional(m.axes.at(v)));
            }
            m.reads.push_back(std::move(r));
        }
        f.members.push_back(std::move(m));
    }
    std::stable_partition(f.members.begin(), f.members.end(), [&](const auto &m) { return m.stage->name != out.name; });
    for (size_t a = 0; a < f.axes.size(); a++) {
        for (const ChipFormula::Member &m : f.members) {
            f.axes[a].shared = f.axes[a].shared && m.has(a) && !m.reduces(a);
            f.axes[a].reduced = f.axes[a].reduced || m.reduces(a);
            if (m.reduces(a) && m.stage->reduction_kind == "product") f.axes[a].by_tree = false;
        }
        f.axes[a].kept = f.output().has(a) && !f.output().reduces(a);
    }
    if (f.inputs().empty()) throw Unsupported("op " + op.name() + " reads no input" + chains);
    return f;
}

} // namespace kumiko

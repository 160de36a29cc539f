// Derives the structure of a formula from an op.
#include "autotune/spaces/chip_formula.h"

#include "dsl/print.h"
#include "dsl/reads.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/structure.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko {

namespace {

using library::constant_extent;

const std::string chains =
    "; on the chip the space made from a formula has elementwise stages and reductions, of one output, "
    "whose reads are at axes or sums of them, and products of matrices";

void require_supported(const Op &op) {
    if (op.outputs().size() != 1)
        throw Unsupported("op " + op.name() + " has " + std::to_string(op.outputs().size()) + " outputs" + chains);
    for (const Stage &s : op.stages()) {
        const auto around =
            s.kind == Stage::Kind::Padding ? tensor_reads(s.value) : std::vector<const Halide::Internal::Call *>();
        if (s.kind == Stage::Kind::Padding && (around.size() != 1 || !op.find_input(around[0]->name)))
            throw Unsupported("stage " + s.name + " of op " + op.name() + " pads a tensor that is not an input" +
                              chains);
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
                              " has a combiner that is not associative and commutative, or folds several values" +
                              chains);
        if (position && !(op.is_output(s.name) && op.stages().size() == 1))
            throw Unsupported(
                "stage " + s.name + " of op " + op.name() +
                " finds positions (argmax, argmin), which is supported only for an op of that stage alone" + chains);
    }
}

// Equivalence classes of stage axes.
class Classes {
public:
    using Key = std::pair<std::string, std::string>; // stage, axis
    void add(const Key &k) { of_[k] = of_.size(); }
    size_t of(const Key &k) const { return of_.at(k); }
    bool known(const Key &k) const { return of_.count(k) != 0; }
    // False if two axes of one stage would be in the same class.
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

// The stage axes whose sum is the index, with their strides; nullopt for other indices.
std::optional<std::vector<std::pair<std::string, int64_t>>> window(const Stage &s, const Expr &index) {
    std::vector<std::pair<std::string, int64_t>> all;
    for (const auto *axes : {&s.axes, &s.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (!Halide::Internal::expr_uses_var(index, a.name())) continue;
            const auto at = [&](int n) { return Halide::Internal::substitute(a.name(), Expr(n), index); };
            const auto step = Halide::Internal::as_const_int(Halide::Internal::simplify(at(1) - at(0)));
            if (!step || *step < 1) return std::nullopt;
            all.emplace_back(a.name(), *step);
        }
    }
    return all.empty() ? std::nullopt : std::optional(all);
}

int64_t at_zero(const Stage &s, Expr index) {
    for (const auto *axes : {&s.axes, &s.reduction_axes}) {
        for (const Axis &a : *axes) index = Halide::Internal::substitute(a.name(), Expr(0), index);
    }
    return Halide::Internal::as_const_int(Halide::Internal::simplify(index)).value_or(0);
}

std::string variable_name(const Expr &e) {
    const auto *v = e.as<Halide::Internal::Variable>();
    return v ? v->name : "";
}

} // namespace

std::optional<ChipFormula> chip_formula(const Op &op, ChipKeep keep, size_t joined) {
    require_supported(op);
    ChipFormula f;
    const Stage &out = op.stage(op.outputs().front());
    std::map<std::string, std::set<std::string>> readers;
    size_t fewest = out.axes.size(), most = 0;
    std::set<std::string> sources; // inputs and their zero paddings
    for (const Input &in : op.inputs()) sources.insert(in.name);
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding) sources.insert(s.name);
    }
    for (const Stage &s : op.stages()) {
        if (sources.contains(s.name)) continue;
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
        if (sources.contains(s.name)) continue;
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
        std::set<std::string> whole = kept;
        whole.insert(sources.begin(), sources.end());
        reads[s.name] = library::reads_of(op, s, whole);
    }
    for (size_t d = out.axes.size() - joined; joined > 0 && d + 1 < out.axes.size(); d++) {
        if (library::joins(op, out, reads[out.name], d) != library::Join::Plain) return std::nullopt;
    }
    // First by reads between stages, then by reads of a common input.
    std::map<std::pair<std::string, size_t>, std::pair<std::string, std::string>> along;
    for (const bool inputs : {false, true}) {
        for (const Stage &s : op.stages()) {
            for (const auto &[tensor, index] : reads[s.name]) {
                if (sources.contains(tensor) != inputs) continue;
                for (size_t d = 0; d < index.size(); d++) {
                    const std::string v = variable_name(index[d]);
                    if (v.empty() && inputs && (Halide::Internal::is_const(index[d]) || window(s, index[d]))) continue;
                    if (v.empty() || !classes.known({s.name, v}))
                        throw Unsupported("stage " + s.name + " of op " + op.name() + " reads " + tensor + " at " +
                                          to_string(index[d]) + chains);
                    if (inputs) {
                        const auto [known, first] = along.emplace(std::pair(tensor, d), std::pair(s.name, v));
                        const auto extent = [&](const std::pair<std::string, std::string> &k) {
                            return *constant_extent(*find_axis(op.stage(k.first), k.second));
                        };
                        if (!first && extent(known->second) == extent({s.name, v}))
                            classes.unite(known->second, {s.name, v});
                        continue;
                    }
                    const Axis &its = op.stage(tensor).axes[d], &own = *find_axis(s, v);
                    if (*constant_extent(its) != *constant_extent(own) ||
                        !classes.unite({tensor, its.name()}, {s.name, v}))
                        throw Unsupported("stage " + s.name + " of op " + op.name() + " reads " + tensor +
                                          " along other axes than it is computed" + chains);
                }
            }
        }
    }
    // The output's axes come first.
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
        // The last axis stands for all of them.
        if (joined > 0 && d + joined >= out.axes.size() && d + 1 < out.axes.size()) {
            f.joined.push_back(out.axes[d].name());
            continue;
        }
        place(out, out.axes[d]);
    }
    if (joined > 0) {
        f.joined.push_back(out.axes.back().name());
        for (const std::string &a : f.joined) {
            position[classes.of({out.name, a})] = f.axes.size() - 1;
            if (a != f.joined.back()) f.axes.back().extent *= *constant_extent(*find_axis(out, a));
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
        if (m.bytes() == 2 || (s.is_reduction() && s.components.back().type.bytes() == 2)) f.lanes = 4;
        for (const auto &[tensor, index] : reads[s.name]) {
            if (!sources.contains(tensor)) continue;
            const int bytes = (op.find_input(tensor) ? op.find_input(tensor)->type : op.stage(tensor).type).bytes();
            if (bytes == 2) f.lanes = 4;
            ChipFormula::Read r{tensor, bytes, {}, {}, {}};
            for (const Expr &e : index) {
                const std::string v = variable_name(e);
                r.offsets.push_back(at_zero(s, e));
                r.at.push_back(v.empty() ? std::nullopt : std::optional(m.axes.at(v)));
                if (!v.empty() || Halide::Internal::is_const(e)) continue;
                std::vector<std::pair<size_t, int64_t>> axes;
                const auto sums = window(s, e);
                for (const auto &[axis, step] : *sums) axes.emplace_back(m.axes.at(axis), step);
                r.windows.push_back(std::move(axes));
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
    if (f.lane_axes().empty() || (f.members.size() == 1 && !out.is_reduction() && f.in_window(f.lane_axes().front())))
        throw Unsupported("op " + op.name() +
                          " has no axis for the lanes of a word: each occurs in an index that is a sum of axes" +
                          chains);
    return f;
}

} // namespace kumiko

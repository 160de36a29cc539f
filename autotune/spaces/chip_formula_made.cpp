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

// Builds a formula; make() calls the steps in the order of their declaration.
class ChipFormulaMaker {
public:
    ChipFormulaMaker(const Op &op, ChipKeep keep, size_t joined)
        : op_(op), out_(op.stage(op.outputs().front())), keep_(keep), joined_(joined) {}

    std::optional<ChipFormula> make() {
        require_supported(op_);
        find_sources();
        choose_kept();
        if (joined_ > 0 && (kept_.size() > 1 || out_.is_reduction() || joined_ > out_.axes.size() || joined_ < 2))
            return std::nullopt;
        read_stages();
        for (size_t d = out_.axes.size() - joined_; joined_ > 0 && d + 1 < out_.axes.size(); d++) {
            if (library::joins(op_, out_, reads_[out_.name], d) != library::Join::Plain) return std::nullopt;
        }
        // First by reads between stages, then by reads of a common input.
        for (const bool inputs : {false, true}) unite_axes(inputs);
        place_axes();
        for (const Stage &s : op_.stages()) {
            if (kept_.contains(s.name)) f_.members.push_back(member(s));
        }
        std::stable_partition(f_.members.begin(), f_.members.end(),
                              [&](const auto &m) { return m.stage->name != out_.name; });
        describe_axes();
        require_lanes();
        return f_;
    }

private:
    using Key = Classes::Key;

    // Inputs and their zero paddings.
    void find_sources() {
        for (const Input &in : op_.inputs()) sources_.insert(in.name);
        for (const Stage &s : op_.stages()) {
            if (s.kind == Stage::Kind::Padding) sources_.insert(s.name);
        }
    }

    // Decides which stages stay in the PEs; the others are inlined.
    void choose_kept() {
        std::set<std::string> names;
        for (const Stage &s : op_.stages()) names.insert(s.name);
        std::map<std::string, std::set<std::string>> readers;
        size_t fewest = out_.axes.size(), most = 0; // axes of reductions, and of any nest
        for (const Stage &s : op_.stages()) {
            if (sources_.contains(s.name)) continue;
            for (const auto &[tensor, index] : library::reads_of(op_, s, names)) readers[tensor].insert(s.name);
            if (s.is_reduction()) fewest = std::min(fewest, s.axes.size());
            most = std::max(most, s.axes.size() + s.reduction_axes.size());
        }
        for (const Stage &s : op_.stages()) {
            if (sources_.contains(s.name)) continue;
            const bool scalar = s.axes.size() <= fewest && fewest < most;
            const bool stays = s.is_reduction() || s.name == out_.name || (keep_ != ChipKeep::None && scalar) ||
                               (keep_ == ChipKeep::Shared && readers[s.name].size() > 1);
            if (stays)
                kept_.insert(s.name);
            else
                f_.inlined.push_back(s.name);
        }
    }

    void read_stages() {
        std::set<std::string> whole = kept_;
        whole.insert(sources_.begin(), sources_.end());
        for (const Stage &s : op_.stages()) {
            if (!kept_.contains(s.name)) continue;
            for (const auto *axes : {&s.axes, &s.reduction_axes}) {
                for (const Axis &a : *axes) classes_.add({s.name, a.name()});
            }
            reads_[s.name] = library::reads_of(op_, s, whole);
        }
    }

    // Axes coincide if one stage reads another, or two stages read an input, at the same index.
    void unite_axes(bool inputs) {
        for (const Stage &s : op_.stages()) {
            for (const auto &[tensor, index] : reads_[s.name]) {
                if (sources_.contains(tensor) != inputs) continue;
                for (size_t d = 0; d < index.size(); d++) {
                    const std::string v = variable_name(index[d]);
                    if (v.empty() && inputs && (Halide::Internal::is_const(index[d]) || window(s, index[d]))) continue;
                    if (v.empty() || !classes_.known({s.name, v}))
                        throw Unsupported("stage " + s.name + " of op " + op_.name() + " reads " + tensor + " at " +
                                          to_string(index[d]) + chains);
                    if (inputs)
                        unite_along_input(tensor, d, {s.name, v});
                    else
                        unite_with_stage(s, v, op_.stage(tensor), d);
                }
            }
        }
    }

    int64_t extent(const Key &k) const { return *constant_extent(*find_axis(op_.stage(k.first), k.second)); }

    void unite_along_input(const std::string &tensor, size_t d, const Key &key) {
        const auto [known, first] = along_.emplace(std::pair(tensor, d), key);
        if (!first && extent(known->second) == extent(key)) classes_.unite(known->second, key);
    }

    void unite_with_stage(const Stage &s, const std::string &axis, const Stage &read, size_t d) {
        const Axis &its = read.axes[d], &own = *find_axis(s, axis);
        if (*constant_extent(its) != *constant_extent(own) || !classes_.unite({read.name, its.name()}, {s.name, axis}))
            throw Unsupported("stage " + s.name + " of op " + op_.name() + " reads " + read.name +
                              " along other axes than it is computed" + chains);
    }

    void place(const Stage &s, const Axis &a) {
        const size_t c = classes_.of({s.name, a.name()});
        if (!position_.emplace(c, f_.axes.size()).second) return;
        std::string name = a.name();
        for (const ChipAxis &o : f_.axes) {
            if (o.name == name) name = s.name + "_" + a.name();
        }
        f_.axes.push_back({name, std::max<int64_t>(1, *constant_extent(a))});
    }

    // The output's axes come first. The last axis stands for those that are fused with it.
    void place_axes() {
        for (size_t d = 0; d < out_.axes.size(); d++) {
            if (joined_ > 0 && d + joined_ >= out_.axes.size() && d + 1 < out_.axes.size()) {
                f_.joined.push_back(out_.axes[d].name());
                continue;
            }
            place(out_, out_.axes[d]);
        }
        if (joined_ > 0) {
            f_.joined.push_back(out_.axes.back().name());
            for (const std::string &a : f_.joined) {
                position_[classes_.of({out_.name, a})] = f_.axes.size() - 1;
                if (a != f_.joined.back()) f_.axes.back().extent *= *constant_extent(*find_axis(out_, a));
            }
        }
        for (const Stage &s : op_.stages()) {
            if (!kept_.contains(s.name)) continue;
            for (const auto *axes : {&s.axes, &s.reduction_axes}) {
                for (const Axis &a : *axes) place(s, a);
            }
        }
    }

    ChipFormula::Member member(const Stage &s) {
        ChipFormula::Member m;
        m.stage = &s;
        m.operations += chip_operations(op_, s, kept_);
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) m.axes[a.name()] = position_.at(classes_.of({s.name, a.name()}));
        }
        if (m.bytes() == 2 || (s.is_reduction() && s.components.back().type.bytes() == 2)) f_.lanes = 4;
        for (const auto &[tensor, index] : reads_[s.name]) {
            if (!sources_.contains(tensor)) continue;
            const int bytes = (op_.find_input(tensor) ? op_.find_input(tensor)->type : op_.stage(tensor).type).bytes();
            if (bytes == 2) f_.lanes = 4;
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
        return m;
    }

    void describe_axes() {
        for (size_t a = 0; a < f_.axes.size(); a++) {
            for (const ChipFormula::Member &m : f_.members) {
                f_.axes[a].shared = f_.axes[a].shared && m.has(a) && !m.reduces(a);
                f_.axes[a].reduced = f_.axes[a].reduced || m.reduces(a);
                if (m.reduces(a) && m.stage->reduction_kind == "product") f_.axes[a].by_tree = false;
            }
            f_.axes[a].kept = f_.output().has(a) && !f_.output().reduces(a);
        }
    }

    void require_lanes() const {
        if (f_.inputs().empty()) throw Unsupported("op " + op_.name() + " reads no input" + chains);
        if (f_.lane_axes().empty() ||
            (f_.members.size() == 1 && !out_.is_reduction() && f_.in_window(f_.lane_axes().front())))
            throw Unsupported("op " + op_.name() +
                              " has no axis for the lanes of a word: each occurs in an index that is a sum of axes" +
                              chains);
    }

    const Op &op_;
    const Stage &out_;
    const ChipKeep keep_;
    const size_t joined_;
    ChipFormula f_;
    std::set<std::string> sources_, kept_;
    std::map<std::string, library::Reads> reads_; // by stage
    Classes classes_;
    // Dimension of an input to the first axis along it.
    std::map<std::pair<std::string, size_t>, Key> along_;
    std::map<size_t, size_t> position_; // class to axis of the formula
};

} // namespace

std::optional<ChipFormula> chip_formula(const Op &op, ChipKeep keep, size_t joined) {
    return ChipFormulaMaker(op, keep, joined).make();
}

} // namespace kumiko

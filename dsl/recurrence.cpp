#include "dsl/recurrence.h"

#include "dsl/definition.h"
#include "dsl/extern.h"
#include "dsl/legal.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "dsl/types.h"
#include "support/error.h"

#include <fmt/format.h>

#include <map>

namespace kumiko {

using namespace Halide::Internal;

namespace {

constexpr const char *recurrence_name = "kumiko.recurrence", *earlier_call = "kumiko.earlier";

constexpr std::string_view earlier_suffix = ".earlier";

// {number of tensors, component, names…, values…}
Expr encode(const RecurrenceTerm &r) {
    std::vector<Expr> args = {static_cast<int>(r.names.size()), static_cast<int>(r.component)};
    for (const std::string &n : r.names) args.push_back(StringImm::make(n));
    args.insert(args.end(), r.values.begin(), r.values.end());
    return Call::make(r.values[r.component].type(), recurrence_name, args, Call::PureIntrinsic);
}

// The first tensor or reduction that the expression reads; "" if there is none.
std::string reads_something(const Expr &e) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        std::string found;
        void visit(const Call *op) override {
            if (is_reference(op))
                found = op->name.substr(reference_prefix.size());
            else if (kumiko::is_reduction(op))
                found = "a reduction";
            else
                IRGraphVisitor::visit(op);
        }
    } find;
    e.accept(&find);
    return find.found;
}

Expr of_type(Type type, const Expr &e, const std::string &what, const std::string &name, const Place &where) {
    if (!e.defined()) throw UserError(where, fmt::format("{} of recurrence \"{}\" is undefined", what, name));
    if (e.type() == type) return e;
    if (is_const(e)) return typed::adapted(e, type, "recurrence", where);
    throw UserError(where, fmt::format("{} of recurrence \"{}\" is {}, but the tensor has elements of {}; cast it",
                                       what, name, type_name(e.type()), type_name(type)));
}

} // namespace

Element Earlier::at(const std::vector<Expr> &indices) const {
    const Place &where = where_;
    std::string text;
    for (const Expr &index : indices) text += (text.empty() ? "" : ", ") + to_string(index);
    const std::string read = "recurrence \"" + name_ + "\" reads itself at (" + text + ")";
    const std::string legal = "legal is each axis plus or minus a number, of which the first that is not 0 is "
                              "subtracted, or one axis minus a number and any other indices";
    if (indices.size() != axes_.size())
        throw UserError(where, fmt::format("{}, {} indices for its {} axes", read, indices.size(), axes_.size()));
    std::vector<std::optional<int64_t>> offsets; // of indices that are their axis plus a number
    for (size_t d = 0; d < indices.size(); d++) offsets.push_back(offset_from(indices[d], axes_[d]));
    const bool steps = std::any_of(offsets.begin(), offsets.end(), [](const auto &o) { return o && *o < 0; });
    Expr inside;
    std::map<std::string, Expr> at;
    std::vector<Expr> args = {StringImm::make(name_)};
    for (size_t d = 0; d < indices.size(); d++) {
        const Axis &axis = axes_[d];
        const auto &offset = offsets[d];
        if (!offset) {
            if (!indices[d].defined() || indices[d].type() != Int(32) || !steps)
                throw UserError(where, fmt::format("{}; index {} is not {} plus or minus a number; {}", read, d,
                                                   axis.name(), legal));
            args.push_back(indices[d]);
            at[axis.name()] = indices[d];
            continue;
        }
        if (*offset < -most_distance || *offset > most_distance)
            throw UserError(where, fmt::format("{}, {} elements away along {}; legal are distances of up to {}", read,
                                               std::abs(*offset), axis.name(), most_distance));
        if (*offset > 0 && !steps)
            throw UserError(where, fmt::format("{}, an element that is computed later; {}", read, legal));
        const Expr index = *offset < 0 ? axis - static_cast<int>(-*offset) : axis + static_cast<int>(*offset);
        args.push_back(*offset ? index : Expr(axis));
        if (*offset == 0) continue;
        at[axis.name()] = index;
        const int distance = static_cast<int>(std::abs(*offset));
        const Expr here = *offset < 0 ? Expr(distance) <= axis : axis < axis.extent() - distance;
        inside = inside.defined() ? inside && here : here;
    }
    if (!steps) throw UserError(where, fmt::format("{}, the element that it computes; {}", read, legal));
    const Expr element = Call::make(type_, earlier_call, args, Call::PureIntrinsic);
    return Element(
        Call::make(type_, Call::if_then_else, {inside, element, substitute(at, before_)}, Call::PureIntrinsic), where);
}

Tensor recurrence(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &before,
                  const std::function<Expr(const Earlier &)> &value, Place where) {
    if (!value) throw UserError(where, "recurrence \"" + name + "\" has no function that makes its value");
    return recurrence(
        std::vector{name}, {type}, axes, {before},
        [&](const std::vector<Earlier> &e) -> std::vector<Expr> { return {value(e[0])}; }, where)[0];
}

std::vector<Tensor> recurrence(const std::vector<std::string> &names, const std::vector<Type> &types,
                               const std::vector<Axis> &axes, const std::vector<Expr> &before,
                               const std::function<std::vector<Expr>(const std::vector<Earlier> &)> &values,
                               Place where) {
    if (names.empty()) throw UserError(where, "recurrence of no tensors; name at least one");
    const auto check_count = [&](size_t n, const char *what) {
        if (n != names.size())
            throw UserError(where, fmt::format("recurrence \"{}\" has {} tensors but {} {}; give one for each",
                                               names[0], names.size(), n, what));
    };
    check_count(types.size(), "types");
    check_count(before.size(), "values before the first");
    if (!values) throw UserError(where, "recurrence \"" + names[0] + "\" has no function that makes its values");
    std::vector<Earlier> earlier;
    for (size_t n = 0; n < names.size(); n++) {
        check_name(names[n], "tensor", where);
        check_element_type(types[n], "tensor \"" + names[n] + "\"", where);
        if (std::count(names.begin(), names.end(), names[n]) > 1)
            throw UserError(where, fmt::format("recurrence \"{}\" names tensor \"{}\" twice; give each a name of its "
                                               "own",
                                               names[0], names[n]));
        if (const std::string read = before[n].defined() ? reads_something(before[n]) : ""; !read.empty())
            throw UserError(where, fmt::format("the value before the first of recurrence \"{}\" reads {}; legal are "
                                               "numbers, axes and sizes. Read a border in the value itself, as in "
                                               "select(i == 0, top(j), {}(i - 1, j))",
                                               names[n], read, names[n]));
        earlier.emplace_back(names[n], types[n], axes,
                             of_type(types[n], before[n], "the value before the first", names[n], where), where);
    }
    RecurrenceTerm r{names, values(earlier)};
    check_count(r.values.size(), "values");
    for (size_t n = 0; n < names.size(); n++)
        r.values[n] = of_type(types[n], r.values[n], "the value", names[n], where);
    std::vector<Tensor> tensors;
    for (r.component = 0; r.component < names.size(); r.component++)
        tensors.push_back(compute(names[r.component], axes, encode(r), where));
    return tensors;
}

std::optional<int64_t> offset_from(const Expr &index, const Axis &axis) {
    if (!index.defined() || !index.type().is_int() || index.type().bits() != 32) return std::nullopt;
    return as_const_int(simplify(index - axis));
}

bool is_recurrence(const Call *call) { return call && call->name == recurrence_name; }
bool is_earlier(const Call *call) { return call->name == earlier_call; }

bool is_at_distance(const Call *earlier, const std::vector<Axis> &axes) {
    bool lower = false;
    for (size_t d = 0; d + 1 < earlier->args.size(); d++) {
        const auto offset = offset_from(earlier->args[d + 1], axes[d]);
        if (!offset || (*offset > 0 && !lower)) return false;
        lower = lower || *offset < 0;
    }
    return lower;
}

std::string earlier_name(const std::string &tensor) { return tensor + std::string(earlier_suffix); }

std::string earlier_of(const std::string &name) {
    return name.ends_with(earlier_suffix) ? name.substr(0, name.size() - earlier_suffix.size()) : "";
}

RecurrenceTerm decode_recurrence(const Call *call) {
    const size_t n = static_cast<size_t>(*as_const_int(call->args[0]));
    RecurrenceTerm r;
    r.component = static_cast<size_t>(*as_const_int(call->args[1]));
    for (size_t c = 0; c < n; c++) {
        r.names.push_back(call->args[2 + c].as<StringImm>()->value);
        r.values.push_back(call->args[2 + n + c]);
    }
    return r;
}

std::vector<std::vector<int64_t>> self_distances(const Stage &stage) {
    std::vector<std::vector<int64_t>> distances;
    for (const Expr &e : stage.expressions()) {
        for (const Call *read : tensor_reads(e)) {
            if (!stage.makes(read->name)) continue;
            std::vector<int64_t> distance;
            for (size_t d = 0; d < read->args.size(); d++)
                distance.push_back(-offset_from(read->args[d], stage.axes[d]).value());
            distances.push_back(std::move(distance));
        }
    }
    return distances;
}

bool carried_by_other_axes(const Stage &stage, const std::string &axis) {
    return std::all_of(stage.distances.begin(), stage.distances.end(), [&](const std::vector<int64_t> &distance) {
        int64_t along = 0, first = 0; // the first nonzero distance along another axis
        for (size_t d = 0; d < distance.size(); d++) {
            if (stage.axes[d].name() == axis)
                along = distance[d];
            else if (first == 0)
                first = distance[d];
        }
        return along == 0 || first > 0;
    });
}

bool carries_dependence(const Stage &stage, const std::string &axis) {
    for (const auto &distance : stage.distances) {
        for (size_t d = 0; d < distance.size(); d++) {
            if (distance[d] != 0 && stage.axes[d].name() == axis) return true;
        }
    }
    return false;
}

} // namespace kumiko

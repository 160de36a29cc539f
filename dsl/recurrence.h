// Recurrences: tensors whose elements read earlier elements of the same tensor, at constant
// distances.
//
//   // A filter of second order along t.
//   Tensor y = recurrence("y", f32, {i, t}, 0, [&](const Earlier &y) {
//       return X(i, t) + a * y(i, t - 1) - b * y(i, t - 2);
//   });
//   // Local alignment of two strings.
//   Tensor H = recurrence("H", i32, {i, j}, 0, [&](const Earlier &H) {
//       return max(max(H(i - 1, j - 1) + S(i, j), max(H(i - 1, j), H(i, j - 1)) - gap), 0);
//   });
//
// Several tensors may read earlier elements of each other:
//
//   // A rotating phasor.
//   std::vector<Tensor> xy = recurrence({"x", "y"}, {f32, f32}, {i, t}, {1, 0},
//                                       [&](const std::vector<Earlier> &s) -> std::vector<Expr> {
//       return {c * s[0](i, t - 1) - d * s[1](i, t - 1), d * s[0](i, t - 1) + c * s[1](i, t - 1)};
//   });
//
// Reductions and other stages may read earlier elements if each read is of an earlier step along
// one axis, here t:
//
//   // A recurrent layer.
//   Tensor h = recurrence("h", f32, {t, i}, 0, [&](const Earlier &h) {
//       return tanh(X(t, i) + sum(h(t - 1, k) * R(k, i), k));
//   });
//
// In the stages, a recurrence is pointwise and reads itself. `scan` (dsl/scan.h) is the recurrence
// of distance 1 along one axis. Other stages read earlier elements of a tensor T as "T.earlier", an
// alias of T. So does the recurrence itself at indices that are not at a constant distance. Stages
// between "T.earlier" and the recurrence are computed step by step with it.
#pragma once

#include "dsl/op.h"

#include <set>

namespace kumiko {

// The tensor as seen inside its own definition.
class Earlier {
public:
    Earlier(std::string name, Type type, std::vector<Axis> axes, const Expr &before, Place where)
        : name_(std::move(name)), type_(type), axes_(std::move(axes)), before_(before), where_(where) {}

    // An element that is computed earlier. Either each index is the axis at its position plus or
    // minus a number, and the first index that differs from its axis is lower. Or one index is its
    // axis minus a number, and the others are arbitrary. Where an axis plus or minus a number is
    // out of bounds, the value is the recurrence's `before` at these indices. Throws UserError for
    // other indices and for distances above 2^24.
    Element at(const std::vector<Expr> &indices) const;

    template<typename... Index>
    requires((std::is_convertible_v<Index, Expr> && ...)) Element operator()(const Index &...index) const {
        return at(std::vector<Expr>{Expr(index)...});
    }

private:
    std::string name_;
    Type type_;
    std::vector<Axis> axes_;
    Expr before_;
    Place where_; // where the recurrence was written
};

// Elements are computed in lexicographic order of the axes, the last fastest. `before`: a number or
// an expression over the axes that reads no tensor, of the tensor's type; otherwise UserError is
// thrown. Op throws UserError unless all reads by other tensors and reductions, and all reads that
// are not at a constant distance, are of an earlier step along the same axis, which must be an axis
// of all stages in between.
Tensor recurrence(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &before,
                  const std::function<Expr(const Earlier &)> &value, Place where = Place::current());

// Several recurrences together, with one name, type, `before` and value each. They become one stage
// "<first>.recurrence", of which each tensor is a copy, so each is stored twice. Throws UserError
// if the counts differ or a name repeats; Op throws it if no value reads an earlier element.
std::vector<Tensor> recurrence(const std::vector<std::string> &names, const std::vector<Type> &types,
                               const std::vector<Axis> &axes, const std::vector<Expr> &before,
                               const std::function<std::vector<Expr>(const std::vector<Earlier> &)> &values,
                               Place where = Place::current());

// Representation of a recurrence in a tensor's definition, until Op turns it into a stage.
struct RecurrenceTerm {
    std::vector<std::string> names;
    std::vector<Expr> values;
    size_t component = 0; // which of them the tensor is
};
bool is_recurrence(const Halide::Internal::Call *call); // false for null
RecurrenceTerm decode_recurrence(const Halide::Internal::Call *call);
// Whether the call reads an earlier element. Its first argument is the name; the others are the
// indices.
bool is_earlier(const Halide::Internal::Call *call);

// Whether the indices of `earlier`, for which is_earlier holds, are axes plus or minus numbers, and
// the first index that differs from its axis is lower.
bool is_at_distance(const Halide::Internal::Call *earlier, const std::vector<Axis> &axes);
// "T.earlier", and back to T; "" for other names.
std::string earlier_name(const std::string &tensor);
std::string earlier_of(const std::string &name);
// The largest distance of a read of an earlier element. It keeps indices far within 32 bits.
inline constexpr int64_t most_distance = 1 << 24;
// index - axis if that is constant; nullopt otherwise.
std::optional<int64_t> offset_from(const Expr &index, const Axis &axis);
// The names of the stages that are computed step by step with the recurrence: the recurrence
// itself, and every stage that reads its earlier elements, directly or indirectly, and is read by
// it. `stages`: all stages of the op.
std::set<std::string> stages_of_steps(const std::vector<const Stage *> &stages, const Stage &recurrence);
// Sets Stage::step_axis of each recurrence whose earlier elements other stages read, and of the
// stages that are computed step by step with it. Moves stages that read its results behind it.
// Throws UserError if a read is not of an earlier step, Unsupported if two recurrences take steps
// together.
void set_step_axes(std::vector<Stage> &stages, const std::vector<Input> &earlier,
                   const std::vector<std::string> &outputs, std::source_location where);
// The stages in topological order. Stages that take steps together form one group, which ends with
// the recurrence.
std::vector<std::vector<const Stage *>> groups_of_steps(const std::vector<Stage> &stages);

// The distance vectors of the stage's reads of its own tensors (Stage::distances).
std::vector<std::vector<int64_t>> self_distances(const Stage &stage);
// Whether every dependence along the axis is carried by a loop over another axis. The axis can then
// be innermost, and its iterations can run in parallel lanes.
bool carried_by_other_axes(const Stage &stage, const std::string &axis);
// Whether there is a dependence between elements that differ along the axis.
bool carries_dependence(const Stage &stage, const std::string &axis);

} // namespace kumiko

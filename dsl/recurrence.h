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
// Products and other tensors of earlier elements, where each read is of an earlier step along one
// axis, t here:
//
//   // A recurrent layer.
//   Tensor h = recurrence("h", f32, {t, i}, 0, [&](const Earlier &h) {
//       return tanh(X(t, i) + sum(h(t - 1, k) * R(k, i), k));
//   });
//
// In the stages a recurrence is pointwise and reads itself. `scan` (dsl/scan.h) is the recurrence
// of distance 1 along one axis. Other stages read earlier elements of a tensor T as elements of
// "T.earlier", which has the memory of T. So does the recurrence itself at places that are no
// distance away. Stages that read "T.earlier" and that the recurrence reads are computed step by
// step with it.
#pragma once

#include "dsl/op.h"

#include <set>

namespace kumiko {

// The tensor inside of its own definition.
class Earlier {
public:
    Earlier(std::string name, Type type, std::vector<Axis> axes, const Expr &before, Place where)
        : name_(std::move(name)), type_(type), axes_(std::move(axes)), before_(before), where_(where) {}

    // An element that is computed before. Either each index is the axis of its position plus or
    // minus a number, and of those that differ from their axis the first is lower. Or one index is
    // its axis minus a number, and the others are any. Where an axis plus or minus a number is
    // outside of the tensor the value is the `before` of the recurrence, at these indices. Throws
    // UserError for other indices, and for distances of more than 2^24.
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
    Place where_; // of the recurrence
};

// Elements are computed in the order of the axes, the last fastest. `before`: a number or an
// expression over the axes that reads no tensor, of the tensor's type. Throws UserError otherwise.
// Op throws UserError unless all reads by other tensors and reductions, and those at other places,
// are of an earlier step along the same axis, which is an axis of all stages between.
Tensor recurrence(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &before,
                  const std::function<Expr(const Earlier &)> &value, Place where = Place::current());

// Several together, one name, type, `before` and value for each. They become one stage,
// "<first>.recurrence", of which each tensor is a copy, so that each is stored twice. Throws
// UserError if the counts differ or a name repeats; Op does if no value reads an earlier element.
std::vector<Tensor> recurrence(const std::vector<std::string> &names, const std::vector<Type> &types,
                               const std::vector<Axis> &axes, const std::vector<Expr> &before,
                               const std::function<std::vector<Expr>(const std::vector<Earlier> &)> &values,
                               Place where = Place::current());

// How a recurrence stands in the definition of a tensor until Op makes it a stage.
struct RecurrenceTerm {
    std::vector<std::string> names;
    std::vector<Expr> values;
    size_t component = 0; // which of them the tensor is
};
bool is_recurrence(const Halide::Internal::Call *call); // false for null
RecurrenceTerm decode_recurrence(const Halide::Internal::Call *call);
// Whether the call reads an earlier element; its first argument is the name, the others are the
// indices.
bool is_earlier(const Halide::Internal::Call *call);

// Whether an earlier element, as is_earlier tells, is at the axes plus or minus numbers, of which
// the first that differs from its axis is lower.
bool is_at_distance(const Halide::Internal::Call *earlier, const std::vector<Axis> &axes);
// "T.earlier", and T again; "" for other names.
std::string earlier_name(const std::string &tensor);
std::string earlier_of(const std::string &name);
// The names of the stages that compute each step together: those that read earlier elements of the
// recurrence, also through others, and are read by it, and the recurrence. `stages` are all of the
// op.
std::set<std::string> stages_of_steps(const std::vector<const Stage *> &stages, const Stage &recurrence);
// Finds for each recurrence of the op that other stages read in this way the axis of its steps, for
// all stages of a step (Stage::step_axis), and brings stages that read results of steps behind it.
// Throws UserError where a read is not of an earlier step, Unsupported where two recurrences take
// steps together.
void find_steps(std::vector<Stage> &stages, const std::vector<Input> &earlier, const std::vector<std::string> &outputs,
                std::source_location where);
// The stages, each after those that it reads. Those that take steps together are one group, which
// ends with the recurrence.
std::vector<std::vector<const Stage *>> groups_of_steps(const std::vector<Stage> &stages);

// The distances of the reads of its own tensors in the expressions of a stage (Stage::distances).
std::vector<std::vector<int64_t>> self_distances(const Stage &stage);
// Whether every read of an earlier element along the axis is of an earlier iteration of loops over
// the other axes, in their order. The axis may then be the innermost, and its iterations run at
// once.
bool others_carry(const Stage &stage, const std::string &axis);
// Whether elements that differ along the axis read each other.
bool is_ordered(const Stage &stage, const std::string &axis);

} // namespace kumiko

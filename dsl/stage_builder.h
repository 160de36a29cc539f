// From tensors to stages: the first part of what Op does. Every tensor that an output reads becomes a stage, each after those that it
// reads; reductions inside expressions become stages of their own, and reads become plain calls.
#pragma once

#include "dsl/definition.h"
#include "dsl/recurrence.h"

#include <map>
#include <set>

namespace kumiko {

// The names of the axes that an expression uses, by expression.
using AxesOfValues = std::map<Expr, std::set<std::string>, Halide::ExprCompare>;

class StageBuilder {
public:
    // Adds to `stages` and `inputs`; errors name `where`.
    StageBuilder(std::vector<Stage> &stages, std::vector<Input> &inputs, const std::source_location &where)
        : stages_(stages), inputs_(inputs), where_(where) {}

    // The tensor, after all that it reads; returns the name of its stage. Of the paddings of one
    // tensor that differ, the second is named "X.padded1", or "X.clamped1". Throws UserError as Op
    // does.
    std::string add(TensorContents c);

    // The earlier elements of recurrences that stages read beside the recurrence itself, as
    // tensors. After all tensors are added. Throws UserError if one of the recurrences is not among
    // them.
    std::vector<Input> earlier();

    std::set<std::string> axis_names; // every axis met anywhere, which no Size may be named like

    std::vector<WrittenPart> written; // for errors about the stages

private:
    using Call = Halide::Internal::Call;
    struct SharedTuple {
        ReductionTerm reduction;
        Stage stage;
    };

    std::vector<Stage> &stages_;
    std::vector<Input> &inputs_;
    const std::source_location &where_;
    std::map<std::string, TensorContents> done_;
    std::set<std::string> open_;
    std::vector<std::string> order_;
    std::set<std::string> taken_names_; // of reductions and nested tensors
    std::vector<SharedTuple> tuples_;
    struct SharedRecurrence {
        RecurrenceTerm term;
        Stage stage;
    };
    std::vector<SharedRecurrence> recurrences_;
    std::vector<TensorContents> nested_;
    AxesOfValues axes_of_nested_; // that their values use
    // By stage, the tensors whose earlier elements it reads itself.
    std::map<std::string, std::vector<std::string>> recurring_;
    std::map<std::string, Input> recurrent_;          // those tensors, as they are named in stages
    std::map<std::string, std::string> read_earlier_; // of which the name is the first; a reader of each

    std::string chain(const std::string &name) const;
    void fill_reduction(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    void fill_extern(Stage &stage, const Call *call);
    void fill_recurrence(Stage &stage, const Call *call);
    void fill_values(Stage &stage, const RecurrenceTerm &r);
    void set_distances(Stage &stage) const;
    Expr earlier_element(const Call *earlier, const std::string &owner, const std::vector<Axis> &scope);
    void fill_fold(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    void fill_scan(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    Expr rewrite(const Expr &e, const std::string &owner, const std::vector<Axis> &scope);
    Expr nested_element(const Call *op, const std::string &owner, const std::vector<Axis> &scope);
    std::string free_name(const std::string &name);
    Expr extract(const Call *op, const std::string &owner, const std::vector<Axis> &scope);
    std::optional<Expr> shared_part(const ReductionTerm &r, const std::vector<Axis> &scope) const;
    static Expr component(const Stage &stage, size_t c);
    static bool same_tuple(const ReductionTerm &a, const ReductionTerm &b);
    static bool ranges_in(const std::vector<Axis> &axes, const std::vector<Axis> &scope);
    void check_variables(const Expr &e, const std::string &owner, const std::vector<Axis> &scope);
};

// The free int32 variables of an expression.
std::set<std::string> variables_of(const Expr &e);
// Those that are a Size's, and the others.
std::set<std::string> sizes_used(const Expr &e);
std::set<std::string> axes_used(const Expr &e);
// The strides of a dense array.
std::vector<Expr> row_major(const std::vector<Axis> &axes);
// Whether it is an array that the caller passes for reading.
bool is_input(const TensorContents &c);

// What a "sum", "product", "maximum" or "minimum" starts from.
Expr fold_identity(const std::string &kind, Type t);

} // namespace kumiko

// Builds stages from tensors, the first part of Op. Every tensor that an output reads becomes a
// stage, producers before consumers; reductions inside expressions become stages of their own;
// references become plain calls.
#pragma once

#include "dsl/definition.h"
#include "dsl/recurrence.h"

#include <map>
#include <set>

namespace kumiko {

// The names of the axes that each expression uses.
using AxesOfValues = std::map<Expr, std::set<std::string>, Halide::ExprCompare>;

class StageBuilder {
public:
    // Appends to `stages` and `inputs`. Errors refer to `where`.
    StageBuilder(std::vector<Stage> &stages, std::vector<Input> &inputs, const std::source_location &where)
        : stages_(stages), inputs_(inputs), where_(where) {}

    // Adds the tensor after everything that it reads, and returns the name of its stage. If a
    // tensor is padded in two different ways, the second stage is "X.padded1" or "X.clamped1".
    // Throws UserError as Op does.
    std::string add(TensorContents c);

    // The tensors "T.earlier" of recurrences that stages read. Call this after all tensors are
    // added. Throws UserError if no output needs one of the recurrences.
    std::vector<Input> earlier();

    std::set<std::string> axis_names; // all axis names; a Size must not have one of them

    std::vector<WrittenPart> written; // source texts, for errors about the stages

private:
    using Call = Halide::Internal::Call;
    struct SharedFold {
        ReductionTerm reduction;
        Stage stage;
    };

    std::vector<Stage> &stages_;
    std::vector<Input> &inputs_;
    const std::source_location &where_;
    std::map<std::string, TensorContents> done_; // tensors that are inputs or have a stage, by name
    std::set<std::string> open_;                 // tensors whose stages are being built
    std::vector<std::string> order_;             // the same, outermost first
    // Names of reductions and nested tensors that are in use.
    std::set<std::string> taken_names_;
    std::vector<SharedFold> folds_;
    struct SharedRecurrence {
        RecurrenceTerm term;
        Stage stage;
    };
    std::vector<SharedRecurrence> recurrences_;
    std::vector<TensorContents> nested_;
    AxesOfValues axes_of_nested_; // axes used by the values of nested tensors
    // Per stage, the recurrent tensors that it defines.
    std::map<std::string, std::vector<std::string>> recurring_;
    std::map<std::string, Input> recurrent_; // those tensors, under their names in stages
    // Per recurrent tensor that is read as "T.earlier": a stage that reads it.
    std::map<std::string, std::string> read_earlier_;

    // "A reads B reads A": the tensors that are being built, then `name`; for the error about a
    // cycle.
    std::string chain(const std::string &name) const;
    // Each fills in a stage that is a reduction, an extern call or a recurrence.
    void fill_reduction(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    void fill_extern(Stage &stage, const Call *call);
    void fill_recurrence(Stage &stage, const Call *call);
    // The values of a recurrence: each earlier element becomes a read of the stage itself.
    void fill_values(Stage &stage, const RecurrenceTerm &r);
    void set_distances(Stage &stage) const;
    // The read that replaces an earlier element in stage `owner`, whose axes are `scope`.
    Expr earlier_element(const Call *earlier, const std::string &owner, const std::vector<Axis> &scope);
    void fill_fold(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    void fill_scan(Stage &stage, const ReductionTerm &r, const std::vector<Axis> &scope);
    Expr rewrite(const Expr &e, const std::string &owner, const std::vector<Axis> &scope);
    Expr nested_element(const Call *op, const std::string &owner, const std::vector<Axis> &scope);
    std::string free_name(const std::string &name);
    // Makes a stage of a reduction, scan or recurrence inside an expression; returns a read of it.
    Expr extract(const Call *op, const std::string &owner, const std::vector<Axis> &scope);
    std::optional<Expr> shared_part(const ReductionTerm &r, const std::vector<Axis> &scope) const;
    // A read of component c at the stage's own axes.
    static Expr component(const Stage &stage, size_t c);
    static bool same_fold(const ReductionTerm &a, const ReductionTerm &b);
    // Whether all axes are in scope.
    static bool ranges_in(const std::vector<Axis> &axes, const std::vector<Axis> &scope);
    // Throws UserError if the expression uses an axis that is not in scope.
    void check_variables(const Expr &e, const std::string &owner, const std::vector<Axis> &scope);
};

// The free int32 variables of an expression.
std::set<std::string> variables_of(const Expr &e);
// Those that are sizes, and those that are axes.
std::set<std::string> sizes_used(const Expr &e);
std::set<std::string> axes_used(const Expr &e);
// Names common subexpressions with Lets if the expression is far larger as a tree than as a graph,
// because passes walk trees. Subexpressions of indices stay, because bounds inference needs them.
// The names, "<owner>.shared.0", depend only on the expression and differ from all axis names.
Expr with_names_for_shared(const Expr &e, const std::string &owner);
// The strides of a dense array, in elements. Throws Unsupported if one exceeds 2^31 − 1.
std::vector<Expr> row_major_strides(const std::vector<Axis> &axes);
// Whether the caller passes an array for it as an input.
bool is_input(const TensorContents &c);

// The initial value of a "sum", "product", "maximum" or "minimum".
Expr fold_identity(const std::string &kind, Type t);

} // namespace kumiko

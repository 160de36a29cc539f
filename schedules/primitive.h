// A scheduling primitive is one record: name, parameters, requirements, implementation and
// documentation. The saved form, the reference page and the generic Schedule::apply are driven by
// the record. Each file schedules/primitives/<name>.cpp is one primitive and defines
// `const Primitive &<name>_primitive()`. The build finds it by its name.
#pragma once

#include "schedules/state.h"
#include "support/error.h"

#include <nlohmann/json.hpp>

#include <source_location>

namespace kumiko {

// One call of a primitive. `arguments` is a JSON object: argument by parameter name.
struct Directive {
    std::string primitive;
    nlohmann::json arguments;
    std::source_location where; // the user's line; not saved
};

// The saved form of a directive: its arguments, and its name under "primitive".
nlohmann::json directive_json(const Directive &d);
// Throws UserError if it does not name a primitive.
Directive directive_of(const nlohmann::json &j, std::source_location where = {});

// Type of an argument of a directive.
enum class ArgumentKind {
    Stage,  // name of a stage
    Loop,   // name of a loop of "stage"
    Loops,  // list of loops of "stage"
    Tensor, // name of an input or stage
    Level,  // name of a memory level of the machine
    Integer,
    Integers,
    Text,      // one of `choices`, if given
    Names,     // list of strings
    Condition, // over the sizes, as text
    Schedule,  // list of directives
};

// A parameter of a primitive.
struct Parameter {
    const char *name;
    ArgumentKind kind;
    const char *description;
    bool optional = false;
    std::vector<std::string> choices = {};
};

struct MemoryLevel; // machine/machine.h

// The example on the reference page: directives applied before, then the call. The nests before and
// after it are printed by running them.
struct PrimitiveExample {
    const char *op; // "matmul", "conv", "softmax", …: schedules/examples.h
    std::vector<Directive> before;
    Directive call;
};

// Values of one parameter that are likely legal, given the arguments before it. Random schedules
// draw most of their arguments from these; without a function, they draw by the parameter's kind.
struct Candidates {
    const char *parameter;
    std::vector<nlohmann::json> (*values)(const ScheduleState &state, const Directive &so_far) = nullptr;
    double left_out = 0.5; // the probability that an optional parameter is left out
};

// What a record says beyond its parameters. All of it is optional.
struct PrimitiveDetails {
    int order = 0; // position in the group on the reference page; steps of 10 leave room
    // The call in C++, if it is not the parameters in their order.
    std::string (*cpp)(const Directive &directive) = nullptr;
    // It decides where its stage is computed. Such directives of a stage are applied in order.
    bool places = false;
    // Primitives of directives on the same stage. A later one in `ended_by` cancels this directive
    // while it is pending. If an earlier one in `waits_for` is pending, this directive is pending
    // too, and cancels none.
    std::vector<std::string> ended_by = {}, waits_for = {};
    // It changes the arguments of the kernel, so all specialisations of a schedule have it too.
    bool changes_arguments = false;
    const char *architecture = nullptr; // the only one whose kernels can have it
    // For random schedules (schedules/candidates.h).
    std::vector<Candidates> candidates = {};
    // Directives that are likely legal, and are of this primitive or prepare one.
    std::vector<Directive> (*leading)(const ScheduleState &state, const std::vector<Directive> &so_far) = nullptr;
    double weight = 1; // the probability that the directive is kept if it is drawn
};

// The record of a primitive: its parameters, checks, implementation and documentation.
struct Primitive {
    const char *name;
    const char *group; // one of primitive_groups()
    const char *summary;
    const char *requires_; // preconditions, for the reference page
    std::vector<Parameter> parameters;
    // Checks and applies. Throws UserError; adds obligations to the state. `index`: position of the
    // directive in the schedule.
    void (*apply)(ScheduleState &state, const Directive &directive, size_t index);
    PrimitiveExample example;
    PrimitiveDetails details = {};
};

// The groups in the order of the reference page: "loops", "stages", "memory", "machine", "facts".
const std::vector<std::string> &primitive_groups();
// All primitives, in the order of the reference page.
const std::vector<const Primitive *> &primitives();
// Throws UserError with a suggestion for an unknown name.
const Primitive &primitive(const std::string &name);

// --- for the records ---

// Throws unless the arguments match the record's parameters.
void check_arguments(const Primitive &p, const Directive &d);

// Typed access to arguments, after check_arguments.
std::string text_argument(const Directive &d, const char *name, const std::string &otherwise = "");
int64_t integer_argument(const Directive &d, const char *name, int64_t otherwise = 0);
std::vector<std::string> names_argument(const Directive &d, const char *name);

// The stage that a directive names, and a live loop of it. Errors explain how a loop was split or
// fused away.
StageState &stage_argument(ScheduleState &state, const Directive &d);
const LoopState &loop_argument(const StageState &stage, const Directive &d, const char *name = "loop");

// The machine's memory level named "level", and the axes of the tensor named "tensor". Errors are
// those of refuse().
const MemoryLevel &level_argument(const ScheduleState &state, const Directive &d);
const std::vector<Axis> &tensor_argument(const ScheduleState &state, const Directive &d);

// Throws an error with the directive, the nest of the stage with the loop marked, and the legal
// alternatives.
[[noreturn]] void refuse(const ScheduleState &state, const Directive &d, const std::string &cause,
                         const StageState *stage = nullptr, const std::string &loop = "",
                         const std::string &legal = "");

// Rejects a stage name that the op does not have, and lists the valid ones.
void require_stage(const ScheduleState &state, const Directive &d, const std::string &name);

// An error for a directive that later directives may make legal: Schedule::apply keeps it pending.
class NotYet : public UserError {
public:
    using UserError::UserError;
};
// Throws like refuse(), but NotYet.
[[noreturn]] void refuse_yet(const ScheduleState &state, const Directive &d, const std::string &cause,
                             const StageState *stage, const std::string &loop, const std::string &legal);

// Throws an error at the directive's source line; saved directives have none.
[[noreturn]] void fail_at(const Directive &d, const std::string &text);

// The directive as a call on a stage: "vectorize("y", 16)".
std::string call_text(const Directive &d);

// Parts of cpp_text(d) (schedules/schedule.h): the arguments except some parameters, separated by
// commas; the argument "tail", such as "Tail::Mask"; the statement with these arguments.
std::string cpp_arguments(const Directive &d, const std::vector<std::string> &but = {});
std::string cpp_tail(const Directive &d);
std::string cpp_call(const Directive &d, const std::string &arguments);

} // namespace kumiko

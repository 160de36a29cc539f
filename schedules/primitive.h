// A scheduling primitive is one record: its name and arguments, what it requires, what it does, how it is explained. The
// C++ methods, the saved form, the reference page and the fuzzer all come from the record. One file holds one primitive:
// schedules/primitives/<name>.cpp.
#pragma once

#include "schedules/state.h"
#include "support/error.h"

#include <nlohmann/json.hpp>

#include <source_location>

namespace kumiko {

// One call of a primitive. `arguments` is an object: the record's parameters by name.
struct Directive {
    std::string primitive;
    nlohmann::json arguments;
    std::source_location where; // the user's line; not saved
};

// The saved form of one directive: its arguments and, under "primitive", its name.
nlohmann::json directive_json(const Directive &d);
// Throws UserError when it names no primitive.
Directive directive_of(const nlohmann::json &j, std::source_location where = {});

enum class ArgumentKind {
    Stage,  // name of a stage
    Loop,   // name of a loop of "stage"
    Loops,  // list of loops of "stage"
    Tensor, // name of an input or stage
    Level,  // name of a memory level of the machine
    Integer,
    Integers,
    Text,      // one of `choices` where they are given
    Names,     // list of strings
    Condition, // over the sizes, as text
    Schedule,  // list of directives
};

struct Parameter {
    const char *name;
    ArgumentKind kind;
    const char *description;
    bool optional = false;
    std::vector<std::string> choices = {};
};

struct MemoryLevel; // machine/machine.h

// The lesson on the reference page: the directives that lead up to the primitive, and the call itself. The nests before
// and after are printed by running them.
struct PrimitiveExample {
    const char *op; // "matmul", "conv", "softmax", …: schedules/examples.h
    std::vector<Directive> before;
    Directive call;
};

struct Primitive {
    const char *name;
    const char *group; // "loops", "stages", "memory", "machine", "facts"
    const char *summary;
    const char *requires_; // what must hold, for people
    std::vector<Parameter> parameters;
    // Checks and applies. Throws UserError; leaves obligations in the state. `index` is the directive's own.
    void (*apply)(ScheduleState &state, const Directive &directive, size_t index);
    PrimitiveExample example;
};

// All primitives in the order of the reference page.
const std::vector<const Primitive *> &primitives();
// Throws UserError with a suggestion for an unknown name.
const Primitive &primitive(const std::string &name);

// --- for the records ---

// Throws when the arguments are not what the record's parameters say.
void check_arguments(const Primitive &p, const Directive &d);

// Typed access; check_arguments has run.
std::string text_argument(const Directive &d, const char *name, const std::string &otherwise = "");
int64_t integer_argument(const Directive &d, const char *name, int64_t otherwise = 0);
std::vector<std::string> names_argument(const Directive &d, const char *name);

// The stage a directive names, and a loop of it that stands now. Errors say what became of a loop that was split or fused.
StageState &stage_argument(ScheduleState &state, const Directive &d);
const LoopState &loop_argument(const StageState &stage, const Directive &d, const char *name = "loop");

// The level "level" of the machine, and the axes of the tensor "tensor"; errors as of refuse().
const MemoryLevel &level_argument(const ScheduleState &state, const Directive &d);
const std::vector<Axis> &tensor_argument(const ScheduleState &state, const Directive &d);

// An error with the directive as written, the nest of the stage with the loop marked, and what would be legal.
[[noreturn]] void refuse(const ScheduleState &state, const Directive &d, const std::string &cause,
                         const StageState *stage = nullptr, const std::string &loop = "",
                         const std::string &legal = "");

// Refuses the name of a stage that the op does not have, with the names of those that it has.
void require_stage(const ScheduleState &state, const Directive &d, const std::string &name);

// A directive that later directives may make legal: Schedule::apply keeps it pending.
class NotYet : public UserError {
public:
    using UserError::UserError;
};
// refuse(), as NotYet.
[[noreturn]] void refuse_yet(const ScheduleState &state, const Directive &d, const std::string &cause,
                             const StageState *stage, const std::string &loop, const std::string &legal);

// An error at the directive's line; a directive of a saved schedule has none.
[[noreturn]] void fail_at(const Directive &d, const std::string &text);

// "vectorize("y", 16)": the directive as one would call it on a stage.
std::string call_text(const Directive &d);

} // namespace kumiko

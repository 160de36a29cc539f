// A schedule: an op and a list of directives. Applying a directive never changes what is computed; it only orders it.
//
//   Schedule s(op);
//   auto C = s.stage("C");
//   auto [io, ii] = C.split("i", 14);
//   C.reorder({"j", io, "k", ii}).unroll(ii);
//   s.save("c.json");                            // Schedule::load(op, "c.json") replays it to the same nest
//
// Every method throws UserError at the call when it is not legal, naming the cause, the caller's line, the nest and what
// would be legal; the schedule is then as it was before.
#pragma once

#include "schedules/nest_text.h"
#include "support/error.h"

#include <nlohmann/json_fwd.hpp>

#include <source_location>
#include <tuple>

namespace kumiko {

class Schedule;
class FusedLoop;
struct Directive;   // schedules/primitive.h
struct Instruction; // machine/instruction.h

// A loop by name, as methods return it; converts to the name.
struct LoopName {
    std::string name;
    LoopName(const char *name) : name(name) {}
    LoopName(std::string name) : name(std::move(name)) {}
    operator std::string() const { return name; }
};

// Which op a saved schedule must be of: the same name and hash, or any op that has the stages and
// loops that its directives name, such as the same formula with other extents.
enum class SavedFor { ThisOp, AnyOp };

struct SplitNames {
    std::string outer, inner; // default "<loop>.o" and "<loop>.i"
    Tail tail = Tail::Auto;
};

// One stage of a schedule. A handle: cheap to copy, valid while the schedule lives.
class StageHandle {
public:
    StageHandle(Schedule &schedule, std::string stage) : schedule_(&schedule), stage_(std::move(stage)) {}
    const std::string &name() const { return stage_; }
    const StageState &state() const;

    // loops (schedules/primitives/<method>.cpp says what each requires)
    std::pair<LoopName, LoopName> split(LoopName loop, int64_t factor, SplitNames names = {},
                                        Place where = Place::current());
    // The loop made, from which one may go on: C.fuse("i", "j", "ij").parallel("ij")
    FusedLoop fuse(LoopName outer, LoopName inner, const std::string &fused = "", Place where = Place::current());
    // {"i", "j"} with {a, b} becomes the loops i.o, j.o, i.i, j.i, in that order
    std::vector<LoopName> tile(const std::vector<LoopName> &loops, const std::vector<int64_t> &factors,
                               Place where = Place::current());
    StageHandle &reorder(const std::vector<LoopName> &loops, Place where = Place::current());
    StageHandle &unroll(LoopName loop, int64_t factor = 0, Place where = Place::current());
    StageHandle &vectorize(LoopName loop, int64_t width = 0, Tail tail = Tail::Auto, Place where = Place::current());
    StageHandle &parallel(LoopName loop, Place where = Place::current());
    // Spreads a loop over the units of a level of the machine.
    StageHandle &bind(LoopName loop, const std::string &level, Place where = Place::current());
    StageHandle &peel(LoopName loop, int64_t first, int64_t last, Place where = Place::current());

    // Iterations [first, first + count) of the loop become a stage of their own, `name`, with the loops as they are now.
    StageHandle region(LoopName loop, int64_t first, int64_t count, const std::string &name,
                       Place where = Place::current());

    // stages
    StageHandle &compute_at(const std::string &consumer, LoopName loop, Place where = Place::current());
    // Keeps a stage at a loop; compute_at may then name a loop of the first stage that reads it there.
    StageHandle &store_at(const std::string &consumer, LoopName loop, Place where = Place::current());
    StageHandle &compute_root(Place where = Place::current());
    // In one nest with another stage, down to its loop `loop`; neither needs the other.
    StageHandle &compute_with(const std::string &other, LoopName loop, Place where = Place::current());
    StageHandle &inline_into(Place where = Place::current());
    StageHandle &finish_in(const std::string &consumer, Place where = Place::current());
    // Returns the new stage "<stage>.rf", which keeps the loop as an axis.
    StageHandle rfactor(LoopName loop, Place where = Place::current());
    StageHandle interleave(LoopName loop, int64_t n, Place where = Place::current());
    // Of a sum: in one pass with the maximum that its terms are taken from, and with other sums of such terms.
    StageHandle &online(const std::string &max, LoopName loop, const std::vector<std::string> &sums = {},
                        Place where = Place::current());
    // Of a sum of products of integers: `by` is added to one factor, which is held in another type; what that adds is taken off. Returns
    // the new stage "<stage>.raw", which sums products of "<tensor>.offset".
    StageHandle offset(const std::string &tensor, int64_t by, const std::string &type, Place where = Place::current());
    // Of a sum of products: `steps` along a reduction axis that has fewer, where `tensor` is zero,
    // and `with`, the other factor, which sums of floats need too. They are read through
    // "<tensor>.extended". Returns that stage.
    StageHandle extend(const std::string &tensor, const std::string &axis, int64_t steps, const std::string &with = "",
                       Place where = Place::current());
    // Of a sum of products of integers plus or minus numbers, as of bytes with zero points:
    // multiplies them out. Returns the new stage "<stage>.product", which sums the products of the
    // integers alone.
    StageHandle expand(Place where = Place::current());
    // Of a scatter (dsl/scatter.h): each step visits the one element that its index names.
    StageHandle &scatter(LoopName loop, Place where = Place::current());

    // memory
    StageHandle &place_in(const std::string &level, Place where = Place::current());
    // `rounds`: "reload" or "join", where a reduction loop stands outside
    StageHandle &accumulate_in(const std::string &level, LoopName loop, const std::string &rounds = "reload",
                               Place where = Place::current());
    // Where partial results wait between the rounds of accumulate_in, as much of them as is touched below the loop.
    StageHandle &wait_in(const std::string &level, LoopName loop, Place where = Place::current());
    StageHandle &layout(const std::vector<std::string> &terms, Place where = Place::current());
    // Of a copy: its elements in another type that has all their values, "f32".
    StageHandle &hold_as(const std::string &type, Place where = Place::current());
    StageHandle &double_buffer(Place where = Place::current());
    // Keeps the copies that are made at the loop `stages` times in turn.
    StageHandle &pipeline(LoopName loop, int64_t stages, Place where = Place::current());
    StageHandle &write_back(LoopName loop, Place where = Place::current());
    StageHandle &prefetch(const std::string &tensor, LoopName loop, int64_t distance, Place where = Place::current());
    // The distance in iterations of a loop of another stage, in which this one is computed, or of an outer one of its own.
    StageHandle &prefetch(const std::string &tensor, LoopName loop, int64_t distance, const std::string &consumer,
                          LoopName of, Place where = Place::current());
    StageHandle &stream(Place where = Place::current());

    // machine
    StageHandle &tensorize(LoopName loop, const std::string &instruction, Place where = Place::current());
    // A user's own: the schedule gets to know it first.
    StageHandle &tensorize(LoopName loop, const Instruction &instruction, Place where = Place::current());

private:
    Schedule *schedule_;
    std::string stage_;
    StageHandle &apply(const char *primitive, nlohmann::json arguments, Place where);
};

class FusedLoop : public StageHandle {
public:
    FusedLoop(const StageHandle &stage, std::string loop) : StageHandle(stage), loop_(std::move(loop)) {}
    operator LoopName() const { return loop_; }
    operator std::string() const { return loop_; }

private:
    std::string loop_;
};

// One directive as a C++ statement on a Schedule s; specialize, which needs another schedule, is written by to_cpp.
std::string cpp_text(const Directive &d);

class Schedule {
public:
    // Without a machine: the host.
    explicit Schedule(const Op &op);
    // `instructions`: what tensorize may name; those that are built in when null.
    Schedule(const Op &op, const Machine &machine, std::shared_ptr<const InstructionSet> instructions = nullptr);
    Schedule(const Schedule &);
    Schedule(Schedule &&) noexcept;
    Schedule &operator=(const Schedule &);
    Schedule &operator=(Schedule &&) noexcept;
    ~Schedule();

    Op op() const { return state_->op; } // a value, since directives replace the state
    const Machine &machine() const { return *state_->machine; }
    const ScheduleState &state() const { return *state_; }
    const std::vector<Directive> &directives() const { return directives_; }

    StageHandle stage(const std::string &name, Place where = Place::current());

    // Copies the region of `tensor` that is needed below `loop` of `consumer` into a memory level: a new stage
    // "<tensor>.<level>", computed at that loop, which the consumer reads instead.
    StageHandle place_in(const std::string &tensor, const std::string &level, const std::string &consumer,
                         LoopName loop, Place where = Place::current());
    Schedule &accumulate_in(const std::string &stage, const std::string &level, LoopName loop,
                            const std::string &rounds = "reload", Place where = Place::current());
    // Lets the consumer read the tensor by its own axes: through a new inlined stage "<tensor>.by.<consumer>" with one axis for each
    // group of the consumer's axes, as in {"n", "c ky kx", "y x"}, which place_in can copy in any order.
    StageHandle reindex(const std::string &tensor, const std::string &consumer, const std::vector<std::string> &groups,
                        Place where = Place::current());
    // Copies an input once, ahead of time, in the storage order given: the kernel gets an entry "<kernel>_pack_<input>".
    StageHandle prepack(const std::string &tensor, const std::vector<std::string> &layout,
                        Place where = Place::current());
    Schedule &assume(const Expr &condition, Place where = Place::current());
    // Calls where the condition over the sizes holds run another schedule of the same op: the one given, else a copy of this
    // one so far. Conditions are tried in the order of the calls, and inside they are facts, so that tails vanish. Returns this
    // schedule.
    Schedule &specialize(const Expr &condition, Place where = Place::current());
    Schedule &specialize(const Expr &condition, const Schedule &schedule, Place where = Place::current());

    // Lets tensorize name this instruction too. Throws UserError when another one has its name.
    Schedule &know(const Instruction &instruction);

    // The generic form of all of these. compute_at and store_at of a stage whose readers may yet be
    // placed inside the loop, and vectorize of a loop that may yet become innermost, stay pending:
    // they are tried again, in order, after each later directive. What no later directive makes
    // legal fails at once.
    Schedule &apply(Directive directive);
    std::vector<size_t> pending() const; // positions among directives()
    // Throws UserError, at its line, when a directive is pending. Lowering, save and specialize
    // call it.
    void require_applied() const;
    // Takes back the last directive, by replaying the others.
    Schedule &undo(Place where = Place::current());

    const std::vector<Specialization> &specializations() const { return state_->specializations; }

    // The loops of every stage where it is computed, as text, or by nest().html("nest.html") as a page to click through.
    NestText nest() const;
    // The nest after each directive.
    std::string explain() const;
    // The directives as C++ calls.
    std::string to_cpp() const;
    // Saved form. Versions: `version` is raised when an older reader could misread it.
    nlohmann::json to_json() const;
    void save(const std::string &file) const;
    // Applies saved directives to `op`. Throws UserError for text that is not JSON, a newer
    // version, a directive that is not legal here, and, unless SavedFor::AnyOp, a schedule of
    // another op.
    static Schedule from_json(const Op &op, const nlohmann::json &json, SavedFor saved = SavedFor::ThisOp);
    static Schedule from_json(const Op &op, const Machine &machine, const nlohmann::json &json,
                              std::shared_ptr<const InstructionSet> instructions = nullptr,
                              SavedFor saved = SavedFor::ThisOp);
    static Schedule parse(const Op &op, const std::string &text, SavedFor saved = SavedFor::ThisOp);
    static Schedule load(const Op &op, const std::string &file, SavedFor saved = SavedFor::ThisOp);

private:
    struct Pending {
        size_t directive;
        UserError why;
        std::string placed; // the stage that the directive places; "" when it places none
    };
    std::shared_ptr<const ScheduleState> state_;
    std::vector<Directive> directives_;
    std::vector<Pending> pending_; // in the order of the directives
    void advance(ScheduleState &state, const Directive &d, size_t index) const;
    void apply_pending(ScheduleState &state, std::vector<Pending> &pending, const Directive &latest) const;
    void check_obligations(const ScheduleState &state, const Directive &d) const;
};

} // namespace kumiko

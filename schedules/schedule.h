// A schedule: an op and a list of directives. Directives change the order of computation, never its
// result.
//
//   Schedule s(op);
//   auto C = s.stage("C");
//   auto [io, ii] = C.split("i", 14);
//   C.reorder({"j", io, "k", ii}).unroll(ii);
//   s.save("c.json"); // Schedule::load(op, "c.json") rebuilds the same nest
//
// Every method throws UserError if it is illegal. The message has the cause, the caller's line, the
// nest and the legal alternatives. The schedule is then unchanged.
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

// A loop, by name; returned by methods and convertible to the name.
struct LoopName {
    std::string name;
    LoopName(const char *name) : name(name) {}
    LoopName(std::string name) : name(std::move(name)) {}
    operator std::string() const { return name; }
};

// Which op a saved schedule is valid for: the same name and hash, or any op that has the named
// stages and loops, such as the same formula with other extents.
enum class SavedFor { ThisOp, AnyOp };

// Names of the loops that split() makes, and the treatment of the tail.
struct SplitNames {
    std::string outer, inner; // default "<loop>.o" and "<loop>.i"
    Tail tail = Tail::Auto;
};

// A handle to one stage of a schedule: cheap to copy, valid while the schedule is alive. It has
// more than 40 methods, one for each directive on a stage.
class StageHandle {
public:
    StageHandle(Schedule &schedule, std::string stage) : schedule_(&schedule), stage_(std::move(stage)) {}
    const std::string &name() const { return stage_; }
    const StageState &state() const;

    // --- loops (docs/primitives.md has the requirements and an example of each method)

    // Divides a loop into blocks of `factor` iterations: loop = outer · factor + inner. Returns the
    // two loops.
    std::pair<LoopName, LoopName> split(LoopName loop, int64_t factor, SplitNames names = {},
                                        Place where = Place::current());
    // Makes one loop of two, of which the second is directly inside the first. The result converts
    // to the name of the new loop: C.fuse("i", "j", "ij").parallel("ij").
    FusedLoop fuse(LoopName outer, LoopName inner, const std::string &fused = "", Place where = Place::current());
    // Splits nested loops into loops over tiles and loops inside a tile: {"i", "j"} with {a, b}
    // becomes i.o, j.o, i.i, j.i, in that order. Returns these four.
    std::vector<LoopName> tile(const std::vector<LoopName> &loops, const std::vector<int64_t> &factors,
                               Place where = Place::current());
    // Puts the given loops into this order, outermost first, at the positions that they occupy
    // together. The other loops keep theirs.
    StageHandle &reorder(const std::vector<LoopName> &loops, Place where = Place::current());
    // Replaces the loop by copies of its body. With a factor, splits the loop first and unrolls the
    // inner part, "<loop>.u".
    StageHandle &unroll(LoopName loop, int64_t factor = 0, Place where = Place::current());
    // Executes the innermost loop as lanes of a vector. With a width, splits the loop first and
    // uses the inner part, "<loop>.v".
    StageHandle &vectorize(LoopName loop, int64_t width = 0, Tail tail = Tail::Auto, Place where = Place::current());
    // Distributes the iterations over the cores. The result does not depend on their number.
    StageHandle &parallel(LoopName loop, Place where = Place::current());
    // Distributes a loop over the units of a machine level.
    StageHandle &bind(LoopName loop, const std::string &level, Place where = Place::current());
    // Gives the first and the last iterations copies of the body of their own, so that conditions
    // that hold only at borders are removed from the others.
    StageHandle &peel(LoopName loop, int64_t first, int64_t last, Place where = Place::current());

    // Splits iterations [first, first + count) of the loop off into a new stage `name`, which
    // starts with the same loops.
    StageHandle region(LoopName loop, int64_t first, int64_t count, const std::string &name,
                       Place where = Place::current());

    // --- stages

    // Computes the stage inside a loop of a stage that reads it: each iteration computes what is
    // read below.
    StageHandle &compute_at(const std::string &consumer, LoopName loop, Place where = Place::current());
    // Allocates the stage at a loop. compute_at may then name a loop of the first stage inside it
    // that reads it.
    StageHandle &store_at(const std::string &consumer, LoopName loop, Place where = Place::current());
    // Computes the whole stage before all stages that read it.
    StageHandle &compute_root(Place where = Place::current());
    // Runs the stage in one loop nest with another, down to loop `loop`; neither may depend on the
    // other.
    StageHandle &compute_with(const std::string &other, LoopName loop, Place where = Place::current());
    // Replaces each read of the stage by its expression.
    StageHandle &inline_into(Place where = Place::current());
    // For a reduction: computes its elementwise consumer from the complete sums, before they are
    // stored (epilogue fusion).
    StageHandle &finish_in(const std::string &consumer, Place where = Place::current());
    // Returns the new stage "<stage>.rf", which has the loop as an axis.
    StageHandle rfactor(LoopName loop, Place where = Place::current());
    // Distributes a reduction over `n` accumulators round-robin, and combines them at the end.
    // Returns the new stage of the partial results.
    StageHandle interleave(LoopName loop, int64_t n, Place where = Place::current());
    // For a sum: computes it in one pass with the maximum that its terms subtract, and with other
    // such sums (schedules/online.h).
    StageHandle &online(const std::string &max, LoopName loop, const std::vector<std::string> &sums = {},
                        Place where = Place::current());
    // For a sum of integer products: adds `by` to one factor, which is stored in another type, and
    // subtracts the resulting excess. Returns the new stage "<stage>.raw", which sums products of
    // "<tensor>.offset".
    StageHandle offset(const std::string &tensor, int64_t by, const std::string &type, Place where = Place::current());
    // For a sum of products: extends a reduction axis to `steps` by zeros in `tensor`, which is
    // then read through the new stage "<tensor>.extended". Sums of floats require `with`, the other
    // factor, which is extended too. Returns the stage of `tensor`.
    StageHandle extend(const std::string &tensor, const std::string &axis, int64_t steps, const std::string &with = "",
                       Place where = Place::current());
    // For a sum of products of integers with constants added (quantised zero points): multiplies
    // the products out. Returns the new stage "<stage>.product", which sums only the products of
    // the integers.
    StageHandle expand(Place where = Place::current());
    // Computes a function of one element of `tensor`, such as a byte, once for each value. Returns
    // the new stage "<stage>.of.<tensor>", the table of results.
    StageHandle tabulate(const std::string &tensor, Place where = Place::current());
    // For a scatter (dsl/scatter.h): each step visits only the element that its index selects.
    StageHandle &scatter(LoopName loop, Place where = Place::current());

    // --- memory

    // Stores the stage in a memory level.
    StageHandle &place_in(const std::string &level, Place where = Place::current());
    // Keeps the partial results of a reduction in a memory level below the loop. If a reduction
    // loop is outside, `rounds` is "reload" (each round continues with the earlier sums) or "join"
    // (each round starts anew, and its sums are added to the earlier ones).
    StageHandle &accumulate_in(const std::string &level, LoopName loop, const std::string &rounds = "reload",
                               Place where = Place::current());
    // Spills the partial results between rounds of accumulate_in to `level`, as much as is touched
    // below the loop.
    StageHandle &wait_in(const std::string &level, LoopName loop, Place where = Place::current());
    // The storage order of the stage, outermost dimension first: "j/32" counts blocks of an axis,
    // and "j%32" the elements of one block.
    StageHandle &layout(const std::vector<std::string> &terms, Place where = Place::current());
    // For a copy: stores its elements converted to another type that has all their values, "f32".
    StageHandle &hold_as(const std::string &type, Place where = Place::current());
    // For a copy made at a loop: two buffers, of which one is filled for the next iteration while
    // the other is read.
    StageHandle &double_buffer(Place where = Place::current());
    // Multi-buffers the copies made at the loop: `stages` buffers each, used in rotation.
    StageHandle &pipeline(LoopName loop, int64_t stages, Place where = Place::current());
    // Two sets of accumulators in turn: the results of one iteration are stored while the next one
    // is computed.
    StageHandle &write_back(LoopName loop, Place where = Place::current());
    // In each iteration of the loop, requests the data that are read `distance` iterations later.
    StageHandle &prefetch(const std::string &tensor, LoopName loop, int64_t distance, Place where = Place::current());
    // The distance is in iterations of loop `of` of `consumer`: the stage this one is computed in,
    // or an outer loop of its own.
    StageHandle &prefetch(const std::string &tensor, LoopName loop, int64_t distance, const std::string &consumer,
                          LoopName of, Place where = Place::current());
    // Writes an output with non-temporal stores.
    StageHandle &stream(Place where = Place::current());

    // --- machine

    // Computes the loop and those inside it by one tensor instruction, after a proof that both
    // compute the same.
    StageHandle &tensorize(LoopName loop, const std::string &instruction, Place where = Place::current());
    // For a user-defined instruction: registers it with the schedule first.
    StageHandle &tensorize(LoopName loop, const Instruction &instruction, Place where = Place::current());

private:
    Schedule *schedule_;
    std::string stage_;
    StageHandle &apply(const char *primitive, nlohmann::json arguments, Place where);
};

// The handle of a stage after fuse(), which also converts to the name of the fused loop.
class FusedLoop : public StageHandle {
public:
    FusedLoop(const StageHandle &stage, std::string loop) : StageHandle(stage), loop_(std::move(loop)) {}
    operator LoopName() const { return loop_; }
    operator std::string() const { return loop_; }

private:
    std::string loop_;
};

// A directive as a C++ statement on a Schedule s. specialize, which needs another schedule, is
// printed by to_cpp.
std::string cpp_text(const Directive &d);

// An op, and the directives that decide how it is computed.
class Schedule {
public:
    // Schedules for the host machine.
    explicit Schedule(const Op &op);
    // `instructions`: those that tensorize may name; null: the built-in ones.
    Schedule(const Op &op, const Machine &machine, std::shared_ptr<const InstructionSet> instructions = nullptr);
    Schedule(const Schedule &);
    Schedule(Schedule &&) noexcept;
    Schedule &operator=(const Schedule &);
    Schedule &operator=(Schedule &&) noexcept;
    ~Schedule();

    Op op() const { return state_->op; } // by value, because directives replace the state
    const Machine &machine() const { return *state_->machine; }
    const ScheduleState &state() const { return *state_; }
    const std::vector<Directive> &directives() const { return directives_; }

    // The stage of that name. Throws UserError with a suggestion.
    StageHandle stage(const std::string &name, Place where = Place::current());

    // Copies the region of `tensor` needed below `loop` of `consumer` to a memory level: a new
    // stage "<tensor>.<level>", computed at that loop, which the consumer reads instead.
    StageHandle place_in(const std::string &tensor, const std::string &level, const std::string &consumer,
                         LoopName loop, Place where = Place::current());
    // As the method of StageHandle, for the stage of that name.
    Schedule &accumulate_in(const std::string &stage, const std::string &level, LoopName loop,
                            const std::string &rounds = "reload", Place where = Place::current());
    // Reads the tensor through a new inlined stage "<tensor>.by.<consumer>" with one axis per group
    // of the consumer's axes, such as {"n", "c ky kx", "y x"} (im2col). place_in can then copy it
    // in any order.
    StageHandle reindex(const std::string &tensor, const std::string &consumer, const std::vector<std::string> &groups,
                        Place where = Place::current());
    // Pre-packs an input: the caller copies it once into the given storage order, with the entry
    // point "<kernel>_pack_<input>".
    StageHandle prepack(const std::string &tensor, const std::vector<std::string> &layout,
                        Place where = Place::current());
    // Promises that a condition over the sizes or over values (schedules/values.h) holds. It is
    // checked in each call, and is a fact for all directives.
    Schedule &assume(const Expr &condition, Place where = Place::current());
    // Calls for which the condition over the sizes holds run another schedule of the same op: the
    // given one, otherwise a copy of this one so far. Conditions are tried in call order. Inside,
    // they are facts, so that tails disappear. Returns this schedule.
    Schedule &specialize(const Expr &condition, Place where = Place::current());
    Schedule &specialize(const Expr &condition, const Schedule &schedule, Place where = Place::current());

    // Makes an instruction available to tensorize. Throws UserError if the name is used by a
    // different one.
    Schedule &know(const Instruction &instruction);

    // The generic form of all methods. Some directives stay pending: compute_at and store_at of a
    // stage whose readers may still move inside the loop, and vectorize of a loop that may still
    // become innermost. They are retried, in order, after each later directive. A directive that no
    // later one can make legal fails immediately.
    Schedule &apply(Directive directive);
    std::vector<size_t> pending() const; // positions in directives()
    // Throws UserError at the line of the first pending directive, if any. Called by lowering, save
    // and specialize.
    void require_applied() const;
    // Removes the last directive and replays the others.
    Schedule &undo(Place where = Place::current());

    const std::vector<Specialization> &specializations() const { return state_->specializations; }

    // The loop nest as text, each stage where it is computed; nest().html("nest.html") writes it as
    // a collapsible page.
    NestText nest() const;
    // The nest after each directive.
    std::string explain() const;
    // The directives as C++ calls.
    std::string to_cpp() const;
    // The saved form. `version` is raised whenever an older reader could misread it.
    nlohmann::json to_json() const;
    void save(const std::string &file) const;
    // Applies saved directives to `op`. Throws UserError if the text is not JSON, has a newer
    // version or contains an illegal directive, and, without SavedFor::AnyOp, if it belongs to
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
        std::string placed; // the stage that the directive places; "" if none
    };
    std::shared_ptr<const ScheduleState> state_;
    std::vector<Directive> directives_;
    std::vector<Pending> pending_; // in the order of the directives
    void advance(ScheduleState &state, const Directive &d, size_t index) const;
    void apply_pending(ScheduleState &state, std::vector<Pending> &pending, const Directive &latest) const;
    void check_obligations(const ScheduleState &state, const Directive &d) const;
};

} // namespace kumiko

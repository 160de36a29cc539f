#include "driver/default_schedule.h"

#include "autotune/choice.h"
#include "autotune/spaces/auto_space.h"
#include "dsl/halide_passes.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/lower/lower.h"

namespace kumiko {

namespace {

// Runs f. If it throws an error of scheduling or lowering, fills in the reason and whether it is a
// bug.
bool fails(const std::function<void()> &f, PassedOver &why) {
    try {
        f();
        return false;
    } catch (const PlacedError &e) { // the places are in the library's sources
        why.reason = e.message_without_places();
        why.internal = false;
    } catch (const InternalError &e) {
        why.reason = e.what();
        why.internal = true;
    } catch (const Halide::Error &e) {
        why.reason = e.what();
        why.internal = true;
    }
    return true;
}

} // namespace

std::vector<DefaultCandidate> default_candidates(const Op &op, const Machine &machine) {
    std::vector<DefaultCandidate> all;
    for (const LibraryTemplate &t : library::templates()) {
        bool matches = true; // if t.matches throws, `make` calls it again and throws
        PassedOver why;
        if (!fails([&] { matches = t.matches(op) && library::suits(t, op, machine); }, why) && !matches) continue;
        all.push_back({t.name, [&t, op, machine]() -> DefaultChoice {
                           t.matches(op);
                           auto space = t.make_space(op, machine);
                           const Schedule schedule = space->schedule(space->default_point());
                           const bool any = t.name == "elementwise", rows = t.name == "rows" || t.name == "reduce";
                           if (!(any && has_choice(op, schedule)) &&
                               !(rows && op.sizes().empty() && library_leaves_out(op, machine)))
                               return {schedule};
                           space = auto_space(op, machine, any ? nullptr : &t);
                           return {space->schedule(space->default_point()), space->compared()};
                       }});
        if (t.name != "elementwise") continue;
        all.push_back({"apart", [op, machine]() -> DefaultChoice {
                           library::StageDecisions decided;
                           decided.share_nests = false;
                           decided.hold = [](Schedule &) {};
                           return {library::schedule_by_rules(op, machine, library::elementwise_parameters(op, machine),
                                                              decided)};
                       }});
    }
    all.push_back({"plain", [op, machine]() -> DefaultChoice { return {Schedule(op, machine)}; }});
    return all;
}

std::string use_first_candidate(const std::vector<DefaultCandidate> &candidates,
                                const std::function<void(const DefaultChoice &)> &use,
                                std::vector<PassedOver> &passed_over) {
    for (size_t n = 0; n + 1 < candidates.size(); n++) {
        PassedOver why{candidates[n].name, "", false};
        if (!fails([&] { use(candidates[n].make()); }, why)) return candidates[n].name;
        passed_over.push_back(std::move(why));
    }
    use(candidates.back().make());
    return candidates.back().name;
}

std::string to_string(const PassedOver &other) { return "\"" + other.name + "\" does not apply: " + other.reason; }

Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by,
                          std::vector<PassedOver> *passed_over, std::string *name) {
    if (packed_by == PackedBy::Caller || machine.architecture == "chip") {
        if (name) *name = library::find_template(op, machine, packed_by)->name;
        const auto space = library::space_of(op, machine, packed_by);
        return space->schedule(space->default_point());
    }
    std::optional<Schedule> found;
    std::vector<PassedOver> others;
    const std::string first = use_first_candidate(
        default_candidates(op, machine),
        [&](const DefaultChoice &choice) {
            lower(choice.schedule);
            found = choice.schedule;
        },
        others);
    if (name) *name = first;
    if (passed_over) *passed_over = std::move(others);
    return *found;
}

} // namespace kumiko

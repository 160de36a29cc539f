// The stages that are computed step by step with a recurrence.
#include "dsl/recurrence.h"

#include "dsl/extern.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "support/error.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>

namespace kumiko {

using namespace Halide::Internal;

std::set<std::string> stages_of_steps(const std::vector<const Stage *> &stages, const Stage &recurrence) {
    std::map<std::string, std::set<const Stage *>> readers;
    std::map<const Stage *, std::vector<std::string>> reads;
    for (const Stage *s : stages) {
        for (const Expr &e : s->expressions()) {
            for (const Call *read : tensor_reads(e)) {
                readers[read->name].insert(s);
                reads[s].push_back(read->name);
            }
        }
    }
    // Stages that read earlier elements; stages that the recurrence reads.
    std::set<const Stage *> after, before;
    std::vector<std::string> open;
    for (const std::string &tensor : recurrence.tensors()) open.push_back(earlier_name(tensor));
    while (!open.empty()) {
        const std::string tensor = open.back();
        open.pop_back();
        for (const Stage *s : readers[tensor]) {
            if (!after.insert(s).second || s->name == recurrence.name) continue;
            for (const std::string &name : s->tensors()) open.push_back(name);
        }
    }
    open = {recurrence.name};
    while (!open.empty()) {
        const std::string tensor = open.back();
        open.pop_back();
        for (const Stage *s : stages) {
            if (!s->makes(tensor) || !before.insert(s).second) continue;
            open.insert(open.end(), reads[s].begin(), reads[s].end());
        }
    }
    std::set<std::string> names;
    for (const Stage *s : after) {
        if (before.count(s)) names.insert(s->name);
    }
    if (!names.empty()) names.insert(recurrence.name);
    return names;
}

namespace {

std::vector<const Stage *> pointers(const std::vector<Stage> &stages) {
    std::vector<const Stage *> all;
    for (const Stage &s : stages) all.push_back(&s);
    return all;
}

// Analysis of one recurrence that other stages read while it is computed.
class Steps {
public:
    Steps(std::vector<Stage> &stages, Stage &recurrence, std::source_location where)
        : stages_(stages), recurrence_(recurrence), where_(where),
          names_(stages_of_steps(pointers(stages), recurrence)) {}

    const std::set<std::string> &names() const { return names_; }

    void find() {
        for (const Stage &s : stages_) {
            if (names_.count(s.name)) check_kind(s);
            for (const Expr &e : s.expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    if (!recurrence_.makes(earlier_of(read->name))) continue;
                    if (!names_.count(s.name))
                        throw UserError(where_, fmt::format("tensor \"{}\" reads earlier elements of the recurrence "
                                                            "\"{}\", which does not read it; read \"{}\" itself",
                                                            s.name, recurrence_.name, recurrence_.name));
                    earlier_.push_back(read);
                }
            }
        }
        const size_t d = axis();
        const Axis &step = recurrence_.axes[d];
        for (Stage &s : stages_) {
            if (!names_.count(s.name)) continue;
            check_reads(s, step);
            s.step_axis = step.name();
        }
        std::vector<int64_t> distance(recurrence_.axes.size(), 0);
        distance[d] = nearest(d);
        recurrence_.distances.push_back(std::move(distance));
    }

private:
    std::vector<Stage> &stages_;
    Stage &recurrence_;
    std::source_location where_;
    std::set<std::string> names_;
    std::vector<const Call *> earlier_; // all reads of earlier elements

    void check_kind(const Stage &s) const {
        const bool own = s.name == recurrence_.name;
        const char *what = is_extern(s)                     ? "calls an extern function"
                           : s.kind == Stage::Kind::Padding ? "is padding"
                           : !own && s.reads_itself()       ? "is a recurrence"
                                                            : nullptr;
        if (what)
            throw Unsupported(where_,
                              fmt::format("tensor \"{}\" {}, and is computed step by step with the recurrence "
                                          "\"{}\", whose earlier elements it reads; legal between are pointwise "
                                          "tensors and reductions",
                                          s.name, what, recurrence_.name));
    }

    // The smallest distance along axis d over all reads; 0 if one is not of an earlier step.
    int64_t nearest(size_t d) const {
        int64_t least = most_distance;
        for (const Call *read : earlier_) {
            const auto offset = offset_from(read->args[d], recurrence_.axes[d]);
            least = std::min(least, offset ? -*offset : 0);
        }
        return least;
    }

    // The first axis along which all reads of earlier elements are of an earlier step, and no read
    // by the recurrence itself is of a later step.
    size_t axis() const {
        for (size_t d = 0; d < recurrence_.axes.size(); d++) {
            const bool back = std::all_of(recurrence_.distances.begin(), recurrence_.distances.end(),
                                          [&](const auto &distance) { return distance[d] >= 0; });
            if (back && nearest(d) > 0) return d;
        }
        std::string reads;
        for (const Call *read : earlier_) reads += (reads.empty() ? "" : ", ") + to_string(Expr(read));
        throw UserError(where_, fmt::format("tensors and reductions of recurrence \"{}\" read its earlier elements at "
                                            "{}; legal are reads that subtract a number from one common axis",
                                            recurrence_.name, reads));
    }

    // Stages of a step must range over the step axis and read each other at the same step.
    void check_reads(const Stage &s, const Axis &step) const {
        const auto along =
            std::find_if(s.axes.begin(), s.axes.end(), [&](const Axis &a) { return a.name() == step.name(); });
        if (along == s.axes.end() || !equal(along->extent(), step.extent()))
            throw UserError(where_,
                            fmt::format("tensor \"{}\" is computed step by step with the recurrence \"{}\", and "
                                        "does not range over {}, the axis of the steps; make it one of its axes",
                                        s.name, recurrence_.name, step.name()));
        for (const Expr &e : s.expressions()) {
            for (const Call *read : tensor_reads(e)) {
                const auto made = std::find_if(stages_.begin(), stages_.end(),
                                               [&](const Stage &other) { return other.makes(read->name); });
                if (made == stages_.end() || !names_.count(made->name) || made->name == s.name) continue;
                for (size_t d = 0; d < read->args.size(); d++) {
                    if (made->axes[d].name() != step.name() || offset_from(read->args[d], step) == 0) continue;
                    throw UserError(where_,
                                    fmt::format("tensor \"{}\" reads {}, which is computed step by step with the "
                                                "recurrence \"{}\"; legal is the same step {}",
                                                s.name, to_string(Expr(read)), recurrence_.name, step.name()));
                }
            }
        }
    }
};

// The values of a step are overwritten in the next step, unless the stage is an output.
void check_readers(const std::vector<Stage> &stages, const std::map<std::string, std::string> &recurrence_of,
                   const std::vector<std::string> &outputs, std::source_location where) {
    for (const Stage &s : stages) {
        const auto own = recurrence_of.find(s.name);
        for (const auto &[name, recurrence] : recurrence_of) {
            if (name == recurrence || (own != recurrence_of.end() && own->second == recurrence)) continue;
            const auto made =
                std::find_if(stages.begin(), stages.end(), [&](const Stage &m) { return m.name == name; });
            const auto is_made = [&](const std::string &tensor) { return made->makes(tensor); };
            if (std::any_of(outputs.begin(), outputs.end(), is_made)) continue;
            for (const Expr &e : s.expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    if (!is_made(read->name)) continue;
                    throw Unsupported(
                        where,
                        fmt::format("tensor \"{}\" reads \"{}\", which is computed step by step with the recurrence "
                                    "\"{}\" and kept for one step; legal is \"{}\" as an output of the op, or as one "
                                    "of several tensors of the recurrence",
                                    s.name, name, recurrence, name));
                }
            }
        }
    }
}

// Sorts the stages topologically, so that readers of the results of steps come after the
// recurrence. `recurrence_of`: by stage of a step.
void order_steps(std::vector<Stage> &stages, const std::map<std::string, std::string> &recurrence_of,
                 std::source_location where) {
    const auto unit_of = [&](const Stage &s) {
        const auto found = recurrence_of.find(s.name);
        return found == recurrence_of.end() ? s.name : found->second;
    };
    std::map<std::string, std::vector<size_t>> units;
    for (size_t n = 0; n < stages.size(); n++) units[unit_of(stages[n])].push_back(n);
    std::vector<Stage> ordered;
    std::set<std::string> open, done;
    const std::function<void(const std::string &)> add = [&](const std::string &unit) {
        if (done.count(unit)) return;
        if (!open.insert(unit).second)
            throw Unsupported(where,
                              fmt::format("the steps of recurrence \"{}\" and those of another read each other's "
                                          "results; make them one recurrence of several tensors",
                                          unit));
        for (const size_t n : units.at(unit)) {
            for (const Expr &e : stages[n].expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    for (const Stage &other : stages) {
                        if (other.makes(read->name) && unit_of(other) != unit) add(unit_of(other));
                    }
                }
            }
        }
        for (const size_t n : units.at(unit)) ordered.push_back(stages[n]);
        done.insert(unit);
    };
    for (const Stage &s : stages) add(unit_of(s));
    stages = std::move(ordered);
}

} // namespace

void set_step_axes(std::vector<Stage> &stages, const std::vector<Input> &earlier,
                   const std::vector<std::string> &outputs, std::source_location where) {
    if (earlier.empty()) return;
    std::map<std::string, std::string> taken; // by stage: the recurrence whose steps it takes
    for (size_t n = 0; n < stages.size(); n++) {
        const bool read = std::any_of(earlier.begin(), earlier.end(),
                                      [&](const Input &in) { return stages[n].makes(earlier_of(in.name)); });
        if (!read) continue;
        Steps steps(stages, stages[n], where);
        for (const std::string &name : steps.names()) {
            const auto [other, first] = taken.emplace(name, stages[n].name);
            if (!first)
                throw Unsupported(where,
                                  fmt::format("tensor \"{}\" is computed step by step with the recurrences \"{}\" "
                                              "and \"{}\"; make them one of several tensors",
                                              name, other->second, stages[n].name));
        }
        steps.find();
    }
    check_readers(stages, taken, outputs, where);
    order_steps(stages, taken, where);
}

std::vector<std::vector<const Stage *>> groups_of_steps(const std::vector<Stage> &stages) {
    std::map<std::string, std::string> recurrence_of;
    for (const Stage &s : stages) {
        if (!s.takes_steps()) continue;
        for (const std::string &name : stages_of_steps(pointers(stages), s)) recurrence_of[name] = s.name;
    }
    std::map<std::string, std::vector<const Stage *>> waiting; // stages of steps, by recurrence
    std::vector<std::vector<const Stage *>> groups;
    for (const Stage &s : stages) {
        const auto own = recurrence_of.find(s.name);
        if (own == recurrence_of.end()) {
            groups.push_back({&s});
            continue;
        }
        std::vector<const Stage *> &group = waiting[own->second];
        group.push_back(&s);
        // The recurrence comes last in its group.
        if (own->second == s.name) groups.push_back(std::move(group));
    }
    return groups;
}

} // namespace kumiko

#include "schedules/library/copies_ahead.h"

#include "schedules/primitive.h"
#include "support/error.h"

#include <map>
#include <set>

namespace kumiko::library {

namespace {

const Directive *layout_of(const std::vector<Directive> &directives, const std::string &stage) {
    for (const Directive &d : directives) {
        if (d.primitive == "layout" && d.arguments.at("stage") == stage) return &d;
    }
    return nullptr;
}

// Where a copy is made and how it is stored belongs to a copy in the kernel; threads, to neither.
bool of_copies_in_kernels(const Directive &d) {
    static const std::set<std::string> all = {"layout", "compute_root", "compute_at", "store_at", "parallel"};
    return all.count(d.primitive) != 0;
}

class CopiesAhead {
public:
    CopiesAhead(const Schedule &from, const std::function<bool(const std::string &)> &constant)
        : from_(from), constant_(constant), made_(from.op(), from.machine()) {}

    std::optional<Schedule> make() {
        for (const Directive &d : from_.directives()) {
            if (d.primitive == "reindex") views_[text(d, "tensor") + ".by." + text(d, "consumer")] = text(d, "tensor");
            if (prepacks(d)) continue;
            const auto copy = d.arguments.contains("stage") ? packed_.find(text(d, "stage")) : packed_.end();
            if (copy == packed_.end()) {
                made_.apply(d);
            } else if (!of_copies_in_kernels(d)) {
                Directive renamed = d;
                renamed.arguments["stage"] = copy->second;
                if (renamed.arguments.value("tail", "") == "pad")
                    renamed.arguments.erase("tail"); // of the caller's array
                made_.apply(renamed);
            }
        }
        made_.require_applied();
        return packed_.empty() ? std::nullopt : std::optional(made_);
    }

private:
    static std::string text(const Directive &d, const char *argument) { return d.arguments.at(argument); }

    // Whether the directive is a copy that is packed ahead of time instead.
    bool prepacks(const Directive &d) {
        if (d.primitive != "place_in") return false;
        const std::string tensor = text(d, "tensor"), copy = tensor + "." + text(d, "level");
        const auto view = views_.find(tensor);
        const std::string input = view == views_.end() ? tensor : view->second;
        const Directive *layout = layout_of(from_.directives(), copy);
        if (!layout || !from_.op().find_input(input) || !constant_(input)) return false;
        Schedule before = made_;
        try {
            if (input != tensor) made_.stage(tensor).compute_root();
            made_.prepack(tensor, layout->arguments.at("terms").get<std::vector<std::string>>());
        } catch (const PlacedError &) {
            made_ = std::move(before);
            return false;
        }
        packed_[copy] = input == tensor ? tensor + ".packed" : tensor;
        return true;
    }

    const Schedule &from_;
    const std::function<bool(const std::string &)> &constant_;
    Schedule made_;
    std::map<std::string, std::string> views_;  // reindexed view → its tensor
    std::map<std::string, std::string> packed_; // copy in the kernel → the stage that packs
};

} // namespace

std::optional<Schedule> with_copies_ahead(const Schedule &s, const std::function<bool(const std::string &)> &constant) {
    try {
        return CopiesAhead(s, constant).make();
    } catch (const PlacedError &) { // a directive of a copy that packing does not take
        return std::nullopt;
    }
}

} // namespace kumiko::library

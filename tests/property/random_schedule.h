// Random directives, proposed from the records of the primitives. Arguments are values that the
// records state as likely legal, otherwise values of the parameter's kind. The schedule decides
// whether a directive is legal.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "support/error.h"
#include "support/random.h"

namespace kumiko::property {

inline const std::string &pick(Random &r, const std::vector<std::string> &all) { return all[r.below(all.size())]; }

// The schedule without directives that stay pending, and without those that only pending ones made
// illegal.
inline Schedule without_pending(const Schedule &s) {
    const std::vector<size_t> pending = s.pending();
    Schedule rest(s.op(), s.machine(), s.state().instructions);
    for (size_t n = 0; n < s.directives().size(); n++) {
        if (std::find(pending.begin(), pending.end(), n) != pending.end()) continue;
        try {
            rest.apply(s.directives()[n]);
        } catch (const UserError &) { // beside a placement that a pending one replaced
        }
    }
    return rest.pending().empty() ? rest : without_pending(rest);
}

class Proposer {
public:
    // `sizes`: the sizes of the run, so that assumptions hold for them.
    Proposer(const ScheduleState &state, const std::vector<Directive> &so_far, const Sizes &sizes, Random &random)
        : s_(state), so_far_(so_far), sizes_(sizes), r_(random) {}

    // Nothing if the state offers no argument of some kind.
    std::optional<Directive> propose() {
        if (r_.chance(0.25)) {
            if (const auto d = leading()) return d;
        }
        const Primitive &p = *r_.pick(primitives());
        if (!r_.chance(p.details.weight)) return std::nullopt;
        if (p.details.architecture && s_.machine->architecture != p.details.architecture) return std::nullopt;
        Directive d{p.name, nlohmann::json::object(), {}};
        for (const Parameter &q : p.parameters) {
            if (!argument(p, q, d)) return std::nullopt;
        }
        return d;
    }

private:
    const ScheduleState &s_;
    const std::vector<Directive> &so_far_;
    const Sizes &sizes_;
    Random &r_;

    // A directive that prepares, or is, one of a primitive that rarely becomes legal by chance.
    std::optional<Directive> leading() {
        std::vector<const Primitive *> able;
        for (const Primitive *p : primitives()) {
            if (p->details.leading) able.push_back(p);
        }
        r_.shuffle(able);
        for (const Primitive *p : able) {
            if (const auto all = p->details.leading(s_, so_far_); !all.empty()) return r_.pick(all);
        }
        return std::nullopt;
    }

    static bool has_schedule(const Primitive &p) {
        return std::any_of(p.parameters.begin(), p.parameters.end(),
                           [](const Parameter &q) { return q.kind == ArgumentKind::Schedule; });
    }

    // Adds the argument; an optional one may be left out. Returns false if there is none.
    bool argument(const Primitive &p, const Parameter &q, Directive &d) {
        const Candidates *c = nullptr;
        for (const Candidates &one : p.details.candidates) {
            if (one.parameter == std::string(q.name)) c = &one;
        }
        if (q.optional && r_.chance(c ? c->left_out : 0.5)) return true;
        nlohmann::json value;
        if (c && c->values && (q.optional || !r_.chance(0.05))) {
            const std::vector<nlohmann::json> all = c->values(s_, d);
            if (all.empty()) return q.optional;
            value = r_.pick(all);
        } else {
            value = of_kind(p, q, d);
            if (value.is_null()) return false;
        }
        d.arguments[q.name] = value;
        return true;
    }

    // Any value of the parameter's kind; null if there is none.
    nlohmann::json of_kind(const Primitive &p, const Parameter &q, const Directive &d) {
        const StageState *stage = s_.find(text_argument(d, "stage"));
        switch (q.kind) {
        case ArgumentKind::Stage:
            return r_.pick(s_.stages).name();
        case ArgumentKind::Loop:
            if (!stage || stage->order.empty()) return nullptr;
            if (r_.chance(0.02)) return r_.pick(stage->loops).name; // perhaps gone
            return pick(r_, stage->order);
        case ArgumentKind::Loops: {
            if (!stage || stage->order.empty()) return nullptr;
            std::vector<std::string> loops = stage->order;
            r_.shuffle(loops);
            return loops;
        }
        case ArgumentKind::Tensor: {
            std::vector<std::string> all;
            for (const Input &in : s_.op.inputs()) all.push_back(in.name);
            for (const StageState &s : s_.stages) all.push_back(s.name());
            return pick(r_, all);
        }
        case ArgumentKind::Level:
            return r_.chance(0.4) ? "registers" : r_.pick(s_.machine->memory).name;
        case ArgumentKind::Integer:
            return number();
        case ArgumentKind::Integers: { // one for each element of the list before
            std::vector<int64_t> numbers;
            const Parameter *before = &q > p.parameters.data() ? &q - 1 : nullptr;
            const bool list = before && d.arguments.contains(before->name) && d.arguments[before->name].is_array();
            for (size_t n = list ? d.arguments[before->name].size() : 1; n > 0; n--) numbers.push_back(number());
            return numbers;
        }
        case ArgumentKind::Text:
            if (!q.choices.empty()) return pick(r_, q.choices);
            return q.name + std::to_string(r_.between(0, 99));
        case ArgumentKind::Names:
            return storage_order(text_argument(d, d.arguments.contains("tensor") ? "tensor" : "stage"));
        case ArgumentKind::Condition:
            if (s_.op.sizes().empty()) return nullptr;
            return condition(has_schedule(p) && r_.chance(0.3) ? r_.between(1, 5) : 0);
        case ArgumentKind::Schedule:
            return special();
        }
        return nullptr;
    }

    int64_t number() {
        static const std::vector<int64_t> small = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12, 16, 16, 32};
        return r_.pick(small);
    }

    // The axes of a tensor in any order, some in blocks.
    std::vector<std::string> storage_order(const std::string &tensor) {
        std::vector<std::string> terms;
        for (const Axis &axis : s_.axes_of(tensor)) {
            if (r_.chance(0.25)) {
                const std::string block = std::to_string(r_.between(2, 9));
                terms.push_back(axis.name() + "/" + block);
                terms.push_back(axis.name() + "%" + block);
            } else {
                terms.push_back(axis.name());
            }
        }
        r_.shuffle(terms);
        return terms;
    }

    // A condition over the sizes that holds if they are `off` larger than they are.
    std::string condition(int64_t off) {
        const std::string name = pick(r_, s_.op.sizes());
        const int64_t n = sizes_.at(name) + off;
        const auto is = [&](const char *sign, int64_t number) { return name + sign + std::to_string(number); };
        static const std::vector<int64_t> blocks = {2, 3, 4, 4, 5, 8, 8, 16};
        const int64_t m = r_.pick(blocks);
        const std::string rest = is(" % ", m) + " == " + std::to_string(n % m);
        switch (r_.below(7)) {
        case 0:
            return is(" == ", n);
        case 1:
        case 2:
            return rest;
        case 3:
            return is(" >= ", std::max<int64_t>(n - r_.between(0, 4), 0));
        case 4:
            return is(" <= ", n + r_.between(0, 9));
        case 5:
            return rest + " && " + is(" > ", std::max<int64_t>(n - r_.between(1, 9), -1));
        }
        const std::string other = pick(r_, s_.op.sizes());
        const int64_t more = n - sizes_.at(other) - (other == name ? off : 0);
        return name + (r_.chance(0.5) ? " == " : " >= ") + other + (more < 0 ? " - " : " + ") +
               std::to_string(std::abs(more));
    }

    // A schedule for a special case: the current one, or another one with the same arguments.
    nlohmann::json special() {
        nlohmann::json list = nlohmann::json::array();
        Schedule inner(s_.op, *s_.machine, s_.instructions);
        const bool same = r_.chance(0.3);
        for (const Directive &d : so_far_) {
            const Primitive &p = primitive(d.primitive);
            if (has_schedule(p) || (!same && !p.details.changes_arguments)) continue;
            try {
                inner.apply(d);
            } catch (const UserError &) {
            } catch (const Unsupported &) {
            }
        }
        const int wanted = static_cast<int>(r_.between(0, 5));
        for (int n = 0; n < wanted; n++) {
            const auto d = Proposer(inner.state(), inner.directives(), sizes_, r_).propose();
            if (!d || has_schedule(primitive(d->primitive)) || primitive(d->primitive).details.changes_arguments)
                continue;
            try {
                inner.apply(*d);
            } catch (const UserError &) {
            } catch (const Unsupported &) {
            }
        }
        const Schedule settled = without_pending(inner);
        for (const Directive &d : settled.directives()) list.push_back(directive_json(d));
        return list;
    }
};

} // namespace kumiko::property

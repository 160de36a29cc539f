// Random directives, proposed from the records of the primitives: every record in the table is
// tried, with arguments drawn by their kinds. Most proposals are legal or nearly so; the schedule
// decides.
#pragma once

#include "dsl/buffers.h"
#include "dsl/halide_passes.h"
#include "dsl/scatter.h"
#include "machine/instruction.h"
#include "machine/machine.h"
#include "schedules/primitive.h"
#include "schedules/primitives/expand.h"
#include "schedules/schedule.h"
#include "schedules/shared_loops.h"
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
        if (r_.chance(0.2)) {
            if (const auto d = scattering()) return d;
        }
        if (r_.chance(0.1)) {
            if (const auto d = keeping()) return d;
        }
        if (r_.chance(0.1)) {
            if (const auto d = sharing()) return d;
        }
        if (r_.chance(0.1)) {
            if (const auto d = rolling()) return d;
        }
        const auto &table = primitives();
        const Primitive *p = table[r_.below(table.size())];
        const std::string name = p->name;
        // Prefers directives that shape loops to those that end the scheduling of a stage.
        if (name == "compute_root" && r_.chance(0.6)) return std::nullopt;
        if (name == "write_back") return std::nullopt; // for the chip only
        if ((name == "assume" || name == "specialize") && s_.op.sizes().empty()) return std::nullopt;
        Directive d;
        d.primitive = name;
        stage_ = &s_.stages[r_.below(s_.stages.size())];
        if (name == "scatter" || name == "interleave" || name == "rfactor" || name == "accumulate_in" ||
            name == "finish_in") {
            std::vector<const StageState *> reductions;
            for (const StageState &s : s_.stages) {
                if (s.def.is_reduction()) reductions.push_back(&s);
            }
            if (reductions.empty()) return std::nullopt;
            stage_ = reductions[r_.below(reductions.size())];
        }
        if (name == "expand") {
            std::vector<const StageState *> sums;
            for (const StageState &s : s_.stages) {
                if (is_shifted_product(s.def)) sums.push_back(&s);
            }
            if (sums.empty()) return std::nullopt;
            stage_ = sums[r_.below(sums.size())];
        }
        if (name == "offset" || name == "extend") {
            if (const auto d = rewriting(name)) return d;
        }
        if (name == "wait_in") {
            std::vector<const StageState *> accumulating;
            for (const StageState &s : s_.stages) {
                if (s.accumulate) accumulating.push_back(&s);
            }
            if (accumulating.empty()) return std::nullopt;
            stage_ = accumulating[r_.below(accumulating.size())];
        }
        if (name == "hold_as") {
            std::vector<const StageState *> copies;
            for (const StageState &s : s_.stages) {
                if (s.is_copy) copies.push_back(&s);
            }
            if (copies.empty()) return std::nullopt;
            stage_ = copies[r_.below(copies.size())];
        }
        if (name == "pipeline") { // where copies are made
            std::vector<const StageState *> hosts;
            for (const StageState &s : s_.stages) {
                if (s.is_copy && s.placement.kind == Placement::Kind::At)
                    hosts.push_back(s_.find(s.placement.consumer));
            }
            if (hosts.empty()) return std::nullopt;
            stage_ = hosts[r_.below(hosts.size())];
        }
        d.arguments = nlohmann::json::object();
        count_ = 0;
        for (const Parameter &q : p->parameters) {
            if (q.optional && leave_out(name, q)) continue;
            if (!argument(d, q)) return std::nullopt;
        }
        return d;
    }

private:
    const ScheduleState &s_;
    const std::vector<Directive> &so_far_;
    const Sizes &sizes_;
    Random &r_;
    const StageState *stage_ = nullptr;
    size_t count_ = 0;

    // Shapes the loops of a scatter so that steps can visit single elements, then applies
    // scatter().
    std::optional<Directive> scattering() {
        std::vector<const StageState *> all;
        for (const StageState &s : s_.stages) {
            const auto at = scattered(s.def);
            if (at && s.scattered.empty() && s.has_loop(at->axis)) all.push_back(&s);
        }
        if (all.empty()) return std::nullopt;
        const StageState &s = *all[r_.below(all.size())];
        const std::string axis = scattered(s.def)->axis;
        std::vector<std::string> order = s.order;
        std::stable_partition(order.begin(), order.end(), [&](const std::string &l) { return s.loop(l).reduction; });
        if (order != s.order) return Directive{"reorder", {{"stage", s.name()}, {"loops", order}}, {}};
        return Directive{"scatter", {{"stage", s.name()}, {"loop", axis}}, {}};
    }

    // Stores a stage with several readers at a loop of the last one, and computes it step by step:
    // the first reader at that loop, the stage too, then in the loops of the first.
    std::optional<Directive> keeping() {
        std::vector<const StageState *> all;
        for (const StageState &s : s_.stages) {
            if (!s.computed && !s_.op.is_output(s.name()) && s_.consumers(s.name()).size() > 1) all.push_back(&s);
        }
        if (all.empty()) return std::nullopt;
        const StageState &s = *all[r_.below(all.size())];
        const auto readers = s_.consumers(s.name());
        const StageState &first = s_.stage(readers.front()), &last = s_.stage(readers.back());
        const StageState &host = last.finished_by.empty() ? last : s_.stage(last.finished_by);
        if (first.order.empty() || host.order.empty()) return std::nullopt;
        const auto at = [](const char *how, const StageState &of, const StageState &in, const std::string &loop) {
            return Directive{how, {{"stage", of.name()}, {"consumer", in.name()}, {"loop", loop}}, {}};
        };
        if (s.stored) return at("compute_at", s, first, pick(r_, first.order));
        if (first.placement.consumer == host.name()) return at("store_at", s, host, first.placement.loop);
        return at("compute_at", first, host, pick(r_, host.order));
    }

    // Stores a stage at a loop of its last reader, then computes it at the loop inside of that.
    std::optional<Directive> rolling() {
        std::vector<Directive> all;
        for (const StageState &s : s_.stages) {
            const auto readers = s_.consumers(s.name());
            if (readers.empty() || s.computed || s_.op.is_output(s.name())) continue;
            const StageState &last = s_.stage(readers.back());
            std::string host = last.finished_by.empty() ? last.name() : last.finished_by;
            if (last.computed_at().kind == Placement::Kind::At && r_.chance(0.7)) host = last.computed_at().consumer;
            if (s.stored && s.placement.kind == Placement::Kind::At) host = s.placement.consumer;
            const StageState &h = s_.stage(host);
            if (h.order.size() < 2) continue;
            const bool kept = s.stored && h.has_loop(s.placement.loop);
            const size_t at = kept ? h.position(s.placement.loop) + 1 : r_.below(h.order.size() - 1);
            if (at == h.order.size()) continue;
            all.push_back({kept ? "compute_at" : "store_at",
                           {{"stage", s.name()}, {"consumer", host}, {"loop", h.order[at]}},
                           {}});
        }
        if (all.empty()) return std::nullopt;
        return all[r_.below(all.size())];
    }

    // Two stages in one nest, or a directive for one of them repeated for the other.
    std::optional<Directive> sharing() {
        std::vector<Directive> all;
        for (const StageState &a : s_.stages) {
            for (const StageState &b : s_.stages) {
                const bool alike =
                    std::equal(a.def.axes.begin(), a.def.axes.end(), b.def.axes.begin(), b.def.axes.end(),
                               [](const Axis &x, const Axis &y) { return x.name() == y.name(); });
                if (&a == &b || !alike || a.order.empty()) continue;
                const std::string loop = pick(r_, a.order);
                if (!apart(s_, b.name(), a.name(), loop))
                    all.push_back({"compute_with", {{"stage", b.name()}, {"with", a.name()}, {"loop", loop}}, {}});
                for (const Directive &d : so_far_) {
                    const bool shapes = d.primitive == "split" || d.primitive == "fuse" || d.primitive == "reorder" ||
                                        d.primitive == "vectorize" || d.primitive == "unroll" ||
                                        d.primitive == "parallel" || d.primitive == "compute_at";
                    if (!shapes || d.arguments["stage"] != a.name()) continue;
                    all.push_back(d);
                    all.back().arguments["stage"] = b.name();
                }
            }
        }
        if (all.empty()) return std::nullopt;
        return all[r_.below(all.size())];
    }

    // A factor of a sum's terms, with a number that some type may hold when it is added, or steps
    // along an axis.
    std::optional<Directive> rewriting(const std::string &name) {
        std::vector<const StageState *> sums;
        for (const StageState &s : s_.stages) {
            const bool product = s.def.is_reduction() && s.def.components[0].term.as<Halide::Internal::Mul>();
            if (product && !tensors_read(s.def.components[0].term).empty()) sums.push_back(&s);
        }
        if (sums.empty()) return std::nullopt;
        const StageState &s = *sums[r_.below(sums.size())];
        const std::set<std::string> read = tensors_read(s.def.components[0].term);
        if (name == "extend") {
            const Axis &axis = s.def.reduction_axes[r_.below(s.def.reduction_axes.size())];
            const auto extent = Halide::Internal::as_const_int(axis.extent());
            return Directive{"extend",
                             {{"stage", s.name()},
                              {"tensor", pick(r_, {read.begin(), read.end()})},
                              {"axis", axis.name()},
                              {"steps", extent.value_or(3) + r_.between(1, 5)}},
                             {}};
        }
        static const std::vector<int64_t> numbers = {128, 128, 32768, 1, -128, -1, 7};
        const std::string type = pick(r_, {"u8", "i8", "i16", "u16", "i32", "u32"});
        return Directive{"offset",
                         {{"stage", s.name()},
                          {"tensor", pick(r_, {read.begin(), read.end()})},
                          {"by", r_.pick(numbers)},
                          {"type", type}},
                         {}};
    }

    bool leave_out(const std::string &primitive, const Parameter &q) {
        const std::string name = q.name;
        if (name == "outer" || name == "inner" || name == "fused") return r_.chance(0.9);
        if (name == "consumer" || name == "loop") return name == "consumer" ? r_.chance(0.2) : false;
        if (name == "tail") return r_.chance(0.4);
        if (name == "width") return r_.chance(0.25);
        return r_.chance(0.5);
    }

    std::string loop_of(const StageState &s, const std::string &primitive) {
        if (s.order.empty()) return "";
        if (primitive == "vectorize" && r_.chance(0.8)) return s.order.back();
        if (primitive == "pipeline") {
            std::vector<std::string> copied;
            for (const StageState &p : s_.stages) {
                if (p.is_copy && p.placement.consumer == s.name()) copied.push_back(p.placement.loop);
            }
            if (!copied.empty()) return pick(r_, copied);
        }
        if (const auto at = scattered(s.def); primitive == "scatter" && at && s.has_loop(at->axis)) return at->axis;
        if (primitive == "rfactor" || primitive == "interleave") {
            std::vector<std::string> reducing;
            for (const std::string &l : s.order) {
                if (s.loop(l).reduction) reducing.push_back(l);
            }
            if (!reducing.empty()) return pick(r_, reducing);
        }
        if (primitive == "wait_in" && s.first_reduction() > 0 && r_.chance(0.8))
            return s.order[r_.below(s.first_reduction())];
        if (r_.chance(0.02)) return s.loops[r_.below(s.loops.size())].name; // perhaps gone
        return pick(r_, s.order);
    }

    int64_t number(const std::string &name) {
        static const std::vector<int64_t> small = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12, 16, 16, 32};
        static const std::vector<int64_t> widths = {2, 3, 4, 4, 5, 7, 8, 8, 8, 12, 16, 16, 32};
        if (name == "width") return r_.pick(widths);
        if (name == "first" || name == "last" || name == "distance") return r_.between(0, 3);
        if (name == "stages") return r_.between(2, 4);
        if (name == "n") return r_.between(2, 6);
        return r_.pick(small);
    }

    bool argument(Directive &d, const Parameter &q) {
        nlohmann::json &a = d.arguments[q.name];
        const std::string name = q.name;
        switch (q.kind) {
        case ArgumentKind::Stage:
            a = stage_->name();
            return true;
        case ArgumentKind::Loop: {
            if (d.primitive == "fuse" && name == "inner") {
                const auto &order = stage_->order;
                const auto at = std::find(order.begin(), order.end(), d.arguments["outer"]);
                if (at == order.end() || at + 1 == order.end()) return false;
                a = r_.chance(0.9) ? *(at + 1) : pick(r_, order);
                return true;
            }
            const std::string loop = loop_of(*stage_, d.primitive);
            a = loop;
            return !loop.empty();
        }
        case ArgumentKind::Loops: {
            std::vector<std::string> loops = stage_->order;
            if (loops.empty()) return false;
            if (d.primitive == "tile") {
                const size_t first = r_.below(loops.size());
                const size_t n = std::min<size_t>(1 + r_.below(3), loops.size() - first);
                loops = {loops.begin() + first, loops.begin() + first + n};
            } else {
                r_.shuffle(loops);
                // so that steps may visit single elements
                if (scattered(stage_->def) && r_.chance(0.7))
                    std::stable_partition(loops.begin(), loops.end(),
                                          [&](const std::string &l) { return stage_->loop(l).reduction; });
            }
            count_ = loops.size();
            a = loops;
            return true;
        }
        case ArgumentKind::Tensor: {
            std::vector<std::string> all;
            for (const Input &in : s_.op.inputs()) all.push_back(in.name);
            for (const StageState &s : s_.stages) all.push_back(s.name());
            a = pick(r_, all);
            return true;
        }
        case ArgumentKind::Level: {
            std::vector<std::string> names;
            for (const MemoryLevel &l : s_.machine->memory) names.push_back(l.name);
            a = r_.chance(0.4) ? "registers" : pick(r_, names);
            return true;
        }
        case ArgumentKind::Integer:
            a = number(name);
            return true;
        case ArgumentKind::Integers: {
            std::vector<int64_t> n;
            for (size_t i = 0; i < std::max<size_t>(count_, 1); i++) n.push_back(number(name));
            a = n;
            return true;
        }
        case ArgumentKind::Text:
            return text(d, q);
        case ArgumentKind::Names: {
            if (name == "groups") {
                a = groups(d);
                return true;
            }
            const std::string tensor =
                d.arguments.contains("tensor") ? d.arguments["tensor"].get<std::string>() : stage_->name();
            std::vector<std::string> terms;
            for (const Axis &axis : s_.axes_of(tensor)) {
                if (r_.chance(0.4)) {
                    const std::string block = std::to_string(r_.between(2, 9));
                    terms.push_back(axis.name() + "/" + block);
                    terms.push_back(axis.name() + "%" + block);
                } else {
                    terms.push_back(axis.name());
                }
            }
            r_.shuffle(terms);
            a = terms;
            return true;
        }
        case ArgumentKind::Condition: {
            if (s_.op.sizes().empty()) return false;
            a = condition(d.primitive == "specialize" && r_.chance(0.3) ? r_.between(1, 5) : 0);
            return true;
        }
        case ArgumentKind::Schedule:
            a = special();
            return true;
        }
        return false;
    }

    // The axes by which the consumer reads the tensor, in groups.
    std::vector<std::string> groups(const Directive &d) {
        std::vector<std::string> axes, groups;
        const StageState *reader = s_.find(d.arguments["consumer"].get<std::string>());
        if (!reader) return {"i"};
        struct Used : Halide::Internal::IRVisitor {
            using IRVisitor::visit;
            std::string tensor;
            std::set<std::string> names;
            bool inside = false;
            void visit(const Halide::Internal::Call *op) override {
                const bool before = inside;
                inside = inside || op->name == tensor;
                IRVisitor::visit(op);
                inside = before;
            }
            void visit(const Halide::Internal::Variable *op) override {
                if (inside) names.insert(op->name);
            }
        } used;
        used.tensor = d.arguments["tensor"];
        for (const Expr &e : reader->def.expressions()) e.accept(&used);
        for (const auto *some : {&reader->def.axes, &reader->def.reduction_axes}) {
            for (const Axis &axis : *some) {
                if (used.names.count(axis.name())) axes.push_back(axis.name());
            }
        }
        if (r_.chance(0.5)) r_.shuffle(axes);
        for (const std::string &axis : axes) {
            if (groups.empty() || r_.chance(0.5))
                groups.push_back(axis);
            else
                groups.back() += " " + axis;
        }
        return groups;
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

    // A schedule for a special case: the current one, or another one with the same prepacks.
    nlohmann::json special() {
        nlohmann::json list = nlohmann::json::array();
        Schedule inner(s_.op, *s_.machine, s_.instructions);
        const bool same = r_.chance(0.3);
        for (const Directive &d : so_far_) {
            if (d.primitive == "specialize" || (!same && d.primitive != "prepack")) continue;
            try {
                inner.apply(d);
            } catch (const UserError &) {
            } catch (const Unsupported &) {
            }
        }
        const int wanted = static_cast<int>(r_.between(0, 5));
        for (int n = 0; n < wanted; n++) {
            const auto d = Proposer(inner.state(), inner.directives(), sizes_, r_).propose();
            if (!d || d->primitive == "prepack" || d->primitive == "specialize") continue;
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

    bool text(Directive &d, const Parameter &q) {
        nlohmann::json &a = d.arguments[q.name];
        const std::string name = q.name;
        if (name == "level") { // of units
            a = pick(r_, s_.machine->unit_names());
            return true;
        }
        if (!q.choices.empty()) {
            a = pick(r_, q.choices);
            return true;
        }
        if (name == "type") {
            a = pick(r_, {"i16", "i32", "i64", "u16", "f32", "f64"});
            return true;
        }
        if (name == "consumer") {
            const std::string of =
                d.arguments.contains("tensor") ? d.arguments["tensor"].get<std::string>() : stage_->name();
            std::vector<std::string> all = s_.readers(of);
            if (all.empty() || r_.chance(0.15)) {
                for (const StageState &s : s_.stages) all.push_back(s.name());
            }
            a = pick(r_, all);
            return true;
        }
        if (name == "loop") {
            const StageState *c = d.arguments.contains("consumer") ? s_.find(d.arguments["consumer"]) : stage_;
            if (!c || c->order.empty()) {
                d.arguments.erase("loop");
                return q.optional;
            }
            if (!d.arguments.contains("consumer")) {
                d.arguments.erase("loop");
                return q.optional;
            }
            a = pick(r_, c->order);
            return true;
        }
        if (name == "outer" || name == "inner" || name == "fused") {
            a = name + std::to_string(r_.between(0, 99));
            return true;
        }
        if (name == "instruction") {
            const auto all = s_.instructions->available_on(*s_.machine);
            if (all.empty()) return false;
            a = all[r_.below(all.size())]->name;
            return true;
        }
        if (name == "max") {
            std::vector<std::string> all;
            for (const StageState &s : s_.stages) {
                if (s.def.reduction_kind == "maximum") all.push_back(s.name());
            }
            if (all.empty()) return false;
            a = pick(r_, all);
            return true;
        }
        if (name == "name") { // of a region
            a = "part" + std::to_string(s_.stages.size());
            return true;
        }
        a = std::string("x");
        return true;
    }
};

} // namespace kumiko::property

#include "graph/rules/rules.h"

#include "graph/rules/rule_list.h"
#include "support/error.h"
#include "support/names.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

std::vector<const Rule *> chosen_rules(const SimplifyOptions &options) {
    std::vector<const Rule *> chosen;
    if (options.rules.empty()) {
        for (const Rule &r : all_rules()) chosen.push_back(&r);
    }
    for (const std::string &name : options.rules) {
        const auto found =
            std::find_if(all_rules().begin(), all_rules().end(), [&](const Rule &r) { return r.name == name; });
        if (found == all_rules().end()) {
            std::vector<std::string> names;
            for (const Rule &r : all_rules()) names.push_back(r.name);
            throw UserError(fmt::format("there is no rule \"{}\"{}", name, suggest(name, names)));
        }
        chosen.push_back(&*found);
    }
    std::erase_if(chosen, [&](const Rule *r) { return r->rounding > options.rounding; });
    return chosen;
}

class Simplifying {
public:
    Simplifying(Rewriter &graph, const SimplifyOptions &options) : graph_(graph), rules_(chosen_rules(options)) {
        const auto n = static_cast<int64_t>(graph.size());
        left_ = 1000 + n * (n + 20);
    }

    SimplifyReport run() {
        report_.nodes_before = graph_.size(), report_.bytes_before = graph_.bytes_made();
        // A rule may look further than the neighbours of what changed, so all nodes are tried again
        // after a round with changes.
        while (round(false) || round(true)) {
        }
        report_.nodes_after = graph_.size(), report_.bytes_after = graph_.bytes_made();
        return std::move(report_);
    }

private:
    // Tries the rules, or the last ones, at all nodes. Returns whether one applied.
    bool round(bool last) {
        bool changed = false;
        for (const Node *n : graph_.nodes()) add(n);
        while (!waiting_.empty()) {
            const Node *n = waiting_.front();
            waiting_.pop_front();
            waits_.erase(n);
            changed = at(n, last) || changed;
        }
        return changed;
    }

    void add(const Node *n) {
        if (graph_.contains(*n) && waits_.insert(n).second) waiting_.push_back(n);
    }

    bool at(const Node *n, bool last) {
        bool changed = false;
        for (size_t r = 0; r < rules_.size() && graph_.contains(*n);) {
            if (rules_[r]->last != last) {
                r++;
                continue;
            }
            const auto nodes = static_cast<int64_t>(graph_.size());
            const int64_t bytes = graph_.bytes_made();
            if (!apply(*rules_[r], *n)) {
                r++;
                continue;
            }
            if (--left_ < 0)
                throw InternalError(fmt::format("the rules of graphs do not end; the last is {}", rules_[r]->name));
            SimplifyReport::Count &count = report_.rules[rules_[r]->name];
            count.applied++;
            count.nodes += nodes - static_cast<int64_t>(graph_.size());
            count.bytes += bytes - graph_.bytes_made();
            for (const Node *t : graph_.take_touched()) add(t);
            changed = true;
            r = 0;
        }
        return changed;
    }

    bool apply(const Rule &rule, const Node &n) {
        try {
            return rule.apply(graph_, n);
        } catch (const UserError &e) {
            throw InternalError(fmt::format("the rule {} makes a wrong node: {}", rule.name, e.what()));
        } catch (const Unsupported &e) {
            throw InternalError(fmt::format("the rule {} makes a wrong node: {}", rule.name, e.what()));
        }
    }

    Rewriter &graph_;
    const std::vector<const Rule *> rules_;
    std::deque<const Node *> waiting_;
    std::set<const Node *> waits_;
    SimplifyReport report_;
    int64_t left_; // applications
};

} // namespace

const std::vector<std::string> &rounding_names() {
    static const std::vector<std::string> names = {"exact", "close", "fast"};
    return names;
}

Rounding rounding_named(const std::string &name) {
    const std::vector<std::string> &names = rounding_names();
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
        throw UserError(
            fmt::format("the rounding is \"{}\"; legal are exact, close and fast{}", name, suggest(name, names)));
    return static_cast<Rounding>(at - names.begin());
}

const std::vector<Rule> &all_rules() {
    static const std::vector<Rule> all = [] {
        std::vector<Rule> rules = rule_list();
        std::sort(rules.begin(), rules.end(), [](const Rule &a, const Rule &b) { return a.name < b.name; });
        return rules;
    }();
    return all;
}

SimplifyReport simplify(FixedGraph &graph, const SimplifyOptions &options) {
    Rewriter rewriter(graph); // a copy: an error leaves the graph as it is
    SimplifyReport report = Simplifying(rewriter, options).run();
    report.nodes_before = graph.nodes.size();
    graph = rewriter.finish();
    for (std::shared_ptr<const FixedGraph> &inner : graph.graphs) {
        auto changed = std::make_shared<FixedGraph>(*inner);
        report.add(simplify(*changed, options));
        inner = std::move(changed);
    }
    return report;
}

void SimplifyReport::add(const SimplifyReport &other) {
    nodes_before += other.nodes_before, nodes_after += other.nodes_after;
    bytes_before += other.bytes_before, bytes_after += other.bytes_after;
    for (const auto &[name, count] : other.rules) {
        Count &all = rules[name];
        all.applied += count.applied, all.nodes += count.nodes, all.bytes += count.bytes;
    }
}

std::string SimplifyReport::text() const {
    std::string all = fmt::format("{} nodes become {}; they make {} bytes instead of {}\n", nodes_before, nodes_after,
                                  bytes_after, bytes_before);
    for (const auto &[name, c] : rules)
        all +=
            fmt::format("  {:<24} {:>4} times, {:>4} nodes, {:>12} bytes fewer\n", name, c.applied, c.nodes, c.bytes);
    return all;
}

} // namespace kumiko::graph

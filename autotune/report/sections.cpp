#include "autotune/report/sections.h"

#include "autotune/features/feature_sets.h"
#include "autotune/report/plot.h"
#include "schedules/primitive.h"
#include "schedules/saved_text.h"
#include "support/duration.h"
#include "support/html.h"
#include "support/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kumiko::report {

namespace {

std::string plain(double x) { return fmt::format("{:g}", x); }
std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }

std::string first_sentence(const std::string &text) { return text.substr(0, text.find(". ")); }

bool tried_by_chance(const Record &r) { return r.origin == "random" || r.origin == "explore"; }

std::string trial_note(size_t trial, const Record &r) {
    return fmt::format("trial {}, {}: {}; {}", trial, r.origin.empty() ? "origin unknown" : r.origin,
                       duration_text(r.timing.least), parameters_text(r.parameters));
}

// Describes a random sample in words.
std::string chance_text(const ChanceCurve &c) {
    if (c.session)
        return fmt::format("random search: expected best of n, from {} random samples that were recorded", c.samples);
    return fmt::format("chance: expected best of n, from the {} trials that this search made by chance", c.samples);
}

std::string figure_of_accuracy(const std::string &what, const PairAccuracy &a) {
    if (a.candidates < 2) return html_row({what, "not known", "-"});
    return html_row({what, std::to_string(a.candidates), percent(a.pairs)});
}

// The ranks by score, the best first, of candidates with a known score.
std::vector<std::pair<size_t, size_t>> places(const std::vector<double> &scores) { // index, place
    std::vector<size_t> order;
    for (size_t i = 0; i < scores.size(); i++) {
        if (!std::isnan(scores[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    std::vector<std::pair<size_t, size_t>> all;
    for (size_t p = 0; p < order.size(); p++) all.emplace_back(order[p], p + 1);
    return all;
}

} // namespace

std::string parameters_text(const Json &parameters) {
    std::string text;
    if (!parameters.is_object()) return parameters.dump();
    for (const auto &[name, value] : parameters.items())
        text += (text.empty() ? "" : ", ") + name + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    return text.empty() ? "no parameters" : text;
}

double Subject::operations() const {
    return task.work && measured_by_operations(*task.work) ? task.work->operations : 0;
}

std::string Subject::time(double seconds) const {
    return duration_text(seconds) + (task.work ? ", " + rate_text(*task.work, seconds) : "");
}

std::string facts_section(const Subject &s) {
    const Numbers &n = s.numbers;
    std::string h = "<div class=\"facts\">\n";
    if (n.best) h += html_fact("best", s.time(n.best->seconds()));
    if (n.default_record) h += html_fact("default schedule", s.time(n.default_record->seconds()));
    if (n.best && n.default_record)
        h += html_fact("gain", fmt::format("{:.2f}x", n.default_record->seconds() / n.best->seconds()));
    h += html_fact("trials", std::to_string(n.trials.size() + static_cast<size_t>(n.by_chance)));
    h += html_fact("good, failed, rejected", fmt::format("{}, {}, {}", n.good, n.failed, n.rejected));
    h += html_fact("threads", std::to_string(s.task.task.key.threads)) + "</div>\n";
    h += "<p class=\"soft\">Machine " + html_escaped(s.task.task.key.machine);
    if (!n.trials.empty())
        h += html_escaped(fmt::format("; from {} to {}", n.trials.front().created, n.trials.back().created));
    if (s.task.checked_elements > 0)
        h += fmt::format("; results of the last session were checked at a sample of {} elements, for evaluating the "
                         "formula takes long",
                         s.task.checked_elements);
    return h + ". Rejected candidates were found not to be legal before anything was built; they are no trials.</p>\n";
}

std::string curve_section(const Subject &s) {
    const Numbers &n = s.numbers;
    Plot plot;
    plot.x = {"trial", false, plain};
    plot.y = {"seconds a call", true, duration_text};
    if (s.operations() > 0) {
        plot.factor = s.operations();
        plot.right = {"GFLOP/s", true, [](double rate) { return plain(rate * 1e-9); }};
    }
    PlotSeries chosen{"measured, chosen by the search", "dot", PlotSeries::Kind::Dots, {}, {}};
    PlotSeries drawn{"measured, by chance", "dot2", PlotSeries::Kind::Dots, {}, {}};
    PlotSeries best{"best so far", "best", PlotSeries::Kind::Steps, {}, {}};
    PlotSeries chance{chance_text(n.chance), "chance", PlotSeries::Kind::Line, {}, {}};
    for (size_t i = 0; i < n.trials.size(); i++) {
        const Record &r = n.trials[i];
        const auto x = static_cast<double>(i + 1);
        if (std::isfinite(n.best_so_far[i])) best.points.emplace_back(x, n.best_so_far[i]);
        if (r.outcome != Outcome::Ok || r.timing.least <= 0) continue;
        PlotSeries &dots = tried_by_chance(r) ? drawn : chosen;
        dots.points.emplace_back(x, r.timing.least);
        dots.notes.push_back(trial_note(i + 1, r));
    }
    for (size_t i = 0; i < n.chance.seconds.size(); i++)
        chance.points.emplace_back(static_cast<double>(i + 1), n.chance.seconds[i]);
    plot.series = {chosen, drawn, chance, best};
    std::string h = "<h3>Tuning curve</h3>\n" + plot.html();
    if (n.chance.empty())
        h +=
            "<p>Too few records were made by chance to tell what random search would reach; <code>kumiko tune --search "
            "random</code> into the same database makes some.</p>\n";
    else
        h += std::string("<p>The line of chance is an expectation: the default schedule first, then the least of n ") +
             (n.chance.session ? "records of a random search"
                               : "records that the search tried by chance, which are no worse than random ones: some "
                                 "were drawn from candidates that looked well already") +
             ", each drawn once; it ends with their number. Times of the curve are those measured once.</p>\n";
    h += "<div class=\"scroll\"><table>\n" +
         html_row(s.task.work ? std::vector<std::string>{"after trials", "best so far", "rate", "by chance, expected"}
                              : std::vector<std::string>{"after trials", "best so far", "by chance, expected"},
                  0, "th");
    std::vector<size_t> after;
    for (size_t t = 1; t < n.trials.size(); t *= 2) after.push_back(t);
    if (!n.trials.empty()) after.push_back(n.trials.size());
    for (const size_t t : after) {
        const double seconds = n.best_so_far[t - 1];
        std::vector<std::string> cells = {std::to_string(t), std::isfinite(seconds) ? duration_text(seconds) : "-"};
        if (s.task.work) cells.push_back(std::isfinite(seconds) ? rate_text(*s.task.work, seconds) : "-");
        cells.push_back(t <= n.chance.seconds.size() ? duration_text(n.chance.seconds[t - 1]) : "-");
        h += html_row(cells, 0);
    }
    return h + "</table></div>\n";
}

std::string prediction_section(const Subject &s) {
    const Numbers &n = s.numbers;
    std::string h = "<h3>Predicted and measured</h3>\n";
    if (n.good_records.size() < 2)
        return h + "<p>Fewer than two candidates are good: there is nothing to compare.</p>\n";
    std::vector<double> slow;
    for (const double e : n.estimated) slow.push_back(-e);
    h += "<table>\n" + html_row({"ordered by", "candidates", "pairs ordered rightly"}, 1, "th") +
         figure_of_accuracy("the model's score when it was proposed", pair_accuracy(n.predicted, n.seconds)) +
         figure_of_accuracy("the cost model before it was refined", pair_accuracy(n.scored, n.seconds)) +
         figure_of_accuracy("the analytical estimate", pair_accuracy(slow, n.seconds)) + "</table>\n" +
         "<p class=\"soft\">Of all pairs of good candidates whose times differ by more than 1 %; chance orders 50 %. A "
         "score that was given while tuning went on is the model's of that moment: it learns from each trial.</p>\n";

    const bool proposed = pair_accuracy(n.predicted, n.seconds).candidates >= 2;
    Plot ranks;
    ranks.x = {proposed ? "place by the score when proposed" : "place by the model's score", false, plain};
    ranks.y = {"measured seconds", true, duration_text};
    PlotSeries dots{proposed ? "good candidates; first place: the best score"
                             : "good candidates, by the cost model before it was refined",
                    "dot",
                    PlotSeries::Kind::Dots,
                    {},
                    {}};
    for (const auto &[i, place] : places(proposed ? n.predicted : n.scored)) {
        dots.points.emplace_back(static_cast<double>(place), n.seconds[i]);
        dots.notes.push_back(fmt::format("place {}: {}; {}", place, duration_text(n.seconds[i]),
                                         parameters_text(n.good_records[i].parameters)));
    }
    ranks.series = {dots};
    h += ranks.html();

    Plot estimates;
    estimates.x = {"estimated seconds", true, duration_text};
    estimates.y = {"measured seconds", true, duration_text};
    estimates.diagonal = true;
    PlotSeries pairs{"good candidates; on the line the estimate is right", "dot2", PlotSeries::Kind::Dots, {}, {}};
    for (size_t i = 0; i < n.good_records.size(); i++) {
        if (std::isnan(n.estimated[i])) continue;
        pairs.points.emplace_back(n.estimated[i], n.seconds[i]);
        pairs.notes.push_back(
            fmt::format("estimated {}, measured {}", duration_text(n.estimated[i]), duration_text(n.seconds[i])));
    }
    estimates.series = {pairs};
    return h + estimates.html();
}

std::string best_section(const Subject &s) {
    const Numbers &n = s.numbers;
    std::string h = "<h3>The best schedule</h3>\n";
    if (!n.best) return h + "<p>No candidate is good.</p>\n";
    try {
        const std::string text = saved_cpp_text(n.best->saved_schedule);
        h += "<pre>" + html_escaped(text) + "</pre>\n<table>\n" +
             html_row({"directive", "what it does", "times"}, 2, "th");
        std::vector<std::pair<std::string, int>> kinds;
        for (const nlohmann::json &d : n.best->saved_schedule->at("directives")) {
            const std::string name = d.at("primitive");
            const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto &k) { return k.first == name; });
            if (known == kinds.end())
                kinds.emplace_back(name, 1);
            else
                known->second++;
        }
        for (const auto &[name, times] : kinds)
            h += html_row({name, first_sentence(primitive(name).summary), std::to_string(times)}, 2);
        h += "</table>\n";
    } catch (const UserError &e) {
        h += "<p>The schedule cannot be shown: " + html_escaped(e.what()) + "</p>\n";
    }
    h += "<p>Its parameters" + html_escaped(n.best->library_template.empty() ? "" : " of " + n.best->library_template) +
         ", and those of others near it:</p>\n<div class=\"scroll\"><table>\n" +
         html_row({"parameters", "found by", "measured once", "spread", "side by side"}, 2, "th");
    std::vector<Record> sorted = n.good_records;
    const auto rank = [](const Record &r) { return std::pair(!r.final_seconds.has_value(), r.seconds()); };
    std::stable_sort(sorted.begin(), sorted.end(), [&](const Record &a, const Record &b) { return rank(a) < rank(b); });
    if (sorted.size() > 10) sorted.resize(10);
    if (n.default_record &&
        std::none_of(sorted.begin(), sorted.end(), [](const Record &r) { return r.origin == "default"; }))
        sorted.push_back(*n.default_record);
    for (const Record &r : sorted)
        h += html_row({parameters_text(r.parameters), r.origin.empty() ? "-" : r.origin, duration_text(r.timing.least),
                       percent(r.timing.spread), r.final_seconds ? duration_text(*r.final_seconds) : "-"},
                      2);
    return h + "</table></div>\n";
}

std::string reasons_section(const Subject &s) {
    const Numbers &n = s.numbers;
    std::string h = "<h3>Why the model prefers it</h3>\n";
    const auto has_features = [&](const std::optional<Record> &r) { return r && applies_to(s.model, r->features); };
    if (s.model.empty()) return h + "<p>There is no cost model.</p>\n";
    if (n.best && is_current(n.best->features) && n.best->features.version != s.model.version())
        return h + "<p>" +
               html_escaped("The cost model was trained on features of " + describe_features(s.model.version()) +
                            ", and these candidates have those of " + describe_features(n.best->features.version)) +
               ": it cannot compare them.</p>\n";
    if (!has_features(n.best) || !has_features(n.default_record))
        return h + "<p>The best candidate and the default one are not both known with features of this Kumiko's "
                   "version: the model cannot compare them.</p>\n";
    if (n.best->schedule_hash == n.default_record->schedule_hash)
        return h + "<p>The default schedule is the best.</p>\n";
    const std::vector<float> scores = s.model.score({n.best->features, n.default_record->features});
    h += "<p>" +
         html_escaped(fmt::format(
             "The cost model before it was refined gives the best {:.3f} and the default {:.3f}; "
             "greater is faster. {} The largest contributions to the difference:",
             scores[0], scores[1],
             scores[0] < scores[1] ? "Its choice would have been the default; measurements decided." : "")) +
         "</p>\n<div class=\"scroll\"><table>\n" +
         html_row({"feature", "of the best", "of the default", "adds to the best", "to the default", "difference"}, 1,
                  "th");
    const std::vector<Contribution> all = contributions_of(s.model, n.best->features, n.default_record->features);
    for (size_t i = 0; i < std::min<size_t>(12, all.size()); i++) {
        const Contribution &c = all[i];
        const double difference = c.part - c.other_part;
        if (difference == 0) break;
        h += fmt::format("<tr><td><code>{}</code></td><td class=\"n\">{:.4g}</td><td class=\"n\">{:.4g}</td><td "
                         "class=\"n\">{:+.3f}</td><td class=\"n\">{:+.3f}</td><td class=\"n {}\">{:+.3f}</td></tr>\n",
                         html_escaped(c.feature), c.value, c.other_value, c.part, c.other_part,
                         difference > 0 ? "for" : "against", difference);
    }
    return h +
           "</table></div>\n<p class=\"soft\">Values of features are as the model sees them: most are logarithms, or "
           "shares of what the op has to do at least.</p>\n";
}

std::string failures_section(const Subject &s) {
    const Numbers &n = s.numbers;
    const auto table = [](const std::map<std::string, Failures> &kinds) {
        std::vector<std::pair<std::string, Failures>> sorted(kinds.begin(), kinds.end());
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const auto &a, const auto &b) { return a.second.count > b.second.count; });
        std::string h = "<div class=\"scroll\"><table>\n<tr><th class=\"n\">how many</th><th>reason</th><th>for "
                        "example</th></tr>\n";
        for (const auto &[kind, f] : sorted)
            h += fmt::format("<tr><td class=\"n\">{}</td><td>{}</td><td>{}<br/><code>{}</code></td></tr>\n", f.count,
                             html_escaped(kind), html_escaped(f.example.reason),
                             html_escaped(parameters_text(f.example.parameters)));
        return h + "</table></div>\n";
    };
    std::string h = "<h3>Failed candidates</h3>\n";
    h += n.failures.empty() ? "<p>No trial failed.</p>\n" : table(n.failures);
    if (n.rejected > 0)
        h +=
            fmt::format("<h3>Rejected candidates</h3>\n<p>{} candidates were not legal, or could not be lowered; these "
                        "are no trials.</p>\n",
                        n.rejected) +
            table(n.rejections);
    return h;
}

} // namespace kumiko::report

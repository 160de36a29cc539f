// What sessions and workers tell each other through Redis: the names of keys, and the JSON in them.
//
//   kumiko:3:workers                       set of the workers' names
//   kumiko:3:worker:<worker>               what it offers; a sign of life, which expires
//   kumiko:3:held:<worker>                 list of the items that it has taken
//   kumiko:3:sessions:<machine>:<threads>  set of the sessions that workers of that machine may serve
//   kumiko:3:task:<session>                what it tunes; a sign of life, which expires
//   kumiko:3:items:<session>               hash: number → what to do
//   kumiko:3:queue:<session>               list of items to be taken, first the next
//   kumiko:3:alone:<session>               likewise of those for which a worker holds no others: comparisons, and
//                                          candidates with which a worker died
//   kumiko:3:answers:<session>             list of answers
//   kumiko:3:refusals:<session>            hash: worker → why it does not serve this session
//
// An item's name is "<session>/<number>". It moves from a queue to `held` in one step (LMOVE), and from there to
// `answers` in one transaction: whoever dies, and wherever, it is in some list, or its session puts it back. All keys of a
// session expire after it.
#pragma once

#include "autotune/judge.h"
#include "autotune/op_recipe.h"

#include <limits>

namespace kumiko {

namespace queue {

std::string workers();
std::string worker(const std::string &worker);
std::string held(const std::string &worker);
std::string sessions(const std::string &machine, int threads);
// "task", "items", "queue", "alone", "answers" or "refusals"
std::string of_session(const std::string &what, const std::string &session);

std::string item_name(const std::string &session, int64_t number);
// Session and number.
std::pair<std::string, int64_t> parse_item_name(const std::string &name);

constexpr int worker_seconds = 6;     // after which a worker without a sign of life is dead
constexpr int session_seconds = 120;  // likewise a session
constexpr int leftover_seconds = 600; // what is left of either is kept so long

} // namespace queue

// What a worker offers.
struct WorkerOffer {
    std::string machine; // Machine::id()
    int threads = 1;

    std::string to_json() const;
    static WorkerOffer from_json(const std::string &text);
    bool operator==(const WorkerOffer &) const = default;
};

struct QueueTask {
    OpRecipe recipe;
    std::string op_hash;
    Sizes sizes;
    WorkerOffer wanted;
    CpuTarget cpu;
    double trial_seconds = 0.1, timeout = 10, build_timeout = 60;
    int64_t memory_mib = 0;
    double longest_reference = kumiko::longest_reference;
    bool cold = false;

    std::string to_json() const;
    // Throws UserError for what is not a task of this version; so do the others.
    static QueueTask from_json(const std::string &text);
};

// What all workers of a session time candidates against, so that their times are on one scale.
struct QueueAnchor {
    nlohmann::json schedule; // null: there is none yet
    double least = 0, median = 0;
};

struct QueueItem {
    std::vector<nlohmann::json> schedules;                 // one; of a comparison, several
    double compare_seconds = 0;                            // above 0: a comparison
    double best = std::numeric_limits<double>::infinity(); // the least seconds of a good candidate so far
    QueueAnchor anchor;

    std::string to_json() const;
    static QueueItem from_json(const std::string &text);
};

struct QueueAnswer {
    int64_t number = 0;
    std::string worker;
    Measured measured;
    double build_seconds = 0;
    std::vector<Measured> compared; // of a comparison, one for each candidate
    JudgeFacts facts;

    std::string to_json() const;
    static QueueAnswer from_json(const std::string &text);
};

} // namespace kumiko

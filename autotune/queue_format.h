// The protocol between sessions and workers over Redis: key names and JSON values.
//
//   kumiko:3:workers                       set of the workers' names
//   kumiko:3:worker:<worker>               its offer; expires without a heartbeat
//   kumiko:3:held:<worker>                 list of the items that it holds
//   kumiko:3:sessions:<machine>:<threads>  set of the sessions for workers of that machine
//   kumiko:3:task:<session>                its task; expires without a heartbeat
//   kumiko:3:items:<session>               hash: number → item
//   kumiko:3:queue:<session>               list of waiting items, the next one first
//   kumiko:3:alone:<session>               the same for items that a worker must run alone:
//                                          comparisons, and candidates with which a worker died
//   kumiko:3:answers:<session>             list of answers
//   kumiko:3:refusals:<session>            hash: worker → why it does not serve this session
//
// An item's name is "<session>/<number>". It moves from a queue to `held` atomically (LMOVE), and
// from there to `answers` in one transaction. So an item stays in some list if a process crashes,
// or its session puts it back. All keys of a session expire after it.
#pragma once

#include "autotune/op_recipe.h"
#include "autotune/runner.h"

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

// Time without a heartbeat after which a worker counts as dead.
constexpr int worker_seconds = 6;
constexpr int session_seconds = 120;  // the same for a session
constexpr int leftover_seconds = 600; // expiry of keys that a worker or session leaves behind

} // namespace queue

// The capabilities of a worker.
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
    // Throws UserError if it is not a task of this version; the other from_json do likewise.
    static QueueTask from_json(const std::string &text);
};

// The reference against which all workers of a session time candidates, so that times are
// comparable.
struct QueueAnchor {
    nlohmann::json schedule; // null: none yet
    double least = 0, median = 0;
};

struct QueueItem {
    std::vector<nlohmann::json> schedules; // one; for a comparison, several
    double compare_seconds = 0;            // > 0: a comparison
    // Shortest time of a good candidate so far.
    double best = std::numeric_limits<double>::infinity();
    QueueAnchor anchor;

    std::string to_json() const;
    static QueueItem from_json(const std::string &text);
};

struct QueueAnswer {
    int64_t number = 0;
    std::string worker;
    Measured measured;
    double build_seconds = 0;
    std::vector<Measured> compared; // for a comparison, one per candidate
    RunnerFacts facts;

    std::string to_json() const;
    static QueueAnswer from_json(const std::string &text);
};

} // namespace kumiko

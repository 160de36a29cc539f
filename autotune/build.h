// From a point of a space to an object file that the measurer can link.
#pragma once

#include "autotune/measurer.h"
#include "autotune/ranker.h"
#include "targets/cpu/cpu_target.h"

#include <nlohmann/json.hpp>

namespace kumiko {

struct Candidate {
    Point point;
    nlohmann::json schedule;   // the saved form
    std::string schedule_hash; // of its directives
    Outcome outcome = Outcome::Ok;
    std::string reason;
    std::string object; // ELF, with the function `symbol`
    std::string symbol;
    double build_seconds = 0;
};

// Never throws for what is wrong with the candidate: outcome and reason say so.
Candidate make_candidate(const Space &space, const Point &point);
void build_candidate(const Space &space, const CpuTarget &target, Candidate &candidate);

// Of the directives alone, so that equal schedules of one op have equal hashes.
std::string hash_of_schedule(const nlohmann::json &saved);

} // namespace kumiko

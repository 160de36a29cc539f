// Entries of a kernel library: C functions that hold no kernel of their own but choose one, by the values of their sizes and
// by what the processor has. They are compiled for the least processor of their architecture, so that the choice itself
// runs everywhere, and keep no state, so that any number of threads may be inside.
#pragma once

#include "targets/cpu/object.h"

#include <cstdint>

namespace kumiko {

struct EntryParameter {
    std::string name;
    bool pointer = false; // else int64_t
};

// One function that an entry may call.
struct EntryWay {
    std::string symbol;
    std::vector<size_t> arguments; // the entry's parameters, by position, in the order of the function's
    std::vector<std::pair<size_t, int64_t>> equals; // taken only where these parameters have these values
    uint64_t features =
        0; // and where the processor has these (runtime/cpu_features.h); 0: the function sees to it itself
};

struct Entry {
    std::string name;
    std::vector<EntryParameter> parameters;
    std::vector<EntryWay> ways; // tried in order; the last one has no `equals`
    // A number of elements instead of a status: int64_t, -1 where no way fits. Such an entry has no packed form.
    bool counts = false;
};

// One object with the functions NAME and NAME_packed(void *const *tensors, const int64_t *sizes) of
// each entry. When no way fits, an entry returns KUMIKO_MISSING_FEATURE with a text that says what
// the last way needs. Undefined symbols are the ways', the hooks <runtime_prefix>_cpu_features,
// _require_features and, where a way needs AMX, _request_tiles, and the variable _ready_features
// (runtime/cpu_features.c).
ObjectFile compile_entries(const std::vector<Entry> &entries, const CpuTarget &target,
                           const std::string &runtime_prefix);

} // namespace kumiko

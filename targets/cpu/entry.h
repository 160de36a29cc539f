// Entries of a kernel library: C functions that contain no kernel but select one by the values of
// their sizes and the features of the processor. They are compiled for the least capable processor
// of their architecture, so that the selection itself runs everywhere. They keep no state, so any
// number of threads may call them at once.
#pragma once

#include "targets/cpu/object.h"

#include <cstdint>

namespace kumiko {

struct EntryParameter {
    std::string name;
    bool pointer = false; // else int64_t
};

// One function that an entry may call.
struct EntryVariant {
    std::string symbol;
    // The entry's parameters, by position, in the order of the function's.
    std::vector<size_t> arguments;
    // {parameter, value}: the function is called only if all these are equal.
    std::vector<std::pair<size_t, int64_t>> equals;
    // The processor features required (runtime/cpu_features.h); 0: the function checks them itself.
    uint64_t features = 0;
};

struct Entry {
    std::string name;
    std::vector<EntryParameter> parameters;
    std::vector<EntryVariant> variants; // tried in order; the last one has no `equals`
    // The entry returns a number of elements instead of a status: int64_t, -1 if no variant
    // applies. Such an entry has no packed form.
    bool counts = false;
    // For other objects of the library only: hidden, without a packed form.
    bool internal = false;
    bool with_packed_form = true;
};

// One object with the functions NAME and NAME_packed(void *const *tensors, const int64_t *sizes) of
// each entry with a packed form. If no variant applies, an entry returns KUMIKO_MISSING_FEATURE
// with a text that names what the last variant needs. Undefined symbols are the variants' symbols,
// the hooks <runtime_prefix>_cpu_features, _require_features and, if a variant needs AMX,
// _request_tiles, and the variable _ready_features (runtime/cpu_features.c).
ObjectFile compile_entries(const std::vector<Entry> &entries, const CpuTarget &target,
                           const std::string &runtime_prefix);

} // namespace kumiko

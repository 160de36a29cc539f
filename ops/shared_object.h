// Loads operators from shared objects (see ops/export.h for how to build one).
#pragma once

#include "ops/registry.h"

#include <optional>

namespace kumiko::ops {

// An operator in a shared object: "./libmyops.so:group_norm_silu".
struct SharedName {
    std::string file, op; // op: "" if the text ends with the file name
};
// Returns nullopt for registry names. A file name contains a slash, or ".so" at its end or before a
// colon.
std::optional<SharedName> shared_name(const std::string &text);

// Loads the object, once per process, and returns its operators under their full names,
// "<file>:<op>". It stays loaded. Throws UserError, with what would be legal, if there is no such
// file, it is not a shared object, it has no KUMIKO_EXPORT_OPS, or it was built for another Kumiko.
std::vector<Operator> load_operators(const std::string &file);

} // namespace kumiko::ops

// Operators from shared objects that programs load (ops/export.h says how one is made).
#pragma once

#include "ops/registry.h"

#include <optional>

namespace kumiko::ops {

// "./libmyops.so:group_norm_silu": an operator of a shared object.
struct SharedName {
    std::string file, op; // op: "" when the text ends with the file
};
// Nothing for names of the registry: a file is what has a slash, or ".so" at its end or before a colon.
std::optional<SharedName> shared_name(const std::string &text);

// Loads the object, once a process, and reads its operators, named in full: "<file>:<op>". It stays loaded. Throws UserError:
// no such file, not a shared object, no KUMIKO_EXPORT_OPS in it, made for another Kumiko; each says what would be legal.
std::vector<Operator> load_operators(const std::string &file);

} // namespace kumiko::ops

// The operators by name, with their parameters: listed by the command line, named in library
// manifests, and referenced by tuning databases.
#pragma once

#include "dsl/op.h"
#include "support/json.h"

#include <functional>
#include <string>
#include <vector>

namespace kumiko::ops {

// A parameter of an operator: its kind, default and choices.
struct Parameter {
    enum class Kind {
        Size, // an extent: a number, or the name of a run-time size
        Int,  // a number
        Real,
        Flag,
        Type,   // "f32", "bf16", …
        Choice, // one of `choices`
        Sizes,  // a list of extents
        Ints,
    };
    std::string name;
    Kind kind;
    Json otherwise; // the default; null: required
    std::string summary;
    std::vector<std::string> choices; // Choice; may contain the empty string, which means none
    // The parameter only affects how tensors are stored. Kernels that differ only in it are
    // interchangeable if their strides agree.
    bool storage = false;

    bool required() const { return otherwise.is_null(); }
    bool is_list() const { return kind == Kind::Sizes || kind == Kind::Ints; }
};

// "size", "int", "real", "flag", "type", "choice", "sizes", "ints"
std::string kind_name(Parameter::Kind kind);

// An operator by name: its parameters, and the function that builds the op.
struct Operator {
    std::string name, summary;
    std::vector<Parameter> parameters;
    // Takes all parameters, each converted to its kind.
    std::function<Op(const Json &complete)> build;
};

// All operators of the library.
const std::vector<Operator> &registry();
// An operator by its registry name, or "./libmyops.so:name" for one in a shared object
// (ops/export.h). Throws UserError with suggestions, or with what is wrong with the object.
Operator find_operator(const std::string &name);

// Fills in defaults and converts text values ("512", "true", "1,3"), as the command line passes
// them. `parameters`: an object. Throws UserError, naming op and parameter, for unknown, missing or
// malformed ones.
Json complete_parameters(const Operator &op, const Json &parameters);
// Builds an op by its name. Throws UserError as find_operator() and complete_parameters() do.
Op make(const std::string &name, const Json &parameters);

} // namespace kumiko::ops

// The operators by name, with their parameters: what the command line lists, a library's manifest names, and a tuning
// database refers to.
#pragma once

#include "dsl/op.h"
#include "support/json.h"

#include <functional>
#include <string>
#include <vector>

namespace kumiko::ops {

struct Parameter {
    enum class Kind {
        Size, // an extent: a number, or the name of a size that is bound at run time
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
    Json otherwise; // the default; null: must be given
    std::string summary;
    std::vector<std::string> choices; // Choice; the empty string among them means none
    // It says how the tensors are stored, not what is computed: kernels that differ in it alone are interchangeable where
    // their strides agree.
    bool storage = false;

    bool required() const { return otherwise.is_null(); }
    bool is_list() const { return kind == Kind::Sizes || kind == Kind::Ints; }
};

// "size", "int", "real", "flag", "type", "choice", "sizes", "ints"
std::string kind_name(Parameter::Kind kind);

struct Operator {
    std::string name, summary;
    std::vector<Parameter> parameters;
    std::function<Op(const Json &complete)> build; // from all parameters, each of its kind
};

const std::vector<Operator> &registry();
// By its name in the registry, or "./libmyops.so:name" for one of a shared object (ops/export.h). Throws UserError that
// suggests near names, or says what is wrong with the object.
Operator find_operator(const std::string &name);

// `parameters`: an object; those left out take their defaults, and a value may be text ("512", "true", "1,3"), as the
// command line passes it. Throws UserError for unknown, missing or ill-formed ones, naming op and parameter.
Json complete_parameters(const Operator &op, const Json &parameters);
Op make(const std::string &name, const Json &parameters);

} // namespace kumiko::ops

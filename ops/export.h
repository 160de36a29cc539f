// User-defined operators for the command line, exported by a shared object.
//
//   // myops.cpp:  c++ -std=c++20 -O1 -shared -fPIC $(pkg-config --cflags kumiko-ops) myops.cpp
//   //                 -o libmyops.so
//   #include <kumiko/ops/export.h>
//   using namespace kumiko;
//
//   Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) { … }
//
//   KUMIKO_EXPORT_OPS(KUMIKO_OP(group_norm_silu, "group normalisation, then silu", N, G, C, H, W))
//
//   kumiko tune ./libmyops.so:group_norm_silu --shape N=2,G=8,C=4,H=32,W=32
//
// KUMIKO_OP takes the function, a one-line summary, and the names of its parameters for the command
// line and kernels.json. The C++ type of a parameter determines what it accepts: Expr is a size (a
// number, or a name that is bound at run time), int an integer, double or float a number, bool a
// flag, Type an element type ("f32"). All parameters are required; for defaults and choices, write
// an ops::Operator (ops/registry.h) instead of KUMIKO_OP.
//
// The object does not contain Kumiko: it uses the symbols of the program that loads it.
// KUMIKO_OPS_ABI identifies what both were compiled with; an object with a different text is
// rejected.
#pragma once

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/math.h"
#include "dsl/op.h"
#include "dsl/padding.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "dsl/top_k.h"
#include "dsl/tuple.h"
#include "dsl/types.h"
#include "ops/registry.h"
#include "support/error.h"

#define KUMIKO_OPS_TEXT2(x) #x
#define KUMIKO_OPS_TEXT(x) KUMIKO_OPS_TEXT2(x)
// The number is raised when a class that crosses the boundary changes.
#define KUMIKO_OPS_ABI                                                                                                 \
    "ops 3, Halide " KUMIKO_OPS_TEXT(HALIDE_VERSION_MAJOR) "." KUMIKO_OPS_TEXT(                                        \
        HALIDE_VERSION_MINOR) ", C++ ABI " KUMIKO_OPS_TEXT(__GXX_ABI_VERSION)

namespace kumiko::ops {

// Target of the object's only symbol, kumiko_exported_ops. `abi` comes first and is plain C, so
// that it can be read before anything else is trusted.
struct ExportedOps {
    const char *abi;
    std::vector<Operator> (*operators)();
};

namespace exporting {

template<typename T>
struct ParameterOf; // KUMIKO_OP: a parameter of this type cannot be given on a command line

#define KUMIKO_OPS_PARAMETER(type, parameter_kind, from)                                                               \
    template<>                                                                                                         \
    struct ParameterOf<type> {                                                                                         \
        static constexpr auto kind = Parameter::Kind::parameter_kind;                                                  \
        static type value(const Json &v) { return from; }                                                              \
    }
KUMIKO_OPS_PARAMETER(Expr, Size,
                     v.is_string() ? static_cast<Expr>(kumiko::Size(v.get<std::string>())) : Expr(v.get<int>()));
KUMIKO_OPS_PARAMETER(int, Int, v.get<int>());
KUMIKO_OPS_PARAMETER(double, Real, v.get<double>());
KUMIKO_OPS_PARAMETER(float, Real, v.get<float>());
KUMIKO_OPS_PARAMETER(bool, Flag, v.get<bool>());
KUMIKO_OPS_PARAMETER(kumiko::Type, Type, type_from_name(v.get<std::string>()));
#undef KUMIKO_OPS_PARAMETER

// "N, G, C" → {"N", "G", "C"}
inline std::vector<std::string> split_names(const std::string &text) {
    std::vector<std::string> names;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const size_t first = text.find_first_not_of(" \t\n", at), last = text.find_last_not_of(" \t\n", end - 1);
        names.push_back(first < end ? text.substr(first, last - first + 1) : "");
        at = end + 1;
    }
    return names;
}

template<typename... T, size_t... I>
Operator make_operator(const std::string &name, const std::string &summary, const std::vector<std::string> &names,
                       Op (*function)(T...), std::index_sequence<I...>) {
    Operator op{name, summary, {}, {}};
    if (names.size() != sizeof...(T))
        throw UserError("KUMIKO_OP(" + name + ", …) names " + std::to_string(names.size()) +
                        " parameters, but the function takes " + std::to_string(sizeof...(T)));
    (op.parameters.push_back({names[I], ParameterOf<std::decay_t<T>>::kind, nullptr, "", {}}), ...);
    op.build = [function, names](const Json &v) {
        return function(ParameterOf<std::decay_t<T>>::value(v.at(names[I]))...);
    };
    return op;
}

template<typename... T>
Operator make_operator(const std::string &name, const std::string &summary, const std::string &names,
                       Op (*function)(T...)) {
    return make_operator(name, summary, split_names(names), function, std::index_sequence_for<T...>());
}

} // namespace exporting

} // namespace kumiko::ops

// Defines one operator: function, summary, names of the parameters.
#define KUMIKO_OP(function, summary, ...)                                                                              \
    ::kumiko::ops::exporting::make_operator(#function, summary, #__VA_ARGS__, function)

// Defines the operators of a shared object, once: KUMIKO_OP(…) or ops::Operator, comma-separated.
#define KUMIKO_EXPORT_OPS(...)                                                                                         \
    extern "C" __attribute__((visibility("default"))) const ::kumiko::ops::ExportedOps kumiko_exported_ops;            \
    const ::kumiko::ops::ExportedOps kumiko_exported_ops = {                                                           \
        KUMIKO_OPS_ABI, [] { return std::vector<::kumiko::ops::Operator>{__VA_ARGS__}; }};

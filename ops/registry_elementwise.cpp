#include "ops/elementwise.h"
#include "ops/quantise.h"
#include "ops/registry_parts.h"

namespace kumiko::ops {

namespace {

Quantisation quantisation(const Arguments &a) {
    Quantisation q{a.real("scale"), a.integer("zero_point"), {}};
    if (const Expr rows = a.size("rows"); !Halide::Internal::is_const_zero(rows)) q.rows = rows;
    return q;
}

std::vector<Parameter> quantisation_parameters(std::vector<Parameter> types, const std::string &zero_point) {
    std::vector<Parameter> all = {size("n", "elements, or columns"),
                                  size("rows", "with it scale is an input, one for each column; 0: none", 0),
                                  real("scale", 1, "the scale of all elements"), integer("zero_point", 0, zero_point)};
    all.insert(all.end(), types.begin(), types.end());
    return all;
}

} // namespace

Parameter activation() {
    std::vector<std::string> names = {""};
    for (const UnaryFunction &f : unary_functions()) names.push_back(f.name);
    return choice("activation", "function applied to the result", names);
}

void add_quantisation(Table &table) {
    const Parameter bytes = choice("to", "type of Y", {"i8", "u8"});
    table.add("quantise", "x / scale rounded, plus zero_point, in 8 bits",
              quantisation_parameters({bytes, type("type of X")}, "what 0 becomes"), [](const Arguments &a) {
                  return quantise(a.type("type"), type_from_name(a.text("to")), a.size("n"), quantisation(a));
              });
    table.add("dequantise", "(x - zero_point) * scale",
              quantisation_parameters({choice("from", "type of X", {"i8", "u8", "i32"}), type("type of Y")},
                                      "what becomes 0"),
              [](const Arguments &a) {
                  return dequantise(type_from_name(a.text("from")), a.type("type"), a.size("n"), quantisation(a));
              });
    table.add("requantise", "i32 to 8 bits: x * scale rounded, plus zero_point",
              quantisation_parameters({bytes}, "what 0 becomes"), [](const Arguments &a) {
                  return requantise(type_from_name(a.text("to")), a.size("n"), quantisation(a));
              });
}

void add_elementwise(Table &table) {
    for (const UnaryFunction &f : unary_functions()) {
        const std::string name = f.name;
        table.operators.push_back({name, f.summary, {size("n", "elements"), type()}, [name](const Json &v) {
                                       const Arguments a(v);
                                       return unary(name, a.type("type"), a.size("n"));
                                   }});
    }
    for (const BinaryFunction &f : binary_functions()) {
        const std::string name = f.name;
        table.operators.push_back({name,
                                   f.summary,
                                   {size("n", "elements, or columns"),
                                    size("rows", "with it b is one row, used for every row of a; 0: none", 0), type()},
                                   [name](const Json &v) {
                                       const Arguments a(v);
                                       const Expr rows = a.size("rows");
                                       if (Halide::Internal::is_const_zero(rows))
                                           return binary(name, a.type("type"), a.size("n"));
                                       return binary_rows(name, a.type("type"), rows, a.size("n"));
                                   }});
    }
}

} // namespace kumiko::ops

// Building blocks of the operator table: argument values, shorthands for parameters, and the parts
// of the table.
#pragma once

#include "dsl/types.h"
#include "ops/conv.h"
#include "ops/registry.h"

namespace kumiko::ops {

// The arguments of a call, already converted to their kinds.
class Arguments {
public:
    explicit Arguments(const Json &values) : values_(values) {}
    Expr size(const std::string &name) const { return size_of(values_.at(name)); }
    std::vector<Expr> sizes(const std::string &name) const {
        std::vector<Expr> all;
        for (const Json &v : values_.at(name)) all.push_back(size_of(v));
        return all;
    }
    std::vector<int> integers(const std::string &name) const { return values_.at(name).get<std::vector<int>>(); }
    int integer(const std::string &name) const { return values_.at(name).get<int>(); }
    double real(const std::string &name) const { return values_.at(name).get<double>(); }
    bool has(const std::string &name) const { return values_.contains(name); }
    bool flag(const std::string &name) const { return values_.at(name).get<bool>(); }
    std::string text(const std::string &name) const { return values_.at(name).get<std::string>(); }
    Type type(const std::string &name) const { return type_from_name(text(name)); }
    // Type() if the parameter is "same".
    Type type_or_same(const std::string &name) const { return text(name) == "same" ? Type() : type(name); }

private:
    const Json &values_;
    static Expr size_of(const Json &v) {
        return v.is_string() ? static_cast<Expr>(Size(v.get<std::string>())) : Expr(v.get<int>());
    }
};

inline Parameter size(const std::string &name, const std::string &summary, Json otherwise = nullptr) {
    return {name, Parameter::Kind::Size, std::move(otherwise), summary, {}};
}
inline Parameter integer(const std::string &name, int otherwise, const std::string &summary) {
    return {name, Parameter::Kind::Int, otherwise, summary, {}};
}
inline Parameter integers(const std::string &name, const std::string &summary, Json otherwise = Json::array()) {
    return {name, Parameter::Kind::Ints, std::move(otherwise), summary, {}};
}
inline Parameter sizes(const std::string &name, const std::string &summary) {
    return {name, Parameter::Kind::Sizes, nullptr, summary, {}};
}
inline Parameter real(const std::string &name, double otherwise, const std::string &summary) {
    return {name, Parameter::Kind::Real, otherwise, summary, {}};
}
inline Parameter flag(const std::string &name, const std::string &summary) {
    return {name, Parameter::Kind::Flag, false, summary, {}};
}
inline Parameter choice(const std::string &name, const std::string &summary, const std::vector<std::string> &choices) {
    return {name, Parameter::Kind::Choice, choices.front(), summary, choices};
}
inline Parameter type(const std::string &summary = "type of the elements") {
    return {"type", Parameter::Kind::Type, "f32", summary, {}};
}
// A type parameter whose value may be "same", the type of the other tensors.
Parameter type_or_same(const std::string &name, const std::string &summary);
Parameter activation();
inline Parameter layout() { return choice("layout", "order of the axes of images", {"nchw", "nhwc"}); }
inline ImageLayout layout_of(const Arguments &a) {
    return a.text("layout") == "nhwc" ? ImageLayout::NHWC : ImageLayout::NCHW;
}

class Table {
public:
    void add(const std::string &name, const std::string &summary, std::vector<Parameter> parameters,
             std::function<Op(const Arguments &)> build) {
        operators.push_back({name, summary, std::move(parameters),
                             [build = std::move(build)](const Json &v) { return build(Arguments(v)); }});
    }
    std::vector<Operator> operators;
};

void add_products(Table &table); // matrix products
void add_recurrent(Table &table);
void add_images(Table &table); // convolutions, pooling and norms over images
void add_rows(Table &table);   // reductions and norms
void add_moves(Table &table);  // data movement
void add_quantisation(Table &table);
void add_elementwise(Table &table); // functions; each is an operator

} // namespace kumiko::ops

#include "ops/registry.h"

#include "dsl/types.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/reorder.h"
#include "ops/rows.h"
#include "ops/shared_object.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko::ops {

namespace {

using Kind = Parameter::Kind;

// The parameters of a call, each already of its kind.
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
    bool flag(const std::string &name) const { return values_.at(name).get<bool>(); }
    std::string text(const std::string &name) const { return values_.at(name).get<std::string>(); }
    Type type(const std::string &name) const { return type_from_name(text(name)); }
    // Type() where the parameter is "same".
    Type type_or_same(const std::string &name) const { return text(name) == "same" ? Type() : type(name); }

private:
    const Json &values_;
    static Expr size_of(const Json &v) {
        return v.is_string() ? static_cast<Expr>(Size(v.get<std::string>())) : Expr(v.get<int>());
    }
};

std::vector<std::string> names_of_unary(bool with_none) {
    std::vector<std::string> names;
    if (with_none) names.push_back("");
    for (const UnaryFunction &f : unary_functions()) names.push_back(f.name);
    return names;
}

Parameter size(const std::string &name, const std::string &summary, Json otherwise = nullptr) {
    return {name, Kind::Size, std::move(otherwise), summary, {}};
}
Parameter integer(const std::string &name, int otherwise, const std::string &summary) {
    return {name, Kind::Int, otherwise, summary, {}};
}
Parameter flag(const std::string &name, const std::string &summary) { return {name, Kind::Flag, false, summary, {}}; }
Parameter type() { return {"type", Kind::Type, "f32", "type of the elements", {}}; }
Parameter activation() {
    return {"activation", Kind::Choice, "", "function applied to the result", names_of_unary(true)};
}

std::vector<Parameter> conv_parameters(bool depthwise) {
    std::vector<Parameter> p = {size("n", "images", 1), size("c", "input channels"), size("h", "height of the input"),
                                size("w", "width of the input")};
    if (!depthwise) p.push_back(size("o", "output channels"));
    for (Parameter &more : std::vector<Parameter>{
             integer("kh", 3, "height of the weights"), integer("kw", 3, "width of the weights"),
             integer("stride", 1, "step, both ways"), integer("padding", 0, "zeros around the input, all sides"),
             integer("dilation", 1, "distance between weights")}) {
        p.push_back(more);
    }
    if (!depthwise) p.push_back(integer("groups", 1, "groups of channels"));
    p.push_back({"layout", Kind::Choice, "nchw", "order of the axes of images", {"nchw", "nhwc"}});
    p.push_back(flag("bias", "add a value to each output channel"));
    p.push_back(flag("residual", "add a tensor shaped like the output"));
    p.push_back(activation());
    p.push_back(type());
    return p;
}

Op build_conv(const Arguments &a, bool depthwise) {
    Conv2dOptions o;
    o.layout = a.text("layout") == "nhwc" ? ImageLayout::NHWC : ImageLayout::NCHW;
    o.stride(a.integer("stride")).padding(a.integer("padding")).dilation(a.integer("dilation"));
    o.bias = a.flag("bias");
    o.residual = a.flag("residual");
    o.activation = a.text("activation");
    if (depthwise)
        return depthwise_conv2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.integer("kh"),
                                a.integer("kw"), o);
    o.groups = a.integer("groups");
    return conv2d(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.size("o"), a.integer("kh"),
                  a.integer("kw"), o);
}

std::vector<Parameter> pool_parameters() {
    return {size("n", "images", 1),
            size("c", "channels"),
            size("h", "height of the input"),
            size("w", "width of the input"),
            integer("kh", 2, "height of the window"),
            integer("kw", 2, "width of the window"),
            integer("stride", 2, "step, both ways"),
            integer("padding", 0, "rows and columns around the input, all sides"),
            {"layout", Kind::Choice, "nchw", "order of the axes of images", {"nchw", "nhwc"}},
            type()};
}

Op build_pool(const Arguments &a, bool average) {
    PoolOptions o;
    o.layout = a.text("layout") == "nhwc" ? ImageLayout::NHWC : ImageLayout::NCHW;
    o.stride = a.integer("stride");
    o.padding = a.integer("padding");
    return (average ? average_pool : max_pool)(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"),
                                               a.integer("kh"), a.integer("kw"), o);
}

Op build_matmul(const Arguments &a) {
    MatmulOptions o;
    o.transpose_a = a.flag("transpose_a");
    o.transpose_b = a.flag("transpose_b");
    if (const Expr batch = a.size("batch"); !Halide::Internal::is_const_zero(batch)) o.batch = batch;
    o.shared_b = a.flag("shared_b");
    o.bias = a.flag("bias");
    o.residual = a.flag("residual");
    o.activation = a.text("activation");
    o.b_type = a.type_or_same("b_type");
    o.output = a.type_or_same("output");
    if (a.flag("strided")) {
        o.lda = Size("lda");
        o.ldb = Size("ldb");
        o.ldc = Size("ldc");
    }
    return matmul(a.type("type"), a.size("m"), a.size("n"), a.size("k"), o);
}

std::vector<Operator> make_registry() {
    std::vector<Operator> all;
    const auto add = [&](const std::string &name, const std::string &summary, std::vector<Parameter> parameters,
                         Op (*build)(const Arguments &)) {
        all.push_back({name, summary, std::move(parameters), [build](const Json &v) { return build(Arguments(v)); }});
    };
    const std::vector<std::string> types = {"same", "bool", "i8",  "i16", "i32",  "i64", "u8",
                                            "u16",  "u32",  "u64", "f16", "bf16", "f32", "f64"};
    add("matmul", "C(i, j) = sum over k: A(i, k) * B(k, j)",
        {size("m", "rows of C"),
         size("n", "columns of C"),
         size("k", "what is summed over"),
         flag("transpose_a", "A is stored (k, i)"),
         flag("transpose_b", "B is stored (j, k)"),
         size("batch", "outermost axis of every tensor; 0: none", 0),
         flag("shared_b", "B has no batch axis"),
         flag("bias", "add a value to each column"),
         flag("residual", "add a tensor shaped like C"),
         activation(),
         {"strided", Kind::Flag, false, "rows of A, B and C are lda, ldb and ldc elements apart", {}, true},
         type(),
         {"b_type", Kind::Choice, "same", "type of B", types},
         {"output", Kind::Choice, "same", "type of C; same: of A, or i32", types}},
        build_matmul);
    add("gemv", "y(i) = sum over k: A(i, k) * x(k)", {size("m", "rows"), size("k", "what is summed over"), type()},
        [](const Arguments &a) { return gemv(a.type("type"), a.size("m"), a.size("k")); });
    add("conv2d", "a convolution over images", conv_parameters(false),
        [](const Arguments &a) { return build_conv(a, false); });
    add("depthwise_conv2d", "a convolution of each channel for itself", conv_parameters(true),
        [](const Arguments &a) { return build_conv(a, true); });
    add("softmax", "exp(x - max) / sum of the same, for each row", {size("m", "rows"), size("n", "columns"), type()},
        [](const Arguments &a) { return softmax(a.type("type"), a.size("m"), a.size("n")); });
    add("log_softmax", "x - max - log(sum of exp(x - max)), for each row",
        {size("m", "rows"), size("n", "columns"), type()},
        [](const Arguments &a) { return log_softmax(a.type("type"), a.size("m"), a.size("n")); });
    const Parameter eps = {"eps", Kind::Real, 1e-5, "added to the variance", {}};
    add("layer_norm", "each row to mean 0 and variance 1, then scaled and shifted",
        {size("m", "rows"), size("n", "columns"), eps, type()},
        [](const Arguments &a) { return layer_norm(a.type("type"), a.size("m"), a.size("n"), a.real("eps")); });
    add("rms_norm", "each row by the root of its mean square, then scaled",
        {size("m", "rows"), size("n", "columns"), eps, type()},
        [](const Arguments &a) { return rms_norm(a.type("type"), a.size("m"), a.size("n"), a.real("eps")); });
    add("batch_norm", "each channel of images scaled and shifted by its given mean and variance",
        {size("n", "images", 1),
         size("c", "channels"),
         size("h", "height"),
         size("w", "width"),
         {"layout", Kind::Choice, "nchw", "order of the axes of images", {"nchw", "nhwc"}},
         eps,
         type()},
        [](const Arguments &a) {
            return batch_norm(a.type("type"), a.size("n"), a.size("c"), a.size("h"), a.size("w"), a.real("eps"),
                              a.text("layout") == "nhwc");
        });
    add("max_pool", "the greatest of each window of images", pool_parameters(),
        [](const Arguments &a) { return build_pool(a, false); });
    add("average_pool", "the mean of each window of images", pool_parameters(),
        [](const Arguments &a) { return build_pool(a, true); });
    add("transpose", "Y(j, i) = X(i, j)", {size("m", "rows of X"), size("n", "columns of X"), type()},
        [](const Arguments &a) { return transpose(a.type("type"), a.size("m"), a.size("n")); });
    add("gather", "Y(i, j) = X(index(i), j)",
        {size("m", "rows of Y"), size("n", "rows of X"), size("w", "columns"), type()},
        [](const Arguments &a) { return gather(a.type("type"), a.size("m"), a.size("n"), a.size("w")); });
    add("embedding", "Y(b, s, j) = table(token(b, s), j)",
        {size("b", "sequences"), size("s", "tokens of one"), size("n", "rows of the table"), size("w", "columns"),
         type()},
        [](const Arguments &a) {
            return embedding(a.type("type"), a.size("b"), a.size("s"), a.size("n"), a.size("w"));
        });
    add("reduce", "one value from all along some axes",
        {{"kind", Kind::Choice, "sum", "what the values become", reduction_kinds()},
         {"shape", Kind::Sizes, nullptr, "extents of the input, outermost first", {}},
         {"axes", Kind::Ints, Json::array(), "positions of the axes that vanish; none: all", {}},
         type()},
        [](const Arguments &a) {
            return reduction(a.text("kind"), a.type("type"), a.sizes("shape"), a.integers("axes"));
        });

    // The elementwise functions, each an operator of its own.
    for (const UnaryFunction &f : unary_functions()) {
        const std::string name = f.name;
        all.push_back({name, f.summary, {size("n", "elements"), type()}, [name](const Json &v) {
                           const Arguments a(v);
                           return unary(name, a.type("type"), a.size("n"));
                       }});
    }
    for (const BinaryFunction &f : binary_functions()) {
        const std::string name = f.name;
        all.push_back({name,
                       f.summary,
                       {size("n", "elements, or columns"),
                        size("rows", "with it b is one row, used for every row of a; 0: none", 0), type()},
                       [name](const Json &v) {
                           const Arguments a(v);
                           const Expr rows = a.size("rows");
                           if (Halide::Internal::is_const_zero(rows)) return binary(name, a.type("type"), a.size("n"));
                           return binary_rows(name, a.type("type"), rows, a.size("n"));
                       }});
    }
    return all;
}

// A value as its parameter's kind wants it, from JSON or from text.
Json typed(const Operator &op, const Parameter &p, const Json &v) {
    const auto wrong = [&](const std::string &legal) -> Json {
        throw UserError("op \"" + op.name + "\": parameter \"" + p.name + "\" is " + v.dump() + "; legal is " + legal);
    };
    const auto whole = [](const std::string &s) { // the number that the text is, if it is one
        std::optional<int64_t> n;
        if (s.empty() || s.size() > 11) return n;
        size_t start = s[0] == '-' ? 1 : 0;
        if (start == s.size() || s.find_first_not_of("0123456789", start) != std::string::npos) return n;
        n = std::stoll(s);
        return n;
    };
    // What schedules round up to blocks must not leave 32 bits.
    constexpr int64_t highest = INT32_MAX - 4095;
    const auto number = [&](const Json &x, int64_t low, const char *legal) -> Json {
        std::optional<int64_t> n;
        if (x.is_number_integer()) n = x.get<int64_t>();
        if (x.is_string()) n = whole(x.get<std::string>());
        if (!n || *n < low || *n > highest) return wrong(legal);
        return *n;
    };
    const auto extent = [&](const Json &x) -> Json {
        if (x.is_string() && is_identifier(x.get<std::string>())) return x;
        return number(x, 0, "a number from 0 to 2147479552, or the name of a size");
    };
    const auto list = [&](const auto &element) -> Json {
        Json result = Json::array();
        if (v.is_array()) {
            for (const Json &x : v) result.push_back(element(x));
        } else if (v.is_string()) {
            std::stringstream text(v.get<std::string>());
            for (std::string part; std::getline(text, part, ',');) result.push_back(element(Json(part)));
        } else {
            result.push_back(element(v));
        }
        return result;
    };
    switch (p.kind) {
    case Kind::Size:
        return extent(v);
    case Kind::Int:
        return number(v, INT32_MIN, "a whole number");
    case Kind::Sizes:
        return list(extent);
    case Kind::Ints:
        return list([&](const Json &x) { return number(x, INT32_MIN, "whole numbers"); });
    case Kind::Real:
        if (v.is_number()) return v.get<double>();
        if (v.is_string()) {
            try {
                size_t end = 0;
                const double x = std::stod(v.get<std::string>(), &end);
                if (end == v.get<std::string>().size()) return x;
            } catch (const std::exception &) {
            }
        }
        return wrong("a number");
    case Kind::Flag:
        if (v.is_boolean()) return v;
        if (v == "true" || v == "1" || v == 1) return true;
        if (v == "false" || v == "0" || v == 0) return false;
        return wrong("true or false");
    case Kind::Type:
        if (!v.is_string()) return wrong("the name of a type");
        type_from_name(v.get<std::string>());
        return v;
    case Kind::Choice:
        if (!v.is_string()) return wrong("a name");
        if (std::find(p.choices.begin(), p.choices.end(), v.get<std::string>()) == p.choices.end()) {
            throw UserError("op \"" + op.name + "\": parameter \"" + p.name + "\" is \"" + v.get<std::string>() + "\"" +
                            suggest(v.get<std::string>(), p.choices));
        }
        return v;
    }
    return v;
}

} // namespace

std::string kind_name(Parameter::Kind kind) {
    static const char *names[] = {"size", "int", "real", "flag", "type", "choice", "sizes", "ints"};
    return names[static_cast<int>(kind)];
}

const std::vector<Operator> &registry() {
    static const std::vector<Operator> table = make_registry();
    return table;
}

Operator find_operator(const std::string &name) {
    std::vector<std::string> names;
    if (const auto shared = shared_name(name)) {
        for (const Operator &o : load_operators(shared->file)) {
            if (o.name == name) return o;
            names.push_back(o.name.substr(shared->file.size() + 1));
        }
        throw UserError(shared->file + (shared->op.empty()
                                            ? " is a shared object: name one of its ops after a colon, as " +
                                                  shared->file + ":NAME" + suggest("", names)
                                            : " has no op \"" + shared->op + "\"" + suggest(shared->op, names)));
    }
    for (const Operator &o : registry()) {
        if (o.name == name) return o;
        names.push_back(o.name);
    }
    throw UserError("unknown op \"" + name + "\"" + suggest(name, names));
}

Json complete_parameters(const Operator &op, const Json &parameters) {
    if (!parameters.is_object() && !parameters.is_null())
        throw UserError("op \"" + op.name + "\": the parameters must be an object");
    std::vector<std::string> names;
    for (const Parameter &p : op.parameters) names.push_back(p.name);
    if (parameters.is_object()) {
        for (const auto &[key, value] : parameters.items()) {
            if (std::find(names.begin(), names.end(), key) == names.end()) {
                throw UserError("op \"" + op.name + "\" has no parameter \"" + key + "\"" + suggest(key, names));
            }
        }
    }
    Json complete = Json::object();
    for (const Parameter &p : op.parameters) {
        const bool given = parameters.is_object() && parameters.contains(p.name);
        if (!given && p.required()) {
            throw UserError("op \"" + op.name + "\" needs the parameter \"" + p.name + "\": " + p.summary);
        }
        complete[p.name] = given ? typed(op, p, parameters.at(p.name)) : p.otherwise;
    }
    return complete;
}

Op make(const std::string &name, const Json &parameters) {
    const Operator op = find_operator(name);
    const Json complete = complete_parameters(op, parameters);
    try {
        return op.build(complete);
    } catch (const UserError &e) {
        // The place of a formula of the library says nothing to whoever gave the parameters.
        if (shared_name(name)) throw;
        throw UserError(e.message());
    }
}

} // namespace kumiko::ops

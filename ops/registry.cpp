#include "ops/registry.h"

#include "ops/attention.h"
#include "ops/matmul.h"
#include "ops/recurrent.h"
#include "ops/registry_parts.h"
#include "ops/rows.h"
#include "ops/scan.h"
#include "ops/shared_object.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko::ops {

namespace {

using Kind = Parameter::Kind;

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
    o.requantise = a.flag("requantise"), o.zero_point = a.integer("zero_point");
    if (a.flag("strided")) {
        o.lda = Size("lda");
        o.ldb = Size("ldb");
        o.ldc = Size("ldc");
    }
    return matmul(a.type("type"), a.size("m"), a.size("n"), a.size("k"), o);
}

} // namespace

Parameter type_or_same(const std::string &name, const std::string &summary) {
    return choice(name, summary,
                  {"same", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"});
}

void add_products(Table &table) {
    table.add("matmul", "C(i, j) = sum over k: A(i, k) * B(k, j)",
              {size("m", "rows of C"),
               size("n", "columns of C"),
               size("k", "extent of the sum"),
               flag("transpose_a", "A is stored (k, i)"),
               flag("transpose_b", "B is stored (j, k)"),
               size("batch", "outermost axis of every tensor; 0: none", 0),
               flag("shared_b", "B has no batch axis"),
               flag("bias", "add a value to each column"),
               flag("residual", "add a tensor shaped like C"),
               activation(),
               {"strided", Kind::Flag, false, "rows of A, B and C are lda, ldb and ldc elements apart", {}, true},
               type(),
               type_or_same("b_type", "type of B"),
               type_or_same("output", "type of C; same: of A, or i32"),
               flag("requantise", "C is i8 or u8: the sum and an i32 bias, times a scale for each column, rounded"),
               integer("zero_point", 0, "added after rounding")},
              build_matmul);
    table.add("gemv", "y(i) = sum over k: A(i, k) * x(k)", {size("m", "rows"), size("k", "extent of the sum"), type()},
              [](const Arguments &a) { return gemv(a.type("type"), a.size("m"), a.size("k")); });
    table.add("attention", "softmax(Q * K transposed * scale) * V, for each head",
              {size("b", "sequences", 1), integer("heads", 1, "heads of queries"), size("s", "queries"),
               size("t", "keys"), size("d", "elements of a key"), size("v", "elements of a value; 0: as of a key", 0),
               integer("groups", 0, "heads of keys and values; 0: as many as of queries"),
               flag("causal", "a query attends to keys up to its own position, counted from the end"),
               real("scale", 0, "of the scores; 0: 1 / sqrt(d)"), type()},
              [](const Arguments &a) {
                  AttentionOptions o{a.real("scale"), a.flag("causal"), a.integer("groups"), {}};
                  if (const Expr v = a.size("v"); !Halide::Internal::is_const_zero(v)) o.values = v;
                  return attention(a.type("type"), a.size("b"), a.integer("heads"), a.size("s"), a.size("t"),
                                   a.size("d"), o);
              });
}

void add_recurrent(Table &table) {
    const auto layer = [](std::vector<Parameter> more) {
        std::vector<Parameter> all = {size("t", "steps"), size("b", "sequences", 1), size("i", "elements of input"),
                                      size("u", "elements of state")};
        all.insert(all.end(), more.begin(), more.end());
        all.push_back(flag("reverse", "process sequences from the last element to the first"));
        all.push_back(flag("states", "add the last state as an output"));
        all.push_back(type());
        return all;
    };
    const auto build = [](auto op) {
        return [op](const Arguments &a) {
            const RecurrentOptions options{a.flag("reverse"), a.flag("states"),
                                           a.has("reset_after") && a.flag("reset_after")};
            return op(a.type("type"), a.size("t"), a.size("b"), a.size("i"), a.size("u"), options);
        };
    };
    table.add("rnn", "recurrent layer: h = tanh(W * x + R * h + bias), step by step", layer({}), build(rnn));
    table.add("gru", "gated recurrent units, step by step",
              layer({flag("reset_after", "the reset gate multiplies the product, not the state")}), build(gru));
    table.add("lstm", "long short-term memory, step by step", layer({}), build(lstm));
}

void add_rows(Table &table) {
    table.add("softmax", "exp(x - max) / sum of the same, for each row",
              {size("m", "rows"), size("n", "columns"), type()},
              [](const Arguments &a) { return softmax(a.type("type"), a.size("m"), a.size("n")); });
    table.add("log_softmax", "x - max - log(sum of exp(x - max)), for each row",
              {size("m", "rows"), size("n", "columns"), type()},
              [](const Arguments &a) { return log_softmax(a.type("type"), a.size("m"), a.size("n")); });
    table.add("logsumexp", "log of the sum of exp(x), for each row", {size("m", "rows"), size("n", "columns"), type()},
              [](const Arguments &a) { return logsumexp(a.type("type"), a.size("m"), a.size("n")); });
    const Parameter eps = real("eps", 1e-5, "added to the variance");
    table.add("layer_norm", "each row to mean 0 and variance 1, then scaled and shifted",
              {size("m", "rows"), size("n", "columns"), eps, type()},
              [](const Arguments &a) { return layer_norm(a.type("type"), a.size("m"), a.size("n"), a.real("eps")); });
    table.add("rms_norm", "each row by the root of its mean square, then scaled",
              {size("m", "rows"), size("n", "columns"), eps, type()},
              [](const Arguments &a) { return rms_norm(a.type("type"), a.size("m"), a.size("n"), a.real("eps")); });
    table.add("reduce", "a reduction along some axes",
              {choice("kind", "the kind of reduction", reduction_kinds()),
               sizes("shape", "extents of the input, outermost first"),
               integers("axes", "positions of the reduced axes; none: all"), type()},
              [](const Arguments &a) {
                  return reduction(a.text("kind"), a.type("type"), a.sizes("shape"), a.integers("axes"));
              });
    const auto along = [] {
        return std::vector<Parameter>{sizes("shape", "extents of the input, outermost first"),
                                      integer("axis", -1, "its position; below 0 counts from the end"), type()};
    };
    table.add("softmax_along", "softmax along an axis", along(),
              [](const Arguments &a) { return softmax(a.type("type"), a.sizes("shape"), a.integer("axis")); });
    table.add("log_softmax_along", "log_softmax along an axis", along(),
              [](const Arguments &a) { return log_softmax(a.type("type"), a.sizes("shape"), a.integer("axis")); });
    table.add(
        "top_k", "the k largest elements along an axis, and their positions",
        {sizes("shape", "extents of the input, outermost first"),
         integer("axis", -1, "its position; below 0 counts from the end"), integer("k", 4, "how many, up to 64"),
         type()},
        [](const Arguments &a) { return top_k(a.type("type"), a.sizes("shape"), a.integer("axis"), a.integer("k")); });
    table.add("cumulative_sum", "the sum of all elements up to each one, along an axis",
              {sizes("shape", "extents of the input, outermost first"),
               integer("axis", -1, "its position; below 0 counts from the end"),
               flag("exclusive", "without the element itself"), type()},
              [](const Arguments &a) {
                  return cumulative_sum(a.type("type"), a.sizes("shape"), a.integer("axis"), a.flag("exclusive"));
              });
}

const std::vector<Operator> &registry() {
    static const std::vector<Operator> all = [] {
        Table table;
        for (const auto part :
             {add_products, add_recurrent, add_images, add_rows, add_moves, add_quantisation, add_elementwise})
            part(table);
        return std::move(table.operators);
    }();
    return all;
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

Op make(const std::string &name, const Json &parameters) {
    const Operator op = find_operator(name);
    const Json complete = complete_parameters(op, parameters);
    try {
        return op.build(complete);
    } catch (const UserError &e) {
        // A location in the library's formula is of no use to whoever gave the parameters.
        if (shared_name(name)) throw UserError("op \"" + name + "\" of " + complete.dump() + ": " + e.what());
        throw UserError(e.message());
    }
}

} // namespace kumiko::ops

#include "ops/registry_parts.h"
#include "ops/reorder.h"

namespace kumiko::ops {

void add_moves(Table &table) {
    table.add("transpose", "Y(j, i) = X(i, j)", {size("m", "rows of X"), size("n", "columns of X"), type()},
              [](const Arguments &a) { return transpose(a.type("type"), a.size("m"), a.size("n")); });
    table.add("permute", "an array's axes in another order",
              {sizes("shape", "extents of the input, outermost first"),
               integers("order", "positions of the input's axes, in the order of the result's", nullptr), type()},
              [](const Arguments &a) { return permute(a.type("type"), a.sizes("shape"), a.integers("order")); });
    table.add("gather", "Y(i, j) = X(index(i), j); indices outside of X are those of its first and last row",
              {size("m", "rows of Y"), size("n", "rows of X"), size("w", "columns"), type()},
              [](const Arguments &a) { return gather(a.type("type"), a.size("m"), a.size("n"), a.size("w")); });
    table.add("embedding",
              "Y(b, s, j) = table(token(b, s), j); tokens outside of the table are those of its first and last row",
              {size("b", "sequences"), size("s", "tokens of one"), size("n", "rows of the table"), size("w", "columns"),
               type()},
              [](const Arguments &a) {
                  return embedding(a.type("type"), a.size("b"), a.size("s"), a.size("n"), a.size("w"));
              });
    table.add("embedding_gradient",
              "dtable(token(b, s), j) += dY(b, s, j); tokens outside of the table add to its first and last row",
              {size("b", "sequences"), size("s", "tokens of one"), size("n", "rows of the table"), size("w", "columns"),
               type()},
              [](const Arguments &a) {
                  return embedding_gradient(a.type("type"), a.size("b"), a.size("s"), a.size("n"), a.size("w"));
              });
    const Parameter shape = sizes("shape", "extents of the input, outermost first");
    table.add("pad", "an array padded with a number",
              {shape, integers("before", "elements added before the input, along each axis; none: 0"),
               integers("after", "elements added after it"), real("value", 0, "what stands around"), type()},
              [](const Arguments &a) {
                  return pad(a.type("type"), a.sizes("shape"), a.integers("before"), a.integers("after"),
                             a.real("value"));
              });
    table.add("slice", "Y(i) = X(begin + i * step), along each axis",
              {shape, sizes("extents", "extents of the result"),
               integers("begin", "the first element taken, along each axis; none: 0"),
               integers("step", "from one element to the next; below 0 goes backwards; none: 1"), type()},
              [](const Arguments &a) {
                  return slice(a.type("type"), a.sizes("shape"), a.sizes("extents"), a.integers("begin"),
                               a.integers("step"));
              });
    Parameter shared = sizes("shared", "extents of the other axes");
    shared.otherwise = Json::array();
    table.add("concat", "arrays concatenated along an axis",
              {sizes("parts", "extents of the arrays along it, one of each"), shared,
               integer("axis", 0, "its position in the result; below 0 counts from the end"), type()},
              [](const Arguments &a) {
                  return concat(a.type("type"), a.sizes("shared"), a.sizes("parts"), a.integer("axis"));
              });
    table.add("one_hot", "Y(i, j) = index(i) == j ? on : off",
              {size("m", "indices"), size("n", "classes"), real("on", 1, "the value at the index"),
               real("off", 0, "the value elsewhere"), type()},
              [](const Arguments &a) {
                  return one_hot(a.type("type"), a.size("m"), a.size("n"), a.real("on"), a.real("off"));
              });
}

} // namespace kumiko::ops

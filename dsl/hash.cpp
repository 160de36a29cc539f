// A hash of an op's structure.
#include "support/hash.h"
#include "dsl/extern.h"
#include "dsl/op.h"
#include "dsl/reads.h"
#include "dsl/types.h"

#include <bit>
#include <map>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Hashes the content of an expression, independently of which subexpressions are shared nodes.
class ExprHasher {
public:
    const std::string &of(const Expr &e) {
        if (auto it = known_.find(e.get()); it != known_.end()) return it->second;
        Hasher h;
        h.number(static_cast<uint64_t>(e.node_type())).text(type_name(e.type()));
        if (const auto *i = e.as<IntImm>()) h.number(static_cast<uint64_t>(i->value));
        if (const auto *u = e.as<UIntImm>()) h.number(u->value);
        if (const auto *f = e.as<FloatImm>()) h.number(std::bit_cast<uint64_t>(f->value));
        if (const auto *s = e.as<StringImm>()) h.text(s->value);
        if (const auto *v = e.as<Variable>()) h.text(v->name);
        if (const auto *c = e.as<Call>())
            h.text(c->name).number(static_cast<uint64_t>(c->call_type)).number(c->args.size());
        if (const auto *l = e.as<Let>()) h.text(l->name);
        const std::vector<Expr> children = children_of(e);
        for (size_t c = 0; c < children.size(); c++) {
            // Except for the function's address.
            if (c != 1 || !is_extern(e.as<Call>())) h.text(of(children[c]));
        }
        kept_.push_back(e);
        return known_[e.get()] = h.hex();
    }

private:
    std::map<const void *, std::string> known_;
    std::vector<Expr> kept_;
};

} // namespace

std::string Op::hash() const {
    ExprHasher hasher;
    Hasher h;
    const auto add_axes = [&](const std::vector<Axis> &axes) {
        h.number(axes.size());
        for (const Axis &a : axes) h.text(a.name()).text(hasher.of(a.extent()));
    };
    h.text("kumiko.op.1").text(name()).number(inputs().size());
    for (const Input &in : inputs()) {
        h.text(in.name).text(type_name(in.type));
        add_axes(in.axes);
        for (const Expr &s : in.strides) h.text(hasher.of(s));
        if (in.inout) h.text("inout");
    }
    h.number(stages().size());
    for (const Stage &s : stages()) {
        h.number(static_cast<uint64_t>(s.kind)).text(s.name).text(type_name(s.type));
        add_axes(s.axes);
        add_axes(s.reduction_axes);
        h.number((s.properties.associative ? 1u : 0u) + (s.properties.commutative ? 2u : 0u) + (s.bounded ? 4u : 0u));
        for (const Expr &e : s.strides) h.text(hasher.of(e));
        if (s.value.defined()) h.text(hasher.of(s.value));
        for (const Component &c : s.components) {
            h.text(c.tensor)
                .text(type_name(c.type))
                .text(hasher.of(c.identity))
                .text(hasher.of(c.term))
                .text(hasher.of(c.combined));
        }
    }
    h.number(outputs().size());
    for (const std::string &o : outputs()) h.text(o);
    return h.hex();
}

} // namespace kumiko

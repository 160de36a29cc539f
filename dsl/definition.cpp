#include "dsl/definition.h"

#include "support/error.h"

#include <map>

namespace kumiko {

using Halide::Internal::Call;
using Halide::Internal::IntImm;
using Halide::Internal::StringImm;
using Halide::Internal::Variable;

namespace {

constexpr const char *definition_name = "kumiko.definition", *written_name = "kumiko.written";

// Axis has no constructor from a bare variable, so an axis is rebuilt from its name and extent.
Axis rebuilt_axis(const Expr &variable, const Expr &extent) { return Axis(variable.as<Variable>()->name, extent); }

} // namespace

// Each definition stores its own depth, so only the nodes of this expression are walked,
// iteratively.
int nesting_depth(const Expr &e, bool with_definitions) {
    struct Operands : Halide::Internal::IRGraphVisitor {
        std::vector<Expr> found;
        void include(const Expr &e) override { found.push_back(e); }
    };
    struct Open {
        Expr e;
        std::vector<Expr> operands;
        size_t next = 0;
        int depth = 1;
    };
    std::map<const Halide::Internal::IRNode *, int> known;
    std::vector<Open> open;
    const auto enter = [&](const Expr &e) {
        const Call *call = e.as<Call>();
        if (call && call->name == definition_name) {
            const auto *depth = call->args[4].as<IntImm>();
            open.push_back({e, {}, 0, with_definitions ? static_cast<int>(depth->value) : 1});
            return;
        }
        Operands operands;
        e.accept(&operands);
        open.push_back({e, std::move(operands.found)});
    };
    enter(e);
    for (;;) {
        Open &top = open.back();
        if (top.next == top.operands.size()) {
            const int depth = known[top.e.get()] = top.depth;
            open.pop_back();
            if (open.empty()) return depth;
            open.back().depth = std::max(open.back().depth, depth + 1);
            continue;
        }
        const Expr operand = top.operands[top.next++];
        const auto found = known.find(operand.get());
        if (found != known.end())
            top.depth = std::max(top.depth, found->second + 1);
        else
            enter(operand);
    }
}

// {name, kind, a zero of the element type, rank, depth, variables…, extents…, has strides,
// strides…, value if any}
Expr encode_definition(const TensorContents &c) {
    std::vector<Expr> args = {StringImm::make(c.name), Expr(static_cast<int>(c.kind)),
                              Halide::Internal::make_zero(c.type), Expr(static_cast<int>(c.axes.size())),
                              Expr(c.value.defined() ? nesting_depth(c.value) + 1 : 1)};
    for (const Axis &a : c.axes) args.push_back(a);
    for (const Axis &a : c.axes) args.push_back(a.extent());
    args.push_back(Expr(static_cast<int>(c.strides.size())));
    for (const Expr &s : c.strides) args.push_back(s);
    if (c.value.defined()) args.push_back(c.value);
    return Call::make(Halide::Handle(), definition_name, args, Call::PureIntrinsic);
}

TensorContents decode_definition(const Expr &definition) {
    const Call *call = definition.as<Call>();
    if (!call || call->name != definition_name) throw InternalError("not a tensor definition");
    const auto &args = call->args;
    auto number = [&](size_t i) { return static_cast<size_t>(args[i].as<IntImm>()->value); };
    TensorContents c;
    c.name = args[0].as<StringImm>()->value;
    c.kind = static_cast<TensorContents::Kind>(number(1));
    c.type = args[2].type();
    const size_t rank = number(3);
    for (size_t d = 0; d < rank; d++) c.axes.push_back(rebuilt_axis(args[5 + d], args[5 + rank + d]));
    const size_t n_strides = number(5 + 2 * rank);
    for (size_t d = 0; d < n_strides; d++) c.strides.push_back(args[6 + 2 * rank + d]);
    if (const size_t last = 6 + 2 * rank + n_strides; last < args.size()) c.value = args[last];
    return c;
}

bool is_reference(const Call *call) {
    if (call->call_type != Call::PureIntrinsic || call->args.empty()) return false;
    const Call *last = call->args.back().as<Call>();
    return last && last->name == definition_name;
}

Expr written_as(const std::string &text, const Expr &value) {
    return Call::make(value.type(), written_name, {StringImm::make(text), value}, Call::PureIntrinsic);
}

bool is_written(const Call *call) { return call->name == written_name; }

WrittenPart decode_written(const Call *call) { return {call->args[1], call->args[0].as<StringImm>()->value}; }

} // namespace kumiko

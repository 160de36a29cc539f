#include "dsl/extern.h"

#include "dsl/definition.h"
#include "dsl/legal.h"
#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

#include <dlfcn.h>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// {symbol, address, number of results, index of this result, names of the results, zeros of their
// types, inputs…}
Expr encode(const ExternFunction &f, const std::vector<ExternResult> &makes, size_t which,
            const std::vector<Tensor> &takes) {
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(f.call));
    std::vector<Expr> args = {StringImm::make(f.symbol), UIntImm::make(UInt(64), address),
                              Expr(static_cast<int>(makes.size())), Expr(static_cast<int>(which))};
    for (const ExternResult &m : makes) args.push_back(StringImm::make(m.name));
    for (const ExternResult &m : makes) args.push_back(make_zero(m.type));
    for (const Tensor &t : takes) args.push_back(t.at(std::vector<Expr>(t.rank(), Expr(0))));
    return Call::make(makes[which].type, extern_name, args, Call::PureIntrinsic);
}

size_t number(const Call *call, size_t arg) { return static_cast<size_t>(call->args[arg].as<IntImm>()->value); }

void check_function(const ExternFunction &f, const std::string &name, const std::source_location &where) {
    if (f.symbol.empty() && !f.call)
        throw UserError(where, "extern_stage \"" + name + "\" has no function; give a symbol, an address, or both");
    if (f.symbol.empty()) return;
    check_name(f.symbol, "extern function", where);
    if (is_keyword(f.symbol))
        throw UserError(where, "extern function \"" + f.symbol + "\" is a keyword of C; legal is a function's name");
}

} // namespace

Tensor extern_stage(const std::string &name, Type type, const std::vector<Axis> &axes, const std::vector<Tensor> &takes,
                    const ExternFunction &function, std::source_location where) {
    return extern_stage({{name, type}}, axes, takes, function, where)[0];
}

std::vector<Tensor> extern_stage(const std::vector<ExternResult> &makes, const std::vector<Axis> &axes,
                                 const std::vector<Tensor> &takes, const ExternFunction &function,
                                 std::source_location where) {
    if (makes.empty()) throw UserError(where, "extern_stage has no results; name at least one");
    check_function(function, makes[0].name, where);
    for (const ExternResult &m : makes) check_element_type(m.type, "tensor \"" + m.name + "\"", where);
    for (const Tensor &t : takes) {
        if (!t.defined()) throw UserError(where, "extern_stage \"" + makes[0].name + "\" takes an undefined tensor");
        if (t.contents().kind == TensorContents::Kind::Padding)
            throw UserError(where, "extern_stage \"" + makes[0].name + "\" takes \"" + t.name() +
                                       "\", which has no array of its own; copy it to a stage first: "
                                       "compute(\"T\", …, " +
                                       t.name() + "(…))");
    }
    std::vector<Tensor> results;
    for (size_t m = 0; m < makes.size(); m++)
        results.push_back(compute(makes[m].name, axes, encode(function, makes, m, takes), where));
    return results;
}

const Call *extern_call(const Stage &stage) {
    const Call *call = stage.value.defined() ? stage.value.as<Call>() : nullptr;
    return is_extern(call) ? call : nullptr;
}

bool has_extern(const Op &op) {
    return std::any_of(op.stages().begin(), op.stages().end(), [](const Stage &s) { return is_extern(s); });
}

ExternFunction extern_function(const Call *call) {
    const auto address = static_cast<uintptr_t>(call->args[1].as<UIntImm>()->value);
    return {call->args[0].as<StringImm>()->value, reinterpret_cast<ExternCall *>(address)};
}

std::vector<std::string> extern_takes(const Stage &stage) {
    const Call *call = extern_call(stage);
    std::vector<std::string> names;
    for (size_t a = 4 + 2 * number(call, 2); a < call->args.size(); a++)
        names.push_back(call->args[a].as<Call>()->name);
    return names;
}

std::vector<ExternResult> extern_makes(const Stage &stage) {
    std::vector<ExternResult> makes;
    for (const Component &c : stage.components) makes.push_back({c.tensor, c.type});
    return makes.empty() ? std::vector<ExternResult>{{stage.name, stage.type}} : makes;
}

ExternCall *extern_address(const ExternFunction &f) {
    if (f.call) return f.call;
    if (void *found = dlsym(RTLD_DEFAULT, f.symbol.c_str())) return reinterpret_cast<ExternCall *>(found);
    throw UserError("the extern function \"" + f.symbol +
                    "\" is not in this process; give its address in ExternFunction::call, or link the program with it "
                    "and export its symbols (-rdynamic)");
}

} // namespace kumiko

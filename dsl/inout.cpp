#include "dsl/inout.h"

#include "dsl/legal.h"
#include "dsl/print.h"
#include "dsl/reach.h"
#include "dsl/types.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

Tensor made(TensorContents contents) { return Tensor(std::make_shared<const TensorContents>(std::move(contents))); }

// Whether the stage reads the tensor, directly or through padding, which is evaluated at the read.
bool reads(const std::vector<Stage> &stages, const Stage &stage, const std::string &tensor) {
    for (const Expr &e : stage.expressions()) {
        for (const std::string &t : tensors_read(e)) {
            if (t == tensor) return true;
            for (const Stage &padding : stages) {
                if (padding.name == t && padding.kind == Stage::Kind::Padding && reads(stages, padding, tensor))
                    return true;
            }
        }
    }
    return false;
}

// How the update reads the tensor at an element other than the one that it writes: "C at (i + 1,
// j)", "C.padded"; otherwise "".
std::string read_elsewhere(const std::vector<Stage> &stages, const Stage &update) {
    struct Look : IRGraphVisitor {
        using IRGraphVisitor::visit;
        const std::vector<Stage> *stages;
        const Stage *update;
        std::string found;
        void visit(const Call *op) override {
            IRGraphVisitor::visit(op);
            if (op->call_type != Call::Image) return;
            for (const Stage &s : *stages) {
                if (s.name == op->name && s.kind == Stage::Kind::Padding && reads(*stages, s, update->updates))
                    found = s.name + ", which reads " + update->updates + " at other elements too";
            }
            if (op->name != update->updates) return;
            std::string at;
            bool own = true;
            for (size_t d = 0; d < op->args.size(); d++) {
                const auto *v = op->args[d].as<Variable>();
                own = own && v && v->name == update->axes[d].name();
                at += (d ? ", " : "") + to_string(op->args[d]);
            }
            if (!own) found = op->name + "(" + at + ")";
        }
    } look;
    look.stages = &stages;
    look.update = &update;
    for (const Expr &e : update.expressions()) e.accept(&look);
    return look.found;
}

std::string own_element(const Stage &update) {
    std::string text = update.updates + "(";
    for (size_t d = 0; d < update.axes.size(); d++) text += (d ? ", " : "") + update.axes[d].name();
    return text + ")";
}

} // namespace

Tensor inout(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options,
             std::source_location where) {
    TensorContents contents = input(name, type, axes, options, where).contents();
    contents.kind = TensorContents::Kind::Inout;
    return made(std::move(contents));
}

Tensor update(const Tensor &tensor, const Expr &value, std::source_location where) {
    if (!tensor.defined()) throw UserError(where, "update of an undefined tensor; make it with inout(…)");
    const TensorContents &c = tensor.contents();
    if (c.kind != TensorContents::Kind::Inout)
        throw UserError(where, "update(" + c.name +
                                   ", …): only an in-place array can be updated; legal is a tensor made by inout(\"" +
                                   c.name + "\", …)");
    if (!value.defined()) throw UserError(where, "the value of update(" + c.name + ", …) is undefined");
    if (value.type() != c.type)
        throw UserError(where, "update(" + c.name + ", …) is given " + type_name(value.type()) + ", but \"" + c.name +
                                   "\" has elements of " + type_name(c.type) + "; cast the value");
    return made({TensorContents::Kind::Update, c.name + ".out", c.type, c.axes, c.strides, value});
}

bool reads_before_update(const Op &op) {
    for (const Input &in : op.inputs()) {
        for (const Stage &s : op.stages()) {
            if (in.inout && s.updates != in.name && s.kind != Stage::Kind::Padding && reads(op.stages(), s, in.name))
                return true;
        }
    }
    return false;
}

std::vector<Buffer<>> output_arrays(const Op &op, const std::vector<Buffer<>> &arguments) {
    std::vector<Buffer<>> arrays;
    size_t next = op.inputs().size();
    for (const std::string &output : op.outputs()) {
        const std::string &updates = op.stage(output).updates;
        size_t at = 0;
        while (!updates.empty() && op.inputs()[at].name != updates) at++;
        arrays.push_back(arguments.at(updates.empty() ? next++ : at));
    }
    return arrays;
}

std::vector<Buffer<>> with_inouts_copied(const Op &op, std::vector<Buffer<>> arguments) {
    for (size_t i = 0; i < op.inputs().size(); i++) {
        if (!op.inputs()[i].inout) continue;
        Buffer<> &b = arguments.at(i);
        std::vector<int64_t> strides;
        for (size_t d = 0; d < b.rank(); d++) strides.push_back(b.stride(d));
        Buffer<> copy(b.type(), b.extents(), strides);
        if (b.number_of_elements() > 0) copy.copy_from(b);
        b = copy;
    }
    return arguments;
}

void check_inouts(const std::string &op, const std::vector<Input> &inputs, const std::vector<Stage> &stages,
                  const std::vector<std::string> &outputs, const std::source_location &where) {
    for (const Stage &s : stages) {
        if (s.updates.empty()) continue;
        if (std::none_of(inputs.begin(), inputs.end(), [&](const Input &in) { return in.name == s.updates; }))
            throw UserError(where, "op \"" + op + "\" updates \"" + s.updates + "\", which is not among its inputs");
        if (std::find(outputs.begin(), outputs.end(), s.name) == outputs.end())
            throw UserError(where, "op \"" + op + "\" reads the update of \"" + s.updates +
                                       "\" but does not name it among its outputs");
    }
    for (const Input &in : inputs) {
        if (!in.inout) continue;
        const auto update =
            std::find_if(stages.begin(), stages.end(), [&](const Stage &s) { return s.updates == in.name; });
        if (update == stages.end())
            throw UserError(where, "op \"" + op + "\" has the inout tensor \"" + in.name +
                                       "\", but no output is update(" + in.name +
                                       ", …); make it with input(…) where it is only read");
        if (const std::string elsewhere = read_elsewhere(stages, *update); !elsewhere.empty())
            throw UserError(where, "the update of \"" + in.name + "\" reads " + elsewhere +
                                       ", which it may have replaced already; legal are " + own_element(*update) +
                                       ", the element that it writes, and a stage of its own that reads \"" + in.name +
                                       "\" anywhere: compute(\"T\", …)");
        for (auto later = update + 1; later != stages.end(); ++later) {
            if (later->kind != Stage::Kind::Padding && reads(stages, *later, in.name))
                throw UserError(where, "tensor \"" + later->name + "\" reads \"" + in.name +
                                           "\" after its update has replaced it; name it before update(" + in.name +
                                           ", …) among the outputs, or read the update");
        }
    }
}

} // namespace kumiko

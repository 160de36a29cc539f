#include "dsl/op.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/interpreter/parts.h"
#include "dsl/legal.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "dsl/stage_builder.h"
#include "support/error.h"

#include <ostream>
#include <set>

namespace kumiko {

using namespace Halide::Internal;

struct Op::Contents {
    std::string name;
    std::vector<Input> inputs, earlier;
    std::vector<Stage> stages;
    std::vector<std::string> outputs, separate_outputs;
    std::vector<std::string> sizes;
    std::vector<Requirement> requirements;
};

Expr read_tensor(Type type, const std::string &tensor, const std::vector<Expr> &indices) {
    // Halide requires a buffer parameter for an Image call. Nothing else of the parameter is used.
    return Call::make(type, tensor, indices, Call::Image, Halide::Internal::FunctionPtr(), 0, Halide::Buffer<>(),
                      Halide::Parameter(type, true, static_cast<int>(indices.size()), tensor));
}

std::vector<Expr> Stage::expressions() const {
    if (components.empty() || is_extern(*this)) return {value};
    std::vector<Expr> all;
    for (const Component &c : components) all.push_back(c.term);
    return all;
}

namespace {

void add_inputs(StageBuilder &builder, const std::string &name, const std::vector<Tensor> &inputs,
                const std::source_location &where) {
    for (const Tensor &t : inputs) {
        if (!t.defined()) throw UserError(where, "an input of op \"" + name + "\" is undefined; make it with input(…)");
        if (!is_input(t.contents())) {
            throw UserError(where, "\"" + t.name() + "\" is computed, so it cannot be an input of op \"" + name + "\"");
        }
        for (const Axis &a : t.axes()) builder.axis_names.insert(a.name());
        builder.add(t.contents());
    }
}

void add_outputs(StageBuilder &builder, const std::string &name, const std::vector<Tensor> &outputs,
                 std::vector<std::string> &names, const std::source_location &where) {
    for (const Tensor &t : outputs) {
        if (!t.defined())
            throw UserError(where, "an output of op \"" + name + "\" is undefined; make it with compute(…)");
        if (t.contents().kind != TensorContents::Kind::Compute && t.contents().kind != TensorContents::Kind::Update) {
            throw UserError(where, "\"" + t.name() +
                                       "\" cannot be an output; legal are tensors made by compute(…) and update(…)");
        }
        for (const std::string &other : names) {
            if (other == t.name())
                throw UserError(where, "op \"" + name + "\" names the output \"" + t.name() + "\" twice");
        }
        builder.add(t.contents());
        names.push_back(t.name());
    }
}

// The conditions under which all reads are inside of the tensors.
std::vector<Requirement> requirements_of(const std::vector<Input> &inputs, const std::vector<Input> &earlier,
                                         const std::vector<Stage> &stages, const std::vector<Requirement> &required,
                                         const std::vector<WrittenPart> &written, const std::source_location &where) {
    const AxesInside axes_inside = [&](const std::string &tensor) {
        std::vector<const Axis *> axes;
        for (const auto *all : {&inputs, &earlier}) {
            for (const Input &in : *all) {
                if (in.name != tensor) continue;
                for (const Axis &a : in.axes) axes.push_back(&a);
            }
        }
        for (const Stage &s : stages) {
            if (s.name != tensor) continue;
            for (size_t d = 0; d < s.axes.size(); d++)
                axes.push_back(s.kind == Stage::Kind::Padding && pads(s, d) ? nullptr : &s.axes[d]);
        }
        return axes;
    };
    std::vector<Requirement> requirements;
    const auto require = [&](const Requirement &r) {
        const auto same = [&](const Requirement &q) { return Halide::Internal::equal(q.condition, r.condition); };
        if (std::none_of(requirements.begin(), requirements.end(), same)) requirements.push_back(r);
    };
    for (const Stage &s : stages) {
        check_indices(s, axes_inside, written, where);
        // Its select or clamp keeps reads in bounds.
        if (s.kind == Stage::Kind::Padding) continue;
        Reach reach = reach_of(s, axes_inside, written);
        if (!reach.outside.empty())
            throw UserError(where, reach.outside + "; legal beyond a tensor are reads of zero_padded and clamped");
        std::set<std::string> read;
        for (const Expr &e : s.expressions()) read.merge(tensors_read(e));
        for (const Stage &padding : stages) {
            if (padding.kind != Stage::Kind::Padding || !read.count(padding.name)) continue;
            for (Requirement &r : clamp_requirements(s, padding)) reach.requirements.push_back(std::move(r));
        }
        for (const Requirement &r : reach.requirements) require(r);
    }
    for (const Requirement &r : required) require(r);
    return requirements;
}

// Collects the sizes that an op uses, in order of first use.
class SizeCollector {
public:
    SizeCollector(const std::string &op, const std::set<std::string> &axis_names, const std::source_location &where)
        : op_(op), axis_names_(axis_names), where_(where) {}

    std::vector<std::string> collect(const std::vector<Input> &inputs, const std::vector<Stage> &stages) {
        for (const Input &in : inputs) {
            for (const Axis &a : in.axes) note_alone(a.extent());
            for (const Expr &s : in.strides) note_alone(s);
        }
        for (const Stage &s : stages) {
            std::set<std::string> axes;
            for (const Axis &a : s.axes) axes.insert(a.name());
            for (const Axis &a : s.reduction_axes) axes.insert(a.name());
            for (const auto *of_stage : {&s.axes, &s.reduction_axes}) {
                for (const Axis &a : *of_stage) check_extent(s, a, axes), note_alone(a.extent());
            }
            for (const Expr &e : s.strides) note_alone(e);
            for (const Expr &e : s.expressions()) note(e);
        }
        return std::move(sizes_);
    }

private:
    void note(const Expr &e) {
        for (const std::string &v : sizes_used(e)) {
            if (axis_names_.count(v)) {
                throw UserError(where_, "op \"" + op_ + "\" uses \"" + v +
                                            "\" both as an axis and as a size; give one of them another name");
            }
            if (seen_.insert(v).second) sizes_.push_back(v);
        }
    }

    // The same of an extent or a stride, which uses no axes.
    void note_alone(const Expr &e) {
        for (const std::string &v : axes_used(e)) {
            check_name(v, "size", where_);
            throw UserError(where_, "op \"" + op_ + "\" uses axis \"" + v +
                                        "\" in an extent or a stride; legal are numbers and sizes, as Size(\"" + v +
                                        "\")");
        }
        note(e);
    }

    void check_extent(const Stage &s, const Axis &a, const std::set<std::string> &axes) const {
        for (const std::string &v : variables_of(a.extent())) {
            if (!axes.count(v)) continue;
            throw UserError(where_,
                            "the extent of axis \"" + a.name() + "\" of tensor \"" + s.name + "\" uses \"" + v +
                                "\", which is an axis of it: extents cannot depend on axes, and a size needs "
                                "another name. For a part of the terms write select(condition, term, identity)");
        }
    }

    const std::string &op_;
    const std::set<std::string> &axis_names_;
    const std::source_location &where_;
    std::set<std::string> seen_;
    std::vector<std::string> sizes_;
};

} // namespace

Op::Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       std::source_location where)
    : Op(name, inputs, outputs, {}, where) {}

Op::Op(const std::string &name, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
       const std::vector<Requirement> &required, std::source_location where) {
    try {
        check_name(name, "op", where);
        auto contents = std::make_shared<Contents>();
        contents->name = name;
        if (outputs.empty()) throw UserError(where, "op \"" + name + "\" has no outputs");
        std::vector<Input> read;
        StageBuilder builder(contents->stages, read, where);
        add_inputs(builder, name, inputs, where);
        const size_t n_inputs = read.size();
        if (n_inputs != inputs.size()) throw UserError(where, "op \"" + name + "\" names an input twice");
        add_outputs(builder, name, outputs, contents->outputs, where);
        if (read.size() > n_inputs) {
            throw UserError(where,
                            "op \"" + name + "\" reads \"" + read[n_inputs].name + "\", which is not among its inputs");
        }
        contents->inputs = std::move(read);
        contents->earlier = builder.earlier();
        set_step_axes(contents->stages, contents->earlier, contents->outputs, where);
        check_inouts(name, contents->inputs, contents->stages, contents->outputs, where);
        for (const std::string &o : contents->outputs) {
            const auto s = std::find_if(contents->stages.begin(), contents->stages.end(),
                                        [&](const Stage &s) { return s.name == o; });
            if (s->updates.empty()) contents->separate_outputs.push_back(o);
        }
        for (const Stage &s : contents->stages) {
            if (s.strides.empty() || std::count(contents->outputs.begin(), contents->outputs.end(), s.name)) continue;
            throw UserError(where, "tensor \"" + s.name + "\" states strides but is no output of op \"" + name +
                                       "\"; only arrays that the caller passes have strides of their own");
        }

        contents->requirements =
            requirements_of(contents->inputs, contents->earlier, contents->stages, required, builder.written, where);
        contents->sizes = SizeCollector(name, builder.axis_names, where).collect(contents->inputs, contents->stages);
        contents_ = contents;
    } catch (const Halide::Error &e) {
        throw UserError(where, std::string("op \"") + name + "\": " + e.what());
    }
}

const Axis *find_axis(const Stage &stage, const std::string &name) {
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (a.name() == name) return &a;
        }
    }
    return nullptr;
}

Op Op::with_open_rows() const {
    auto changed = std::make_shared<Contents>(*contents_);
    std::set<std::string> taken(sizes().begin(), sizes().end());
    for (const Input &in : inputs()) {
        for (const Axis &a : in.axes) taken.insert(a.name());
    }
    for (const Stage &s : stages()) {
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) taken.insert(a.name());
        }
    }
    const auto open = [&](const std::string &tensor, const std::vector<Axis> &axes) {
        std::string name = "ld" + tensor;
        while (!taken.insert(name).second) name += "_";
        changed->sizes.push_back(name);
        std::vector<Expr> strides(axes.size());
        Expr stride = Size(name);
        strides.back() = 1;
        for (size_t d = axes.size() - 1; d-- > 0;) {
            strides[d] = simplify(stride);
            stride = stride * axes[d].extent();
        }
        return strides;
    };
    for (Input &in : changed->inputs) {
        if (in.stated_strides || in.axes.size() < 2) continue;
        in.strides = open(in.name, in.axes);
        in.stated_strides = true;
        for (Stage &s : changed->stages) {
            if (s.updates == in.name) s.strides = in.strides;
        }
    }
    for (Stage &s : changed->stages) {
        if (is_output(s.name) && s.strides.empty() && s.axes.size() >= 2) s.strides = open(s.name, s.axes);
    }
    Op result = *this;
    result.contents_ = std::move(changed);
    return result;
}

Op Op::with_stages(const std::vector<Stage> &stages) const {
    auto changed = std::make_shared<Contents>(*contents_);
    changed->stages = stages;
    Op result = *this;
    result.contents_ = std::move(changed);
    return result;
}

Op Op::with_sizes(const std::vector<Input> &inputs, const std::vector<Input> &earlier, const std::vector<Stage> &stages,
                  std::source_location where) const {
    auto changed = std::make_shared<Contents>(*contents_);
    changed->inputs = inputs, changed->earlier = earlier, changed->stages = stages;
    std::set<std::string> axis_names;
    for (const Input &in : inputs) {
        for (const Axis &a : in.axes) axis_names.insert(a.name());
    }
    for (const Stage &s : stages) {
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) axis_names.insert(a.name());
        }
    }
    changed->requirements = requirements_of(inputs, earlier, stages, {}, {}, where);
    changed->sizes = SizeCollector(name(), axis_names, where).collect(inputs, stages);
    Op result = *this;
    result.contents_ = std::move(changed);
    return result;
}

namespace {

// A tensor that a part of the op reads, as an input of that part.
Input as_input(const Op &op, const std::string &tensor, Type type) {
    if (const Input *in = op.find_input(tensor)) return *in;
    const Stage *of = interpreter::stage_of(op, tensor);
    if (!of) throw InternalError("op " + op.name() + " has no tensor " + tensor);
    return {tensor, type, of->axes, row_major_strides(of->axes)};
}

} // namespace

Op Op::stage_alone(const Stage &stage) const {
    auto changed = std::make_shared<Contents>(*contents_);
    changed->inputs.clear();
    changed->earlier.clear();
    changed->stages.clear();
    changed->outputs = changed->separate_outputs = {stage.name};
    const std::function<void(const Stage &)> add = [&](const Stage &s) {
        for (const Expr &e : s.expressions()) {
            for (const Call *read : tensor_reads(e)) {
                const auto known = [&](const auto &t) { return t.name == read->name; };
                if (std::any_of(changed->inputs.begin(), changed->inputs.end(), known) ||
                    std::any_of(changed->stages.begin(), changed->stages.end(), known) || s.makes(read->name))
                    continue;
                const Stage *made = find_stage(read->name);
                if (made && made->kind == Stage::Kind::Padding)
                    add(*made);
                else
                    changed->inputs.push_back(as_input(*this, read->name, read->type));
            }
        }
        changed->stages.push_back(s);
    };
    add(stage);
    Stage &alone = changed->stages.back();
    alone.strides.clear();
    alone.updates.clear();
    Op result = *this;
    result.contents_ = std::move(changed);
    return result;
}

Op Op::part(const std::set<std::string> &names) const {
    auto changed = std::make_shared<Contents>(*contents_);
    changed->inputs.clear();
    changed->stages.clear();
    changed->outputs.clear();
    std::set<std::string> read; // tensors, by stages outside of the part
    for (const Stage &s : stages()) {
        const bool own = names.count(s.name) != 0;
        if (own) changed->stages.push_back(s);
        for (const Expr &e : s.expressions()) {
            for (const Call *r : tensor_reads(e)) {
                const Stage *of = interpreter::stage_of(*this, r->name);
                if (!own) read.insert(r->name);
                const auto known = [&](const Input &in) { return in.name == r->name; };
                if (!own || (of && names.count(of->name)) ||
                    std::any_of(changed->inputs.begin(), changed->inputs.end(), known))
                    continue;
                changed->inputs.push_back(as_input(*this, r->name, r->type));
            }
        }
    }
    for (const Stage &s : changed->stages) {
        for (const std::string &tensor : s.tensors()) {
            if (is_output(tensor) || read.count(tensor)) changed->outputs.push_back(tensor);
        }
    }
    changed->separate_outputs = changed->outputs;
    Op result = *this;
    result.contents_ = std::move(changed);
    return result;
}

std::vector<std::string> Stage::tensors() const {
    if (components.empty()) return {name};
    std::vector<std::string> all;
    for (const Component &c : components) all.push_back(c.tensor);
    return all;
}

bool Stage::makes(const std::string &tensor) const {
    return tensor == name ||
           std::any_of(components.begin(), components.end(), [&](const Component &c) { return c.tensor == tensor; });
}

std::vector<Expr> Stage::array_strides() const { return strides.empty() ? row_major_strides(axes) : strides; }

const std::string &Op::name() const { return contents_->name; }
const std::vector<Input> &Op::inputs() const { return contents_->inputs; }
const std::vector<Input> &Op::earlier() const { return contents_->earlier; }
const std::vector<Stage> &Op::stages() const { return contents_->stages; }
const std::vector<std::string> &Op::outputs() const { return contents_->outputs; }
const std::vector<std::string> &Op::separate_outputs() const { return contents_->separate_outputs; }
const std::vector<Requirement> &Op::requirements() const { return contents_->requirements; }
const std::vector<std::string> &Op::sizes() const { return contents_->sizes; }

const Input *Op::find_input(const std::string &name) const {
    for (const auto *tensors : {&inputs(), &earlier()}) {
        for (const Input &in : *tensors) {
            if (in.name == name) return &in;
        }
    }
    return nullptr;
}

const Stage *Op::find_stage(const std::string &name) const {
    for (const Stage &s : stages()) {
        if (s.name == name) return &s;
    }
    return nullptr;
}

const Stage &Op::stage(const std::string &name) const {
    if (const Stage *s = find_stage(name)) return *s;
    std::string all;
    for (const Stage &s : stages()) all += (all.empty() ? "" : ", ") + s.name;
    throw UserError("op \"" + this->name() + "\" has no stage \"" + name + "\"; its stages are " + all);
}

bool Op::is_output(const std::string &tensor) const {
    for (const std::string &o : outputs()) {
        if (o == tensor) return true;
    }
    return false;
}

std::ostream &operator<<(std::ostream &out, const Op &op) { return out << op.to_string(); }

} // namespace kumiko

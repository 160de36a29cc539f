#include "bench/halide_pipeline.h"

#include "dsl/bounded.h"
#include "dsl/extern.h"
#include "dsl/reads.h"
#include "dsl/reduction.h"
#include "dsl/scatter.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>

namespace kumiko::bench {

using namespace Halide::Internal;

namespace {

int number(const Expr &extent) {
    const auto n = as_const_int(simplify(extent));
    if (!n) throw Unsupported("a pipeline of Halide cannot have symbolic sizes");
    return static_cast<int>(*n);
}

// Halide counts dimensions from the innermost one.
template<typename T>
std::vector<T> reversed(std::vector<T> all) {
    std::reverse(all.begin(), all.end());
    return all;
}

// Halide makes function names unique, but they must not contain dots.
std::string without_dots(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
}

// Expresses the functions of formulas by Halide's.
Expr halide_function(const std::string &function, Type type, const std::vector<Expr> &args) {
    const Expr &x = args[0];
    const auto sigmoid = [](const Expr &e) { return 1 / (1 + Halide::exp(-e)); };
    const auto of_libm = [&](const char *name) {
        return Call::make(type, std::string(name) + (type.bits() == 32 ? "f" : ""), {x}, Call::PureExtern);
    };
    const auto constant = [&](double c) { return make_const(type, c); };
    if (function == "rsqrt") return 1 / Halide::sqrt(x);
    if (function == "sigmoid") return sigmoid(x);
    if (function == "silu") return x * sigmoid(x);
    if (function == "gelu_tanh")
        return x * sigmoid(constant(1.5957691216057308) * (x + constant(0.044715) * x * x * x));
    if (function == "expm1") return Halide::exp(x) - 1;
    if (function == "log1p") return Halide::log(1 + x);
    if (function == "erf") return type.bits() == 32 ? Halide::erf(x) : of_libm("erf");
    if (function == "erfc") return of_libm("erfc");
    if (function == "gelu") {
        const Expr y = x * constant(M_SQRT1_2);
        return x * constant(0.5) * (1 + halide_function("erf", type, {y}));
    }
    return Expr();
}

class PipelineBuilder {
public:
    PipelineBuilder(const Op &op, const HalideForm &form) : op_(op), form_(form) {}

    HalidePipeline build() {
        if (!op_.earlier().empty())
            throw Unsupported("a pipeline of Halide cannot compute other stages at each step of a recurrence");
        HalidePipeline all;
        for (const Input &in : op_.inputs()) {
            if (in.inout) throw Unsupported("a pipeline of Halide cannot update an array in place");
            Halide::ImageParam image(in.type, static_cast<int>(in.axes.size()), in.name);
            set_shape(image, in.axes, in.axes.size());
            images_.emplace(in.name, image);
            all.arguments.push_back(image);
        }
        for (const Stage &stage : op_.stages()) define(stage);
        std::vector<Halide::Func> outputs;
        for (const std::string &name : op_.outputs()) {
            const Stage &stage = op_.stage(name);
            Halide::Func out = functions_.at(name).func;
            const bool tiled = stage.is_reduction() && !stage.axes.empty() && !scattered(stage);
            if (out.outputs() > 1 || tiled || (form_.beyond_edges && is_read(name))) {
                out = Halide::Func(without_dots(name) + "_array");
                out(variables(stage)) = read(name, reversed(indices(stage)));
            }
            const std::vector<Axis> axes = reversed(stage.axes);
            Halide::Region estimates;
            for (const Axis &a : axes) estimates.emplace_back(0, number(a.extent()));
            out.set_estimates(estimates);
            Halide::OutputImageParam array = out.output_buffer();
            set_bounds(array, stage.axes);
            outputs.push_back(out);
        }
        all.pipeline = Halide::Pipeline(outputs);
        return all;
    }

private:
    struct Made {
        Halide::Func func;
        int component;
    };
    const Op &op_;
    HalideForm form_;
    std::map<std::string, Halide::ImageParam> images_;
    std::map<std::string, Made> functions_; // by tensor

    template<typename Image>
    static void set_bounds(Image &image, const std::vector<Axis> &axes) {
        int stride = 1;
        for (size_t d = 0; d < axes.size(); d++) {
            const int extent = number(axes[axes.size() - 1 - d].extent());
            image.dim(static_cast<int>(d)).set_bounds(0, extent).set_stride(stride);
            stride *= extent;
        }
    }
    static void set_shape(Halide::ImageParam &image, const std::vector<Axis> &axes, size_t rank) {
        set_bounds(image, axes);
        for (size_t d = 0; d < rank; d++)
            image.dim(static_cast<int>(d)).set_estimate(0, number(axes[rank - 1 - d].extent()));
    }

    static std::vector<Expr> indices(const Stage &stage) {
        std::vector<Expr> all;
        for (const Axis &a : stage.axes) all.push_back(a);
        return all;
    }
    static std::vector<Halide::Var> variables(const Stage &stage) {
        std::vector<Halide::Var> all;
        for (const Axis &a : stage.axes) all.emplace_back(a.name());
        return reversed(all);
    }

    bool is_read(const std::string &tensor) const {
        for (const Stage &stage : op_.stages()) {
            for (const Expr &e : stage.expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    if (read->name == tensor) return true;
                }
            }
        }
        return false;
    }

    // `index` is in Halide's order.
    Expr read(const std::string &tensor, const std::vector<Expr> &index) const {
        if (const auto image = images_.find(tensor); image != images_.end()) return image->second(index);
        const Made &made = functions_.at(tensor);
        const Halide::FuncRef element = made.func(index);
        return made.func.outputs() > 1 ? element[made.component] : Expr(element);
    }

    // An expression of a stage with reads of images and functions.
    class Rewrite : public IRGraphMutator {
    public:
        Rewrite(const PipelineBuilder &builder, const Stage &stage) : builder_(builder), stage_(stage) {}

    private:
        const PipelineBuilder &builder_;
        const Stage &stage_;
        Expr guard_; // the condition under which padding is read
        using IRGraphMutator::visit;

        Expr visit(const Call *op) override {
            if (op->call_type == Call::Image) return read(op);
            if (op->is_intrinsic(Call::if_then_else)) {
                const Expr condition = mutate(op->args[0]);
                const Expr outer = guard_;
                guard_ = condition;
                const Expr inside = mutate(op->args[1]);
                guard_ = outer;
                const bool padding = stage_.kind == Stage::Kind::Padding;
                return Halide::select(condition, padding ? Halide::likely(inside) : inside, mutate(op->args[2]));
            }
            const Expr e = IRGraphMutator::visit(op);
            if (op->call_type != Call::PureExtern) return e;
            const auto end = op->name.rfind('_');
            const std::vector<Expr> &args = e.as<Call>()->args;
            if (op->type.is_float() && op->type.bits() == 16) {
                std::vector<Expr> wide;
                for (const Expr &a : args) wide.push_back(Halide::cast(Float(32), a));
                const std::string function = op->name.substr(0, end);
                const Expr known = halide_function(function, Float(32), wide);
                return Halide::cast(op->type, known.defined()
                                                  ? known
                                                  : Call::make(Float(32), function + "_f32", wide, Call::PureExtern));
            }
            const Expr known = halide_function(op->name.substr(0, end), op->type, args);
            return known.defined() ? known : e;
        }

        Expr read(const Call *op) {
            std::vector<Expr> index;
            const bool own = stage_.makes(op->name);
            for (size_t d = 0; d < op->args.size(); d++) {
                Expr i = mutate(op->args[d]);
                if (stage_.kind == Stage::Kind::Padding) {
                    const bool guarded =
                        guard_.defined() && i.as<Variable>() && expr_uses_var(guard_, i.as<Variable>()->name);
                    if (guarded)
                        i = Halide::clamp(Halide::likely(i), 0, stage_.axes[d].extent() - 1);
                    else if (!i.as<Variable>())
                        i = with_likely_axes(i);
                } else if (own && !i.as<Variable>()) {
                    // Elements before the first are not selected.
                    i = Halide::clamp(i, 0, stage_.axes[d].extent() - 1);
                }
                if (const auto image = builder_.images_.find(op->name);
                    builder_.form_.beyond_edges && image != builder_.images_.end()) {
                    const int last = number(builder_.op_.find_input(op->name)->axes[d].extent()) - 1;
                    i = Halide::clamp(Halide::likely(i), 0, last);
                }
                index.push_back(i);
            }
            return builder_.read(op->name, reversed(index));
        }
        Expr with_likely_axes(const Expr &i) const {
            std::map<std::string, Expr> likely;
            for (const Axis &a : stage_.axes) likely[a.name()] = Halide::likely(Expr(a));
            return substitute(likely, i);
        }
    };

    // The axes as steps of a reduction domain, the last axis fastest. The domain of `in_order` has
    // one dimension, since the scheduler reorders dimensions even if Halide then rejects it.
    static std::map<std::string, Expr> over(const std::vector<Axis> &axes, bool in_order, Halide::RDom &domain) {
        std::map<std::string, Expr> steps;
        Halide::Region region;
        int count = 1;
        for (const Axis &a : reversed(axes)) {
            region.emplace_back(0, number(a.extent()));
            count *= number(a.extent());
        }
        if (!in_order || axes.size() == 1) {
            domain = Halide::RDom(region);
            for (size_t d = 0; d < axes.size(); d++)
                steps[axes[d].name()] = domain[static_cast<int>(axes.size() - 1 - d)];
            return steps;
        }
        domain = Halide::RDom(0, count);
        Expr rest = domain[0];
        for (const Axis &a : reversed(axes)) {
            steps[a.name()] = rest % number(a.extent());
            rest = rest / number(a.extent());
        }
        return steps;
    }

    void define(const Stage &stage) {
        if (is_extern(stage)) throw Unsupported("a pipeline of Halide cannot have extern stages");
        Halide::Func func(without_dots(stage.name));
        const std::vector<std::string> tensors = stage.tensors();
        for (size_t c = 0; c < tensors.size(); c++) functions_[tensors[c]] = {func, static_cast<int>(c)};
        if (stage.reads_itself()) {
            define_recurrence(stage, func);
        } else if (stage.is_reduction()) {
            define_reduction(stage, func);
        } else {
            func(variables(stage)) = Rewrite(*this, stage).mutate(stage.value);
        }
    }

    static Halide::Tuple tuple(const std::vector<Expr> &values) { return Halide::Tuple(values); }

    void define_reduction(const Stage &stage, Halide::Func &func) {
        Halide::RDom domain;
        const std::map<std::string, Expr> steps = over(stage.reduction_axes, stage.components.size() > 1, domain);
        std::vector<Expr> identities, index = indices(stage);
        for (const Component &c : stage.components) identities.push_back(c.identity);
        func(variables(stage)) = tuple(identities);
        Rewrite rewrite(*this, stage);
        const auto term = [&](const Expr &e) { return substitute(steps, rewrite.mutate(e)); };
        std::vector<Expr> terms, combined;
        if (const auto s = scattered(stage); s && stage.components.size() == 1) {
            for (size_t d = 0; d < index.size(); d++) {
                if (stage.axes[d].name() == s->axis)
                    index[d] = Halide::clamp(Halide::cast(Int(32), term(s->index)), 0, stage.axes[d].extent() - 1);
            }
            terms.push_back(term(s->value));
        } else if (const std::vector<Expr> bounds = term_bounds(stage); !bounds.empty() && form_.domain_conditions) {
            for (const Expr &b : bounds) domain.where(term(b));
            terms.push_back(term(term_where_hold(stage, bounds)));
        } else {
            for (const Component &c : stage.components) terms.push_back(term(c.term));
        }
        std::map<std::string, Expr> values;
        for (size_t c = 0; c < stage.components.size(); c++) {
            values[accumulator_variable(c)] = read(stage.components[c].tensor, reversed(index));
            values[term_variable(c)] = terms[c];
        }
        for (const Component &c : stage.components) combined.push_back(substitute(values, c.combined));
        func(reversed(index)) = tuple(combined);
    }

    void define_recurrence(const Stage &stage, Halide::Func &func) {
        std::vector<Axis> ordered;
        std::vector<Expr> index = indices(stage), before, values;
        for (size_t d = 0; d < stage.axes.size(); d++) {
            for (const std::vector<int64_t> &distance : stage.distances) {
                if (distance[d] == 0) continue;
                ordered.push_back(stage.axes[d]);
                break;
            }
        }
        Halide::RDom domain;
        const std::map<std::string, Expr> steps = over(ordered, false, domain);
        for (Expr &i : index) i = substitute(steps, i);
        std::vector<Expr> formulas;
        for (const Component &c : stage.components) formulas.push_back(c.term);
        if (formulas.empty()) formulas.push_back(stage.value);
        for (const Expr &e : formulas) before.push_back(make_zero(e.type()));
        func(variables(stage)) = tuple(before);
        Rewrite rewrite(*this, stage);
        for (const Expr &e : formulas) values.push_back(substitute(steps, rewrite.mutate(e)));
        func(reversed(index)) = tuple(values);
    }
};

} // namespace

HalidePipeline halide_pipeline(const Op &op, const HalideForm &form) {
    try {
        return PipelineBuilder(op, form).build();
    } catch (const Halide::Error &e) {
        throw Unsupported(op.name() + " was refused by Halide: " + e.what());
    }
}

} // namespace kumiko::bench

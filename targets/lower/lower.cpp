#include "targets/lower/lower.h"

#include "support/error.h"
#include "targets/lower/lowering.h"

#include <chrono>

namespace kumiko {

namespace {

constexpr Pass passes[] = {
    {"build", build_nest, "a schedule", "loops, indexed"},
    {"flatten", flatten_storage, "loops, indexed", "loops, flat"},
    {"vectorize", vectorize_loops, "loops, flat", "no vector loops"},
    {"unroll", unroll_loops, "no vector loops", "no unrolled loops"},
    {"simplify", simplify_indices, "no unrolled loops", "no unrolled loops"},
    {"rename", rename_loops, "no unrolled loops", "final"},
};

} // namespace

std::vector<std::string> pass_names() {
    std::vector<std::string> names;
    for (const Pass &p : passes) names.push_back(p.name);
    return names;
}

Nest lower(const Schedule &schedule, const LowerOptions &options) {
    try {
        Lowering l;
        l.schedule = &schedule;
        const Op &op = schedule.op();
        l.nest.name = options.kernel_name.empty() ? op.name() : options.kernel_name;
        for (const Input &in : op.inputs()) {
            TensorArgument t{in.name, in.type, false, {}, in.strides};
            for (const Axis &a : in.axes) t.extents.push_back(a.extent());
            l.nest.tensors.push_back(std::move(t));
        }
        for (const std::string &name : op.outputs()) {
            const Stage &stage = op.stage(name);
            TensorArgument t{name, stage.type, true, {}, {}};
            Expr stride = 1;
            for (const Axis &a : stage.axes) t.extents.push_back(a.extent());
            t.strides.resize(t.extents.size());
            for (size_t d = t.extents.size(); d-- > 0;) {
                t.strides[d] = Halide::Internal::simplify(stride);
                stride = stride * t.extents[d];
            }
            l.nest.tensors.push_back(std::move(t));
        }
        l.nest.sizes = op.sizes();
        for (const Assume &a : schedule.state().assumptions) l.nest.assumptions.push_back({a.condition, a.text});
        for (const Pass &p : passes) {
            const auto start = std::chrono::steady_clock::now();
            p.run(l);
            const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
            if (options.timings) options.timings->push_back({p.name, took.count()});
            if (options.print) options.print(p.name, l.nest.body);
            if (options.verify_each && p.run != build_nest) verify(l);
        }
        if (options.verify && !options.verify_each) verify(l);
        return std::move(l.nest);
    } catch (const Halide::Error &e) {
        throw InternalError(std::string("lowering ") + schedule.op().name() + ": " + e.what());
    }
}

} // namespace kumiko

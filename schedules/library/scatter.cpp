#include "schedules/library/scatter.h"

#include "dsl/extern.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

struct ScatterRoles {
    const Stage *sum = nullptr;
    std::string consumer; // an elementwise output computed from its results, or ""
};

// The last axis, which is contiguous, if all of its elements go to the same place; else "".
std::string columns_of(const Stage &sum, const std::string &at) {
    const std::string last = sum.axes.back().name();
    return last == at || Halide::Internal::expr_uses_var(scattered(sum)->index, last) ? "" : last;
}

// The scatter must be the first stage, followed by at most one elementwise stage of its results.
std::optional<ScatterRoles> scatter_roles(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() > 2) return std::nullopt;
    const Stage &sum = op.stages().front();
    if (!visits_elements(sum)) return std::nullopt;
    ScatterRoles r{&sum, ""};
    if (op.stages().size() == 1) return r;
    const Stage &end = op.stages().back();
    if (end.kind != Stage::Kind::Pointwise || is_extern(end) || end.reads_itself() || !end.updates.empty() ||
        end.axes.size() != sum.axes.size())
        return std::nullopt;
    for (size_t d = 0; d < end.axes.size(); d++) {
        if (end.axes[d].name() != sum.axes[d].name()) return std::nullopt;
    }
    for (const Halide::Internal::Call *read : tensor_reads(end.value)) {
        const Operand o{read->name, read->args, {}};
        for (size_t d = 0; read->name == sum.name && d < o.indices.size(); d++) {
            const auto *v = o.indices[d].as<Halide::Internal::Variable>();
            if (!v || v->name != end.axes[d].name()) return std::nullopt;
        }
    }
    r.consumer = end.name;
    return r;
}

int64_t columns(const Stage &sum) {
    if (columns_of(sum, scattered(sum)->axis).empty()) return 1;
    return std::max<int64_t>(constant_extent(sum.axes.back()).value_or(1 << 12), 1);
}

} // namespace

int64_t columns_together(const Stage &stage, const Machine &machine) {
    const int64_t threads = threads_of(machine), n = columns(stage);
    return threads > 1 ? std::max<int64_t>((n + threads - 1) / threads, 4 * vector_lanes(machine, stage.type)) : n;
}

bool visits_elements(const Stage &stage) { return scattered(stage) && identity_is_neutral(stage); }

bool is_scatter(const Op &op) { return scatter_roles(op).has_value(); }

ScatterParameters scatter_parameters(const Op &op, const Machine &machine) {
    const ScatterRoles r = *scatter_roles(op);
    const int64_t lanes = vector_lanes(machine, r.sum->type);
    const int64_t all = columns(*r.sum);
    std::vector<int64_t> blocks;
    for (int64_t n = lanes; n < all; n *= 2) blocks.push_back(n);
    blocks.push_back((all + lanes - 1) / lanes * lanes);
    ScatterParameters p;
    p.block = Tile::nearest(columns_together(*r.sum, machine), blocks);
    p.parallel = Flag(pays_to_share(op, machine) && all > p.block);
    return p;
}

void visit_elements(Schedule &s, const Stage &stage, int64_t block, bool parallel) {
    const std::string at = scattered(stage)->axis, last = columns_of(stage, at);
    StageHandle sum = s.stage(stage.name);
    const int lanes = vector_lanes(s.machine(), stage.type);
    std::vector<LoopName> order;
    for (const Axis &a : stage.axes) {
        if (a.name() != at && a.name() != last) order.push_back(a.name());
    }
    LoopName inner = "", blocks = "";
    if (!last.empty()) {
        std::tie(blocks, inner) = sum.split(last, block);
        order.push_back(blocks);
    }
    for (const Axis &a : stage.reduction_axes) order.push_back(a.name());
    order.push_back(at);
    if (!last.empty()) order.push_back(inner);
    sum.reorder(order);
    const auto extent = last.empty() ? std::optional<int64_t>(0) : constant_extent(stage.axes.back());
    if (lanes > 1 && (!extent || *extent >= lanes)) {
        constexpr int64_t few = 8; // vectors; a loop over so few costs as much as they do
        sum.vectorize(inner, lanes);
        if (block > lanes && block <= few * lanes) sum.unroll(inner.name + ".o");
    }
    if (parallel && !last.empty()) sum.parallel(blocks);
    sum.scatter(at);
}

Schedule schedule_scatter(const Op &op, const Machine &machine, const ScatterParameters &p) {
    const ScatterRoles r = *scatter_roles(op);
    Schedule s(op, machine);
    visit_elements(s, *r.sum, p.block, p.parallel);
    if (!r.consumer.empty()) s.stage(r.sum->name).finish_in(r.consumer);
    return s;
}

} // namespace kumiko::library

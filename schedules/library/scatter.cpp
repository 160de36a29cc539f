#include "schedules/library/scatter.h"

#include "dsl/extern.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

struct ScatterRoles {
    const Stage *sum = nullptr;
    std::string at;       // the axis along which it scatters
    std::string last;     // another axis, whose neighbours are neighbours in memory; "" when there is none
    std::string consumer; // the elementwise stage of its results, an output; ""
};

// A scatter is the first stage, and of its results at most one is made, element by element.
std::optional<ScatterRoles> scatter_roles(const Op &op) {
    if (op.outputs().size() != 1 || op.stages().size() > 2) return std::nullopt;
    const Stage &sum = op.stages().front();
    const auto s = scattered(sum);
    if (!s || !identity_is_neutral(sum)) return std::nullopt;
    ScatterRoles r{&sum, s->axis, "", ""};
    if (sum.axes.back().name() != r.at) r.last = sum.axes.back().name();
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

} // namespace

bool is_scatter(const Op &op) { return scatter_roles(op).has_value(); }

ScatterParameters scatter_parameters(const Op &op, const Machine &machine) {
    const ScatterRoles r = *scatter_roles(op);
    const int64_t lanes = vector_lanes(machine, r.sum->type);
    const auto extent = r.last.empty() ? std::nullopt : constant_extent(r.sum->axes.back());
    const int64_t columns = std::max<int64_t>(extent.value_or(r.last.empty() ? 1 : 1 << 12), 1);
    std::vector<int64_t> blocks;
    for (int64_t n = lanes; n < columns; n *= 2) blocks.push_back(n);
    blocks.push_back((columns + lanes - 1) / lanes * lanes);
    ScatterParameters p;
    const int64_t threads = threads_of(machine), each = (columns + threads - 1) / threads;
    p.block = Tile::nearest(threads > 1 ? std::max(each, 4 * lanes) : columns, blocks);
    p.parallel = Flag(pays_to_share(op, machine) && columns > p.block);
    return p;
}

Schedule schedule_scatter(const Op &op, const Machine &machine, const ScatterParameters &p) {
    const ScatterRoles r = *scatter_roles(op);
    Schedule s(op, machine);
    StageHandle sum = s.stage(r.sum->name);
    const int lanes = vector_lanes(machine, r.sum->type);
    std::vector<LoopName> order;
    for (const Axis &a : r.sum->axes) {
        if (a.name() != r.at && a.name() != r.last) order.push_back(a.name());
    }
    LoopName inner = "", blocks = "";
    if (!r.last.empty()) {
        std::tie(blocks, inner) = sum.split(r.last, p.block);
        order.push_back(blocks);
    }
    for (const Axis &a : r.sum->reduction_axes) order.push_back(a.name());
    order.push_back(r.at);
    if (!r.last.empty()) order.push_back(inner);
    sum.reorder(order);
    const auto extent = r.last.empty() ? std::optional<int64_t>(0) : constant_extent(r.sum->axes.back());
    if (lanes > 1 && (!extent || *extent >= lanes)) sum.vectorize(inner, lanes);
    if (p.parallel && !r.last.empty()) sum.parallel(blocks);
    if (!r.consumer.empty()) sum.finish_in(r.consumer);
    sum.scatter(r.at);
    return s;
}

} // namespace kumiko::library

#include "schedules/library/structure.h"

#include "schedules/library/functions.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/scan.h"
#include "machine/machine.h"

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

const Call *as_read(const Expr &e) {
    if (const auto *cast = e.as<Cast>()) return as_read(cast->value);
    const auto *call = e.as<Call>();
    return call && call->call_type == Call::Image ? call : nullptr;
}

Operand operand(const Call *read, const Stage &stage) {
    Operand o{read->name, read->args, {}};
    struct Uses : IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> names;
        void visit(const Variable *v) override { names.insert(v->name); }
    } uses;
    for (const Expr &e : read->args) e.accept(&uses);
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (uses.names.count(a.name())) o.axes.insert(a.name());
        }
    }
    return o;
}

} // namespace

std::optional<Contraction> find_contraction(const Op &op, bool readers) {
    if (reads_before_update(op) || has_extern(op)) return std::nullopt; // what is fused would read what is replaced
    Contraction c;
    for (const Stage &s : op.stages()) {
        if (s.is_reduction()) {
            if (c.sum || s.reduction_kind != "sum") return std::nullopt;
            c.sum = &s;
        } else if (s.kind == Stage::Kind::Pointwise) {
            if (!scanned_axis(s).empty()) return std::nullopt;
            if (!c.sum || !c.consumer.empty() || !c.reader.empty() || !op.is_output(s.name)) return std::nullopt;
            const bool same = s.axes.size() == c.sum->axes.size() &&
                              std::equal(s.axes.begin(), s.axes.end(), c.sum->axes.begin(),
                                         [](const Axis &a, const Axis &b) { return a.name() == b.name(); });
            if (!same && !readers) return std::nullopt;
            (same ? c.consumer : c.reader) = s.name;
        } else if (c.sum) {
            return std::nullopt;
        }
    }
    const bool read = !c.consumer.empty() || !c.reader.empty();
    if (!c.sum || op.outputs().size() != 1 || op.is_output(c.sum->name) == read) return std::nullopt;
    const auto *product = c.sum->components[0].term.as<Mul>();
    if (!product) return std::nullopt;
    for (const Expr &e : {product->a, product->b}) {
        const Call *read = as_read(e);
        if (!read) return std::nullopt;
        c.operands.push_back(operand(read, *c.sum));
    }
    return c;
}

bool is_plain(const Operand &o) {
    return std::all_of(o.indices.begin(), o.indices.end(), [](const Expr &e) { return e.as<Variable>() != nullptr; });
}

std::optional<MatrixProduct> find_matrix_product(const Op &op) {
    const auto c = find_contraction(op);
    if (!c || c->sum->reduction_axes.size() != 1 || c->sum->axes.size() < 2) return std::nullopt;
    const auto &axes = c->sum->axes;
    MatrixProduct p{*c, axes[axes.size() - 2].name(), axes.back().name(), c->sum->reduction_axes[0].name(), {}, {}, {}};
    for (size_t d = 0; d + 2 < axes.size(); d++) p.batches.push_back(axes[d].name());
    const size_t of_columns = c->has(0, p.j) ? 0 : 1;
    p.b = c->operands[of_columns];
    p.a = c->operands[1 - of_columns];
    const bool good = p.a.axes.count(p.i) && p.a.axes.count(p.k) && !p.a.axes.count(p.j) && p.b.axes.count(p.j) &&
                      p.b.axes.count(p.k) && !p.b.axes.count(p.i) && p.a.tensor != p.b.tensor &&
                      op.find_input(p.a.tensor) && op.find_input(p.b.tensor);
    return good ? std::optional(p) : std::nullopt;
}

std::optional<int64_t> constant_extent(const Axis &axis) { return as_const_int(axis.extent()); }

const Axis *find_axis(const Stage &stage, const std::string &name) {
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (const Axis &a : *axes) {
            if (a.name() == name) return &a;
        }
    }
    return nullptr;
}

int vector_lanes(const Machine &machine, Type type) { return machine.lanes(std::max(type.bits(), 8)); }

int accumulator_registers(const Machine &machine) {
    return machine.vector_registers >= 32 ? 28 : machine.vector_registers >= 16 ? 12 : 6;
}

int64_t threads_of(const Machine &machine) {
    return std::max<int64_t>(1, machine.find_unit("core") ? machine.units_in_all("core") : 1);
}

bool pays_to_share(const Op &op, const Machine &machine) {
    constexpr int64_t worth = 1 << 16; // some microseconds
    int64_t steps = 0;
    for (const Stage &s : op.stages()) {
        int64_t of_stage = 1;
        for (const std::vector<Axis> *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                const auto extent = constant_extent(a);
                if (!extent) return threads_of(machine) > 1;
                of_stage *= std::min<int64_t>(*extent, worth);
                of_stage = std::min<int64_t>(of_stage, worth);
            }
        }
        steps += of_stage;
    }
    return threads_of(machine) > 1 && steps >= worth;
}

int64_t cache_bytes(const Machine &machine, const std::string &level, int64_t otherwise) {
    const MemoryLevel *l = machine.find_level(level);
    return l && l->bytes > 0 ? l->bytes : otherwise;
}

std::string smallest_level(const Machine &machine, int64_t bytes) {
    for (const char *cache : {"L2", "L3"}) {
        if (machine.find_level(cache) && 2 * bytes <= cache_bytes(machine, cache, 0)) return cache;
    }
    return machine.memory.back().name;
}

void reduce_row(Schedule &s, const std::string &name, int lanes, int64_t accumulators, const std::string &at) {
    StageHandle R = s.stage(name);
    const std::vector<Axis> axes = R.state().def.reduction_axes;
    size_t reduced = axes.size();
    LoopName along = axes.back().name();
    auto extent = constant_extent(axes.back());
    // Axes that are short by themselves, as those of small images and windows, are one: its elements follow each other where theirs do.
    const auto is_short = [&] { return *extent < lanes || (*extent % lanes && *extent < 4 * lanes); };
    for (size_t d = axes.size() - 1; d-- > 0 && lanes > 1 && extent && is_short();) {
        const auto outer = constant_extent(axes[d]);
        if (!outer) break;
        along = R.fuse(axes[d].name(), along);
        extent = *outer * *extent;
        reduced--;
    }
    int64_t vectors = extent ? std::clamp<int64_t>(*extent / lanes, 1, accumulators) : accumulators;
    if (reduced < axes.size() && *extent < 8 * lanes) vectors = 1; // few lanes beyond the end
    const int64_t least = reduced > 1 ? lanes : 2 * lanes;         // steps along other axes add to the same vectors
    if (lanes < 2 || (extent && *extent < least)) return;
    auto [o, i] = R.split(along, lanes * vectors);
    StageHandle P = R.rfactor(i); // partial results
    const std::string lane = P.state().def.axes.back().name();
    std::string row = at; // several axes may be one loop
    for (const std::string &l : R.state().order) {
        if (at.empty() && !R.state().loop(l).reduction) row = l;
    }
    if (P.state().def.axes.size() > 1) P.compute_at(name, row);
    std::vector<LoopName> order;
    for (const std::string &l : P.state().order) {
        if (l != lane) order.push_back(l);
    }
    order.push_back(lane);
    P.reorder(order);
    if (vectors > 1 && !calls_functions(P.state().def)) {
        P.vectorize(lane, lanes);
        P.unroll(lane + ".o");
    } else {
        P.vectorize(lane);
    }
    if (order.size() > 1 + reduced)
        s.accumulate_in(P.name(), "registers", order[order.size() - 2 - reduced]);
    else if (P.state().def.axes.size() > 1)
        P.place_in("registers");
    else // no loop stands outside of the reduction: rounds of it
        s.accumulate_in(P.name(), "registers", reduced > 1 ? order[0] : P.split(order[0], 64).first);
    constexpr int64_t few = 8; // vectors, as of a small image: their places are numbers, and a row has no loop
    if (reduced == 1 && extent && *extent <= few * lanes * vectors && !calls_functions(P.state().def)) {
        const LoopName steps = P.state().order[P.state().order.size() - (vectors > 1 ? 3 : 2)];
        if (P.state().loop(steps.name).reduction && P.state().loop(steps.name).kind == LoopKind::Serial)
            P.unroll(steps);
    }
    if (R.state().def.components.size() == 1) R.vectorize(R.state().order.back());
}

int64_t even_block(int64_t extent, int64_t wish, int64_t unit) {
    if (extent <= 0) return unit;
    const int64_t pieces = std::max<int64_t>(1, (extent + wish - 1) / wish);
    const int64_t block = (extent + pieces - 1) / pieces;
    return (block + unit - 1) / unit * unit;
}

} // namespace kumiko::library

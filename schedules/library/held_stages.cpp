#include "schedules/library/held_stages.h"

#include "dsl/extern.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// For each axis of a stage, the position of the host's axis that it equals wherever the stage is
// read.
using Positions = std::vector<std::optional<size_t>>;

std::optional<size_t> position_of(const Stage &stage, const Positions &positions, const Expr &index) {
    const auto *v = index.as<Halide::Internal::Variable>();
    for (size_t d = 0; v && d < stage.axes.size(); d++) {
        if (stage.axes[d].name() == v->name) return positions[d];
    }
    return std::nullopt;
}

double bytes_of(Type type, const std::vector<Axis> &axes) {
    double bytes = type.bytes();
    for (const Axis &a : axes) bytes *= static_cast<double>(constant_extent(a).value_or(1 << 10));
    return bytes;
}

// For an output that may run in the first loops of the host: the positions of these. Empty if it
// does not have the same axes there, or is not a pointwise stage at the root without readers.
Positions beside(const Schedule &s, const Stage &stage, const Stage &host, size_t depth) {
    if (!s.op().is_output(stage.name) || stage.kind != Stage::Kind::Pointwise || is_extern(stage) ||
        stage.reads_itself() || stage.axes.size() < depth || !s.state().readers(stage.name).empty() ||
        s.state().stage(stage.name).placement.kind != Placement::Kind::Root)
        return {};
    Positions positions(stage.axes.size());
    for (size_t d = 0; d < depth; d++) {
        if (stage.axes[d].name() != host.axes[d].name() ||
            !Halide::Internal::can_prove(stage.axes[d].extent() == host.axes[d].extent()))
            return {};
        positions[d] = d;
    }
    return positions;
}

} // namespace

std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed,
                                         const std::set<std::string> &apart) {
    const Op op = s.op();
    if (op.stages().size() > most_stages) return std::nullopt;
    const std::set<std::string> kept = kept_tensors(s.state());
    const Stage &h = op.stage(host);
    std::map<std::string, Positions> positions;
    Positions own;
    for (size_t d = 0; d < h.axes.size(); d++) own.push_back(d);
    positions[host] = own;
    if (!end.empty()) positions[end] = own; // has the axes of the host
    size_t common = h.axes.size();          // leading axes that all other outputs have
    for (const std::string &other : op.outputs()) {
        if (other == host || other == end) continue;
        const Stage &stage = op.stage(other);
        size_t d = std::min(stage.axes.size(), common);
        while (d > 0 && beside(s, stage, h, d).empty()) d--;
        common = d;
    }
    for (const std::string &other : op.outputs()) {
        if (other == host || other == end) continue;
        if (Positions leading = beside(s, op.stage(other), h, common); !leading.empty())
            positions[other] = std::move(leading);
    }
    std::map<std::string, std::vector<std::string>> readers;
    std::map<std::string, std::set<std::string>> inputs; // read by each stage
    for (size_t n = op.stages().size(); n-- > 0;) {      // consumers first
        const Stage &reader = op.stages()[n];
        if (!kept.count(reader.name)) continue;
        const auto known = positions.find(reader.name);
        for (const auto &[tensor, indices] : reads_of(op, reader, kept)) {
            const StageState *of = s.state().producer(tensor);
            if (!of) inputs[reader.name].insert(tensor);
            if (!of || of->name() == reader.name) continue;
            readers[of->name()].push_back(reader.name);
            const bool first = !positions.count(of->name());
            Positions &all = positions[of->name()];
            all.resize(indices.size());
            for (size_t d = 0; d < indices.size(); d++) {
                const auto p = known == positions.end() ? std::nullopt : position_of(reader, known->second, indices[d]);
                if (first)
                    all[d] = p;
                else if (all[d] != p)
                    all[d].reset();
            }
        }
    }
    const double room = static_cast<double>(cache_bytes(s.machine(), "L2", 512 << 10)) / 2;
    std::optional<HeldStages> best;
    double iterations = 1;
    for (size_t depth = 1; depth < h.axes.size() && depth <= common; depth++) {
        const auto extent = constant_extent(h.axes[depth - 1]);
        if (!extent) break;
        iterations *= static_cast<double>(*extent);
        HeldStages held{h.axes[depth - 1].name(), depth, {}, {}, {}};
        std::set<std::string> again; // inputs that the host reads too
        double bytes = 0, input_bytes = 0;
        bool whole = true; // no axis of `fixed` is outside
        const auto cuts = [&](const std::string &stage) {
            const auto found = fixed.find(stage);
            const std::vector<Axis> &axes = op.stage(stage).axes;
            for (size_t d = 0; found != fixed.end() && d < axes.size(); d++) {
                if (positions[stage][d] && *positions[stage][d] < depth && found->second.count(axes[d].name()))
                    return true;
            }
            return false;
        };
        if (cuts(host)) break;
        for (size_t n = op.stages().size(); n-- > 0;) {
            const Stage &stage = op.stages()[n];
            const auto known = positions.find(stage.name);
            if (!kept.count(stage.name) || stage.name == host || stage.name == end || known == positions.end())
                continue;
            if (op.is_output(stage.name) || apart.count(stage.name) || is_extern(stage) || stage.reads_itself() ||
                s.state().stage(stage.name).placement.kind != Placement::Kind::Root)
                continue;
            const auto other = [&](const std::string &r) { return r != host && r != end && op.is_output(r); };
            const auto inside = [&](const std::string &r) {
                return r == host || r == end || held.stages.count(r) || other(r);
            };
            if (!std::all_of(readers[stage.name].begin(), readers[stage.name].end(), inside)) continue;
            std::set<size_t> found;
            for (const auto &p : known->second) {
                if (p && *p < depth) found.insert(*p);
            }
            if (found.size() < depth) continue;
            const bool one = stage.kind == Stage::Kind::Pointwise && found.size() == stage.axes.size();
            // A stage with one element per iteration needs no vectors.
            whole = whole && (one || !cuts(stage.name));
            held.stages.insert(stage.name);
            const Positions &all = known->second;
            if (std::find(all.begin(), all.end(), std::optional(depth)) != all.end()) held.rows.insert(stage.name);
            bytes +=
                bytes_of(stage.type, stage.axes) * static_cast<double>(std::max<size_t>(1, stage.components.size()));
            for (const std::string &r : readers[stage.name]) {
                if (other(r)) held.beside.insert(r);
            }
            for (const std::string &tensor : inputs[stage.name]) {
                if (inputs[host].count(tensor) && again.insert(tensor).second)
                    input_bytes += bytes_of(s.state().type_of(tensor), s.state().axes_of(tensor));
            }
        }
        if (!whole || held.stages.empty()) break;
        const auto fits = [&](double n) { return bytes / n <= room && (bytes + input_bytes) / n <= 2 * room; };
        if (depth == 1 && fits(1)) return std::nullopt;
        best = std::move(held);
        if (fits(iterations)) break;
    }
    return best;
}

} // namespace kumiko::library

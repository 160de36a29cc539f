#include "schedules/library/held_stages.h"

#include "dsl/extern.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// For each axis of a stage the position of the host's axis that it equals wherever the stage is
// read.
using Positions = std::vector<std::optional<size_t>>;

std::optional<size_t> position_of(const Stage &stage, const Positions &positions, const Expr &index) {
    const auto *v = index.as<Halide::Internal::Variable>();
    for (size_t d = 0; v && d < stage.axes.size(); d++) {
        if (stage.axes[d].name() == v->name) return positions[d];
    }
    return std::nullopt;
}

double bytes_of(const Stage &stage) {
    double bytes = stage.type.bytes() * static_cast<double>(std::max<size_t>(1, stage.components.size()));
    for (const Axis &a : stage.axes) bytes *= static_cast<double>(constant_extent(a).value_or(1 << 10));
    return bytes;
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
    std::map<std::string, std::vector<std::string>> readers;
    for (size_t n = op.stages().size(); n-- > 0;) { // readers first
        const Stage &reader = op.stages()[n];
        if (!kept.count(reader.name)) continue;
        const auto known = positions.find(reader.name);
        for (const auto &[tensor, indices] : reads_of(op, reader, kept)) {
            const StageState *of = s.state().producer(tensor);
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
    for (size_t depth = 1; depth < h.axes.size(); depth++) {
        const auto extent = constant_extent(h.axes[depth - 1]);
        if (!extent) break;
        iterations *= static_cast<double>(*extent);
        HeldStages held{h.axes[depth - 1].name(), depth, {}, {}};
        double bytes = 0;
        bool whole = true; // no axis of `fixed` stands outside
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
            const auto inside = [&](const std::string &r) { return r == host || r == end || held.stages.count(r); };
            if (!std::all_of(readers[stage.name].begin(), readers[stage.name].end(), inside)) continue;
            std::set<size_t> found;
            for (const auto &p : known->second) {
                if (p && *p < depth) found.insert(*p);
            }
            if (found.size() < depth) continue;
            whole = whole && !cuts(stage.name);
            held.stages.insert(stage.name);
            const Positions &all = known->second;
            if (std::find(all.begin(), all.end(), std::optional(depth)) != all.end()) held.rows.insert(stage.name);
            bytes += bytes_of(stage);
        }
        if (!whole || held.stages.empty()) break;
        if (depth == 1 && bytes <= room) return std::nullopt;
        best = std::move(held);
        if (bytes / iterations <= room) break;
    }
    return best;
}

} // namespace kumiko::library

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

double stored_bytes(Type type, const std::vector<Axis> &axes) {
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

// Finds the stages that the loops of a host may hold.
class HoldSearch {
public:
    HoldSearch(const Schedule &s, const std::string &host, const std::string &end,
               const std::map<std::string, std::set<std::string>> &fixed, const std::set<std::string> &apart)
        : s_(s), op_(s.op()), host_(host), end_(end), fixed_(fixed), apart_(apart), h_(op_.stage(host)) {}

    std::optional<HeldStages> find() {
        place_outputs();
        place_stages();
        const double room = static_cast<double>(cache_bytes(s_.machine(), "L2", 512 << 10)) / 2;
        std::optional<HeldStages> best;
        double iterations = 1;
        for (size_t depth = 1; depth < h_.axes.size() && depth <= common_; depth++) {
            const auto extent = constant_extent(h_.axes[depth - 1]);
            if (!extent) break;
            iterations *= static_cast<double>(*extent);
            if (cuts(host_, depth)) break;
            Candidate c = stages_at(depth);
            if (!c.whole || c.held.stages.empty()) break;
            const auto fits = [&](double n) {
                return c.bytes / n <= room && (c.bytes + c.input_bytes) / n <= 2 * room;
            };
            if (depth == 1 && fits(1)) return std::nullopt;
            best = std::move(c.held);
            if (fits(iterations)) break;
        }
        return best;
    }

private:
    struct Candidate {
        HeldStages held;
        bool whole = true;                 // no axis of `fixed` is outside
        double bytes = 0, input_bytes = 0; // of results, and of inputs that the host reads too
    };

    bool is_other_output(const std::string &name) const { return name != host_ && name != end_ && op_.is_output(name); }

    // Positions of the outputs' axes, and the number of leading axes that all of them have.
    void place_outputs() {
        Positions own;
        for (size_t d = 0; d < h_.axes.size(); d++) own.push_back(d);
        positions_[host_] = own;
        if (!end_.empty()) positions_[end_] = own; // has the axes of the host
        common_ = h_.axes.size();
        for (const std::string &other : op_.outputs()) {
            if (!is_other_output(other)) continue;
            const Stage &stage = op_.stage(other);
            size_t d = std::min(stage.axes.size(), common_);
            while (d > 0 && beside(s_, stage, h_, d).empty()) d--;
            common_ = d;
        }
        for (const std::string &other : op_.outputs()) {
            if (!is_other_output(other)) continue;
            if (Positions leading = beside(s_, op_.stage(other), h_, common_); !leading.empty())
                positions_[other] = std::move(leading);
        }
    }

    // Positions of the other stages' axes, from those of their readers.
    void place_stages() {
        kept_ = kept_tensors(s_.state());
        for (size_t n = op_.stages().size(); n-- > 0;) { // consumers first
            const Stage &reader = op_.stages()[n];
            if (!kept_.count(reader.name)) continue;
            const auto known = positions_.find(reader.name);
            for (const auto &[tensor, indices] : reads_of(op_, reader, kept_)) {
                const StageState *of = s_.state().producer(tensor);
                if (!of) inputs_[reader.name].insert(tensor);
                if (!of || of->name() == reader.name) continue;
                readers_[of->name()].push_back(reader.name);
                const bool first = !positions_.count(of->name());
                Positions &all = positions_[of->name()];
                all.resize(indices.size());
                for (size_t d = 0; d < indices.size(); d++) {
                    const auto p =
                        known == positions_.end() ? std::nullopt : position_of(reader, known->second, indices[d]);
                    if (first)
                        all[d] = p;
                    else if (all[d] != p)
                        all[d].reset();
                }
            }
        }
    }

    // Whether the first `depth` loops divide an axis of the stage that is fixed.
    bool cuts(const std::string &stage, size_t depth) {
        const auto found = fixed_.find(stage);
        const std::vector<Axis> &axes = op_.stage(stage).axes;
        for (size_t d = 0; found != fixed_.end() && d < axes.size(); d++) {
            const auto &at = positions_[stage][d];
            if (at && *at < depth && found->second.count(axes[d].name())) return true;
        }
        return false;
    }

    bool may_be_held(const Stage &stage) const {
        return kept_.count(stage.name) && stage.name != host_ && stage.name != end_ && positions_.count(stage.name) &&
               !op_.is_output(stage.name) && !apart_.count(stage.name) && !is_extern(stage) && !stage.reads_itself() &&
               s_.state().stage(stage.name).placement.kind == Placement::Kind::Root;
    }

    // The stages of which one iteration of the first `depth` loops needs only a part.
    Candidate stages_at(size_t depth) {
        Candidate c{{h_.axes[depth - 1].name(), depth, {}, {}, {}}};
        std::set<std::string> again; // inputs that the host reads too
        for (size_t n = op_.stages().size(); n-- > 0;) {
            const Stage &stage = op_.stages()[n];
            if (!may_be_held(stage)) continue;
            const auto inside = [&](const std::string &r) {
                return r == host_ || r == end_ || c.held.stages.count(r) || is_other_output(r);
            };
            if (!std::all_of(readers_[stage.name].begin(), readers_[stage.name].end(), inside)) continue;
            const Positions &all = positions_.at(stage.name);
            std::set<size_t> found;
            for (const auto &p : all) {
                if (p && *p < depth) found.insert(*p);
            }
            if (found.size() < depth) continue;
            const bool one = stage.kind == Stage::Kind::Pointwise && found.size() == stage.axes.size();
            // A stage with one element per iteration needs no vectors.
            c.whole = c.whole && (one || !cuts(stage.name, depth));
            c.held.stages.insert(stage.name);
            if (std::find(all.begin(), all.end(), std::optional(depth)) != all.end()) c.held.rows.insert(stage.name);
            c.bytes += stored_bytes(stage.type, stage.axes) *
                       static_cast<double>(std::max<size_t>(1, stage.components.size()));
            for (const std::string &r : readers_[stage.name]) {
                if (is_other_output(r)) c.held.beside.insert(r);
            }
            for (const std::string &tensor : inputs_[stage.name]) {
                if (inputs_[host_].count(tensor) && again.insert(tensor).second)
                    c.input_bytes += stored_bytes(s_.state().type_of(tensor), s_.state().axes_of(tensor));
            }
        }
        return c;
    }

    const Schedule &s_;
    const Op op_;
    const std::string &host_, &end_;
    const std::map<std::string, std::set<std::string>> &fixed_;
    const std::set<std::string> &apart_;
    const Stage &h_;
    size_t common_ = 0; // leading axes that all other outputs have
    std::set<std::string> kept_;
    std::map<std::string, Positions> positions_;
    std::map<std::string, std::vector<std::string>> readers_;
    std::map<std::string, std::set<std::string>> inputs_; // read by each stage
};

} // namespace

std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed,
                                         const std::set<std::string> &apart) {
    if (s.op().stages().size() > most_stages) return std::nullopt;
    return HoldSearch(s, host, end, fixed, apart).find();
}

} // namespace kumiko::library

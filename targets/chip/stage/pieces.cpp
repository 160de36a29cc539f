#include "targets/chip/stage/pieces.h"

#include "schedules/parts.h"
#include "schedules/primitives/steps.h"
#include "support/error.h"
#include "targets/chip/stage/gather.h"

namespace kumiko::chip {

namespace ir = Halide::Internal;

namespace {

Part part_of(const StageState &s, const Piece &piece) {
    std::optional<Part> part;
    for (size_t d = 0; d < s.def.axes.size(); d++) {
        const auto first = ir::as_const_int(piece.box.min[d]), count = ir::as_const_int(piece.box.extent[d]),
                   all = ir::as_const_int(s.def.axes[d].extent());
        if (!first || !count || !all)
            throw UserError("stage " + s.name() + " has axis " + s.def.axes[d].name() +
                            " of an extent that is known only at run time; programs of the chip are made for given "
                            "sizes");
        if (*count == *all) continue;
        if (part)
            throw Unsupported("region " + piece.stage->name() + " of " + s.name() + " is cut along " + part->axis +
                              " and " + s.def.axes[d].name() + "; on the chip regions are along one axis");
        part = Part{s.name(), s.name(), s.def.axes[d].name(), *first, *count};
    }
    return *part;
}

// Duplicates the copies made at loops of `from` for `to`.
void copy_copies(const ScheduleState &state, const std::string &from, StageState &to, const std::string &suffix,
                 std::vector<StageState> &made) {
    std::vector<std::pair<std::string, std::string>> renamed;
    for (const StageState &s : state.stages) {
        if (!s.is_copy || s.placement.kind != Placement::Kind::At || s.placement.consumer != from) continue;
        StageState copy = s;
        copy.def.name += suffix;
        copy.placement.consumer = to.name();
        for (const auto &[before, now] : renamed) {
            redirect_reads(copy, before, now);
            if (copy.copied == before) copy.copied = now;
        }
        renamed.emplace_back(s.name(), copy.name());
        made.push_back(std::move(copy));
    }
    for (const auto &[before, now] : renamed) redirect_reads(to, before, now);
}

} // namespace

ScheduleState with_pieces(const ScheduleState &state) {
    ScheduleState made = state;
    made.stages.clear();
    for (const StageState &s : state.stages) {
        if (s.part) continue; // handled with the stage that it is a part of
        if (regions_of(state, s.name()).empty()) {
            made.stages.push_back(s);
            continue;
        }
        std::map<std::string, int> times;
        for (const Piece &p : pieces_of(state, s, whole_region(s.def))) {
            StageState piece = *p.stage;
            piece.part = part_of(s, p);
            const bool gathers = !s.def.is_reduction() && is_gather(s);
            if (gathers || (s.def.is_reduction() && !piece.tensorize))
                throw Unsupported("stage " + piece.name() + " is a part of " + s.name() +
                                  (gathers ? ", whose rows an input chooses" : ", a reduction without tensorize") +
                                  "; on the chip regions divide other stages that do not reduce, and products of the "
                                  "matrix unit");
            if (const int n = times[p.stage->name()]++) {
                const std::string suffix = "'" + std::to_string(n);
                piece.def.name += suffix;
                copy_copies(state, p.stage->name(), piece, suffix, made.stages);
            }
            made.stages.push_back(std::move(piece));
        }
    }
    return made;
}

void keep_part(Context &c, size_t first, const StageState &s) {
    int64_t step = 1, extent = 1;
    for (size_t d = s.def.axes.size(); d-- > 0;) {
        extent = *ir::as_const_int(s.def.axes[d].extent());
        if (s.def.axes[d].name() == s.part->axis) break;
        step *= extent;
    }
    for (size_t t = first; t < c.tensors.size(); t++) {
        if (!c.tensors[t].output) continue;
        c.tensors[t].name = s.tensor();
        c.tensors[t].each_word = [all = c.tensors[t].each_word, part = *s.part, step, extent](const WordVisitor &v) {
            std::vector<int64_t> kept;
            all([&](int group, int64_t word, const std::vector<int64_t> &elements) {
                kept = elements;
                for (int64_t &e : kept) {
                    const int64_t at = e / step % extent - part.first;
                    if (e >= 0 && (at < 0 || at >= part.count)) e = -1;
                }
                v(group, word, kept);
            });
        };
    }
}

} // namespace kumiko::chip

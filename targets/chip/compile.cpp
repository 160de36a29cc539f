#include "targets/chip/compile.h"

#include "dsl/extern.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/values.h"
#include "support/error.h"
#include "targets/chip/micro/micro_op.h"
#include "targets/chip/stage/gather.h"
#include "targets/chip/stage/pieces.h"
#include "targets/chip/stage/root_reduction.h"
#include "targets/chip/stage/stages.h"

#include <chrono>
#include <fmt/format.h>

namespace kumiko {

using namespace chip;

struct ChipProgram::Contents {
    Op op;
    sim::Config config;
    sim::Program program;
    std::vector<HostTensor> tensors;
    std::vector<HostConstant> constants;
    std::string l3, l2, l1;
    sim::Bounds bounds;
    std::shared_ptr<const ScheduleState> state; // that the plans refer to
    int64_t operations = 0;
    double seconds = 0;
};

const Op &ChipProgram::op() const { return contents_->op; }
const sim::Config &ChipProgram::config() const { return contents_->config; }
const sim::Program &ChipProgram::program() const { return contents_->program; }
std::string ChipProgram::l3() const { return contents_->l3; }
std::string ChipProgram::l2() const { return contents_->l2; }
std::string ChipProgram::l1() const { return contents_->l1; }
std::string ChipProgram::words() const {
    std::string tables;
    for (const HostConstant &k : contents_->constants)
        tables +=
            fmt::format("; the host writes {} LW to dram[{}] of group {} first: a table of granules, or numbers\n",
                        k.words.size(), k.dram, k.group);
    return tables + sim::disassemble(contents_->program);
}
int64_t ChipProgram::operations() const { return contents_->operations; }
double ChipProgram::seconds() const { return contents_->seconds; }

namespace {

double product(const std::vector<Axis> &axes) {
    double n = 1;
    for (const Axis &a : axes) n *= double(evaluate_size(a.extent(), {}));
    return n;
}

// That the stage computes.
double elements(const StageState &s) {
    double n = 1;
    for (const Axis &a : s.def.axes)
        n *= s.part && s.part->axis == a.name() ? double(s.part->count) : double(evaluate_size(a.extent(), {}));
    return n;
}

// Where elements of a dense row-major tensor stand in the caller's array, in bytes.
class Elements {
public:
    explicit Elements(const Buffer<> &b) : data_(reinterpret_cast<uint8_t *>(b.data())), bytes_(b.type().bytes()) {
        for (size_t d = 0; d < b.rank(); d++) {
            extents_.push_back(b.extent(d));
            strides_.push_back(b.stride(d));
        }
        dense_ = strides_ == dense_strides(extents_);
    }
    uint8_t *at(int64_t element) const {
        if (dense_) return data_ + element * bytes_;
        int64_t offset = 0;
        for (size_t d = extents_.size(); d-- > 0;) {
            offset += element % extents_[d] * strides_[d];
            element /= extents_[d];
        }
        return data_ + offset * bytes_;
    }
    int bytes() const { return bytes_; }

private:
    uint8_t *data_;
    int bytes_;
    std::vector<int64_t> extents_, strides_;
    bool dense_ = true;
};

void write_input(const HostTensor &t, const Buffer<> &array, sim::HostMemory &memory, int groups) {
    const Elements from(array);
    std::vector<std::vector<uint64_t>> images(static_cast<size_t>(groups), std::vector<uint64_t>(size_t(t.words)));
    t.each_word([&](int group, int64_t word, const std::vector<int64_t> &elements) {
        uint64_t bits = 0;
        for (size_t e = 0; e < elements.size(); e++) {
            if (elements[e] < 0) continue; // padding is zero
            uint64_t lane = 0;
            std::memcpy(&lane, from.at(elements[e]), size_t(from.bytes()));
            bits |= lane << (8 * size_t(from.bytes()) * e);
        }
        images[size_t(group)][size_t(word)] = bits;
    });
    for (int g = 0; g < groups; g++) memory.write_dram(g, t.dram, images[size_t(g)]);
}

void read_output(const HostTensor &t, const Buffer<> &array, const sim::HostMemory &memory, int groups) {
    const Elements to(array);
    std::vector<std::vector<uint64_t>> images(static_cast<size_t>(groups));
    t.each_word([&](int group, int64_t word, const std::vector<int64_t> &elements) {
        std::vector<uint64_t> &image = images[size_t(group)];
        if (image.empty()) {
            image.resize(size_t(t.words));
            memory.read_dram(group, t.dram, image);
        }
        for (size_t e = 0; e < elements.size(); e++) {
            if (elements[e] < 0) continue;
            const uint64_t lane = image[size_t(word)] >> (8 * size_t(to.bytes()) * e);
            std::memcpy(to.at(elements[e]), &lane, size_t(to.bytes()));
        }
    });
}

} // namespace

sim::Run ChipProgram::run(const std::vector<Buffer<>> &arrays, const sim::SimulateOptions &options) const {
    const Contents &c = *contents_;
    const size_t inputs = c.op.inputs().size(), outputs = c.op.outputs().size();
    if (arrays.size() != inputs + outputs)
        throw UserError(fmt::format("op {} takes {} arrays, {} inputs and {} outputs; {} are given", c.op.name(),
                                    inputs + outputs, inputs, outputs, arrays.size()));
    sim::HostMemory memory(c.config);
    for (size_t i = 0; i < inputs; i++) {
        const Input &in = c.op.inputs()[i];
        check_input(c.op, in, arrays[i].raw_buffer(), {});
        for (const HostTensor &t : c.tensors) {
            if (!t.output && t.name == in.name) write_input(t, arrays[i], memory, c.config.groups);
        }
    }
    for (const HostConstant &k : c.constants) memory.write_dram(k.group, k.dram, k.words);
    for (size_t o = 0; o < outputs; o++) check_output(c.op, c.op.outputs()[o], arrays[inputs + o].raw_buffer(), {});
    sim::Run run = sim::simulate(c.program, c.config, memory, options);
    run.program = c.op.name();
    run.bounds = c.bounds;
    for (size_t o = 0; o < outputs; o++) {
        for (const HostTensor &t : c.tensors) {
            if (t.output && t.name == c.op.outputs()[o]) read_output(t, arrays[inputs + o], memory, c.config.groups);
        }
    }
    return run;
}

namespace {

// What roads and stages count on.
void require_rates(const sim::Config &c) {
    if (c.links.l2_broadcast != 16 || c.links.l2_scatter != 8 || c.moves.block != 64 || c.moves.granule != 16 ||
        c.moves.table != 1024)
        throw Unsupported(fmt::format(
            "chip {} has L2 links of {} and {} LW a cycle (broadcast, scatter), moves of {} LW, granules of {} "
            "and tables of {} entries; the compiler is built for 16 and 8, 64, 16, 1024",
            c.name, c.links.l2_broadcast, c.links.l2_scatter, c.moves.block, c.moves.granule, c.moves.table));
}

} // namespace

ChipProgram compile_chip(const Schedule &schedule) {
    return compile_chip(schedule, chip_config(schedule.machine().name));
}

ChipProgram compile_chip(const Schedule &schedule, const sim::Config &config, Packing packing) {
    const auto begin = std::chrono::steady_clock::now();
    const Op &op = schedule.op();
    if (schedule.machine().architecture != "chip")
        throw UserError("the schedule is one for machine " + schedule.machine().name + ", not for the chip");
    require_rates(config);
    if (!op.sizes().empty())
        throw UserError("op " + op.name() + " has size " + op.sizes().front() +
                        ", known only at run time; programs of the chip are made for given sizes");
    for (const Input &in : op.inputs()) {
        if (in.inout)
            throw Unsupported("op " + op.name() + " updates its input " + in.name +
                              " in place; programs of the chip have outputs of their own");
    }
    for (const Stage &s : op.stages()) {
        if (is_extern(s))
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " is made by an extern function, which the chip cannot call");
        if (const std::string axis = scanned_axis(s); !axis.empty())
            throw Unsupported("stage " + s.name + " is a scan along " + axis + "; the chip has no scans");
        if (const auto scatter = scattered(s); scatter && !tensors_read(scatter->index).empty())
            throw Unsupported("stage " + s.name + " is a scatter along " + scatter->axis +
                              "; the chip writes to no address that is read");
        for (const Axis &k : s.reduction_axes) {
            if (evaluate_size(k.extent(), {}) == 0)
                throw Unsupported("stage " + s.name + " reduces over axis " + k.name() +
                                  ", which has no elements; the chip's reductions have one at least");
        }
    }
    if (!schedule.specializations().empty())
        throw UserError("the schedule is specialised by sizes, which a program of the chip does not have");
    for (const Assume &a : schedule.state().assumptions) {
        if (is_about_values(a.condition))
            throw Unsupported("the assumption " + a.text + ": a program of the chip looks at no values before it runs");
    }
    for (const StageState &s : schedule.state().stages) {
        if (s.prepacked && !s.is_copy)
            throw Unsupported("stage " + s.name() + " is computed ahead of time; on the chip copies of inputs are");
        if (s.online)
            throw Unsupported("stage " + s.name() + " is online with " + s.online->max +
                              "; on the chip a maximum is complete before sums use it");
        if (s.waiting)
            throw Unsupported("partial results of stage " + s.name() + " wait in " + s.waiting->level +
                              " between rounds; on the chip all of a sum is made in one round");
    }
    try {
        auto contents = std::make_shared<ChipProgram::Contents>(ChipProgram::Contents{.op = op, .config = config});
        contents->state = std::make_shared<ScheduleState>(with_results_stored(with_pieces(schedule.state())));
        const ScheduleState &state = *contents->state;
        Context c(contents->config, packing);
        for (const StageState &s : state.stages) {
            if (s.is_copy && s.def.type != state.type_of(s.copied))
                throw Unsupported("stage " + s.name() + " is held as " + type_name(s.def.type) +
                                  "; on the chip copies have the type of what they copy");
            if (s.is_copy || s.placement.kind == Placement::Kind::Inline || !s.finished_by.empty()) continue;
            if (s.placement.kind == Placement::Kind::At) { // with the stage at the root
                const StageState &consumer = state.stage(s.placement.consumer);
                if (consumer.def.is_reduction() || consumer.placement.kind != Placement::Kind::Root)
                    throw Unsupported(
                        "stage " + s.name() + " is computed at a loop of " + consumer.name() +
                        "; on the chip stages are computed at a loop of one at the root that does not reduce");
                continue;
            }
            const bool leaves = op.is_output(s.finished_into.empty() ? s.tensor() : s.finished_into);
            if (!leaves)
                throw Unsupported(
                    "stage " + s.name() +
                    " stands at the root and is read by another stage; on the chip results stay where they "
                    "are made: compute_at a loop of the stage that reads it, inline it, or finish it in the reduction "
                    "before");
            const size_t before = c.tensors.size();
            if (!s.def.is_reduction() && is_gather(s))
                lower_gather(c, state, s);
            else if (!s.def.is_reduction())
                lower_pointwise(c, state, s);
            else if (s.tensorize)
                lower_contraction(c, state, s, s.finished_into.empty() ? nullptr : &state.stage(s.finished_into));
            else
                throw Unsupported(
                    "stage " + s.name() + " is a reduction without tensorize, finished in " + s.finished_into +
                    "; reductions without the matrix unit are computed at a loop of the stage that reads them");
            if (s.part) {
                keep_part(c, before, s);
                c.planner.release();
            }
            if (s.def.is_reduction() && s.tensorize)
                contents->bounds.macs += elements(s) * product(s.def.reduction_axes);
        }
        double &bytes = contents->bounds.compulsory_dram_bytes;
        for (const std::string &o : op.outputs()) bytes += product(state.axes_of(o)) * state.type_of(o).bytes();
        for (const Input &in : op.inputs()) {
            if (bytes > 0) // else nothing is asked of it
                bytes += c.needed.contains(in.name) ? c.needed.at(in.name) : product(in.axes) * in.type.bytes();
        }
        contents->program = c.packer.finish();
        contents->program.words = fold(contents->program.words, config);
        contents->tensors = std::move(c.tensors);
        contents->constants = std::move(c.constants);
        contents->l3 = c.l3;
        contents->l2 = c.l2;
        contents->l1 = c.packer.first_operations();
        contents->operations = c.packer.operations();
        contents->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return ChipProgram(contents);
    } catch (const Halide::Error &e) {
        throw InternalError(std::string("compile_chip: ") + e.what());
    }
}

} // namespace kumiko

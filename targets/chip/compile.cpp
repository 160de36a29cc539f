#include "targets/chip/compile.h"

#include "machine/machine.h"
#include "support/error.h"
#include "targets/chip/micro/micro_op.h"
#include "targets/chip/stage/pieces.h"
#include "targets/chip/stage/program.h"
#include "targets/chip/stage/root_reduction.h"

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
    std::shared_ptr<const ScheduleState> state; // the plans refer to it
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

// Byte offsets of the elements of a dense row-major tensor in the caller's array.
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

ChipProgram compile_chip(const Schedule &schedule, const std::atomic<bool> *stop) {
    return compile_chip(schedule, chip_config(schedule.machine().name), Packing::Full, stop);
}

ChipProgram compile_chip(const Schedule &schedule, const sim::Config &config, Packing packing,
                         const std::atomic<bool> *stop) {
    if (packing == Packing::Counted) throw InternalError("Packing::Counted makes no program; use count_chip");
    const auto begin = std::chrono::steady_clock::now();
    const Op &op = schedule.op();
    require_program(schedule, config);
    try {
        auto contents = std::make_shared<ChipProgram::Contents>(ChipProgram::Contents{.op = op, .config = config});
        contents->state = std::make_shared<ScheduleState>(with_results_stored(with_pieces(schedule.state())));
        const ScheduleState &state = *contents->state;
        Context c(contents->config, packing, stop);
        contents->bounds = lower_stages(c, op, state);
        contents->program = c.packer.finish();
        contents->program.words = fold(contents->program.words, config, stop);
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

#include "autotune/task.h"

#include "autotune/measurer/protocol.h"
#include "dsl/elements.h"
#include "dsl/extern.h"
#include "support/duration.h"
#include "support/memory.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kumiko {

namespace {

size_t aligned(size_t n) { return (n + 63) / 64 * 64; }

const void *first_byte(const Buffer<> &b) { return b.begin(); }

} // namespace

void require_measurable(const Op &op) {
    if (has_extern(op))
        throw Unsupported("op " + op.name() +
                          " calls an extern function, which the process that measures does not have; tune the parts "
                          "before and after it as ops of their own");
}

MeasureTask::MeasureTask(const Op &op, const Sizes &sizes, uint64_t seed, double longest) {
    require_measurable(op);
    require_memory(op, sizes, longest);
    for (const std::string &name : op.outputs()) { // outputs are compared as a whole
        const std::string &updated = op.stage(name).updates;
        const Buffer<> out =
            updated.empty() ? make_output(op, name, sizes) : make_input(*op.find_input(updated), sizes);
        if (strides_of(out.raw_buffer()) != dense_strides(out.extents()))
            throw UserError("output " + name + " of op " + op.name() + " has gaps between its rows at these sizes (" +
                            describe(out.raw_buffer()) + "); tune it where it is dense");
    }
    const Stopwatch watch;
    const JudgedArrays arrays = make_judged_arrays(op, sizes, seed, longest);
    const bool bounded = !arrays.bounds.empty();
    exact_ = arrays.exact;
    sampled_ = arrays.sampled;
    reference_seconds_ = watch.seconds();

    measurer_task header{MEASURER_MAGIC, MEASURER_VERSION, 0, 0, 0};
    std::vector<int64_t> values;
    for (const std::string &size : op.sizes()) values.push_back(sizes.at(size));
    std::vector<measurer_tensor> tensors;
    std::vector<std::pair<const Buffer<> *, uint64_t>> contents; // what goes where
    std::vector<std::pair<uint64_t, const std::vector<int64_t> *>> places;
    header.sizes = static_cast<uint32_t>(values.size());
    header.tensors = static_cast<uint32_t>(op.inputs().size() + op.separate_outputs().size());
    size_t at = aligned(sizeof header + values.size() * 8 + header.tensors * sizeof(measurer_tensor));
    const auto add = [&](const Buffer<> &b) {
        contents.emplace_back(&b, at);
        at = aligned(at + b.size_in_bytes());
        return contents.back().second;
    };
    const auto describe = [&](Type type, bool output, size_t bytes, size_t elements, uint64_t data, size_t samples,
                              uint64_t before) {
        tensors.push_back({static_cast<uint8_t>(type.code()), static_cast<uint8_t>(type.bits()), output,
                           static_cast<uint8_t>(!output || !bounded ? 0
                                                : sampled_          ? 2
                                                                    : 1),
                           static_cast<uint32_t>(samples), bytes, elements, data, before});
    };
    const auto describe_output = [&](size_t i, uint64_t before) {
        const Buffer<> &b = arrays.expected[i];
        const Buffer<> like = make_output(op, op.outputs()[i], sizes);
        const Type type = like.type();
        const size_t begin = at, elements = like.number_of_elements(), samples = sampled_ ? b.number_of_elements() : 0;
        if (samples > 0) {
            places.emplace_back(begin, &arrays.places[i]);
            at += samples * sizeof(int64_t);
        }
        contents.emplace_back(&b, at);
        at += b.size_in_bytes();
        if (bounded) { // the bounds follow at once
            contents.emplace_back(&arrays.bounds[i], at);
            at += arrays.bounds[i].size_in_bytes();
        }
        at = aligned(at);
        describe(type, true, elements * type.bytes(), elements, begin, samples, before);
    };
    for (size_t i = 0; i < arrays.inputs.size(); i++) {
        const Buffer<> &b = arrays.inputs[i];
        const Input &in = op.inputs()[i];
        size_t update = 0;
        while (in.inout && op.stage(op.outputs()[update]).updates != in.name) update++;
        if (in.inout)
            describe_output(update, add(b));
        else
            describe(in.type, false, b.size_in_bytes(), b.number_of_elements(), add(b), 0, 0);
    }
    for (size_t i = 0; i < arrays.expected.size(); i++) {
        if (op.stage(op.outputs()[i]).updates.empty()) describe_output(i, 0);
    }
    header.bytes = bytes_ = at;
    for (const measurer_tensor &t : tensors) bytes_ += t.bytes;

    descriptor_ = memfd_create("kumiko-task", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *mapped = MAP_FAILED;
    if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(at)) == 0)
        mapped = mmap(nullptr, at, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) {
        const std::string cause = std::strerror(errno);
        if (descriptor_ >= 0) close(descriptor_);
        throw UserError("no memory for the tensors of " + op.name() + ", which take " +
                        bytes_text(static_cast<double>(at)) + " of the " +
                        bytes_text(static_cast<double>(machine_memory())) + " that this machine has: " + cause);
    }
    auto *bytes = static_cast<uint8_t *>(mapped);
    std::memcpy(bytes, &header, sizeof header);
    if (!values.empty()) std::memcpy(bytes + sizeof header, values.data(), values.size() * 8);
    std::memcpy(bytes + sizeof header + values.size() * 8, tensors.data(), tensors.size() * sizeof(measurer_tensor));
    for (const auto &[buffer, offset] : contents)
        std::memcpy(bytes + offset, first_byte(*buffer), buffer->size_in_bytes());
    for (const auto &[offset, all] : places) std::memcpy(bytes + offset, all->data(), all->size() * sizeof(int64_t));
    munmap(mapped, at);
    fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

MeasureTask::~MeasureTask() { close(descriptor_); }

} // namespace kumiko

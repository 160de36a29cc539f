#include "autotune/task.h"

#include "autotune/measurer.h"
#include "autotune/measurer/protocol.h"
#include "dsl/buffer_elements.h"
#include "dsl/extern.h"
#include "support/duration.h"
#include "support/memory.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <link.h>
#include <span>
#include <sys/mman.h>
#include <unistd.h>

namespace kumiko {

namespace {

size_t aligned(size_t n) { return (n + 63) / 64 * 64; }

const void *first_byte(const Buffer<> &b) { return b.begin(); }

// How a measurer locates a function of this process.
measurer_function locate_extern_function(const Op &op, const ExternFunction &function) {
    const auto refuse = [&](const std::string &why) -> measurer_function {
        throw Unsupported("op " + op.name() + " calls the extern function \"" + function.symbol + "\", " + why);
    };
    if (function.symbol.empty()) return refuse("which candidates call by its symbol; give ExternFunction::symbol");
    const auto *code = reinterpret_cast<const uint8_t *>(extern_address(function));
    Dl_info info;
    void *found = nullptr;
    if (!dladdr1(code, &info, &found, RTLD_DL_LINKMAP) || !found)
        return refuse("which is in no file that the measuring process could load");
    const auto *library = static_cast<const link_map *>(found);
    const bool of_program = !*library->l_name;
    if (of_program && !acts_as_measurer())
        return refuse("defined in this program, which the measuring process cannot load; begin main with "
                      "kumiko::act_as_measurer(argc, argv), or define it in a shared library");
    const std::string file = of_program ? "" : std::filesystem::absolute(library->l_name).string();
    measurer_function f{};
    if (file.size() >= sizeof f.file || function.symbol.size() >= sizeof f.symbol)
        return refuse(fmt::format("of {}; paths must be shorter than {} bytes, and symbols than {}", file,
                                  sizeof f.file, sizeof f.symbol));
    function.symbol.copy(f.symbol, sizeof f.symbol);
    file.copy(f.file, sizeof f.file);
    std::copy_n(code, sizeof f.code, f.code);
    f.offset = reinterpret_cast<uintptr_t>(code) - library->l_addr;
    return f;
}

std::vector<measurer_function> extern_functions(const Op &op) {
    std::vector<measurer_function> functions;
    for (const Stage &stage : op.stages()) {
        if (is_extern(stage)) functions.push_back(locate_extern_function(op, extern_function(extern_call(stage))));
    }
    return functions;
}

} // namespace

void require_measurable(const Op &op) { extern_functions(op); }

namespace {

// Outputs are compared as whole arrays.
void require_dense_outputs(const Op &op, const Sizes &sizes) {
    for (const std::string &name : op.outputs()) {
        const std::string &updated = op.stage(name).updates;
        const Buffer<> out =
            updated.empty() ? make_output(op, name, sizes) : make_input(*op.find_input(updated), sizes);
        if (strides_of(out.raw_buffer()) != dense_strides(out.extents()))
            throw UserError("output " + name + " of op " + op.name() + " has gaps between its rows at these sizes (" +
                            describe(out.raw_buffer()) + "); tune it where it is dense");
    }
}

// The file of a task: its header, sizes, tensors and functions, then the contents of the tensors.
class TaskFile {
public:
    TaskFile(const Op &op, const Sizes &sizes, const MeasuredArrays &arrays,
             const std::vector<measurer_function> &functions)
        : op_(op), sizes_(sizes), arrays_(arrays), functions_(functions) {
        header_.magic = MEASURER_MAGIC, header_.version = MEASURER_VERSION;
        for (const std::string &size : op.sizes()) values_.push_back(sizes.at(size));
        header_.sizes = static_cast<uint32_t>(values_.size());
        header_.tensors = static_cast<uint32_t>(op.inputs().size() + op.separate_outputs().size());
        header_.functions = static_cast<uint32_t>(functions.size());
        at_ = aligned(sizeof header_ + values_.size() * sizeof(int64_t) + header_.tensors * sizeof(measurer_tensor) +
                      functions.size() * sizeof(measurer_function));
        for (size_t i = 0; i < arrays.inputs.size(); i++) add_input(i);
        for (size_t i = 0; i < arrays.expected.size(); i++) {
            if (op.stage(op.outputs()[i]).updates.empty()) add_output(i, 0);
        }
        header_.bytes = at_;
    }

    size_t bytes() const { return at_; }

    // Bytes of the file, and of the arrays that the measurer allocates.
    size_t bytes_in_all() const {
        size_t all = at_;
        for (const measurer_tensor &t : tensors_) all += t.bytes;
        return all;
    }

    void write_to(uint8_t *bytes) const {
        uint8_t *next = bytes;
        const auto append = [&](const auto &all) {
            next = std::copy_n(reinterpret_cast<const uint8_t *>(all.data()), all.size() * sizeof *all.data(), next);
        };
        append(std::span(&header_, 1));
        append(values_);
        append(tensors_);
        append(functions_);
        for (const auto &[buffer, offset] : contents_)
            std::memcpy(bytes + offset, first_byte(*buffer), buffer->size_in_bytes());
        for (const auto &[offset, all] : places_)
            std::memcpy(bytes + offset, all->data(), all->size() * sizeof(int64_t));
    }

private:
    uint64_t add(const Buffer<> &b) {
        contents_.emplace_back(&b, at_);
        at_ = aligned(at_ + b.size_in_bytes());
        return contents_.back().second;
    }

    void add_tensor(Type type, bool output, size_t bytes, size_t elements, uint64_t data, size_t samples,
                    uint64_t before) {
        const bool bounded = !arrays_.bounds.empty();
        tensors_.push_back({static_cast<uint8_t>(type.code()), static_cast<uint8_t>(type.bits()), output,
                            static_cast<uint8_t>(!output || !bounded ? 0
                                                 : arrays_.sampled   ? 2
                                                                     : 1),
                            static_cast<uint32_t>(samples), bytes, elements, data, before});
    }

    void add_input(size_t i) {
        const Buffer<> &b = arrays_.inputs[i];
        const Input &in = op_.inputs()[i];
        size_t update = 0;
        while (in.inout && op_.stage(op_.outputs()[update]).updates != in.name) update++;
        if (in.inout)
            add_output(update, add(b));
        else
            add_tensor(in.type, false, b.size_in_bytes(), b.number_of_elements(), add(b), 0, 0);
    }

    // `before`: the offset of the contents that an update overwrites; 0 for other outputs.
    void add_output(size_t i, uint64_t before) {
        const Buffer<> &b = arrays_.expected[i];
        const Buffer<> like = make_output(op_, op_.outputs()[i], sizes_);
        const Type type = like.type();
        const size_t begin = at_, elements = like.number_of_elements(),
                     samples = arrays_.sampled ? b.number_of_elements() : 0;
        if (samples > 0) {
            places_.emplace_back(begin, &arrays_.places[i]);
            at_ += samples * sizeof(int64_t);
        }
        contents_.emplace_back(&b, at_);
        at_ += b.size_in_bytes();
        if (!arrays_.bounds.empty()) { // the bounds follow immediately
            contents_.emplace_back(&arrays_.bounds[i], at_);
            at_ += arrays_.bounds[i].size_in_bytes();
        }
        at_ = aligned(at_);
        add_tensor(type, true, elements * type.bytes(), elements, begin, samples, before);
    }

    const Op &op_;
    const Sizes &sizes_;
    const MeasuredArrays &arrays_;
    const std::vector<measurer_function> &functions_;
    measurer_task header_{};
    std::vector<int64_t> values_;
    std::vector<measurer_tensor> tensors_;
    std::vector<std::pair<const Buffer<> *, uint64_t>> contents_; // contents and their offsets
    std::vector<std::pair<uint64_t, const std::vector<int64_t> *>> places_;
    size_t at_ = 0; // offset of the next array
};

} // namespace

MeasureTask::MeasureTask(const Op &op, const Sizes &sizes, uint64_t seed, double longest) {
    const std::vector<measurer_function> functions = extern_functions(op);
    require_memory(op, sizes, longest);
    require_dense_outputs(op, sizes);
    const Stopwatch watch;
    const MeasuredArrays arrays = make_measured_arrays(op, sizes, seed, longest);
    exact_ = arrays.exact;
    calls_functions_ = !functions.empty();
    calls_this_program_ =
        std::any_of(functions.begin(), functions.end(), [](const measurer_function &f) { return !*f.file; });
    sampled_ = arrays.sampled;
    reference_seconds_ = watch.seconds();
    const TaskFile file(op, sizes, arrays, functions);
    bytes_ = file.bytes_in_all();

    descriptor_ = memfd_create("kumiko-task", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *mapped = MAP_FAILED;
    if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(file.bytes())) == 0)
        mapped = mmap(nullptr, file.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) {
        const std::string cause = std::strerror(errno);
        if (descriptor_ >= 0) close(descriptor_);
        throw UserError("no memory for the tensors of " + op.name() + ", which take " +
                        bytes_text(static_cast<double>(bytes_)) + " of the " +
                        bytes_text(static_cast<double>(machine_memory())) + " that this machine has: " + cause);
    }
    file.write_to(static_cast<uint8_t *>(mapped));
    munmap(mapped, file.bytes());
    fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

MeasureTask::~MeasureTask() { close(descriptor_); }

} // namespace kumiko

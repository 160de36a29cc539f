#include "driver/expected.h"

#include "autotune/exact.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/error.h"

namespace kumiko {

void CheckArrays::check(const std::vector<Buffer<>> &actual) const {
    for (size_t i = 0; i < outputs.size(); i++) {
        if (!exact) {
            check_within(actual.at(i), outputs[i], bounds[i]);
        } else if (const std::string what = difference(actual.at(i), outputs[i]); !what.empty()) {
            throw UserError(what);
        }
    }
}

CheckArrays make_check_arrays(const Op &op, const Sizes &sizes, uint64_t seed) {
    for (const std::string &s : op.sizes()) {
        if (!sizes.count(s))
            throw UserError("op \"" + op.name() + "\": size " + s + " has no value; give it a value, as --sizes " + s +
                            "=100");
    }
    const Stopwatch watch;
    CheckArrays a;
    const auto magnitude = exact_input_magnitude(op, sizes);
    a.exact = magnitude.has_value();
    for (const Input &in : op.inputs()) {
        a.inputs.push_back(make_input(in, sizes));
        const Buffer<> &b = a.inputs.back();
        if (a.exact)
            fill_random_integers(b, seed++, in.type.is_uint() ? 0 : -*magnitude, *magnitude);
        else if (in.type.is_float())
            fill_random(b, seed++, -1, 1);
        else
            fill_random_integers(b, seed++, in.type.is_uint() ? 0 : -4, 4);
    }
    if (a.exact) {
        a.outputs = interpret(op, with_inouts_copied(op, a.inputs), {.sizes = sizes});
    } else {
        Bounded bounded = interpret_with_bound(op, a.inputs, sizes);
        a.outputs = std::move(bounded.values);
        a.bounds = std::move(bounded.bounds);
    }
    a.seconds = watch.seconds();
    return a;
}

void write_check_files(const LibraryDescription &library, const std::filesystem::path &folder,
                       const std::function<void(size_t, size_t, const std::string &)> &progress) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw UserError("cannot make the folder " + folder.string() + ": " + error.message());
    size_t done = 0;
    for (const LibraryKernel &k : library.kernels) {
        if (progress) progress(done++, library.kernels.size(), k.name);
        const Sizes sizes = k.sizes_for_test();
        CheckArrays a = make_check_arrays(k.op, sizes);
        if (!a.exact) a.outputs = interpret(k.op, with_inouts_copied(k.op, a.inputs), {.sizes = sizes});
        std::vector<std::pair<std::string, std::string>> files;
        const auto add = [&](const std::string &tensor, const Buffer<> &b) {
            files.emplace_back((folder / (k.name + "." + tensor + ".bin")).string(),
                               std::string(reinterpret_cast<const char *>(b.data()), b.size_in_bytes()));
        };
        for (size_t i = 0; i < a.inputs.size(); i++) add(k.op.inputs()[i].name, a.inputs[i]);
        for (size_t i = 0; i < a.outputs.size(); i++) add(k.op.outputs()[i], a.outputs[i]);
        write_files_atomically(files);
    }
    if (progress) progress(library.kernels.size(), library.kernels.size(), "");
}

} // namespace kumiko

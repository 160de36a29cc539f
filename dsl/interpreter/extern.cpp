// Extern stages: calls the function on arrays of the declared types.
#include "dsl/extern.h"
#include "dsl/buffer_elements.h"
#include "dsl/interpreter/program.h"
#include "support/error.h"

#include <limits>

namespace kumiko::interpreter {

namespace {

// Calls f(offset in elements) for every element of the array, row-major.
template<typename F>
void each_offset(const Array &array, const std::vector<int64_t> &strides, F f, size_t axis = 0, int64_t offset = 0,
                 int64_t other = 0) {
    if (axis == array.extents.size()) return f(offset, other);
    for (int64_t i = 0; i < array.extents[axis]; i++)
        each_offset(array, strides, f, axis + 1, offset + i * array.strides[axis], other + i * strides[axis]);
}

// An array in the type that the function expects; a converted copy if the interpreter computes in
// double.
class ArgumentArray {
public:
    ArgumentArray(const Array &array, Type type) : array_(array), type_(type) {
        if (array.type == type) return;
        int64_t n = 1;
        for (int64_t e : array.extents) n *= e;
        strides_ = dense_strides(array.extents);
        copy_.resize(static_cast<size_t>(std::max<int64_t>(n, 1) * type.bytes()));
    }
    void *data() { return copy_.empty() ? array_.data : copy_.data(); }
    const std::vector<int64_t> &strides() const { return copy_.empty() ? array_.strides : strides_; }
    void fill() {
        if (copy_.empty()) return;
        each_offset(array_, strides_, [&](int64_t from, int64_t to) {
            write_element(type_, copy_.data() + to * type_.bytes(),
                          read_element(array_.type, array_.data + from * array_.type.bytes()));
        });
    }
    void take_back() const {
        if (copy_.empty()) return;
        each_offset(array_, strides_, [&](int64_t to, int64_t from) {
            write_element(array_.type, array_.data + to * array_.type.bytes(),
                          read_element(type_, copy_.data() + from * type_.bytes()));
        });
    }

private:
    const Array &array_;
    Type type_;
    std::vector<uint8_t> copy_;
    std::vector<int64_t> strides_;
};

bool exact(const Array &array) {
    bool all = true;
    if (array.bound) each_offset(array, array.strides, [&](int64_t at, int64_t) { all = all && array.bound[at] == 0; });
    return all;
}

} // namespace

bool run_extern(const Context &context, const Stage &stage, const std::vector<int> &targets, bool bounds) {
    const Halide::Internal::Call *call = extern_call(stage);
    const ExternFunction function = extern_function(call);
    const std::vector<std::string> takes = extern_takes(stage);
    const std::vector<ExternResult> makes = extern_makes(stage);
    std::vector<ArgumentArray> lent;
    std::vector<int64_t> extents, strides;
    std::vector<void *> arrays;
    bool sure = true; // all inputs are exact
    const size_t n = takes.size();
    lent.reserve(n + makes.size());
    for (size_t a = 0; a < n + makes.size(); a++) {
        const Array &array = context.arrays[a < n ? context.array_of.at(takes[a]) : targets[a - n]];
        lent.emplace_back(array, a < n ? call->args[call->args.size() - n + a].type() : makes[a - n].type);
        if (a < n) {
            lent.back().fill();
            sure = sure && exact(array);
        }
        arrays.push_back(lent.back().data());
        extents.insert(extents.end(), array.extents.begin(), array.extents.end());
        strides.insert(strides.end(), lent.back().strides().begin(), lent.back().strides().end());
    }
    if (const int code = extern_address(function)(arrays.data(), extents.data(), strides.data()))
        throw UserError("stage \"" + stage.name + "\": its extern function " + function.symbol + " returned " +
                        std::to_string(code));
    for (size_t m = 0; m < makes.size(); m++) {
        lent[n + m].take_back();
        const Array &array = context.arrays[targets[m]];
        if (!bounds || !array.bound) continue;
        const double bound = sure ? 0 : std::numeric_limits<double>::infinity();
        each_offset(array, array.strides, [&](int64_t at, int64_t) { array.bound[at] = bound; });
    }
    return sure;
}

} // namespace kumiko::interpreter

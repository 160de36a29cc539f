// Host arrays. A Buffer is a Halide::Runtime::Buffer whose constructors, accessors and indices
// number axes as formulas do: outermost first, row-major. Halide numbers dimensions innermost
// first: dim(0) is the last axis. Only this file and its source depend on both orders; all other
// code uses axis_extent and axis_stride.
#pragma once

#include "dsl/halide.h"
#include "dsl/op.h"
#include "support/error.h"
#include "support/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace kumiko {

// Properties of a buffer by axis, outermost first. Strides are in elements.
size_t rank(const halide_buffer_t *buffer);
int64_t axis_extent(const halide_buffer_t *buffer, size_t axis);
int64_t axis_stride(const halide_buffer_t *buffer, size_t axis);
std::vector<int64_t> axis_extents(const halide_buffer_t *buffer);
std::vector<int64_t> dense_strides(const std::vector<int64_t> &extents);
// Extents and strides as Halide's constructors take them. Throws UserError if one does not fit in
// 32 bits.
std::vector<halide_dimension_t> halide_shape(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides);
// "f32[2, 3] with strides [4, 1]"
std::string describe(const halide_buffer_t *buffer);
[[noreturn]] void no_memory(Type type, const std::vector<int64_t> &extents); // throws UserError
// Throws the error of no_memory if the elements span more bytes than the address space.
void check_memory(Type type, const std::vector<int64_t> &extents, const halide_buffer_t *shape);

// An array on the host, whose axes are in the order of the formula. Buffer<> has elements of any
// type.
template<typename T = void>
class Buffer : public Halide::Runtime::Buffer<T> {
public:
    using Base = Halide::Runtime::Buffer<T>;
    using Value = std::conditional_t<std::is_void_v<T>, uint8_t, T>;

    Buffer() = default;
    Buffer(const Base &other) : Base(other) {}
    Buffer(Base &&other) : Base(std::move(other)) {}

    // Allocates an uninitialised, dense, row-major array.
    explicit Buffer(std::initializer_list<int64_t> extents) requires(!std::is_void_v<T>)
        : Buffer(std::vector<int64_t>(extents)) {}
    explicit Buffer(const std::vector<int64_t> &extents) requires(!std::is_void_v<T>)
        : Buffer(Halide::type_of<T>(), extents) {}
    Buffer(Type type, const std::vector<int64_t> &extents) : Base(allocated(type, extents, dense_strides(extents))) {}
    // The same with explicit strides, in elements.
    Buffer(Type type, const std::vector<int64_t> &extents, const std::vector<int64_t> &strides)
        : Base(allocated(type, extents, strides)) {}

    // Wraps memory that the caller owns and that must outlive the buffer.
    static Buffer wrap(Value *data, const std::vector<int64_t> &extents,
                       std::vector<int64_t> strides = {}) requires(!std::is_void_v<T>) {
        if (strides.empty()) strides = dense_strides(extents);
        return Base(data, halide_shape(extents, strides));
    }
    static Buffer wrap(Type type, void *data, const std::vector<int64_t> &extents,
                       std::vector<int64_t> strides = {}) requires(std::is_void_v<T>) {
        if (strides.empty()) strides = dense_strides(extents);
        return Base(type, data, halide_shape(extents, strides));
    }

    // The same memory; `owner` stays alive as long as this buffer or a copy of it.
    Buffer owned_by(std::shared_ptr<const void> owner) const {
        Buffer b = *this;
        b.owner_ = std::move(owner);
        return b;
    }
    const std::shared_ptr<const void> &owner() const { return owner_; }

    // Converts an untyped buffer to a typed view, and back. Throws UserError if the types differ.
    template<typename U>
    requires(!std::is_same_v<T, U> && (std::is_void_v<T> || std::is_void_v<U>)) Buffer(const Buffer<U> &other)
        : Base(checked(other)), owner_(other.owner()) {}

    size_t rank() const { return kumiko::rank(this->raw_buffer()); }
    int64_t extent(size_t axis) const { return axis_extent(this->raw_buffer(), axis); }
    int64_t stride(size_t axis) const { return axis_stride(this->raw_buffer(), axis); }
    std::vector<int64_t> extents() const { return axis_extents(this->raw_buffer()); }

    // A deep copy with the same values, extents and strides.
    Buffer copy() const {
        Buffer b(this->type(), extents(), strides());
        if (this->number_of_elements() > 0) b.copy_from(*this);
        return b;
    }
    // A view of the same memory with two axes exchanged, or with axis order[d] as axis d. Throws
    // UserError unless the arguments are the buffer's axes, each once.
    Buffer transposed(size_t a, size_t b) const {
        std::vector<size_t> order(rank());
        for (size_t d = 0; d < order.size(); d++) order[d] = d == a ? b : d == b ? a : d;
        if (a >= rank() || b >= rank()) bad_order(raw(), {a, b});
        return transposed(order);
    }
    Buffer transposed(const std::vector<size_t> &order) const {
        std::vector<size_t> sorted = order;
        std::sort(sorted.begin(), sorted.end());
        bool good = order.size() == rank();
        for (size_t d = 0; d < order.size(); d++) good = good && sorted[d] == d;
        if (!good) bad_order(raw(), order);
        Buffer b = *this;
        for (size_t d = 0; d < order.size(); d++)
            b.raw_buffer()->dim[order.size() - 1 - d] = raw()->dim[order.size() - 1 - order[d]];
        return b;
    }

    // The element at the given index, outermost axis first. Bounds are not checked.
    template<typename... Index>
    Value &operator()(Index... index) const requires(!std::is_void_v<T>) {
        const int64_t at[] = {static_cast<int64_t>(index)..., 0};
        int64_t offset = 0;
        for (size_t d = 0; d < sizeof...(Index); d++) offset += at[d] * axis_stride(this->raw_buffer(), d);
        return const_cast<Value *>(this->data())[offset];
    }

private:
    std::shared_ptr<const void> owner_;

    const halide_buffer_t *raw() const { return this->raw_buffer(); }
    std::vector<int64_t> strides() const {
        std::vector<int64_t> all;
        for (size_t d = 0; d < rank(); d++) all.push_back(stride(d));
        return all;
    }
    [[noreturn]] static void bad_order(const halide_buffer_t *buffer, const std::vector<size_t> &axes) {
        std::string given;
        for (size_t a : axes) given += (given.empty() ? "" : ", ") + std::to_string(a);
        throw UserError("axes {" + given + "} cannot transpose " + describe(buffer) + "; its axes are 0 to " +
                        std::to_string(kumiko::rank(buffer)) + " exclusive, each once");
    }

    static Base allocated(Type type, const std::vector<int64_t> &extents, const std::vector<int64_t> &strides) {
        if constexpr (!std::is_void_v<T>) {
            if (type != Halide::type_of<T>()) type_mismatch(type, Halide::type_of<T>());
        }
        const std::vector<halide_dimension_t> shape = halide_shape(extents, strides);
        Base b = [&] {
            if constexpr (std::is_void_v<T>) {
                return Base(type, nullptr, static_cast<int>(shape.size()), shape.data());
            } else {
                return Base(static_cast<T *>(nullptr), static_cast<int>(shape.size()), shape.data());
            }
        }();
        if (std::find(extents.begin(), extents.end(), 0) == extents.end()) {
            reserve(b, type, extents);
            return b;
        }
        // For an empty buffer with strides, Halide computes a wrong allocation size. So one element
        // is allocated, and the true extents are set afterwards.
        for (size_t d = 0; d < shape.size(); d++) b.raw_buffer()->dim[d].extent = 1;
        reserve(b, type, {});
        for (size_t d = 0; d < shape.size(); d++) b.raw_buffer()->dim[d].extent = shape[d].extent;
        return b;
    }
    template<typename U>
    static const Buffer<U> &checked(const Buffer<U> &other) {
        if constexpr (!std::is_void_v<T>) {
            if (other.type() != halide_type_t(Halide::type_of<T>())) type_mismatch(other.type(), Halide::type_of<T>());
        }
        return other;
    }
    static void reserve(Base &b, Type type, const std::vector<int64_t> &extents) {
        check_memory(type, extents, b.raw_buffer());
        try {
            // An allocator that throws: without it Halide would write through null.
            b.allocate(allocate_bytes, std::free);
        } catch (const std::bad_alloc &) {
            no_memory(type, extents);
        }
    }
    [[noreturn]] static void type_mismatch(Type have, Type want) {
        throw UserError("a buffer of " + type_name(have) + " cannot be used as one of " + type_name(want));
    }
};

// Fills with uniform values in [low, high): integers for integer types. A seed gives the same
// values on every machine.
Buffer<> random_buffer(Type type, const std::vector<int64_t> &extents, uint64_t seed = 1, double low = -1,
                       double high = 1);

// The same for an element type that is known at compile time.
template<typename T = float>
Buffer<T> random(const std::vector<int64_t> &extents, uint64_t seed = 1, double low = -1, double high = 1) {
    return random_buffer(Halide::type_of<T>(), extents, seed, low, high);
}

// Fills with integers in [low, high], for any type, so that short sums and products are exact in
// any order.
Buffer<> random_integers(Type type, const std::vector<int64_t> &extents, uint64_t seed = 1, int64_t low = -4,
                         int64_t high = 4);

// The same for an existing array.
void fill_random(const Buffer<> &buffer, uint64_t seed, double low, double high);
void fill_random_integers(const Buffer<> &buffer, uint64_t seed, int64_t low, int64_t high);
// Fills with NaN (floats) or a bit pattern (integers), so that elements a kernel does not write are
// detected.
void fill_unwritten(const Buffer<> &buffer);

// The values of the symbolic sizes, by name.
using Sizes = std::map<std::string, int64_t>;

// Solves the sizes of `op` from its buffers: inputs, then outputs (which may be omitted). An extent
// or stated stride that is a bare Size binds it; `given` binds the sizes that no buffer does.
// Omitted outputs are assumed to be dense. Throws UserError if two places disagree (it names both)
// or a size stays unbound.
Sizes solve_sizes(const Op &op, const std::vector<const halide_buffer_t *> &buffers, const Sizes &given = {});

// Throws UserError if one of Op::requirements() does not hold at these sizes.
void check_requirements(const Op &op, const Sizes &sizes);

// The value of an expression of sizes.
int64_t evaluate_size(const Expr &e, const Sizes &sizes);
std::vector<int64_t> evaluate_extents(const std::vector<Axis> &axes, const Sizes &sizes);

// Throws UserError, with the actual and the required value, unless the buffer has the type, rank,
// extents and strides that the op declares. The stride of an axis with fewer than two elements is
// ignored.
void check_input(const Op &op, const Input &input, const halide_buffer_t *buffer, const Sizes &sizes);
void check_output(const Op &op, const std::string &output, const halide_buffer_t *buffer, const Sizes &sizes);

// Allocates an array for an input (for an output) with its shape at these sizes and the strides
// that the op states.
Buffer<> make_input(const Input &input, const Sizes &sizes);
Buffer<> make_output(const Op &op, const std::string &output, const Sizes &sizes);

// An element of any type, converted to double; `index` is outermost first.
double element(const halide_buffer_t *buffer, const std::vector<int64_t> &index);

// Limits of the error for check_close().
struct Tolerance {
    double relative = 1e-5; // of the largest expected element, because reordered sums differ
    double absolute = 1e-6;
};
// Throws UserError with the first difference, the largest difference and their count. NaN equals
// NaN, inf equals inf. See check_within for bounds per element.
void check_close(const Buffer<> &actual, const Buffer<> &expected, const Tolerance &tolerance = {});
// The same with a bound per element, from interpret_with_bound: |actual − expected| <= bound.
void check_within(const Buffer<> &actual, const Buffer<> &expected, const Buffer<> &bound);
// Empty if the buffers are equal bit for bit (all NaNs are equal); otherwise a text with the first
// difference and the count.
std::string difference(const Buffer<> &actual, const Buffer<> &expected);
inline bool equal_bits(const Buffer<> &a, const Buffer<> &b) { return difference(a, b).empty(); }

} // namespace kumiko

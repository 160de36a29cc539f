// What a name in a graph means when a model is evaluated.
#pragma once

#include "dsl/buffers.h"

#include <variant>
#include <vector>

namespace kumiko::graph {

// A tensor, a sequence of values, or an optional without an element. An optional with an element is
// that element.
class Value {
public:
    using Sequence = std::vector<Value>;
    Value() = default; // an optional without an element
    Value(Buffer<> tensor) : held_(std::move(tensor)) {}
    Value(Sequence elements) : held_(std::move(elements)) {}

    bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
    // Null if the value is of another kind.
    const Buffer<> *tensor() const { return std::get_if<Buffer<>>(&held_); }
    const Sequence *sequence() const { return std::get_if<Sequence>(&held_); }
    const char *kind() const { return tensor() ? "a tensor" : sequence() ? "a sequence" : "an empty optional"; }

private:
    std::variant<std::monostate, Buffer<>, Sequence> held_;
};

} // namespace kumiko::graph

#include "graph/formulas/formula.h"

#include "dsl/buffer_elements.h"
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/narrow_types.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

int64_t elements_of(const Extents &extents, size_t begin, size_t end) {
    int64_t all = 1;
    for (size_t d = begin; d < end; d++) {
        if (extents[d] == 0) return 0;
        if (__builtin_mul_overflow(all, extents[d], &all)) all = INT64_MAX;
    }
    return all;
}

int64_t elements_of(const Extents &extents) { return elements_of(extents, 0, extents.size()); }

int64_t View::elements() const { return elements_of(extents); }

StoredValue::StoredValue(const Tensor &tensor, const AxisOrder &order) : tensor(tensor), places(tensor.axes().size()) {
    for (size_t d = 0; d < places.size(); d++) places[order.empty() ? d : order[d]] = d;
}

Extents StoredValue::extents() const {
    Extents all;
    for (size_t d = 0; d < places.size(); d++) all.push_back(*Halide::Internal::as_const_int(axis(d).extent()));
    return all;
}

Element StoredValue::at(const Indices &indices) const {
    Indices stored(indices.size());
    for (size_t d = 0; d < indices.size(); d++) stored[places[d]] = indices[d];
    return tensor.at(stored);
}

// --- calls ---

const AxisOrder &OpScope::order_of(const std::string &value) const {
    static const AxisOrder none;
    const auto found = orders.find(value);
    return found == orders.end() ? none : found->second;
}

Tensor OpScope::input(const std::string &value, Type type, const std::vector<Axis> &axes) {
    for (const auto &[name, tensor] : inputs_) {
        if (name == value) return tensor;
    }
    inputs_.emplace_back(value, kumiko::input(next_input(), type, axes));
    return inputs_.back().second;
}

Call::Call(const Node &node, std::vector<std::optional<Argument>> arguments, OpScope &scope)
    : node(node), arguments_(std::move(arguments)), tensors_(arguments_.size()), stored_(arguments_.size()),
      scope_(scope) {}

const Call::Argument &Call::argument(size_t n) const {
    if (!has(n)) throw UserError(fmt::format("{} lacks input {}", node.label(), n));
    return *arguments_[n];
}

Tensor Call::tensor(size_t n) {
    const Argument &a = argument(n);
    if (tensors_[n].defined()) return tensors_[n];
    if (a.view) return tensors_[n] = stage(*a.view, "v");
    const StoredValue stored = stored_input(n);
    if (scope_.order_of(node.inputs[n]).empty()) return tensors_[n] = stored.tensor;
    return tensors_[n] = stage(view_of(stored), "v");
}

StoredValue Call::stored_input(size_t n) {
    const Argument &a = argument(n);
    if (a.view) return tensor(n);
    if (stored_[n]) return *stored_[n];
    const AxisOrder &order = scope_.order_of(node.inputs[n]);
    std::vector<Axis> axes;
    for (size_t d = 0; d < a.extents.size(); d++)
        axes.push_back(ranging(scope_.next_input() + "_" + std::to_string(d), a.extents[order.empty() ? d : order[d]]));
    stored_[n] = StoredValue(scope_.input(node.inputs[n], stored_type(a.type), axes), order);
    return *stored_[n];
}

View Call::in(size_t n) {
    const Argument &a = argument(n);
    if (a.view) return *a.view;
    if (a.packed) return packed_input(n);
    return {a.type, a.extents, [this, n](const Indices &indices) { return stored_input(n).at(indices); }};
}

View Call::packed_input(size_t n) {
    const Argument &a = argument(n);
    const int bits = a.type.bits(), in_byte = 8 / bits;
    std::vector<Axis> axes;
    for (size_t d = 0; d < a.extents.size(); d++)
        axes.push_back(ranging(scope_.next_input() + "_" + std::to_string(d),
                               d == 0 ? (a.extents[0] + in_byte - 1) / in_byte : a.extents[d]));
    const Tensor bytes = scope_.input(node.inputs[n], u8, axes);
    return {a.type, a.extents, [type = a.type, bytes, bits, in_byte](const Indices &i) -> Element {
                Indices at = i;
                at[0] = i[0] / in_byte;
                const Element shift = cast(u8, Element(i[0] % in_byte * bits));
                const Element digit = (bytes.at(at) >> shift) & number(u8, (1 << bits) - 1);
                if (stored_type(type) == u8) return digit;
                const Element sign = number(u8, 1 << (bits - 1));
                return cast(i8, (digit ^ sign) - sign);
            }};
}

const Buffer<> &Call::value(size_t n) const {
    const Argument &a = argument(n);
    if (!a.value)
        throw Unsupported(fmt::format("input {} (\"{}\") of {} decides shapes, so it must be a constant", n,
                                      node.inputs[n], node.label()));
    return *a.value;
}

const Buffer<> *Call::known(size_t n) const {
    const Argument &a = argument(n);
    return a.value ? &*a.value : nullptr;
}

std::vector<int64_t> Call::integers(size_t n) const {
    const Buffer<> &b = value(n);
    const Type t = b.type();
    const bool wide = t.bits() == 64 && !t.is_float(); // a double has not all of these
    std::vector<int64_t> all;
    for_each_element(b.raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
        int64_t exact = 0;
        if (wide) std::memcpy(&exact, p, sizeof exact);
        all.push_back(wide ? exact : static_cast<int64_t>(read_element(t, p)));
    });
    return all;
}

std::vector<double> Call::numbers(size_t n) const {
    const Buffer<> &b = value(n);
    std::vector<double> all;
    for_each_element(b.raw_buffer(),
                     [&](const std::vector<int64_t> &, const uint8_t *p) { all.push_back(read_element(b.type(), p)); });
    return all;
}

std::vector<int64_t> Call::integers(size_t n, const std::string &attribute,
                                    const std::vector<int64_t> &otherwise) const {
    return has(n) ? integers(n) : node.integers(attribute, otherwise);
}

std::vector<int64_t> Call::lengths(const std::string &what, std::vector<int64_t> values, size_t count,
                                   int64_t least) const {
    if (values.size() != count) fail(fmt::format("{} has {} numbers; legal are {}", what, values.size(), count));
    for (const int64_t v : values)
        if (v < least || v > INT32_MAX)
            fail(fmt::format("{} has the number {}; legal are {} to {}", what, v, least, INT32_MAX));
    return values;
}

size_t Call::axis(int64_t axis, size_t rank) const {
    const auto r = static_cast<int64_t>(rank);
    if (rank == 0) fail(fmt::format("axis {} of a tensor without axes", axis));
    if (axis < -r || axis >= r)
        fail(fmt::format("axis {} of a tensor of {} axes; legal are {} to {}", axis, rank, -r, r - 1));
    return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

std::vector<size_t> Call::axes(const std::vector<int64_t> &axes, size_t rank) const {
    std::vector<size_t> all;
    for (const int64_t a : axes) all.push_back(axis(a, rank));
    std::sort(all.begin(), all.end());
    if (std::adjacent_find(all.begin(), all.end()) != all.end()) fail("an axis is named twice");
    return all;
}

Axis Call::ranging(const std::string &name, int64_t extent) const {
    if (extent < 0 || extent > INT32_MAX)
        fail(fmt::format("an axis of {} elements; legal are 0 to {}", extent, INT32_MAX));
    return Axis(name, static_cast<int>(extent));
}

std::vector<Axis> Call::ranging(const Extents &extents) const {
    std::vector<Axis> axes;
    for (size_t d = 0; d < extents.size(); d++) axes.push_back(ranging("i" + std::to_string(d), extents[d]));
    return axes;
}

Axis Call::loop(int64_t extent) { return ranging(scope_.next_loop(), extent); }

void Call::require_indices(size_t n, const Extents &extents) {
    if (!has(n)) return;
    const Argument &a = argument(n);
    if (!a.value) {
        if (a.view) unsupported("its indices are made by a node of the same op");
        std::string legal;
        for (const int64_t e : extents) legal += fmt::format("{}{} to {}", legal.empty() ? "" : ", ", -e, e - 1);
        scope_.add_check(
            {node.inputs[n],
             fmt::format("{}: an index in \"{}\" is out of range; legal are {}", node.label(), node.inputs[n], legal),
             extents});
        return;
    }
    const std::vector<int64_t> all = integers(n);
    for (size_t i = 0; i < all.size(); i++) {
        const int64_t e = extents[i % extents.size()];
        if (all[i] < -e || all[i] >= e)
            fail(fmt::format("the index {} in \"{}\" of {} elements; legal are {} to {}", all[i], node.inputs[n], e, -e,
                             e - 1));
    }
}

std::string Call::choice(const std::string &attribute, const std::string &otherwise,
                         const std::vector<std::string> &legal) const {
    const std::string given = node.text(attribute, otherwise);
    if (std::find(legal.begin(), legal.end(), given) == legal.end())
        fail(fmt::format("{} is \"{}\"; legal are {}", attribute, given, fmt::join(legal, ", ")));
    return given;
}

Tensor Call::stage(const View &view, const std::string &name) {
    const std::vector<Axis> axes = ranging(view.extents);
    return compute(scope_.next_stage(name), axes, view.at(Indices(axes.begin(), axes.end())));
}

Tensor Call::output(const View &view, size_t n) const {
    const std::vector<Axis> axes = ranging(view.extents);
    return compute("y" + std::to_string(n), axes, view.at(Indices(axes.begin(), axes.end())));
}

View Call::stored(const View &view, const std::string &name) {
    // Schedules choose loops by their positions: the last one becomes vectors. Axes of one element
    // are in their way.
    std::vector<size_t> kept;
    Extents extents;
    const AxisOrder &order = scope_.stage_order;
    for (size_t n = 0; n < view.rank(); n++) {
        const size_t d = order.size() == view.rank() ? order[n] : n;
        if (view.extents[d] != 1) kept.push_back(d), extents.push_back(view.extents[d]);
    }
    const View fewer = {view.type, extents, [view, kept](const Indices &indices) {
                            Indices all(view.rank(), Expr(0));
                            for (size_t n = 0; n < kept.size(); n++) all[kept[n]] = indices[n];
                            return view.at(all);
                        }};
    const Tensor tensor = stage(fewer, name);
    return {view.type, view.extents, [tensor, kept](const Indices &indices) {
                Indices used;
                for (const size_t d : kept) used.push_back(indices[d]);
                return tensor.at(used);
            }};
}

void Call::fail(const std::string &cause) const { throw UserError(node.label() + ": " + cause); }
void Call::unsupported(const std::string &cause) const { throw Unsupported(node.label() + ": " + cause); }

const Operator *find_operator(const std::string &op, int opset, const std::string &domain) {
    static const std::map<std::string, std::vector<Operator>> by_name = [] {
        std::map<std::string, std::vector<Operator>> rows;
        const auto add = [&](const std::vector<Operator> &part, Dependence least = Dependence::Other) {
            for (Operator row : part) {
                row.dependence = std::min(row.dependence, least);
                rows[row.op].push_back(row);
            }
        };
        add(elementwise_operators(), Dependence::Pointwise);
        add(move_operators(), Dependence::Injective);
        for (const auto &part :
             {reduction_operators(), index_operators(), product_operators(), window_operators(),
              normalization_operators(), quantisation_operators(), image_operators(), training_operators(),
              machine_learning_operators(), signal_operators(), selection_operators(), sampling_operators(),
              region_operators(), recurrent_operators(), control_operators(), string_operators()})
            add(part);
        return rows;
    }();
    const auto named = by_name.find(op);
    if (named == by_name.end()) return nullptr;
    const Operator *best = nullptr;
    for (const Operator &row : named->second) {
        if (row.domain == domain && row.since <= opset && (!best || row.since > best->since)) best = &row;
    }
    return best;
}

Unsupported no_formula(const Node &node) {
    return Unsupported(fmt::format("{} of opset {}{}: there is no formula for this operator", node.label(), node.opset,
                                   node.domain.empty() ? "" : " of domain " + node.domain));
}

// --- views ---

View view_of(const StoredValue &stored) {
    return {stored.type(), stored.extents(), [stored](const Indices &indices) { return stored.at(indices); }};
}

View constant_view(Type type, const Extents &extents, const std::function<Expr(const Indices &)> &at) {
    return {type, extents, [at](const Indices &indices) { return Element(at(indices)); }};
}

Extents broadcast(const Call &call, const std::vector<Extents> &all) {
    size_t rank = 0;
    for (const Extents &e : all) rank = std::max(rank, e.size());
    Extents made(rank, 1);
    for (const Extents &e : all) {
        for (size_t d = 0; d < e.size(); d++) {
            int64_t &to = made[rank - e.size() + d];
            if (e[d] == 1 || e[d] == to) continue;
            if (to != 1) call.fail(fmt::format("the extents {} and {} of inputs do not broadcast", to, e[d]));
            to = e[d];
        }
    }
    return made;
}

View broadcast(const View &v, const Extents &extents) {
    if (v.extents == extents) return v;
    for (size_t d = 0; d < v.rank(); d++) {
        const bool fits =
            v.rank() <= extents.size() && (v.extents[d] == 1 || v.extents[d] == extents[extents.size() - v.rank() + d]);
        if (!fits) throw UserError("an input of other extents than broadcast to those of the result");
    }
    const size_t outside = extents.size() - v.rank();
    return {v.type, extents, [v, outside](const Indices &indices) {
                Indices own;
                for (size_t d = 0; d < v.rank(); d++) own.push_back(v.extents[d] == 1 ? Expr(0) : indices[outside + d]);
                return v.at(own);
            }};
}

View reshaped(const View &v, const Extents &extents) {
    if (v.extents == extents) return v;
    if (v.elements() > INT32_MAX)
        throw Unsupported(fmt::format("a reshape of {} elements; supported are {}", v.elements(), INT32_MAX));
    return {v.type, extents, [v, extents](const Indices &indices) {
                // Axes that both shapes have at their ends keep their indices.
                size_t from = 0, last = 0;
                const size_t shorter = std::min(v.rank(), extents.size());
                while (from < shorter && v.extents[from] == extents[from]) from++;
                while (last < shorter - from && v.extents[v.rank() - 1 - last] == extents[extents.size() - 1 - last])
                    last++;
                Indices own(indices.begin(), indices.begin() + static_cast<int64_t>(from));
                Expr linear = 0;
                for (size_t d = from; d < extents.size() - last; d++)
                    linear = linear * static_cast<int>(extents[d]) + indices[d];
                int64_t inner = 1;
                for (size_t d = from; d < v.rank() - last; d++) inner *= v.extents[d];
                for (size_t d = from; d < v.rank() - last; d++) {
                    inner /= std::max<int64_t>(v.extents[d], 1);
                    if (v.extents[d] == 1) {
                        own.push_back(0);
                        continue;
                    }
                    const Expr digit = inner == 1 ? linear : linear / static_cast<int>(inner);
                    const bool outermost =
                        std::all_of(v.extents.begin() + static_cast<int64_t>(from),
                                    v.extents.begin() + static_cast<int64_t>(d), [](int64_t e) { return e == 1; });
                    own.push_back(
                        Halide::Internal::simplify(outermost ? digit : digit % static_cast<int>(v.extents[d])));
                }
                own.insert(own.end(), indices.end() - static_cast<int64_t>(last), indices.end());
                return v.at(own);
            }};
}

View transposed(const View &v, const std::vector<size_t> &order) {
    Extents extents;
    for (const size_t d : order) extents.push_back(v.extents[d]);
    return {v.type, extents, [v, order](const Indices &indices) {
                Indices own(order.size());
                for (size_t d = 0; d < order.size(); d++) own[order[d]] = indices[d];
                return v.at(own);
            }};
}

View mapped(const View &v, Type type, const std::function<Element(const Element &)> &f) {
    return {type, v.extents, [v, f](const Indices &indices) { return f(v.at(indices)); }};
}

View zipped(Call &call, const View &a, const View &b, Type type,
            const std::function<Element(const Element &, const Element &)> &f) {
    const Extents extents = broadcast(call, {a.extents, b.extents});
    const View x = broadcast(a, extents), y = broadcast(b, extents);
    return {type, extents, [x, y, f](const Indices &indices) { return f(x.at(indices), y.at(indices)); }};
}

View converted(const View &v, Type type) {
    if (v.type == type) return v;
    return mapped(v, type, [type](const Element &e) { return Element(cast(type, e)); });
}

View with_bias(Call &call, const View &image, size_t input) {
    const View bias = call.in(input);
    const Type t = image.type;
    const View all = {t, image.extents, [=](const Indices &i) { return Element(cast(t, bias.at({i[1]}))); }};
    return zipped(call, image, all, t, add);
}

// --- elements ---

Type wrapping(Type type) { return type.is_int() && type.bits() >= 32 ? type.with_code(halide_type_uint) : type; }

Type summing(Type type, Type a, Type b, int64_t count) {
    const bool bytes = type == i32 && a.bits() == 8 && b.bits() == 8 && !is_floating(a) && !is_floating(b);
    const auto most = [](Type t) -> int64_t { return t.is_uint() ? 255 : 128; };
    return bytes && count <= INT32_MAX / (most(a) * most(b)) ? type : wrapping(type);
}

namespace {

Element wrapped(const Element &a, const Element &b, Element (*f)(const Element &, const Element &)) {
    const Type t = a.type(), bits = wrapping(t);
    return bits == t ? f(a, b) : Element(cast(t, f(cast(bits, a), cast(bits, b))));
}

} // namespace

Element add(const Element &a, const Element &b) {
    return wrapped(a, b, [](const Element &x, const Element &y) -> Element { return x + y; });
}
Element subtract(const Element &a, const Element &b) {
    return wrapped(a, b, [](const Element &x, const Element &y) -> Element { return x - y; });
}
Element multiply(const Element &a, const Element &b) {
    return wrapped(a, b, [](const Element &x, const Element &y) -> Element { return x * y; });
}
Element absolute(const Element &e) {
    if (e.type().is_uint()) return e;
    const Element zero = number(e.type(), 0);
    return is_floating(e.type()) ? Element(abs(e)) : select(e < zero, subtract(zero, e), e);
}

Element number(Type type, double value) {
    if (is_floating(type)) return cast(type, Expr(value));
    return cast(type, Halide::Internal::make_const(i64, static_cast<int64_t>(value)));
}

bool is_floating(Type type) { return type.is_float() || type.is_bfloat(); }

Buffer<> int64_tensor(const std::vector<int64_t> &values, const Extents &extents) {
    Buffer<> b(i64, extents);
    std::copy(values.begin(), values.end(), static_cast<int64_t *>(b.data()));
    return b;
}

Type accumulator(Type type) { return type == f16 || type == bf16 ? f32 : type; }

} // namespace kumiko::graph

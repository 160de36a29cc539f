#include "machine/instruction.h"

#include "dsl/definition.h"
#include "support/error.h"
#include "support/names.h"

#include <algorithm>

namespace kumiko {

namespace {

// The extents of an operand's axes in the meaning. Throws if one is not a constant.
std::vector<int64_t> extents_of(const std::vector<Axis> &axes, const std::string &instruction) {
    std::vector<int64_t> out;
    for (const Axis &axis : axes) {
        auto extent = Halide::Internal::as_const_int(axis.extent());
        if (!extent)
            throw UserError("instruction '" + instruction + "': the extent of axis '" + axis.name() +
                            "' is not a number");
        out.push_back(*extent);
    }
    return out;
}

// The inputs that a tensor reads, in order of first use.
std::vector<Tensor> inputs_of(const Tensor &tensor) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        std::vector<Tensor> inputs;
        void visit(const Halide::Internal::Call *call) override {
            IRVisitor::visit(call);
            if (!is_reference(call)) return;
            const TensorContents c = decode_definition(call->args.back());
            const auto same = [&](const Tensor &t) { return t.name() == c.name; };
            if (c.kind == TensorContents::Kind::Input && std::none_of(inputs.begin(), inputs.end(), same))
                inputs.push_back(Tensor(std::make_shared<const TensorContents>(c)));
        }
    } v;
    if (tensor.contents().value.defined()) tensor.contents().value.accept(&v);
    return v.inputs;
}

// c(i) += Σ_k a(i, k) · b(i, k), `groups` dot products of `depth` elements, computed in `wide`.
Instruction dot_product(const std::string &name, const std::string &description,
                        const std::vector<std::string> &features, int groups, int depth, Type a_type, Type b_type,
                        Type wide) {
    Axis i("i", groups), k("k", depth);
    Tensor a = input("a", a_type, {i, k});
    Tensor b = input("b", b_type, {i, k});
    Tensor c = compute("c", {i}, sum(cast(wide, a(i, k)) * cast(wide, b(i, k)), k));
    return {name,
            description,
            features,
            Op("dot_product", {a, b}, {c}),
            {{"c", wide, groups, {1}, true},
             {"a", a_type, groups * depth, {depth, 1}},
             {"b", b_type, groups * depth, {depth, 1}}}};
}

// Products of bytes are summed in pairs in 16 bits, with saturation, and these sums in pairs in 32
// bits. With b in [-64, 64], the 16-bit sums do not saturate: 2 · 255 · 64 = 32640.
Instruction byte_pairs(const std::string &name, const std::string &feature, int groups) {
    Instruction made = dot_product(
        name, std::to_string(groups) + " dot products of four bytes, unsigned by signed ones within [-64, 64]",
        {feature}, groups, 4, u8, i8, i32);
    made.ranges = {{"b", -64, 64}};
    return made;
}

// c(i, j) += Σ_k,g a(i, k, g) · b(k, j, g): AMX tiles of 16 rows of 64 bytes. b interleaves groups
// of consecutive steps, as many as fill 32 bits.
Instruction tile_product(const std::string &name, const std::string &description, const std::string &feature,
                         Type a_type, Type b_type, Type wide) {
    const int group = 32 / a_type.bits();
    Axis i("i", 16), j("j", 16), k("k", 16), g("g", group);
    Tensor a = input("a", a_type, {i, k, g});
    Tensor b = input("b", b_type, {k, j, g});
    Tensor c = compute("c", {i, j}, sum(cast(wide, a(i, k, g)) * cast(wide, b(k, j, g)), {k, g}));
    Instruction made(name, description, {"amx_tile", feature}, Op("tile_product", {a, b}, {c}),
                     {{"c", wide, 256, {16, 1}, true},
                      {"a", a_type, 256 * group, {16 * group, group, 1}},
                      {"b", b_type, 256 * group, {16 * group, group, 1}}});
    made.in_memory = true;
    return made;
}

// y(i) += Σ_k W(i, k) · x(k): the chip's matrix unit multiplies its matrix W by a vector of four
// adjacent elements.
Instruction face_times_vector(const std::string &name, const std::string &description, int rows, int columns, Type t) {
    Axis i("i", rows), k("k", columns);
    Tensor W = input("W", t, {i, k}), x = input("x", t, {k});
    const auto wide = [&](const Element &e) { return t == f32 ? Expr(e) : cast(f32, e); };
    Tensor y = compute("y", {i}, sum(wide(W(i, k)) * wide(x(k)), k));
    Instruction made(name, description, {"mfma"}, Op("face_times_vector", {W, x}, {y}),
                     {{"y", f32, rows, {1}, true}, {"W", t, rows * columns, {columns, 1}}, {"x", t, columns, {1}}});
    made.placed = true;
    return made;
}

} // namespace

Instruction::Instruction(const std::string &name, const Tensor &accumulator)
    : Instruction(name, "", {}, Op(to_identifier(name), inputs_of(accumulator), {accumulator}), {}) {
    const auto dense = [](const std::string &tensor, Type type, const std::vector<int64_t> &extents, bool accumulates) {
        InstructionOperand o{tensor, type, 1, std::vector<int>(extents.size()), accumulates};
        for (size_t d = extents.size(); d-- > 0;) {
            o.lane_strides[d] = o.lanes;
            o.lanes *= static_cast<int>(extents[d]);
        }
        return o;
    };
    const Stage &stage = meaning.stages().back();
    operands.push_back(dense(stage.name, stage.type, extents_of(stage.axes, name), true));
    for (const Input &in : meaning.inputs())
        operands.push_back(dense(in.name, in.type, extents_of(in.axes, name), false));
    check();
}

std::string Instruction::axis_name(size_t position, size_t count) {
    if (position + 1 == count) return "k";
    return position == 0 ? "i" : position == 1 ? "j" : "j" + std::to_string(position);
}

Tensor accumulate(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &value,
                  std::source_location where) {
    if (value.defined() && value.type() != type)
        throw UserError(where, "the instruction's result \"" + name + "\" is " + type_name(type) + ", but its sum is " +
                                   type_name(value.type()) + "; cast the factors");
    return compute(name, axes, value, where);
}

double Instruction::operations() const {
    double points = 2;
    const Stage &stage = meaning.stages().front();
    for (const auto *axes : {&stage.axes, &stage.reduction_axes}) {
        for (int64_t extent : extents_of(*axes, name)) points *= static_cast<double>(extent);
    }
    return points;
}

bool Instruction::available_on(const Machine &machine) const {
    return std::all_of(features.begin(), features.end(), [&](const std::string &f) { return machine.has(f); });
}

const InstructionOperand &Instruction::operand(const std::string &tensor) const {
    for (const InstructionOperand &o : operands) {
        if (o.tensor == tensor) return o;
    }
    throw InternalError("instruction '" + name + "' has no operand '" + tensor + "'");
}

void Instruction::check() const {
    auto fail = [&](const std::string &cause) { throw UserError("instruction '" + name + "': " + cause); };
    if (name.empty()) throw UserError("an instruction needs a name");
    if (meaning.stages().size() != 1 || meaning.outputs().size() != 1 || !meaning.stages().front().is_reduction()) {
        fail("its meaning must be one reduction with one output");
    }
    if (operands.size() != meaning.inputs().size() + 1) {
        fail(fmt::format("its meaning has {} tensors, but {} operands are declared", meaning.inputs().size() + 1,
                         operands.size()));
    }
    for (const InstructionOperand &o : operands) {
        const Input *in = meaning.find_input(o.tensor);
        const Stage *out = meaning.find_stage(o.tensor);
        if (!in && !out) fail("operand '" + o.tensor + "' is not a tensor of its meaning");
        if (o.accumulator != (out != nullptr))
            fail("exactly the output must be the accumulator; see operand '" + o.tensor + "'");
        if (o.type != (in ? in->type : out->type))
            fail("operand '" + o.tensor + "' has another type than in the meaning");
        std::vector<int64_t> extents = extents_of(in ? in->axes : out->axes, name);
        if (o.lane_strides.size() != extents.size()) {
            fail(fmt::format("operand '{}' has {} axes, but {} lane strides", o.tensor, extents.size(),
                             o.lane_strides.size()));
        }
        // Dense in some axis order: sorted by stride, each axis starts where the previous ones end.
        std::vector<std::pair<int64_t, int64_t>> order;
        for (size_t d = 0; d < extents.size(); d++) {
            if (extents[d] != 1) order.emplace_back(o.lane_strides[d], extents[d]);
        }
        std::sort(order.begin(), order.end());
        int64_t covered = 1;
        for (auto [stride, extent] : order) {
            if (stride != covered) fail("the lanes of operand '" + o.tensor + "' do not hold each element once");
            covered *= extent;
        }
        if (covered != o.lanes)
            fail(fmt::format("operand '{}' has {} elements, but {} lanes", o.tensor, covered, o.lanes));
    }
    for (const OperandRange &r : ranges) {
        const auto is = [&](const InstructionOperand &o) { return o.tensor == r.tensor && !o.accumulator; };
        if (std::none_of(operands.begin(), operands.end(), is))
            fail("operand '" + r.tensor + "', whose values are limited, is not an operand that it reads");
        if (r.min > r.max) fail("operand '" + r.tensor + "' has an empty range of values");
    }
}

const InstructionSet &InstructionSet::builtin() {
    static const InstructionSet set = [] {
        InstructionSet s;
        s.add(dot_product("avx2.vpmaddwd", "8 dot products of two 16-bit integers", {"avx2"}, 8, 2, i16, i16, i32));
        s.add(dot_product("avx512.vpmaddwd", "16 dot products of two 16-bit integers", {"avx512bw"}, 16, 2, i16, i16,
                          i32));
        s.add(dot_product("avx_vnni.vpdpbusd", "8 dot products of four bytes, unsigned by signed", {"avx_vnni"}, 8, 4,
                          u8, i8, i32));
        s.add(dot_product("neon.sdot", "4 dot products of four bytes, both signed", {"neon", "dotprod"}, 4, 4, i8, i8,
                          i32));
        s.add(dot_product("neon.udot", "4 dot products of four bytes, both unsigned", {"neon", "dotprod"}, 4, 4, u8, u8,
                          i32));
        s.add(dot_product("neon.usdot", "4 dot products of four bytes, unsigned by signed", {"neon", "i8mm"}, 4, 4, u8,
                          i8, i32));
        s.add(dot_product("avx512.vpdpbusd", "16 dot products of four bytes, unsigned by signed",
                          {"avx512f", "avx512_vnni"}, 16, 4, u8, i8, i32));
        s.add(byte_pairs("avx2.vpmaddubsw", "avx2", 8));
        s.add(byte_pairs("avx512.vpmaddubsw", "avx512bw", 16));
        // It rounds as the formula does, but treats bfloat16 denormals as zero and flushes denormal
        // results: the declared meaning holds for normal numbers.
        s.add(dot_product("avx512.vdpbf16ps", "16 dot products of two bfloat16", {"avx512f", "avx512_bf16"}, 16, 2,
                          bf16, bf16, f32));
        // The same holds for denormals. In addition, a sum of two products is rounded once.
        s.add(dot_product("neon.bfdot", "4 dot products of two bfloat16", {"neon", "bf16"}, 4, 2, bf16, bf16, f32));
        // Even and odd steps form two chains of rounded FMAs, whose sums are added to c; denormals
        // as above.
        s.add(tile_product("amx.tdpbf16ps", "a 16 x 32 by 32 x 16 product of tiles of bfloat16", "amx_bf16", bf16, bf16,
                           f32));
        for (const auto &[name, a, b] : {std::tuple("amx.tdpbssd", i8, i8), std::tuple("amx.tdpbsud", i8, u8),
                                         std::tuple("amx.tdpbusd", u8, i8), std::tuple("amx.tdpbuud", u8, u8)})
            s.add(tile_product(name,
                               std::string("a 16 x 64 by 64 x 16 product of tiles of bytes, ") +
                                   (a == i8 ? "signed" : "unsigned") + " by " + (b == i8 ? "signed" : "unsigned"),
                               "amx_int8", a, b, i32));
        s.add(face_times_vector("mfma.f16", "a 16 x 16 matrix times a vector, in fp16 with fp32 sums", 16, 16, f16));
        s.add(face_times_vector("mfma.f32", "an 8 x 8 matrix times a vector, in fp32", 8, 8, f32));
        return s;
    }();
    return set;
}

void InstructionSet::add(const Instruction &instruction) {
    instruction.check();
    if (find(instruction.name)) throw UserError("there is already an instruction '" + instruction.name + "'");
    instructions_.push_back(instruction);
}

const Instruction *InstructionSet::find(const std::string &name) const {
    for (const Instruction &i : instructions_) {
        if (i.name == name) return &i;
    }
    return nullptr;
}

const Instruction &InstructionSet::get(const std::string &name) const {
    if (const Instruction *i = find(name)) return *i;
    throw UserError("unknown instruction '" + name + "'" + suggest(name, names()));
}

std::vector<std::string> InstructionSet::names() const {
    std::vector<std::string> out;
    for (const Instruction &i : instructions_) out.push_back(i.name);
    return out;
}

std::vector<const Instruction *> InstructionSet::available_on(const Machine &machine) const {
    std::vector<const Instruction *> out;
    for (const Instruction &i : instructions_) {
        if (i.available_on(machine)) out.push_back(&i);
    }
    std::stable_sort(out.begin(), out.end(), [](auto *a, auto *b) { return a->operations() > b->operations(); });
    return out;
}

} // namespace kumiko

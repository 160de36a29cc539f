#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// The only input of the stage. Rejects stages with other inputs, and those that the caller cannot
// compute ahead of time.
std::string only_input(const ScheduleState &state, const StageState &stage, const Directive &d) {
    const auto no = [&](const std::string &why) {
        refuse(state, d, stage.name() + " cannot be computed ahead of time: " + why, &stage, "",
               "inputs, and stages at the root that are an expression of one input that no other stage reads");
    };
    if (state.op.is_output(stage.name())) no("it is an output");
    if (stage.def.kind != Stage::Kind::Pointwise) no("it is not pointwise");
    if (stage.is_copy) no("it is a copy");
    if (stage.placement.kind != Placement::Kind::Root) no("it is not computed at the root");
    const Expr value = with_inlined(state, stage.def.value);
    const std::set<std::string> read = tensors_read(value);
    if (read.size() != 1) no("it reads " + std::to_string(read.size()) + " tensors");
    const std::string input = *read.begin();
    if (!state.is_input(input)) no("it reads stage " + input);
    if (state.readers(input).size() != 1) no("another stage reads " + input + " too");
    if (!stage.level.empty()) no("it is stored in " + stage.level);
    if (!stage.layout.empty()) no("it has a layout, but prepack determines the order");
    if (const SplitRelation *split = stage.padded_split())
        no("loop " + split->parent + " has a padded tail, but the caller's array ends with the axis");
    // The packing function knows only the sizes in the input's shape.
    const auto uses = [](const Expr &e, const std::string &size) { return Halide::Internal::expr_uses_var(e, size); };
    for (const std::string &size : state.op.sizes()) {
        bool needed = uses(value, size), said = false;
        for (const Axis &a : stage.def.axes) needed = needed || uses(a.extent(), size);
        for (const Axis &a : state.op.find_input(input)->axes) said = said || uses(a.extent(), size);
        if (needed && !said) no("it depends on size " + size + ", which the shape of " + input + " does not determine");
    }
    return input;
}

void apply_prepack(ScheduleState &state, const Directive &d, size_t) {
    const std::string tensor = text_argument(d, "tensor");
    tensor_argument(state, d);
    StageState *stage = state.find(tensor);
    const std::string input = stage ? only_input(state, *stage, d) : tensor;
    if (state.op.find_input(input)->inout)
        refuse(state, d, input + " is overwritten by the op", nullptr, "", "prepack on inputs that are only read");
    for (const StageState &s : state.stages) {
        if (s.prepacked && s.copied == input)
            refuse(state, d, input + " is prepacked already", nullptr, "", "one prepack of an input");
    }
    if (state.readers(tensor).empty()) refuse(state, d, "no stage reads " + tensor);
    const auto order = [&](const StageState &made) {
        const std::vector<LayoutTerm> terms = parse_layout(state, made, d, names_argument(d, "terms"));
        if (terms.empty())
            refuse(state, d, "the storage order is empty", nullptr, "", "each axis of " + tensor + " once");
        return terms;
    };
    if (stage) {
        stage->layout = order(*stage);
        stage->def.value = with_inlined(state, stage->def.value);
        stage->copied = input;
        stage->prepacked = true;
        return;
    }
    StageState made = copy_of(state, tensor, tensor + ".packed");
    made.prepacked = true;
    made.layout = order(made);
    for (StageState &s : state.stages) redirect_reads(s, tensor, made.name());
    state.stages.insert(state.stages.begin(), std::move(made));
}

} // namespace

StageHandle Schedule::prepack(const std::string &tensor, const std::vector<std::string> &layout, Place where) {
    apply({"prepack", {{"tensor", tensor}, {"terms", layout}}, where});
    return StageHandle(*this, state_->find(tensor) ? tensor : tensor + ".packed");
}

const Primitive &prepack_primitive() {
    static const Primitive record = {
        "prepack",
        "memory",
        "Takes an input in another storage order, which the caller packs ahead of time, such as weights once. "
        "The kernel gets a second entry, <kernel>_pack_<input>, that packs. "
        "It then takes the packed array in place of the input. "
        "The copy is the stage <input>.packed, whose loops may be scheduled. "
        "For a stage that is an expression of one input, the entry computes that stage: transformed weights.",
        "The tensor is an input that some stage reads, or a stage at the root. "
        "Such a stage reads one or several elements of one input, which no other stage reads. "
        "The storage order covers each axis once, as in layout.",
        {{"tensor", ArgumentKind::Tensor, "the input, or the stage"},
         {"terms", ArgumentKind::Names, "the storage dimensions, outermost first"}},
        apply_prepack,
        {"matmul", {}, {"prepack", {{"tensor", "B"}, {"terms", {"j/32", "k", "j%32"}}}, {}}},
        {.order = 70, .changes_arguments = true},
    };
    return record;
}

} // namespace kumiko

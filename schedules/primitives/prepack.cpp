#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

void apply(ScheduleState &state, const Directive &d, size_t index) {
    const std::string tensor = text_argument(d, "tensor");
    tensor_argument(state, d);
    if (!state.is_input(tensor)) {
        refuse(state, d, tensor + " is computed by the op, so nobody can pack it ahead of time", nullptr, "",
               "prepack on inputs, layout on internal stages");
    }
    if (state.op.find_input(tensor)->inout)
        refuse(state, d, tensor + " is updated by the op, in the caller's own array", nullptr, "",
               "prepack on inputs that are only read");
    for (const StageState &s : state.stages) {
        if (s.prepacked && s.copied == tensor)
            refuse(state, d, tensor + " is prepacked already", nullptr, "", "one prepack of an input");
    }
    if (state.readers(tensor).empty()) refuse(state, d, "no stage reads " + tensor);
    StageState made = copy_of(state, tensor, tensor + ".packed");
    made.prepacked = true;
    made.layout = parse_layout(state, made, d, names_argument(d, "terms"));
    if (made.layout.empty())
        refuse(state, d, "the storage order is empty", nullptr, "", "each axis of " + tensor + " once");
    for (StageState &s : state.stages) redirect_reads(s, tensor, made.name());
    state.stages.insert(state.stages.begin(), std::move(made));
    (void)index;
}

} // namespace

const Primitive &prepack_primitive() {
    static const Primitive record = {
        "prepack",
        "memory",
        "Takes an input in another storage order, into which the caller puts it ahead of time (weights, once): the "
        "kernel "
        "gets a second "
        "entry, <kernel>_pack_<input>, that packs, and takes the packed array in the input's place. The copy is the "
        "stage "
        "<input>.packed, whose loops may be scheduled.",
        "The tensor is an input that some stage reads; the storage order covers each of its axes once, as in layout.",
        {{"tensor", ArgumentKind::Tensor, "the input"},
         {"terms", ArgumentKind::Names, "the storage dimensions, outermost first"}},
        apply,
        {"matmul", {}, {"prepack", {{"tensor", "B"}, {"terms", {"j/32", "k", "j%32"}}}, {}}},
    };
    return record;
}

} // namespace kumiko

#include "schedules/library/inlining.h"

#include "dsl/extern.h"
#include "dsl/reads.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/functions.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

namespace {

// Per expression, as a tree. Beyond this, passes and the compiler take longer than inlining gains.
constexpr int64_t max_operations = 256;
constexpr int64_t operations_of_function = 16; // exp; most others have more

// The operations of the stage's expressions, counted as trees. A read counts as many as `sizes` has
// for its tensor, a function call as many as its code has. Saturates. Takes time linear in the
// number of nodes, since a shared node is visited once.
int64_t expanded_operations(const Stage &stage, const std::map<std::string, int64_t> &sizes) {
    struct Count : Halide::Internal::IRGraphVisitor {
        const std::map<std::string, int64_t> &sizes;
        std::map<const Halide::Internal::IRNode *, int64_t> known;
        int64_t sum = 0;
        explicit Count(const std::map<std::string, int64_t> &sizes) : sizes(sizes) {}
        void include(const Expr &e) override {
            const auto found = known.find(e.get());
            if (found == known.end()) {
                const auto *call = e.as<Halide::Internal::Call>();
                const auto size = call ? sizes.find(call->name) : sizes.end();
                const int64_t before = sum;
                const bool leaf = e.as<Halide::Internal::Variable>() || is_const(e) ||
                                  (call && call->call_type == Halide::Internal::Call::Image);
                const bool function = call && call->call_type == Halide::Internal::Call::PureExtern;
                sum = size != sizes.end() ? size->second : leaf ? 0 : function ? operations_of_function : 1;
                e.accept(this);
                known[e.get()] = sum;
                sum += before;
            } else {
                sum += found->second;
            }
            sum = std::min(sum, int64_t(1) << 40);
        }
    } count(sizes);
    for (const Expr &e : stage.expressions()) count.include(e);
    return count.sum;
}

// Whether no two iterations of the reader read the same element: the indices of `read` are all of
// its axes.
bool reads_own_element(const Stage &reader, const Halide::Internal::Call *read) {
    std::set<std::string> axes;
    for (const Expr &index : read->args) {
        const auto *v = index.as<Halide::Internal::Variable>();
        if (!v || !axes.insert(v->name).second) return false;
    }
    for (const auto *some : {&reader.axes, &reader.reduction_axes}) {
        for (const Axis &a : *some) {
            if (!axes.count(a.name()) && !is_const_one(a.extent())) return false;
        }
    }
    return true;
}

} // namespace

int64_t operations(const Stage &stage) { return expanded_operations(stage, {}); }

bool inlines_cheaply(const Op &op, const Stage &stage, const Stage &reader, std::map<std::string, int64_t> &sizes) {
    constexpr int64_t max_repeated = 30; // repeated operations per element of the reader
    auto with = sizes;
    const int64_t own = with[stage.name] = expanded_operations(stage, sizes);
    std::set<Expr, Halide::Internal::IRDeepCompare> places;
    for (const Expr &e : reader.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const Stage *padding = op.find_stage(read->name);
            if (padding && padding->kind == Stage::Kind::Padding) {
                const auto reads = tensor_reads(padding->value);
                if (std::none_of(reads.begin(), reads.end(), [&](const auto *r) { return r->name == stage.name; }))
                    continue;
                with[padding->name] = expanded_operations(*padding, with);
            } else if (read->name != stage.name) {
                continue;
            }
            places.insert(Expr(read));
        }
    }
    const int64_t repeated = (static_cast<int64_t>(places.size()) - 1) * own;
    if (repeated > max_repeated || expanded_operations(reader, with) > max_operations) return false;
    sizes = std::move(with);
    return true;
}

bool pays_to_inline(const Schedule &s, const Stage &stage, std::map<std::string, int64_t> &sizes) {
    const ScheduleState &state = s.state();
    if (stage.kind != Stage::Kind::Pointwise || stage.axes.empty() || is_extern(stage) || calls_functions(stage) ||
        stage.reads_itself() || holds_stages(s, stage.name))
        return false;
    int64_t places = 0;
    for (const std::string &name : state.readers(stage.name)) {
        const Stage &reader = state.stage(name).def;
        if (reader.kind == Stage::Kind::Padding || is_extern(reader) || reader.reads_itself() ||
            divides_for_each_lane(stage, reader))
            return false;
        std::set<Expr, Halide::Internal::IRDeepCompare> different;
        for (const Expr &e : reader.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                if (read->name != stage.name) continue;
                if (!reads_own_element(reader, read)) return false;
                different.insert(Expr(read));
            }
        }
        places += static_cast<int64_t>(different.size());
    }
    auto with = sizes;
    const int64_t operations = with[stage.name] = expanded_operations(stage, sizes);
    for (const std::string &name : state.readers(stage.name)) {
        if (expanded_operations(state.stage(name).def, with) > max_operations) return false;
    }
    int64_t once = operations;
    // other tensors are loaded once per row
    for (const Halide::Internal::Call *read : tensor_reads(stage.value))
        once += expr_uses_var(Expr(read), stage.axes.back().name());
    // If L2 does not hold the stage, its stores and loads take as long as twice as many operations.
    // Inlining a stage that loads a stage of its own size saves no loads. Both may be held in the
    // same loops.
    int64_t weight = 1;
    const int64_t bytes = bytes_of(stage.type, stage.axes, 0, 1);
    const auto reads = tensor_reads(stage.value);
    const bool from_inputs = std::all_of(reads.begin(), reads.end(), [&](const Halide::Internal::Call *read) {
        return state.op.find_input(read->name) || read->args.size() < stage.axes.size();
    });
    if (from_inputs && bytes > cache_bytes(s.machine(), "L2", 512 << 10)) weight = 2;
    if (places == 0 || (places - 1) * once > weight * (places + 2)) return false;
    sizes = std::move(with);
    return true;
}

} // namespace kumiko::library

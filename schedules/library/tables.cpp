#include "schedules/library/tables.h"

#include "dsl/reach.h"
#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/inlining.h"
#include "schedules/library/structure.h"
#include "schedules/primitives/tabulate.h"

namespace kumiko::library {

namespace {

// The widest type inside of an expression, in bits.
int widest_bits(const Expr &e) {
    struct Widest : Halide::Internal::IRGraphVisitor {
        int bits = 8;
        void include(const Expr &e) override {
            bits = std::max(bits, e.type().bits());
            IRGraphVisitor::include(e);
        }
    } widest;
    widest.include(e);
    return widest.bits;
}

// Costs are vector operations per element.
constexpr double load_of_lane = 3;          // loads the index and the element, inserts the lane
constexpr double select_from_registers = 3; // for a whole vector

double cost_of_read(Type type, const std::vector<Axis> &axes, const Machine &machine) {
    return fits_lookup_registers(type, axes, machine) ? select_from_registers / machine.lanes(8) : load_of_lane;
}

bool pays(const ScheduleState &state, const Stage &reader, const LookupTable &table) {
    constexpr int64_t min_uses = 8; // of each value
    constexpr double min_gain = 1.05;
    const Machine &machine = *state.machine;
    const Stage &stage = table.stage;
    const int64_t values = *constant_extent(stage.axes[0]), bytes = bytes_of(stage.type, stage.axes, 0, 1);
    if (work(reader) < min_uses * values || bytes > cache_bytes(machine, "L1", 32 << 10) / 2) return false;
    double computed = static_cast<double>(operations(stage)) / machine.lanes(widest_bits(stage.value));
    for (const Halide::Internal::Call *read : tensor_reads(stage.value)) {
        if (Halide::Internal::expr_uses_var(Expr(read), stage.axes[0].name()))
            computed += cost_of_read(read->type, state.axes_of(read->name), machine);
    }
    return computed > min_gain * cost_of_read(stage.type, stage.axes, machine);
}

} // namespace

bool fits_lookup_registers(Type type, const std::vector<Axis> &axes, const Machine &machine) {
    constexpr int64_t most = 256;
    int64_t count = 1;
    for (const Axis &a : axes) {
        const int64_t n = constant_extent(a).value_or(most + 1);
        if (n > most || n * count > most) return false;
        count *= n;
    }
    return type.bits() == 8 && machine.has("avx512_vbmi");
}

std::set<std::string> tabulate_functions(Schedule &s, const std::set<std::string> &excluded) {
    std::set<std::string> tables;
    for (const Stage &stage : s.op().stages()) {
        std::set<std::string> narrow;
        for (const Expr &e : stage.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                const Type t = read->type;
                if ((t.is_int() || t.is_uint()) && t.bits() <= 16 && !t.is_bool()) narrow.insert(read->name);
            }
        }
        for (const std::string &tensor : narrow) {
            if (excluded.count(stage.name) || !s.state().find(stage.name)) continue;
            const auto found = table_of(s.state(), s.state().stage(stage.name), tensor);
            const auto *table = std::get_if<LookupTable>(&found);
            if (table && !s.state().find(table->stage.name) && pays(s.state(), stage, *table))
                tables.insert(s.stage(stage.name).tabulate(tensor).name());
        }
    }
    return tables;
}

} // namespace kumiko::library

#include "autotune/features/features.h"

#include "autotune/features/loop_tree.h"
#include "autotune/features/traffic.h"
#include "targets/lower/nest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kumiko {

namespace {

// The estimate's model of a core; defaults where the machine's table has no value.
struct Core {
    double clock_hz, multiply_adds, loads = 2, stores = 1, any = 4, latency = 4;
    double registers;
    std::vector<double> capacities;      // of three cache levels, innermost first
    std::vector<double> bytes_per_cycle; // from beyond each level

    explicit Core(const Machine &m)
        : clock_hz(m.clock_ghz > 0 ? m.clock_ghz * 1e9 : 3e9),
          multiply_adds(m.fmas_per_cycle > 0 ? m.fmas_per_cycle : 1), registers(std::max(8, m.vector_registers)) {
        const double sizes[] = {32e3, 512e3, 8e6}, rates[] = {32, 16, 4};
        const char *const names[] = {"L1", "L2", "L3"};
        for (int i = 0; i < 3; i++) {
            const MemoryLevel *level = m.find_level(names[i]);
            capacities.push_back(level && level->bytes > 0 ? static_cast<double>(level->bytes) : sizes[i]);
            bytes_per_cycle.push_back(rates[i]);
        }
    }
};

// Cycles of one iteration of a body.
struct Body {
    int node = 0;
    double arithmetic = 0, issue = 0, loads = 0, stores = 0, chain = 0, overhead = 0, spilled = 0;

    double cycles() const { return std::max({arithmetic, issue, loads, stores, chain}) + overhead + spilled; }
};

Body body_cycles(const LoopTree &tree, int node, const Core &core) {
    const LoopNode &loop = tree.loops[static_cast<size_t>(node)];
    const BodyWork &w = loop.work;
    Body b;
    b.node = node;
    b.arithmetic = w.arithmetic() / core.multiply_adds;
    const double loads = w.loads + 2 * w.gathered_lanes + w.masked_loads;
    const double stores = w.stores + 2 * w.scattered_lanes + 3 * w.masked_stores;
    b.loads = loads / core.loads;
    b.stores = stores / core.stores;
    b.issue =
        (w.arithmetic() + w.conversions + 2 * w.selections + w.shuffles + loads + stores + w.prefetches) / core.any;
    b.chain = loop.chain * core.latency;
    b.overhead = loop.parent < 0 ? 0 : 0.5 + w.branches;
    // Two registers hold operands.
    const double excess = loop.accumulators + 2 - core.registers;
    if (excess > 0) b.spilled = 1.5 * excess;
    return b;
}

float log_of(double x) { return static_cast<float>(std::log2(std::max(x, 0.0) + 1)); }
// log2 of a quotient, clamped to ±20; 0 if there is nothing to compare.
float ratio(double a, double b) {
    if (a <= 0 && b <= 0) return 0;
    return static_cast<float>(std::clamp(std::log2((a + 1e-12) / (b + 1e-12)), -20.0, 20.0));
}
float share(double a, double b) { return b > 0 ? static_cast<float>(std::clamp(a / b, 0.0, 64.0)) : 0.f; }

struct Table {
    std::vector<std::string> names;
    std::vector<float> values;
    void add(const std::string &name, float value) {
        names.push_back(name);
        values.push_back(std::isfinite(value) ? value : 0.f);
    }
};

// Distribution of a nest over threads.
struct Grain {
    double tasks = 1;    // iterations of the outermost parallel loop
    double speedup = 1;  // of the parallel part
    double launches = 0; // executions of parallel loops
    double serial = 0;   // cycles outside of parallel loops
};

bool inside_parallel(const LoopTree &tree, int node) {
    for (int n = node; n >= 0; n = tree.loops[static_cast<size_t>(n)].parent) {
        if (tree.loops[static_cast<size_t>(n)].parallel) return true;
    }
    return false;
}

constexpr size_t described_bodies = 3;

// The memory accesses of the body of a loop, as concurrent streams.
void describe_streams(Table &t, const std::string &p, const LoopTree &tree, const LoopNode &loop, int node,
                      const Machine &machine) {
    double streams = 0, far = 0, near = 0, still = 0, aliased = 0, unaligned = 0;
    const double vector = machine.vector_bits / 8.0;
    for (const Access &a : loop.accesses) {
        // Strides of whole pages map to the same L1 sets; unaligned vectors cross cache lines.
        bool all_aligned = std::fmod(a.index.constant * a.bytes, vector) == 0;
        for (const auto &[l, c] : a.index.terms) {
            const double bytes = std::abs(c) * a.bytes;
            if (std::fmod(bytes, 4096) == 0 && tree.loops[static_cast<size_t>(l)].extent >= 4) aliased += 1;
            all_aligned = all_aligned && std::fmod(bytes, vector) == 0;
        }
        for (size_t i = 1; i < a.constants.size(); i++)
            aliased += std::fmod((a.constants[i] - a.constants[i - 1]) * a.bytes, 4096) == 0;
        if (!all_aligned && a.elements > static_cast<double>(a.constants.size())) unaligned += a.times;
        const double step = std::abs(a.index.coefficient(node)) * a.bytes;
        streams += 1;
        if (step == 0)
            still += 1;
        else if (step <= 2.0 * machine.vector_bits / 8 || step <= (a.past - a.lowest) * a.bytes)
            near += 1;
        else
            far += static_cast<double>(std::max<size_t>(1, a.constants.size()));
    }
    t.add(p + "streams", log_of(streams));
    t.add(p + "still", log_of(still));
    t.add(p + "near", log_of(near));
    t.add(p + "far", log_of(far));
    t.add(p + "aliased", log_of(aliased));
    t.add(p + "unaligned", log_of(unaligned));
}

// The working sets of a loop (-1: none) and of those around it.
void describe_working_sets(Table &t, const std::string &p, const LoopTree &tree, int node, const Core &core) {
    double touched[4] = {0, 0, 0, 0}, pages[4] = {0, 0, 0, 0};
    for (int level = 0; level < 4 && node >= 0; level++, node = tree.loops[static_cast<size_t>(node)].parent)
        touched[level] = 64 * touched_lines(tree, node), pages[level] = touched_lines(tree, node, 4096);
    for (int level = 0; level < 4; level++) {
        t.add(p + "touched." + std::to_string(level), log_of(touched[level]));
        t.add(p + "pages." + std::to_string(level), log_of(pages[level]));
    }
    t.add(p + "touched_to_l1", ratio(touched[0], core.capacities[0]));
    t.add(p + "touched_to_l2", ratio(touched[1], core.capacities[1]));
}

void describe_body(Table &t, const std::string &p, const LoopTree &tree, const Body *b, double all_cycles,
                   const Core &core, const Machine &machine) {
    static const LoopNode none;
    static const Body nothing;
    const LoopNode &loop = b ? tree.loops[static_cast<size_t>(b->node)] : none;
    if (!b) b = &nothing;
    const BodyWork &w = loop.work;
    const double cycles = b->cycles(), slots = w.arithmetic() + w.conversions + w.selections + w.shuffles;
    t.add(p + "share", share(cycles * loop.trips, all_cycles));
    t.add(p + "cycles", log_of(cycles));
    t.add(p + "arithmetic", share(b->arithmetic, cycles));
    t.add(p + "issue", share(b->issue, cycles));
    t.add(p + "loads", share(b->loads, cycles));
    t.add(p + "stores", share(b->stores, cycles));
    t.add(p + "chain", share(b->chain, cycles));
    t.add(p + "spilled", share(b->spilled, cycles));
    t.add(p + "extent", log_of(loop.extent));
    t.add(p + "accumulators", log_of(loop.accumulators));
    t.add(p + "registers", share(loop.accumulators, core.registers));
    t.add(p + "multiply_adds", log_of(w.multiply_adds));
    t.add(p + "functions", log_of(w.functions));
    t.add(p + "divisions", log_of(w.divisions));
    t.add(p + "conversions", log_of(w.conversions));
    t.add(p + "selections", log_of(w.selections));
    t.add(p + "shuffles", log_of(w.shuffles));
    t.add(p + "instructions", log_of(w.instructions));
    t.add(p + "scalar", share(w.scalar, slots));
    t.add(p + "memory_per_slot", share(w.loads + w.stores + w.gathered_lanes + w.scattered_lanes, slots + 1e-3));
    t.add(p + "loads_per_multiply_add", share(w.loads, w.multiply_adds));
    t.add(p + "broadcasts", share(w.broadcasts, w.loads));
    t.add(p + "masked", share(w.masked_loads + w.masked_stores, w.loads + w.stores));
    t.add(p + "gathered", log_of(w.gathered_lanes + w.scattered_lanes));
    t.add(p + "register_traffic", share(w.register_reads + w.register_writes, slots + 1e-3));
    t.add(p + "branches", log_of(w.branches));
    t.add(p + "prefetches", log_of(w.prefetches));
    t.add(p + "body_accesses", log_of(w.loads + w.stores));
    describe_streams(t, p, tree, loop, b->node, machine);
    // The relative cost of the enclosing body.
    const LoopNode *around =
        loop.parent >= 0 && b != &nothing ? &tree.loops[static_cast<size_t>(loop.parent)] : nullptr;
    t.add(p + "around",
          around ? share(body_cycles(tree, loop.parent, core).cycles(), cycles * loop.extent + 1e-9) : 0.f);
    t.add(p + "around_stores",
          around ? share(around->work.stores + around->work.masked_stores, cycles * loop.extent + 1e-9) : 0.f);
    describe_working_sets(t, p, tree, b == &nothing ? -1 : b->node, core);
}

// Sums over the bodies of all loops.
struct NestTotals {
    std::vector<Body> bodies; // by loop
    BodyWork work;
    double iterations = 0;
    // In cycles: the total, the arithmetic, and what other limits add to the arithmetic.
    double compute = 0, arithmetic = 0, spilled = 0, chain_bound = 0, load_bound = 0, store_bound = 0, overhead = 0;
    Grain grain;
};

NestTotals totals_of(const LoopTree &tree, const Core &core, int threads) {
    NestTotals n;
    for (size_t i = 0; i < tree.loops.size(); i++) {
        const LoopNode &loop = tree.loops[i];
        const Body b = body_cycles(tree, static_cast<int>(i), core);
        const double cycles = b.cycles() * loop.trips;
        n.bodies.push_back(b);
        n.work.add(loop.work, loop.trips);
        n.iterations += loop.trips;
        n.compute += cycles;
        n.arithmetic += b.arithmetic * loop.trips;
        n.spilled += b.spilled * loop.trips;
        n.overhead += b.overhead * loop.trips;
        n.chain_bound += std::max(0.0, b.chain - std::max(b.arithmetic, b.loads)) * loop.trips;
        n.load_bound += std::max(0.0, b.loads - b.arithmetic) * loop.trips;
        n.store_bound += std::max(0.0, b.stores - b.arithmetic) * loop.trips;
        if (!inside_parallel(tree, static_cast<int>(i))) n.grain.serial += cycles;
        if (loop.parallel && !(loop.parent >= 0 && inside_parallel(tree, loop.parent))) {
            n.grain.launches += loop.runs;
            n.grain.tasks = std::max(n.grain.tasks, loop.extent);
        }
    }
    if (n.grain.launches > 0) n.grain.speedup = n.grain.tasks / std::ceil(n.grain.tasks / threads);
    return n;
}

// The estimated time of a nest in cycles: the largest of computing and moving, and a share of the
// others, which overlap with it in part.
struct NestTimes {
    double concurrent; // computing, on all threads
    double moved[3];   // from L2, L3 and memory
    double cycles;
};

NestTimes times_of(const NestTotals &n, const std::vector<Traffic> &traffic, const Core &core, int threads) {
    constexpr double not_overlapped = 0.35, cycles_of_launch = 6000, threads_that_fill_memory = 2;
    NestTimes t{};
    t.concurrent = n.grain.serial + (n.compute - n.grain.serial) / n.grain.speedup;
    for (size_t i = 0; i < 3; i++) t.moved[i] = traffic[i].total() / core.bytes_per_cycle[i];
    t.moved[0] /= n.grain.speedup;
    t.moved[1] /= n.grain.speedup;
    t.moved[2] /= std::min(n.grain.speedup, threads_that_fill_memory);
    const double most = std::max({t.concurrent, t.moved[0], t.moved[1], t.moved[2]});
    t.cycles = most + not_overlapped * (t.concurrent + t.moved[0] + t.moved[1] + t.moved[2] - most) +
               (threads > 1 ? cycles_of_launch * n.grain.launches : 0);
    return t;
}

void describe_times(Table &t, const NestTotals &n, const NestTimes &times, double ideal) {
    t.add("ideal", log_of(ideal));
    t.add("estimate", ratio(times.cycles, ideal));
    t.add("compute", ratio(times.concurrent, ideal));
    t.add("arithmetic", ratio(n.arithmetic, ideal));
    t.add("from_l2", ratio(times.moved[0], ideal));
    t.add("from_l3", ratio(times.moved[1], ideal));
    t.add("from_memory", ratio(times.moved[2], ideal));
    t.add("bound_by_loads", share(n.load_bound, n.compute));
    t.add("bound_by_stores", share(n.store_bound, n.compute));
    t.add("bound_by_chains", share(n.chain_bound, n.compute));
    t.add("spilled", share(n.spilled, n.compute));
    t.add("overhead", share(n.overhead, n.compute));
}

void describe_traffic(Table &t, const std::vector<Traffic> &traffic, const Core &core) {
    const double touched = traffic[3].total();
    for (size_t i = 0; i < 3; i++) {
        const std::string p = "traffic." + std::to_string(i) + ".";
        t.add(p + "read", ratio(traffic[i].read, touched));
        t.add(p + "written", ratio(traffic[i].written, touched));
    }
    t.add("touched", log_of(touched));
    t.add("touched_to_l2", ratio(touched, core.capacities[1]));
    t.add("touched_to_l3", ratio(touched, core.capacities[2]));
}

// `needed`: operations of the formula; `touched`: bytes.
void describe_work(Table &t, const NestTotals &n, double needed, double touched, double ideal) {
    constexpr double slots_of_function = 12, slots_of_division = 5;
    const BodyWork &sum = n.work;
    t.add("operations", ratio(sum.flops, needed));
    t.add("slots", ratio(sum.arithmetic(), ideal));
    t.add("accesses", ratio(sum.loads + sum.stores, ideal));
    t.add("flops_per_byte", ratio(sum.flops, touched));
    const double slots = sum.arithmetic() + sum.conversions + sum.selections + sum.shuffles;
    t.add("functions", share(slots_of_function * sum.functions, slots));
    t.add("divisions", share(slots_of_division * sum.divisions, slots));
    t.add("conversions", share(sum.conversions, slots));
    t.add("selections", share(sum.selections, slots));
    t.add("shuffles", share(sum.shuffles, slots));
    t.add("scalar", share(sum.scalar, slots));
    t.add("instructions", share(sum.instructions, slots));
    t.add("flops_per_slot", share(sum.flops, slots));
    const double accesses = sum.loads + sum.stores + sum.gathered_lanes + sum.scattered_lanes;
    t.add("accesses_per_slot", share(accesses, slots));
    t.add("stores_per_load", share(sum.stores + sum.scattered_lanes, sum.loads + sum.gathered_lanes));
    t.add("masked", share(sum.masked_loads + sum.masked_stores, accesses));
    t.add("gathered", share(sum.gathered_lanes + sum.scattered_lanes, accesses));
    t.add("streamed", share(sum.streamed_stores, sum.stores));
    t.add("prefetches", share(sum.prefetches, accesses));
    t.add("branches", share(sum.branches, n.iterations));
    t.add("iterations", ratio(n.iterations, ideal));
}

void describe_program(Table &t, const LoopTree &tree, const NestTotals &n, const Core &core, int threads) {
    t.add("loops", log_of(static_cast<double>(tree.loops.size())));
    t.add("register_slots", share(tree.register_slots, core.registers));
    t.add("workspace", log_of(tree.workspace));
    t.add("workspace_to_l2", ratio(tree.workspace, core.capacities[1]));
    t.add("threads", static_cast<float>(threads));
    t.add("tasks", log_of(n.grain.tasks));
    t.add("speedup", static_cast<float>(n.grain.speedup));
    t.add("launches", log_of(n.grain.launches));
    t.add("serial", share(n.grain.serial, n.compute));
}

// The bodies that take the longest, each in a fixed number of features.
void describe_bodies(Table &t, const LoopTree &tree, const NestTotals &n, const Core &core, const Machine &machine) {
    std::vector<size_t> order(n.bodies.size());
    std::iota(order.begin(), order.end(), 0);
    const auto cost = [&](size_t i) { return n.bodies[i].cycles() * tree.loops[i].trips; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(a) > cost(b); });
    for (size_t i = 0; i < described_bodies; i++) {
        const Body *b = i < order.size() && cost(order[i]) > 0 ? &n.bodies[order[i]] : nullptr;
        describe_body(t, "bodies." + std::to_string(i) + ".", tree, b, n.compute, core, machine);
    }
}

NestCost describe(const LoopTree &tree, const Machine &machine, int threads, double operations, Table &t) {
    constexpr double fastest_bytes_per_cycle = 32;
    const Core core(machine);
    const NestTotals n = totals_of(tree, core, threads);
    const std::vector<Traffic> traffic = count_traffic(tree, core.capacities);
    const NestTimes times = times_of(n, traffic, core, threads);
    const double touched = traffic[3].total();
    // A lower bound on the work that the nest shows: every lane used, every line transferred once.
    const double lanes = std::max(1, machine.lanes(32));
    const double needed = operations > 0 ? operations : n.work.flops;
    const double ideal = std::max({needed / (2 * lanes * core.multiply_adds), touched / fastest_bytes_per_cycle, 1.0});
    describe_times(t, n, times, ideal);
    describe_traffic(t, traffic, core);
    describe_work(t, n, needed, touched, ideal);
    describe_program(t, tree, n, core, threads);
    describe_bodies(t, tree, n, core, machine);
    t.add("lanes", static_cast<float>(lanes));
    return {{features_version, {}}, times.cycles / core.clock_hz};
}

} // namespace

const std::vector<std::string> &feature_names() {
    static const std::vector<std::string> names = [] {
        LoopTree empty;
        empty.loops.emplace_back();
        Table table;
        describe(empty, Machine{}, 1, 0, table);
        std::vector<std::string> all = table.names;
        for (const std::string &name : table.names) all.push_back(name + " beside the default");
        return all;
    }();
    return names;
}

size_t own_features() { return feature_names().size() / 2; }

void set_beside(Features &features, const Features &other) {
    const size_t own = own_features();
    if (other.values.size() < own) return; // the reference could not be described
    for (size_t i = 0; i < own; i++) features.values[own + i] = features.values[i] - other.values[i];
}

NestCost cost_of(const Nest &nest, const Machine &machine, int threads, const Sizes &sizes, double operations) {
    Table table;
    NestCost cost = describe(read_loops(nest, machine, sizes), machine, std::max(1, threads), operations, table);
    cost.features.values = std::move(table.values);
    cost.features.values.resize(feature_names().size(), 0.f);
    return cost;
}

} // namespace kumiko

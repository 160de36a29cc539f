#include "machine/machine.h"

#include "support/duration.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/names.h"
#include "support/table.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

template<typename Row>
std::vector<std::string> names_of(const std::vector<Row> &rows) {
    std::vector<std::string> out;
    for (const Row &row : rows) out.push_back(row.name);
    return out;
}

template<typename Row>
const Row *find(const std::vector<Row> &rows, const std::string &name) {
    for (const Row &row : rows) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

template<typename Row>
void check_names(const std::vector<Row> &rows, const std::string &machine, const char *what) {
    UniqueNames seen;
    for (const Row &row : rows) {
        if (row.name.empty()) throw UserError(fmt::format("machine '{}': a {} has no name", machine, what));
        if (!seen.take(row.name))
            throw UserError(fmt::format("machine '{}': two {}s are named '{}'", machine, what, row.name));
    }
}

} // namespace

void Machine::check() const {
    auto fail = [&](const std::string &cause) { throw UserError("machine '" + name + "': " + cause); };
    if (name.empty()) throw UserError("a machine needs a name");
    check_names(memory, name, "memory level");
    check_names(units, name, "unit level");
    for (const UnitLevel &u : units) {
        if (u.name == "machine") fail("no unit level can be named 'machine', which stands for all of it");
        if (u.count < 1) fail(fmt::format("unit level '{}' has a count of {}; it must be at least 1", u.name, u.count));
    }
    for (const MemoryLevel &m : memory) {
        if (m.bytes < 0) fail(fmt::format("memory level '{}' has {} bytes; use 0 for unlimited", m.name, m.bytes));
        if (m.shared_by < 1)
            fail(fmt::format("memory level '{}' is shared by {}; it must be at least 1", m.name, m.shared_by));
        if (m.bandwidth < 0 || m.latency < 0 || m.line_bytes < 0) {
            fail(fmt::format("memory level '{}' has a negative bandwidth, latency or line; use 0 for unknown", m.name));
        }
        if (m.scope != "machine" && !find_unit(m.scope)) {
            std::vector<std::string> known = unit_names();
            known.push_back("machine");
            fail(fmt::format("memory level '{}' has the scope '{}', which is not a unit level{}", m.name, m.scope,
                             suggest(m.scope, known)));
        }
    }
    if (vector_bits < 0 || vector_registers < 0 || fmas_per_cycle < 0 || clock_ghz < 0) {
        fail("vector bits, vector registers, multiply-adds a cycle and clock cannot be negative");
    }
}

const MemoryLevel *Machine::find_level(const std::string &level) const { return find(memory, level); }

const MemoryLevel &Machine::level(const std::string &level) const {
    if (const MemoryLevel *m = find_level(level)) return *m;
    throw UserError(fmt::format("machine '{}' has no memory level '{}'{}", name, level, suggest(level, level_names())));
}

std::vector<std::string> Machine::level_names() const { return names_of(memory); }

const UnitLevel *Machine::find_unit(const std::string &unit) const { return find(units, unit); }

const UnitLevel &Machine::unit(const std::string &unit) const {
    if (const UnitLevel *u = find_unit(unit)) return *u;
    throw UserError(fmt::format("machine '{}' has no unit '{}'{}", name, unit, suggest(unit, unit_names())));
}

std::vector<std::string> Machine::unit_names() const { return names_of(units); }

int64_t Machine::units_in_all(const std::string &unit_name) const {
    unit(unit_name);
    int64_t product = 1;
    for (const UnitLevel &u : units) {
        product *= u.count;
        if (u.name == unit_name) break;
    }
    return product;
}

double Machine::peak_gflops(int64_t count) const {
    return clock_ghz * fmas_per_cycle * 2 * lanes(32) * static_cast<double>(count);
}

std::string Machine::id() const {
    Hasher h;
    h.text(architecture).number(vector_bits).number(vector_registers);
    for (const std::string &f : features) h.text(f);
    for (const UnitLevel &u : units) h.text(u.name).number(u.count);
    for (const MemoryLevel &m : memory) {
        // Main memory size is excluded: no schedule depends on it, and virtual machines report
        // varying sizes.
        bool whole = m.scope == "machine" && !m.explicit_placement && &m == &memory.back();
        h.text(m.name).text(m.scope).number(whole ? 0 : m.bytes).number(m.shared_by).number(m.explicit_placement);
    }
    return to_identifier(description.empty() || name != "host" ? name : description) + "-" + h.hex().substr(0, 12);
}

std::string Machine::to_string() const {
    std::string out = name + (description.empty() ? "" : ": " + description) + " (" + architecture + ")\n";
    for (const UnitLevel &u : units)
        out += fmt::format("{} {} {}", &u == &units.front() ? "units:" : " x", u.count, u.name);
    out += units.empty() ? "" : "\n";
    out += fmt::format("vectors: {} bits, {} registers", vector_bits, vector_registers);
    if (fmas_per_cycle > 0) out += fmt::format(", {} multiply-adds a cycle", fmas_per_cycle);
    if (clock_ghz > 0) out += fmt::format(", {:.2f} GHz", clock_ghz);
    out += "\n";
    // A column is printed only if some level has a value for it.
    const auto any = [&](double MemoryLevel::*number) {
        return std::any_of(memory.begin(), memory.end(), [&](const MemoryLevel &m) { return m.*number > 0; });
    };
    const bool bandwidths = any(&MemoryLevel::bandwidth), latencies = any(&MemoryLevel::latency);
    std::vector<std::string> columns = {"memory", "bytes", "of each", "shared by", "placed by"};
    if (bandwidths) columns.push_back("GB/s");
    if (latencies) columns.push_back("ns");
    Table table(columns);
    auto known = [](double x) { return x > 0 ? fmt::format("{:.4g}", x) : std::string("-"); };
    for (const MemoryLevel &m : memory) {
        std::vector<std::string> row = {m.name, m.bytes > 0 ? bytes_text(static_cast<double>(m.bytes)) : "-", m.scope,
                                        std::to_string(m.shared_by), m.explicit_placement ? "program" : "hardware"};
        if (bandwidths) row.push_back(known(m.bandwidth));
        if (latencies) row.push_back(known(m.latency));
        table.row(row);
    }
    out += table.text() + "features:";
    for (const std::string &f : features) out += " " + f;
    return out + "\n";
}

} // namespace kumiko

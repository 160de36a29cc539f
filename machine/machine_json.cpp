// Machine descriptions as JSON files.
#include "machine/machine.h"

#include "support/error.h"
#include "support/json.h"

namespace kumiko {

namespace {

constexpr int64_t format_version = 1;

Machine read(const Json &json, const std::string &document) {
    JsonView v(json, document);
    v.allow_only(
        {"format", "name", "description", "architecture", "clock_ghz", "units", "memory", "vector", "features"});
    if (int64_t format = v["format"].integer(1, INT64_MAX); format > format_version) {
        v["format"].fail("this machine is of format " + std::to_string(format) + ", newer than " +
                         std::to_string(format_version) + ", which this version reads");
    }
    Machine m;
    m.name = v["name"].string();
    m.description = v.string_or("description", "");
    m.architecture = v["architecture"].string();
    m.clock_ghz = v.number_or("clock_ghz", 0);
    for (const JsonView &u : v["units"].elements()) {
        u.allow_only({"name", "count"});
        m.units.push_back({u["name"].string(), u["count"].integer(1, INT64_C(1) << 31)});
    }
    for (const JsonView &l : v["memory"].elements()) {
        l.allow_only(
            {"name", "bytes", "scope", "shared_by", "explicit_placement", "bandwidth", "latency", "line_bytes"});
        MemoryLevel level;
        level.name = l["name"].string();
        level.bytes = l["bytes"].integer(0, INT64_MAX);
        level.scope = l["scope"].string();
        level.shared_by = l.has("shared_by") ? static_cast<int>(l["shared_by"].integer(1, 1 << 30)) : 1;
        level.explicit_placement = l.boolean_or("explicit_placement", false);
        level.bandwidth = l.number_or("bandwidth", 0);
        level.latency = l.number_or("latency", 0);
        level.line_bytes = l.has("line_bytes") ? static_cast<int>(l["line_bytes"].integer(0, 1 << 30)) : 0;
        m.memory.push_back(level);
    }
    if (v.has("vector")) {
        JsonView vector = v["vector"];
        vector.allow_only({"bits", "registers", "fmas_per_cycle"});
        m.vector_bits = static_cast<int>(vector["bits"].integer(0, 1 << 20));
        m.vector_registers = static_cast<int>(vector["registers"].integer(0, 1 << 20));
        m.fmas_per_cycle = vector.number_or("fmas_per_cycle", 0);
    }
    if (v.has("features")) {
        for (const std::string &f : v["features"].strings()) m.features.insert(f);
    }
    return m;
}

} // namespace

std::string Machine::save() const {
    Json j;
    j["format"] = format_version;
    j["name"] = name;
    if (!description.empty()) j["description"] = description;
    j["architecture"] = architecture;
    if (clock_ghz > 0) j["clock_ghz"] = clock_ghz;
    j["units"] = Json::array();
    for (const UnitLevel &u : units) j["units"].push_back({{"name", u.name}, {"count", u.count}});
    j["memory"] = Json::array();
    for (const MemoryLevel &m : memory) {
        Json row = {{"name", m.name}, {"bytes", m.bytes}, {"scope", m.scope}, {"shared_by", m.shared_by}};
        if (m.explicit_placement) row["explicit_placement"] = true;
        if (m.bandwidth > 0) row["bandwidth"] = m.bandwidth;
        if (m.latency > 0) row["latency"] = m.latency;
        if (m.line_bytes > 0) row["line_bytes"] = m.line_bytes;
        j["memory"].push_back(row);
    }
    j["vector"] = {{"bits", vector_bits}, {"registers", vector_registers}};
    if (fmas_per_cycle > 0) j["vector"]["fmas_per_cycle"] = fmas_per_cycle;
    j["features"] = features;
    return dump_json(j);
}

Machine Machine::load(const std::string &text, const std::string &document) {
    Machine m = read(parse_json(text, document), document);
    try {
        m.check();
    } catch (const UserError &e) {
        throw UserError(document + ": " + e.what());
    }
    return m;
}

Machine Machine::load_file(const std::string &path) { return load(dump_json(load_json(path)), path); }

} // namespace kumiko

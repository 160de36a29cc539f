#include "sim/config.h"

#include "sim/built_in.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/names.h"

#include <fmt/format.h>

#include <filesystem>

namespace kumiko::sim {

namespace {

// Lists every number of a configuration once, for reading, writing and the check that none is
// missing.
template<typename C, typename Visitor>
void visit_numbers(C &c, Visitor &&v) {
    v("", "groups", c.groups, 1, 16);
    v("", "l2bs", c.l2bs, 1, 32);
    v("", "l1bs", c.l1bs, 1, 32);
    v("", "mabs", c.mabs, 1, 32);
    v("", "clock_ghz", c.clock_ghz);
    v("sizes", "lm", c.sizes.lm, 1, 65536);
    v("sizes", "grf", c.sizes.grf, 1, 65536);
    v("sizes", "l1bm", c.sizes.l1bm, 1, 65536);
    v("sizes", "l2bm", c.sizes.l2bm, 1, 65536);
    v("sizes", "pdm", c.sizes.pdm, 1, int64_t(1) << 32);
    v("sizes", "dram", c.sizes.dram, 1, int64_t(1) << 32);
    v("gaps", "lm", c.gaps.lm, 0, 7);
    v("gaps", "grf", c.gaps.grf, 0, 7);
    v("gaps", "t", c.gaps.t, 0, 7);
    v("gaps", "mask", c.gaps.mask, 0, 7);
    v("gaps", "base", c.gaps.base, 0, 7);
    v("gaps", "matrix", c.gaps.matrix, 0, 7);
    v("gaps", "l1bm_by_pe", c.gaps.l1bm_by_pe, 0, 7);
    v("gaps", "l1bm_by_l2", c.gaps.l1bm_by_l2, 0, 7);
    v("gaps", "l1bm_l2_l2", c.gaps.l1bm_l2_l2, 0, 7);
    v("gaps", "l2bm_l2", c.gaps.l2bm_l2, 0, 7);
    v("gaps", "l2bm_mv", c.gaps.l2bm_mv, 0, 7);
    v("links", "l2_broadcast", c.links.l2_broadcast, 1, 64);
    v("links", "l2_scatter", c.links.l2_scatter, 1, 64);
    v("moves", "issue_steps", c.moves.issue_steps, 1, 64);
    v("moves", "queue", c.moves.queue, 1, 64);
    v("moves", "l2bm_rate", c.moves.l2bm_rate, 1, 1024);
    v("moves", "across_rate", c.moves.across_rate, 1, 1024);
    v("moves", "block", c.moves.block, 1, 4096);
    v("moves", "granule", c.moves.granule, 1, 4096);
    v("moves", "table", c.moves.table, 1, 65536);
    v("moves", "dram_rate", c.moves.dram_rate, 1, 1024);
    v("moves", "dram_start", c.moves.dram_start, 0, 1000000);
    v("moves", "turnaround", c.moves.turnaround, 0, 1000000);
    v("moves", "indirect_rate", c.moves.indirect_rate, 1, 1024);
    v("moves", "pdm_rate", c.moves.pdm_rate, 1, 1024);
    v("moves", "pdm_across_rate", c.moves.pdm_across_rate, 1, 1024);
    v("moves", "pdm_start", c.moves.pdm_start, 0, 1000000);
    v("moves", "host_gb_per_s", c.moves.host_gb_per_s);
    v("repeat", "length", c.repeat.length, 1, 255);
    v("repeat", "nest", c.repeat.nest, 0, 2);
    v("energy", "fp16_mul", c.energy.fp16_mul);
    v("energy", "fp32_mul", c.energy.fp32_mul);
    v("energy", "fp32_add", c.energy.fp32_add);
    v("energy", "alu", c.energy.alu);
    v("energy", "grf", c.energy.grf);
    v("energy", "lm", c.energy.lm);
    v("energy", "l1bm", c.energy.l1bm);
    v("energy", "l2bm", c.energy.l2bm);
    v("energy", "tree", c.energy.tree);
    v("energy", "dram", c.energy.dram);
    v("energy", "static_watts", c.energy.static_watts);
}

struct NumberReader {
    JsonView json;

    JsonView at(const char *group, const char *key) const { return *group ? json[group][key] : json[key]; }
    template<typename T>
    void operator()(const char *group, const char *key, T &value, int64_t low, int64_t high) const {
        value = T(at(group, key).integer(low, high));
    }
    void operator()(const char *group, const char *key, double &value) const {
        const JsonView v = at(group, key);
        value = v.number();
        if (!(value >= 0)) v.fail("expected a nonnegative number");
    }
};

struct Writer {
    Json &json;

    template<typename T>
    void operator()(const char *group, const char *key, const T &value, int64_t, int64_t) const {
        (*group ? json[group] : json)[key] = value;
    }
    void operator()(const char *group, const char *key, double value) const {
        (*group ? json[group] : json)[key] = value;
    }
};

// Rejects unknown keys, so that a misspelt key is not ignored silently.
struct KnownKeys {
    std::map<std::string, std::vector<std::string>> keys;

    template<typename T>
    void operator()(const char *group, const char *key, const T &, int64_t = 0, int64_t = 0) {
        if (*group && !keys.count(group)) keys[""].push_back(group);
        keys[group].push_back(key);
    }
};

} // namespace

Config Config::from_json(const Json &json, const std::string &document) {
    const JsonView view(json, document);
    Config c;
    KnownKeys known;
    visit_numbers(c, known);
    for (const char *key : {"name", "about", "expect"}) known.keys[""].push_back(key);
    known.keys["energy"].push_back("source");
    view.allow_only(known.keys[""]);
    for (const auto &[group, keys] : known.keys)
        if (!group.empty()) view[group].allow_only(keys);
    c.name = view["name"].string();
    c.about = view.string_or("about", "");
    c.energy.source = view["energy"]["source"].string();
    visit_numbers(c, NumberReader{view});
    c.check(document);
    if (view.has("expect")) {
        const JsonView expect = view["expect"];
        expect.allow_only({"total_mabs", "fp16_macs_per_cycle", "dram_bytes_per_cycle"});
        const auto compare = [&](const char *key, int64_t found, const std::string &how) {
            if (expect.has(key) && expect[key].integer() != found)
                expect[key].fail(fmt::format("the file expects {}, but {} = {}", expect[key].integer(), how, found));
        };
        compare("total_mabs", c.total_mabs(),
                fmt::format("groups {} · l2bs {} · l1bs {} · mabs {}", c.groups, c.l2bs, c.l1bs, c.mabs));
        compare("fp16_macs_per_cycle", c.fp16_macs_per_cycle(), fmt::format("256 · {} MABs", c.total_mabs()));
        compare("dram_bytes_per_cycle", c.dram_bytes_per_cycle(),
                fmt::format("8 · groups {} · moves/dram_rate {}", c.groups, c.moves.dram_rate));
    }
    return c;
}

Json Config::to_json() const {
    Json json = {{"name", name}, {"about", about}};
    visit_numbers(*this, Writer{json});
    json["energy"]["source"] = energy.source;
    return json;
}

void Config::check(const std::string &document) const {
    const auto require = [&](bool holds, const std::string &message) {
        if (!holds) throw UserError(document + ": the configuration is inconsistent: " + message);
    };
    const auto fits = [&](const char *what, int64_t need, const char *memory, int64_t size) {
        require(need <= size, fmt::format("{} moves {} LW in a step, but sizes/{} is {} LW", what, need, memory, size));
    };
    if (!(clock_ghz > 0)) throw UserError(document + ": clock_ghz must be above 0");
    require(total_l2bs() <= 32, fmt::format("groups {} · l2bs {} = {} L2Bs, but a move names a set of at most 32",
                                            groups, l2bs, total_l2bs()));
    require(total_pes() <= 1 << 20, fmt::format("{} PEs; at most 1048576 are simulated", total_pes()));
    fits("an L2 broadcast", cycles_per_step * links.l2_broadcast, "l1bm", sizes.l1bm);
    fits("an L2 scatter", int64_t(cycles_per_step) * links.l2_scatter * l1bs, "l2bm", sizes.l2bm);
    fits("an L1 scatter", int64_t(cycles_per_step) * pes_per_l1b(), "l1bm", sizes.l1bm);
    fits("a result of two LW", 2 * cycles_per_step, "lm", sizes.lm);
    fits("a result of two LW", 2 * cycles_per_step, "grf", sizes.grf);
    require(
        sizes.l2bm >= moves.block,
        fmt::format("a move is a multiple of moves/block = {} LW, but sizes/l2bm is {} LW", moves.block, sizes.l2bm));
    require(moves.block % moves.granule == 0,
            fmt::format("moves/block {} is not a multiple of moves/granule {}", moves.block, moves.granule));
    for (const auto &[what, size] : {std::pair{"dram", sizes.dram}, {"pdm", sizes.pdm}})
        require(size % moves.block == 0,
                fmt::format("sizes/{} {} LW is not a multiple of moves/block {}", what, size, moves.block));
    require(moves.indirect_rate <= moves.dram_rate,
            fmt::format("moves/indirect_rate {} exceeds moves/dram_rate {}", moves.indirect_rate, moves.dram_rate));
    require(moves.across_rate <= moves.l2bm_rate,
            fmt::format("moves/across_rate {} exceeds moves/l2bm_rate {}", moves.across_rate, moves.l2bm_rate));
    require(moves.pdm_across_rate <= moves.pdm_rate,
            fmt::format("moves/pdm_across_rate {} exceeds moves/pdm_rate {}", moves.pdm_across_rate, moves.pdm_rate));
}

std::vector<std::string> Config::names() {
    std::vector<std::string> all;
    for (const auto &[name, text] : built_in_configs()) all.push_back(name);
    return all;
}

Config Config::load(const std::string &name_or_path) {
    for (const auto &[name, text] : built_in_configs())
        if (name == name_or_path) return from_json(parse_json(text, name + ".json"), name + ".json");
    const bool path = name_or_path.ends_with(".json") || name_or_path.find('/') != std::string::npos;
    if (!path) {
        throw UserError("there is no machine '" + name_or_path + "'" + suggest(name_or_path, names()) +
                        "; a configuration of your own is a file that ends in .json");
    }
    Config c = from_json(load_json(name_or_path), name_or_path);
    c.file = name_or_path;
    return c;
}

std::string Config::to_string() const {
    return fmt::format(
        "{}: {}\n"
        "  {} groups × {} L2Bs × {} L1Bs × {} MABs × 4 PEs = {} MABs, {} PEs at {} GHz: {:.3g} TFLOPS f16, {:.3g} f32\n"
        "  LM {} ×2, GRF {} ×2 a PE; L1BM {}, L2BM {}; a group's PDM {}, DRAM {} at {:.3g} GB/s\n",
        name, about, groups, l2bs, l1bs, mabs, total_mabs(), total_pes(), clock_ghz,
        2e-3 * double(fp16_macs_per_cycle()) * clock_ghz, 2e-3 * double(fp32_macs_per_cycle()) * clock_ghz,
        bytes_text(double(sizes.lm) * 8), bytes_text(double(sizes.grf) * 8), bytes_text(double(sizes.l1bm) * 8),
        bytes_text(double(sizes.l2bm) * 8), bytes_text(double(sizes.pdm) * 8), bytes_text(double(sizes.dram) * 8),
        moves.dram_rate * 8 * clock_ghz);
}

} // namespace kumiko::sim

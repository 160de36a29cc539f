// kumiko sim PROGRAM: runs it on the simulated chip.
#include "cli/common.h"

#include "sim/simulator.h"
#include "support/atomic_file.h"
#include "support/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

using namespace kumiko::sim;

struct SimArguments {
    std::string program, machine, html, json, trace, assemble, host;
    std::vector<std::string> load, dump;
    bool zero = false, disassemble = false, speed = false;
    uint64_t max_steps = 1'000'000'000; // several minutes
    Bounds bounds;
};

// "dram:0[128]" with a group and an address, "dram:0[128..159]" with the last address too; also
// pdm, l2bm, l1bm, lm0, lm1, grf0, grf1, t.
struct Region {
    std::string memory;
    int unit = 0;
    int64_t first = 0, last = 0;
};

Region parse_region(const std::string &text, bool range) {
    const auto fail = [&]() -> UserError {
        return UserError(fmt::format("'{}' names no part of a memory; write {}", text,
                                     range ? "MEMORY:UNIT[FIRST..LAST], for example dram:0[0..15]"
                                           : "MEMORY:GROUP[ADDRESS]=FILE, for example dram:0[0]=a.bin"));
    };
    Region r;
    const size_t colon = text.find(':'), open = text.find('['), close = text.find(']');
    if (colon == std::string::npos || open == std::string::npos || close != text.size() - 1 || colon > open)
        throw fail();
    r.memory = text.substr(0, colon);
    const auto number = [&](size_t begin, size_t end) {
        int64_t value = 0;
        const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
        if (error != std::errc() || stop != text.data() + end || value < 0) throw fail();
        return value;
    };
    r.unit = int(std::min<int64_t>(number(colon + 1, open), INT32_MAX));
    const size_t dots = text.find("..", open);
    if (!range && dots != std::string::npos) throw fail();
    r.first = number(open + 1, dots == std::string::npos ? close : dots);
    r.last = dots == std::string::npos ? r.first : number(dots + 2, close);
    if (r.last < r.first) throw fail();
    return r;
}

std::optional<HostMemory::Space> host_space(const std::string &memory) {
    if (memory == "dram") return HostMemory::Space::Dram;
    if (memory == "pdm") return HostMemory::Space::Pdm;
    return std::nullopt;
}

void load_data(HostMemory &memory, const std::string &text) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos)
        throw UserError("--load takes MEMORY:GROUP[ADDRESS]=FILE, for example dram:0[0]=a.bin; found '" + text + "'");
    const Region r = parse_region(text.substr(0, equal), false);
    const auto space = host_space(r.memory);
    if (!space) throw UserError("the host writes dram and pdm, not '" + r.memory + "'");
    const std::string path = text.substr(equal + 1);
    std::ifstream in(path, std::ios::binary);
    if (!in) throw UserError(path + ": cannot be read");
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    bytes.resize((bytes.size() + 7) / 8 * 8);
    std::vector<uint64_t> words(bytes.size() / 8);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    memory.write(*space, r.unit, r.first, words);
}

std::string dump_data(const Simulator &chip, const HostMemory &memory, const std::string &text) {
    const Region r = parse_region(text, true);
    if (r.last - r.first >= 1 << 20) throw UserError("a dump prints at most 1048576 LW");
    const std::vector<std::string> names = {"lm0", "lm1", "grf0", "grf1", "t", "l1bm", "l2bm"};
    const auto space = host_space(r.memory);
    const auto place = std::find(names.begin(), names.end(), r.memory);
    if (!space && place == names.end())
        throw UserError("there is no memory '" + r.memory +
                        "'; there are dram, pdm, l2bm, l1bm, lm0, lm1, grf0, grf1 and t");
    std::string out = text + "\n";
    for (int64_t a = r.first; a <= r.last; a++) {
        uint64_t word = 0;
        bool defined = true;
        if (space) {
            memory.read(*space, r.unit, a, {&word, 1});
            defined = memory.all_defined(*space, r.unit, a, 1);
        } else {
            const auto where = Simulator::Place(place - names.begin());
            word = chip.read(where, r.unit, a), defined = chip.defined(where, r.unit, a);
        }
        if (!defined) {
            out += fmt::format("  {:6}  undefined\n", a);
            continue;
        }
        float f[2];
        std::memcpy(f, &word, 8);
        out += fmt::format("  {:6}  {:016x}  i32 {} {}  f32 {:g} {:g}\n", a, word, int32_t(word), int32_t(word >> 32),
                           f[0], f[1]);
    }
    return out;
}

void run(const SimArguments &a) {
    Program program = Program::load_file(a.program, !a.disassemble && a.assemble.empty());
    if (program.words.empty()) throw UserError(a.program + " holds no words; a program has at least one");
    if (a.disassemble) {
        std::cout << disassemble(program);
        return;
    }
    if (!a.assemble.empty()) {
        write_file_atomically(a.assemble, program.save());
        return;
    }
    const std::string name = !a.machine.empty() ? a.machine : !program.machine.empty() ? program.machine : "small";
    const Config config = Config::load(name);
    if (!program.machine.empty() && !a.machine.empty() && program.machine != config.name)
        throw UserError(fmt::format("{} is written for the machine {}, but was requested on {}", a.program,
                                    program.machine, config.name));
    HostMemory memory(config);
    for (const std::string &l : a.load) load_data(memory, l);
    SimulateOptions options;
    options.undefined = a.zero ? Undefined::Zero : Undefined::Error;
    options.trace = !a.trace.empty();
    options.instructions = a.host;
    options.max_steps = a.max_steps;
    Simulator chip(config, options);
    const Stopwatch watch;
    Run r = chip.run(program, memory);
    const double seconds = watch.seconds();
    r.program = std::filesystem::path(a.program).filename().string();
    r.bounds = a.bounds;
    if (a.json != "-") {
        std::cout << r.report();
        if (a.speed)
            std::cout << fmt::format("simulated in {}: {:.4g} M steps/s, {:.4g} G MAC/s\n", duration_text(seconds),
                                     1e-6 * double(r.steps) / seconds, 1e-9 * r.macs() / seconds);
        for (const std::string &d : a.dump) std::cout << "\n" << dump_data(chip, memory, d);
    }
    if (!a.html.empty()) write_file_atomically(a.html, r.html());
    if (!a.trace.empty()) r.save_trace(a.trace);
    write_json(a.json, r.json());
}

} // namespace

void add_sim(CLI::App &app) {
    auto *command = app.add_subcommand("sim", "run a program on the simulated chip");
    auto a = std::make_shared<SimArguments>();
    command->add_option("program", a->program, "a text program, or an assembled one")->required();
    command->add_option(
        "--machine", a->machine,
        "small, medium, full, or a configuration's JSON file; by default the machine that the program names, or small");
    command->add_option("--load", a->load, "load raw bytes before the start: dram:GROUP[ADDRESS]=FILE; also pdm")
        ->type_name("PLACE=FILE");
    command
        ->add_option("--dump", a->dump,
                     "print memory after the end: dram:0[0..15]; also pdm, l2bm, l1bm, lm0, lm1, grf0, grf1, t")
        ->type_name("PLACE");
    command->add_option("--report", a->html, "the report as a page")->type_name("FILE.html");
    add_json_option(*command, a->json);
    command->add_option("--trace", a->trace, "a trace for ui.perfetto.dev")->type_name("FILE");
    command->add_flag("--zero", a->zero, "undefined words read as zero, instead of being an error");
    command->add_option("--max-steps", a->max_steps, "stop with an error after this number of steps")
        ->capture_default_str();
    command->add_option("--macs", a->bounds.macs, "least number of multiply-accumulates that the work needs ...");
    command->add_option("--dram-bytes", a->bounds.compulsory_dram_bytes,
                        "... and bytes from and to DRAM, for the bound");
    command->add_option("--assemble", a->assemble, "write the program in binary form, and do not run it")
        ->type_name("FILE");
    command->add_flag("--disassemble", a->disassemble, "print the program as text, and do not run it");
    command->add_option("--host", a->host,
                        "host instructions for the simulation: baseline, avx2, avx512; by default the best one");
    command->add_flag("--speed", a->speed, "print the speed of the simulation too");
    add_examples(*command, "  kumiko sim add.kasm --load dram:0[0]=x.bin --dump dram:0[0..15]\n"
                           "  kumiko sim inner.kasm --machine full --report run.html --trace run.perfetto.json");
    command->callback([a] { run(*a); });
}

} // namespace kumiko::cli

// Feeds broken programs to the assembler, the loader and the simulator.
//
//   fuzz_sim [--inputs N] [--seed S]
//
// Every input must give a program or a UserError: nothing else may be thrown, crash or hang.
// Programs must survive a round trip: text through the disassembler, bytes through saving.
#include "tests/fuzz.h"
#include "tests/sim/random_program.h"

#include "sim/assembler.h"
#include "sim/simulator.h"

#include <fmt/format.h>
#include <string>

using namespace kumiko;
using namespace kumiko::sim;

namespace {

struct Counts {
    uint64_t texts = 0, assembled = 0, files = 0, loaded = 0, runs = 0, completed = 0;
};

class Fuzzer {
public:
    explicit Fuzzer(uint64_t seed) : r(seed), simulator_(small_, zero()), memory_(small_) {
        for (int i = 0; i < 400; i++) {
            const Word w = random_word(r, i % 2 ? tiny_ : small_);
            lines_.push_back(disassemble(w));
            Program p;
            p.machine = r.chance(0.5) ? "small" : "";
            for (int n = int(r.below(4)); n >= 0; n--) p.words.push_back(random_word(r, tiny_));
            files_.push_back(p.save());
        }
    }

    // Throws on a failure; `input` is what was tried.
    void one() {
        Program p;
        if (r.chance(0.6)) {
            counts.texts++;
            input = text();
            try {
                p = assemble(input, "fuzz");
            } catch (const UserError &) {
                return;
            }
            counts.assembled++;
            const std::string again = disassemble(p);
            if (assemble(again, "again").save() != p.save())
                throw std::runtime_error("the text does not survive the disassembler");
        } else {
            counts.files++;
            input = file();
            try {
                p = Program::load(input, "fuzz");
            } catch (const UserError &) {
                return;
            }
            counts.loaded++;
            if (p.save() != input) throw std::runtime_error("the file does not survive loading and saving");
        }
        if (!r.chance(0.2)) return;
        counts.runs++;
        try {
            simulator_.run(p, memory_);
            counts.completed++;
        } catch (const UserError &) {
        }
    }

    std::string summary() const {
        return fmt::format("{} texts ({} assembled), {} files ({} loaded), {} runs ({} completed)", counts.texts,
                           counts.assembled, counts.files, counts.loaded, counts.runs, counts.completed);
    }

    Counts counts;
    std::string input;

private:
    static SimulateOptions zero() {
        SimulateOptions o;
        o.undefined = Undefined::Zero;
        o.max_steps = 50;
        return o;
    }

    std::string text() {
        std::string s;
        for (int n = int(r.below(3)); n >= 0; n--) s += r.pick(lines_) + "\n";
        const std::vector<std::string> tokens = {
            "lm0[",   "lm1[0+1]", "grf0[",       "]",          "|",
            ",",      "->",       "{",           "}",          "^",
            "-1",     "65535",    "65536",       "4294967295", "99999999999999999999",
            "0x",     "imm(",     "1.5h)",       "mask ",      "sel ",
            "rep ",   "wait ",    "note \"",     "\\",         "\"",
            ".2",     ".f16",     ".i32",        "b3+",        "t+",
            "nop",    ";",        "\t",          "l1.mab",     "mv.copy",
            "child ", "tag ",     ".machine x\n"};
        for (int n = int(r.below(6)); n >= 0; n--) {
            const size_t at = r.below(s.size() + 1);
            switch (r.below(6)) {
            case 0:
                s.insert(at, r.pick(tokens));
                break;
            case 1:
                s.erase(at, r.below(8));
                break;
            case 2:
                s.insert(at, 1, char(r()));
                break;
            case 3:
                if (at < s.size()) s[at] = char(32 + r.below(95));
                break;
            case 4:
                s.insert(at, s.substr(r.below(s.size() + 1), r.below(30)));
                break;
            default:
                break;
            }
        }
        return s;
    }
    std::string file() {
        std::string s = r.pick(files_);
        for (int n = int(r.below(5)); n > 0; n--) {
            const size_t at = r.below(s.size() + 1);
            switch (r.below(5)) {
            case 0:
                if (at < s.size()) s[at] = char(r());
                break;
            case 1:
                if (at < s.size()) s[at] = char(s[at] ^ 1 << r.below(8));
                break;
            case 2:
                s.erase(at, r.below(16));
                break;
            case 3:
                s.insert(at, std::string(r.below(9), char(r())));
                break;
            default:
                s.resize(at);
                break;
            }
        }
        return s;
    }

    Random r;
    const Config small_ = Config::load("small"), tiny_ = tiny_config();
    Simulator simulator_;
    HostMemory memory_;
    std::vector<std::string> lines_, files_;
};

} // namespace

int main(int argc, char **argv) { return run_fuzzer<Fuzzer>(argc, argv, 30000); }

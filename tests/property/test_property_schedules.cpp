// Random formulas under random legal schedules: interpret = LLVM = Halide, to the bit, between
// guard pages. Every schedule is saved and replayed to the same nest and body.
//
//   test_property_schedules [--pairs N] [--seed S] [--first I] [--halide EVERY] [--keep-going]
//                           [--verbose] [--here] [--coverage]
//
// Pair I of seed S is the same in every run: --pairs 1 --first I repeats it. Pairs run in a child
// process, so that a crash costs one pair (not with --here, for debuggers). A failing pair is
// shrunk by removing directives, and printed with its formula and its schedule, with --verbose also
// with the code for it. --coverage prints what was drawn.
// Timeout: 1200
// Sanitized: --pairs 100
#include "support/error.h"
#include "tests/property/check_pair.h"
#include "tests/property/coverage.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <sys/time.h>
#include <sys/wait.h>

using namespace kumiko;
using namespace kumiko::property;

namespace {

struct Options {
    int64_t pairs = 500, seed = 1, first = 0, halide = 10;
    bool keep_going = false, verbose = false, here = false, coverage = false;
};

// The children's reports, in memory shared with their parent.
struct Shared {
    int64_t at; // the pair that runs
    int64_t good, late, large, halide, directives;
    int64_t covered[Coverage::most];
    char phase[16];
    char text[1 << 16];
};
Shared *shared = nullptr;

uint64_t pair_seed(const Options &o, int64_t i) {
    uint64_t s = static_cast<uint64_t>(o.seed) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(i);
    return splitmix64(s);
}

struct Pair {
    RandomOp op;
    std::vector<Directive> directives;
};

Pair make_pair(const Options &o, int64_t i, const Machine &machine) {
    Random random(pair_seed(o, i));
    const uint64_t op_seed = random();
    Pair p{OpGenerator(op_seed, machine).run(), {}};
    p.directives = random_directives(p.op, machine, random);
    return p;
}

void say(const std::string &text) { std::snprintf(shared->text, sizeof shared->text, "%s", text.c_str()); }

// Ends the process after `seconds` of processor time, or after twenty times as long if it waits.
void limit(int seconds) {
    const itimerval processor = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &processor, nullptr);
    alarm(static_cast<unsigned>(20 * seconds));
}

// Runs the body in a child. Returns 0, the child's exit code, or 128 + its signal.
template<typename Body>
int in_child(int seconds, const Body &body) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        if (seconds) limit(seconds);
        int code = 3;
        try {
            code = body();
        } catch (const std::exception &e) {
            say(std::string("exception: ") + e.what());
        } catch (const Halide::Error &e) {
            say(std::string("Halide::Error: ") + e.what());
        }
        std::fflush(nullptr);
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ending(int code) {
    if (code < 128) return shared->text;
    return std::string("the child ended by signal ") + std::to_string(code - 128) + " (" + strsignal(code - 128) + ")";
}

// The same pair with the fewest directives that still fail.
std::vector<Directive> shrunk(const Pair &p, const Machine &machine, uint64_t seed, bool halide) {
    std::vector<Directive> left = p.directives;
    const auto fails = [&](const std::vector<Directive> &d) {
        return in_child(20, [&] {
                   return check_pair(p.op, machine, d, seed, halide).kind == Outcome::Kind::Failed ? 2 : 0;
               }) != 0;
    };
    for (bool again = true; again;) {
        again = false;
        for (size_t i = left.size(); i-- > 0;) {
            std::vector<Directive> fewer = left;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
            if (fails(fewer)) left = fewer, again = true;
        }
    }
    return left;
}

void report(const Options &o, int64_t i, const Machine &machine, const std::string &why) {
    std::printf("---- pair %lld of seed %lld failed: %s\n", static_cast<long long>(i), static_cast<long long>(o.seed),
                why.c_str());
    // The rest may fail as the pair did, so it runs in children too.
    in_child(30, [&] {
        const uint64_t seed = pair_seed(o, i);
        Random random(seed);
        const RandomOp op = OpGenerator(random(), machine).run();
        std::printf("%s", op.op.to_string().c_str());
        for (const auto &[name, n] : op.sizes) std::printf("%s = %lld\n", name.c_str(), static_cast<long long>(n));
        return 0;
    });
    in_child(600, [&] {
        const Pair p = make_pair(o, i, machine);
        std::printf("as drawn:\n%s", applied(p.op.op, machine, p.directives).to_cpp().c_str());
        std::fflush(stdout);
        const std::vector<Directive> few = shrunk(p, machine, pair_seed(o, i), o.halide && i % o.halide == 0);
        const Schedule s = applied(p.op.op, machine, few);
        std::printf("shrunk:\n%s%s", s.to_cpp().c_str(), s.nest().c_str());
        std::fflush(stdout);
        const int code = in_child(30, [&] {
            const Outcome r = check_pair(p.op, machine, few, pair_seed(o, i), o.halide && i % o.halide == 0);
            say(r.text);
            return r.kind == Outcome::Kind::Failed ? 2 : 0;
        });
        std::printf("shrunk, it says: %s\n", ending(code).c_str());
        if (o.verbose) {
            LowerOptions lowering;
            lowering.verify = false;
            std::printf("%s", body_text(lower(s, lowering)).c_str());
            std::printf("%s", compile(s).llvm_ir().c_str());
        }
        return 0;
    });
    std::printf("repeat: --seed %lld --first %lld --pairs 1\n", static_cast<long long>(o.seed),
                static_cast<long long>(i));
    std::fflush(stdout);
}

int run(const Options &o) {
    shared =
        static_cast<Shared *>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const Machine machine = Machine::host();
    const Coverage coverage(machine);
    if (coverage.size() > Coverage::most) throw InternalError("too many rows of coverage");
    const auto start = std::chrono::steady_clock::now();
    int64_t failures = 0;
    std::printf("%lld pairs from %lld of seed %lld\n", static_cast<long long>(o.pairs), static_cast<long long>(o.first),
                static_cast<long long>(o.seed));
    const int64_t end = o.first + o.pairs;
    for (int64_t next = o.first; next < end;) {
        // A child's life is bounded, so that memory kept by libraries does not accumulate.
        const int64_t until = std::min(end, next + 500);
        const auto batch = [&] {
            for (int64_t i = next; i < until; i++) {
                shared->at = i;
                limit(120);
                std::snprintf(shared->phase, sizeof shared->phase, "make");
                const std::clock_t begun = std::clock();
                const Pair p = make_pair(o, i, machine);
                std::snprintf(shared->phase, sizeof shared->phase, "check");
                const Outcome r =
                    check_pair(p.op, machine, p.directives, pair_seed(o, i), o.halide && i % o.halide == 0);
                shared->directives += static_cast<int64_t>(p.directives.size());
                if (const double took = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC; took > 20) {
                    std::printf("%lld took %.0f s\n%s%s", static_cast<long long>(i), took, p.op.op.to_string().c_str(),
                                applied(p.op.op, machine, p.directives).to_cpp().c_str());
                }
                switch (r.kind) {
                case Outcome::Kind::Good:
                    shared->good++;
                    break;
                case Outcome::Kind::Late:
                    shared->late++;
                    break;
                case Outcome::Kind::Large:
                    shared->large++;
                    break;
                case Outcome::Kind::Failed:
                    say(r.text);
                    return 2;
                }
                shared->halide += r.halide;
                if (r.kind == Outcome::Kind::Good) coverage.count(p.op, p.directives, r.resized, shared->covered);
                if (r.kind == Outcome::Kind::Good && o.verbose && !r.text.empty())
                    std::printf("%lld: %s\n", static_cast<long long>(i), r.text.c_str());
                if (r.kind == Outcome::Kind::Late && o.verbose) {
                    std::printf("%lld late: %s\n%s%s", static_cast<long long>(i), r.text.c_str(),
                                p.op.op.to_string().c_str(), applied(p.op.op, machine, p.directives).to_cpp().c_str());
                }
            }
            return 0;
        };
        const int code = o.here ? batch() : in_child(0, batch);
        if (code == 0) {
            next = until;
            continue;
        }
        failures++;
        const int64_t at = shared->at;
        report(o, at, machine, std::string(shared->phase) + ": " + ending(code));
        if (!o.keep_going) break;
        next = at + 1;
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%lld good (%lld also through Halide), %lld refused late, %lld too large, %lld failed; %.1f directives "
                "a pair; %.1f s\n",
                static_cast<long long>(shared->good), static_cast<long long>(shared->halide),
                static_cast<long long>(shared->late), static_cast<long long>(shared->large),
                static_cast<long long>(failures),
                static_cast<double>(shared->directives) /
                    static_cast<double>(std::max<int64_t>(1, shared->good + shared->late + shared->large)),
                took);
    if (o.coverage) coverage.print(shared->covered);
    bool tried = true; // a run of some length tries everything that there is
    for (size_t row = 0; row < coverage.size() && o.pairs >= 2000 && !failures; row++) {
        if (shared->covered[row]) continue;
        std::printf("%s was never drawn\n", coverage.name(row).c_str());
        tried = false;
    }
    return failures || !tried ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
    Options o;
    for (int i = 1; i < argc; i++) {
        const std::string a = argv[i];
        if (a == "--keep-going")
            o.keep_going = true;
        else if (a == "--verbose")
            o.verbose = true;
        else if (a == "--here")
            o.here = true;
        else if (a == "--coverage")
            o.coverage = true;
        else if (i + 1 < argc && a == "--pairs")
            o.pairs = std::atoll(argv[++i]);
        else if (i + 1 < argc && a == "--seed")
            o.seed = std::atoll(argv[++i]);
        else if (i + 1 < argc && a == "--first")
            o.first = std::atoll(argv[++i]);
        else if (i + 1 < argc && a == "--halide")
            o.halide = std::atoll(argv[++i]);
        else {
            std::fprintf(
                stderr,
                "usage: %s [--pairs N] [--seed S] [--first I] [--halide EVERY] [--keep-going] [--verbose] [--here] "
                "[--coverage]\n",
                argv[0]);
            return 2;
        }
    }
    return run(o);
}

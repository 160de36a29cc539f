// Random pairs of layouts in random memories through the generic move: what arrives is what was
// sent, bit for bit. The source and unused memory are unchanged, there are no hazards, and the
// cycles are those predicted.
// Sanitized: --test-case=*several*
#include "tests/property/moved_chip.h"
#include "tests/property/random_layout.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

struct Result {
    int moved = 0, kept = 0;
    double worst = 0;
    std::map<std::string, int> lacking;
};

void try_pair(uint64_t seed, const sim::Config &c, MovedChip &chip, Result &result) {
    Random r(seed);
    const ElementType type = ElementType(r.below(4));
    const std::vector<int64_t> extents = random_extents(r);
    RandomLayout random{r, c};
    const Memory a = Memory(r.below(memory_count)), b = Memory(r.below(memory_count));
    const auto limit = [](Memory m) {
        return m >= Memory::Grf0 ? 12 : m >= Memory::Lm0 ? 60 : m == Memory::L1bm ? 120 : 500;
    };
    const auto from = random.make(type, extents, a, limit(a)), to = random.make(type, extents, b, limit(b));
    if (!from || !to) return;
    // The source is low in its memory, the destination behind it, scratch beyond. Larger machines
    // write in larger steps.
    const bool is_small = c.mabs == 2;
    const auto base = [&](Memory m, bool second) -> int64_t {
        if (m <= Memory::Pdm) return 16 * int64_t(r.below(20)) + (second ? 2048 : 0);
        if (m == Memory::L2bm) return int64_t(r.below(64)) + (second ? is_small ? 640 : 1024 : 0);
        if (m == Memory::L1bm) return int64_t(r.below(4)) + (second ? is_small ? 128 : 512 : 0);
        return int64_t(r.below(3)) + (m >= Memory::Grf0 ? second ? 15 : 0 : second ? 64 : 0);
    };
    const Placement source{a, *from, base(a, false)}, target{b, *to, base(b, true)};
    Scratch scratch;
    scratch.l2bm = {is_small ? 1408 : 2560, c.sizes.l2bm};
    scratch.l1bm = {is_small ? 260 : 1028, c.sizes.l1bm};
    scratch.lm0 = {130, c.sizes.lm};
    scratch.lm1 = {130, c.sizes.lm};
    scratch.grf0 = {32, c.sizes.grf};
    scratch.grf1 = {32, c.sizes.grf};
    scratch.tag_begin = 2, scratch.tag_end = 4;
    scratch.mask_begin = 3, scratch.mask_end = 9;
    MoveOptions options;
    options.keep_padding = r.below(4) == 0;
    const std::string about = fmt::format("seed {}: {} {} -> {}{}", seed, name_of(type), source.to_string(),
                                          target.to_string(), options.keep_padding ? ", padding kept" : "");
    CAPTURE(about);

    Move move;
    try {
        move = plan_move(source, target, scratch, c, options);
    } catch (const Unsupported &e) {
        const std::string text = e.what();
        result.lacking[text.substr(text.find("it would take"))]++;
        REQUIRE_MESSAGE(options.keep_padding, text); // without, everything can be moved
        return;
    }
    CAPTURE(move.to_string());
    const auto values = chip.send(source);
    // words of the destination that hold no element
    std::map<std::pair<int, int64_t>, uint64_t> before;
    if (options.keep_padding) {
        const Contents wanted = contents(target, c);
        for (int u = 0; u < wanted.units(); u++)
            for (int64_t x = 0; x < wanted.words() + 64 && target.base + x < size_of(b, c); x++) {
                bool held = false;
                for (int l = 0; l < wanted.lanes() && x < wanted.words(); l++) held = held || wanted.at(u, x)[l] >= 0;
                const int64_t at = target.base + x;
                const Scratch::Range *s = b == Memory::L2bm   ? &scratch.l2bm
                                          : b == Memory::L1bm ? &scratch.l1bm
                                          : b == Memory::Lm0  ? &scratch.lm0
                                          : b == Memory::Lm1  ? &scratch.lm1
                                          : b == Memory::Grf0 ? &scratch.grf0
                                          : b == Memory::Grf1 ? &scratch.grf1
                                                              : nullptr;
                if (!held && !(s && at >= s->begin)) before[{u, at}] = chip.read(b, u, at);
            }
        result.kept++;
    }
    sim::Run run;
    try {
        run = chip.run(move);
    } catch (const UserError &e) {
        FAIL(e.what());
    }
    REQUIRE(chip.differs(target, values) == "");
    REQUIRE(chip.differs(source, values) == "");
    for (const auto &[at, word] : before) REQUIRE(chip.read(b, at.first, at.second) == word);
    const double off =
        std::abs(double(move.cycles) - double(run.cycles())) / double(std::max<uint64_t>(run.cycles(), 1));
    result.worst = std::max(result.worst, off);
    REQUIRE(off <= 0.05);
    REQUIRE(int64_t(run.cycles()) >= move.bound.cycles);
    result.moved++;
}

void try_many(const char *machine, uint64_t pairs) {
    const sim::Config c = sim::Config::load(machine);
    MovedChip chip(c);
    Result result;
    for (uint64_t seed = 0; seed < pairs; seed++) try_pair(seed, c, chip, result);
    MESSAGE(std::string(machine) << ": " << result.moved << " pairs moved, of which " << result.kept
                                 << " keep padding; prediction off by at most " << 100 * result.worst << " %");
    for (const auto &[what, times] : result.lacking) MESSAGE(times << ": " << what);
    CHECK(result.moved > int(pairs) / 2);
}

// KUMIKO_MOVE_PAIRS pairs on the small machine instead of the default number.
uint64_t pairs_asked(uint64_t otherwise) {
    const char *asked = std::getenv("KUMIKO_MOVE_PAIRS");
    return asked ? std::strtoull(asked, nullptr, 10) : otherwise;
}

} // namespace

TEST_CASE("random pairs on the small machine") { try_many("small", pairs_asked(500)); }
TEST_CASE("random pairs on a machine with several L2Bs") { try_many("medium", 25); }

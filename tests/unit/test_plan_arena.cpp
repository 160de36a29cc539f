// Placement of buffers in an arena: known optima, aliases, refused input, the checker.
#include "graph/plan/arena.h"
#include "support/error.h"
#include "support/random.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

ArenaBuffer buffer(const std::string &name, int64_t bytes, int64_t first, int64_t last, int64_t alignment = 64) {
    return {name, bytes, first, last, alignment};
}

ArenaBuffer alias(const std::string &name, int64_t bytes, int64_t first, int64_t last, int inside, int64_t offset) {
    return {name, bytes, first, last, 64, inside, offset};
}

// Not the planner's result: offsets as given.
ArenaPlan plan_at(std::vector<int64_t> offsets, int64_t bytes) {
    ArenaPlan plan;
    plan.offsets = std::move(offsets);
    plan.bytes = bytes;
    plan.alignment = 64;
    return plan;
}

} // namespace

TEST_CASE("a chain needs its two largest neighbours") {
    const ArenaPlan plan = plan_arena({buffer("a", 100, 0, 1), buffer("b", 640, 1, 2), buffer("c", 64, 2, 3)});
    CHECK(plan.bytes == 128 + 640);
    CHECK(plan.bound == 128 + 640);
    CHECK(plan.peak_step == 1);
    CHECK(plan.optimal);
    CHECK(plan.offsets == std::vector<int64_t>{640, 0, 640});
}

TEST_CASE("no buffers, and buffers of 0 bytes") {
    const ArenaPlan none = plan_arena({});
    CHECK((none.bytes == 0 && none.bound == 0 && none.optimal && none.offsets.empty()));
    const ArenaPlan empty = plan_arena({buffer("a", 0, 0, 9), buffer("b", 1, 3, 4), alias("c", 0, 0, 1, 0, 0)});
    CHECK(empty.offsets == std::vector<int64_t>{0, 0, 0});
    CHECK(empty.bytes == 64);
    CHECK(empty.peak_step == 3);
}

TEST_CASE("parts of a concatenation share its block, also of nested ones") {
    // A dense block: each concatenation begins with the one before it.
    const ArenaPlan plan = plan_arena({
        alias("part0", 128, 0, 1, 1, 0),
        alias("concat1", 192, 1, 3, 3, 0),
        alias("part1", 64, 1, 2, 1, 128),
        buffer("concat2", 320, 3, 5),
        alias("part2", 128, 2, 3, 3, 192),
        buffer("temporary", 256, 2, 2),
    });
    const int64_t block = plan.offsets[3];
    CHECK(plan.offsets == std::vector<int64_t>{block, block, block + 128, block, block + 192, 320 - block});
    CHECK(plan.bytes == 320 + 256);
    CHECK(plan.peak_step == 2);
}

TEST_CASE("a block is live as long as anything in it") {
    // Without the alias, b could take the bytes of a.
    std::vector<ArenaBuffer> buffers = {buffer("a", 64, 0, 1), buffer("b", 64, 3, 4)};
    CHECK(plan_arena(buffers).bytes == 64);
    buffers.push_back(alias("view", 64, 2, 5, 0, 0));
    CHECK(plan_arena(buffers).bytes == 128);
}

TEST_CASE("alignments differ") {
    const ArenaPlan plan =
        plan_arena({buffer("a", 100, 0, 2, 4), buffer("b", 5000, 0, 2, 4096), buffer("c", 50, 0, 2, 16)});
    CHECK(plan.bound == 100 + 5000 + 52);
    CHECK(plan.offsets[1] % 4096 == 0);
    CHECK(plan.bytes == plan.bound + 4); // a gap before c, or before b
    CHECK(plan.optimal);
    CHECK(plan.alignment == 4096);
}

TEST_CASE("the search reaches the optimum where no greedy key does") {
    Random random(11);
    int searched = 0, better = 0;
    for (int n = 0; n < 200; n++) {
        std::vector<ArenaBuffer> buffers;
        for (int k = 0; k < 30; k++) {
            const int64_t first = random.between(0, 12);
            buffers.push_back(buffer("", 64 * random.between(1, 30), first, first + random.between(0, 6)));
        }
        const ArenaPlan greedy = plan_arena(buffers, 0), plan = plan_arena(buffers);
        CHECK(greedy.search_steps == 0);
        CHECK(plan.bytes <= greedy.bytes);
        if (greedy.bytes == greedy.bound) continue;
        searched++;
        CHECK(plan.search_steps > 0);
        if (plan.bytes < greedy.bytes) better++;
        CHECK(plan.optimal);
    }
    CHECK(searched > 20);
    CHECK(better > searched / 2);
}

TEST_CASE("few search steps give a worse plan, and the same one each time") {
    Random random(12);
    std::vector<ArenaBuffer> buffers;
    for (int k = 0; k < 200; k++) {
        const int64_t first = random.between(0, 100);
        buffers.push_back(buffer("", random.between(1, 1 << 20), first, first + random.between(0, 40)));
    }
    for (int64_t steps : {int64_t(0), int64_t(1000), int64_t(100000), int64_t(3000000)}) {
        const ArenaPlan one = plan_arena(buffers, steps), two = plan_arena(buffers, steps);
        CHECK(one.offsets == two.offsets);
        CHECK(one.search_steps == two.search_steps);
        // A step of the search is checked once per node.
        CHECK(one.search_steps <= steps + 100000);
    }
}

TEST_CASE("ten thousand buffers") {
    Random random(13);
    std::vector<ArenaBuffer> chain, all_live, short_lived;
    for (int k = 0; k < 10000; k++) {
        chain.push_back(buffer("", random.between(1, 1 << 20), k, k + random.between(1, random.chance(0.1) ? 200 : 2)));
        short_lived.push_back(buffer("", random.between(1, 1 << 20), k, k + random.between(1, 2)));
        all_live.push_back(buffer("", random.between(1, 1 << 20), random.between(0, 10000), 10000 + k));
    }
    const ArenaPlan plan = plan_arena(chain, 0);
    CHECK(double(plan.bytes) < 1.2 * double(plan.bound));
    CHECK(plan_arena(all_live, 0).optimal);
    CHECK(plan_arena(short_lived).optimal);
}

TEST_CASE("sizes of terabytes, and sums that overflow") {
    const int64_t tera = int64_t(1) << 40;
    const ArenaPlan plan = plan_arena({buffer("a", tera, 0, 1), buffer("b", tera - 1, 1, 2), buffer("c", tera, 2, 3)});
    CHECK(plan.bytes == 2 * tera);
    CHECK_THROWS_WITH_AS(plan_arena({buffer("a", int64_t(1) << 61, 0, 1), buffer("b", int64_t(1) << 61, 5, 6)}),
                         "2 buffers have more than 2^62 bytes together, the most in one arena", UserError);
    CHECK_THROWS_WITH_AS(plan_arena({buffer("a", INT64_MAX, 0, 1)}),
                         "buffer \"a\" has 9223372036854775807 bytes; an arena has at most 2^62", UserError);
}

TEST_CASE("invalid buffers are refused") {
    const auto refuse = [](std::vector<ArenaBuffer> buffers, const char *message) {
        CHECK_THROWS_WITH_AS(plan_arena(buffers), message, InternalError);
    };
    refuse({buffer("a", -1, 0, 1)}, "buffer \"a\" has -1 bytes; 0 or more are legal");
    refuse({buffer("a", 1, 3, 2)},
           "buffer \"a\" is live from step 3 to 2; steps begin at 0, and the last one is not before the first");
    refuse({buffer("", 1, -1, 2)},
           "buffer 0 is live from step -1 to 2; steps begin at 0, and the last one is not before the first");
    refuse({buffer("a", 1, 0, 1, 48)}, "buffer \"a\" has alignment 48, which is not a power of two");
    refuse({buffer("a", 1, 0, 1, 0)}, "buffer \"a\" has alignment 0, which is not a power of two");
    refuse({alias("a", 1, 0, 1, 0, 0)}, "buffer \"a\" is inside of buffer 0, which does not exist or is itself");
    refuse({alias("a", 1, 0, 1, 7, 0)}, "buffer \"a\" is inside of buffer 7, which does not exist or is itself");
    refuse({buffer("a", 128, 0, 1), alias("b", 128, 0, 1, 0, 64)},
           "buffer \"b\" has bytes 64 to 192 of buffer \"a\", which has 128 bytes");
    refuse({buffer("a", 128, 0, 1), alias("b", 1, 0, 1, 0, INT64_MAX)},
           "buffer \"b\" has bytes 9223372036854775807 to 9223372036854775808 of buffer \"a\", which has 128 bytes");
    refuse({buffer("a", 128, 0, 1), alias("b", 64, 0, 1, 0, 4)},
           "buffer \"b\" is at byte 4 of buffer \"a\", which is not a multiple of its alignment 64");
    refuse({alias("a", 64, 0, 1, 1, 0), alias("b", 64, 0, 1, 2, 0), alias("c", 64, 0, 1, 0, 0)},
           "buffer \"a\" is inside of itself, through other buffers");
}

TEST_CASE("the checker refuses wrong plans") {
    const std::vector<ArenaBuffer> buffers = {buffer("a", 128, 0, 2), buffer("b", 64, 2, 3), buffer("c", 64, 3, 4),
                                              alias("d", 64, 1, 2, 0, 64)};
    const auto refuse = [&](std::vector<int64_t> offsets, int64_t bytes, const char *message) {
        CHECK_THROWS_WITH_AS(check_arena(buffers, plan_at(std::move(offsets), bytes)), message, InternalError);
    };
    CHECK_NOTHROW(check_arena(buffers, plan_at({0, 128, 0, 64}, 192)));
    refuse({0, 64, 0, 64}, 192,
           "buffer 0 \"a\" (128 bytes at 0, steps 0 to 2) and buffer 1 \"b\" (64 bytes at 64, steps 2 to 3) overlap");
    refuse({64, 0, 0, 128}, 192,
           "buffer 1 \"b\" (64 bytes at 0, steps 2 to 3) and buffer 2 \"c\" (64 bytes at 0, steps 3 to 4) overlap");
    refuse({0, 128, 0, 0}, 192,
           "buffer 3 \"d\" (64 bytes at 0, steps 1 to 2) is not at byte 64 of buffer 0 \"a\" (128 bytes at 0, steps 0 "
           "to 2)");
    refuse({0, 128, 0, 64}, 191, "buffer 1 \"b\" (64 bytes at 128, steps 2 to 3) is outside of the arena of 191 bytes");
    refuse({0, -64, 0, 64}, 192, "buffer 1 \"b\" (64 bytes at -64, steps 2 to 3) is outside of the arena of 192 bytes");
    refuse({0, 130, 0, 64}, 256,
           "buffer 1 \"b\" (64 bytes at 130, steps 2 to 3) is not aligned to 64 bytes in an arena aligned to 64");
    refuse({0, 128, 0}, 192, "the plan has 3 offsets for 4 buffers");
    ArenaPlan plan = plan_at({0, 128, 0, 64}, 192);
    plan.alignment = 32;
    CHECK_THROWS_WITH_AS(
        check_arena(buffers, plan),
        "buffer 0 \"a\" (128 bytes at 0, steps 0 to 2) is not aligned to 64 bytes in an arena aligned to 32",
        InternalError);
}

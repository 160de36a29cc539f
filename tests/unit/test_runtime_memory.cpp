// Labels: threads
#include "runtime/fill_workspaces.h"
#include "runtime/kumiko_runtime.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

TEST_CASE("blocks are aligned, distinct and usable to their end") {
    std::vector<void *> blocks;
    for (size_t bytes :
         {size_t(0), size_t(1), size_t(63), size_t(64), size_t(4096), size_t(1) << 20, size_t(9) << 20}) {
        void *block = kumiko_malloc(bytes);
        REQUIRE(block);
        CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
        memset(block, 0x5a, bytes);
        blocks.push_back(block);
    }
    for (void *block : blocks) kumiko_free(block);
    kumiko_free(nullptr);
    kumiko_trim_memory();
}

TEST_CASE("workspaces are filled once after each request") {
    constexpr size_t words = 1000;
    const auto holds = [](const void *block, uint64_t pattern) {
        const auto *w = static_cast<const uint64_t *>(block);
        for (size_t i = 0; i < words; i++) {
            if (w[i] != pattern) return false;
        }
        return true;
    };
    void *kept = kumiko_malloc(words * 8);
    memset(kept, 0x5a, words * 8);
    kumiko_free(kept);
    for (const uint64_t pattern : {uint64_t(0x0001000100010001), uint64_t(0)}) {
        kumiko_fill_workspaces(pattern);
        void *block = kumiko_malloc(words * 8), *other = kumiko_malloc(words * 8);
        CHECK(holds(block, pattern));
        CHECK(holds(other, pattern));
        kumiko_free(other);
        memset(block, 0x77, words * 8);
        kumiko_free(block);
        block = kumiko_malloc(words * 8);
        CHECK((holds(block, 0x7777777777777777) || holds(block, pattern))); // kept, or new
        kumiko_free(block);
    }
    std::thread([&] {
        void *block = kumiko_malloc(words * 8);
        CHECK(holds(block, 0));
        kumiko_free(block);
    }).join();
    kumiko_trim_memory();
}

TEST_CASE("too much memory is NULL, not a crash") {
    CHECK(kumiko_malloc(SIZE_MAX) == nullptr);
    CHECK(kumiko_malloc(SIZE_MAX - 100) == nullptr);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a workspace asked for again is the same warm block") {
    void *first = kumiko_malloc(1 << 20);
    kumiko_free(first);
    void *again = kumiko_malloc(1 << 20);
    CHECK(again == first);
    kumiko_free(again);
    void *small = kumiko_malloc(1000); // not at the cost of a megabyte
    CHECK(small != first);
    kumiko_free(small);
    kumiko_trim_memory();
}
#endif

TEST_CASE("blocks travel between threads") {
    for (int round = 0; round < 20; round++) {
        void *block = nullptr;
        std::thread([&] {
            block = kumiko_malloc(1 << 16);
            memset(block, 1, 1 << 16);
            for (int i = 0; i < 20; i++) kumiko_free(kumiko_malloc(size_t(1) << (10 + i % 12)));
        }).join();
        REQUIRE(block);
        kumiko_free(block);
    }
}

TEST_CASE("hooks replace both functions") {
    static int allocated = 0, released = 0;
    kumiko_set_memory(
        [](size_t bytes) {
            allocated++;
            return aligned_alloc(64, (bytes + 63) / 64 * 64);
        },
        [](void *block) {
            released++;
            free(block);
        });
    kumiko_free(kumiko_malloc(100));
    kumiko_set_memory(nullptr, nullptr);
    kumiko_free(kumiko_malloc(100));
    CHECK(allocated == 1);
    CHECK(released == 1);
}

TEST_CASE("errors keep a text for each thread") {
    CHECK(kumiko_fail(KUMIKO_BAD_SIZE, "size N is -3") == KUMIKO_BAD_SIZE);
    CHECK(std::string(kumiko_error()) == "size N is -3");
    std::thread([] { CHECK(std::string(kumiko_error()).empty()); }).join();
    CHECK(kumiko_fail(KUMIKO_BAD_SHAPE, kumiko_error()) == KUMIKO_BAD_SHAPE);
    CHECK(std::string(kumiko_error()) == "size N is -3");
    kumiko_fail(1, std::string(2000, 'x').c_str());
    CHECK(std::string(kumiko_error()) == std::string(511, 'x'));
    kumiko_clear_error();
    CHECK(std::string(kumiko_error()).empty());
    CHECK(kumiko_abi_version() == KUMIKO_ABI_VERSION);
}

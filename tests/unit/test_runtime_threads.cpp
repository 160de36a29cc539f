// Labels: threads
// The pool: every iteration runs once, from any caller, nested, concurrent, after fork; also under
// the thread sanitizer.
#include "runtime/kumiko_runtime.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Counts {
    std::vector<std::atomic<int>> hits;
    explicit Counts(size_t n) : hits(n) {}
    bool all_one() const {
        for (const auto &h : hits) {
            if (h.load() != 1) return false;
        }
        return true;
    }
};

int count_hit(void *closure, int64_t i) {
    static_cast<Counts *>(closure)->hits[i]++;
    return 0;
}

struct Restore {
    ~Restore() {
        kumiko_set_num_threads(0);
        kumiko_set_parallel_for(nullptr);
    }
};

} // namespace

TEST_CASE("every iteration runs once, for any count and any number of threads") {
    Restore restore;
    for (int threads : {1, 2, 3, 8}) {
        kumiko_set_num_threads(threads);
        CHECK(kumiko_num_threads() == threads);
        for (int64_t count : {0, 1, 2, 3, 7, 64, 1000, 12345}) {
            Counts counts(count);
            CHECK(kumiko_parallel_for(count_hit, &counts, 0, count) == 0);
            CHECK(counts.all_one());
        }
    }
}

TEST_CASE("a range begins at the given index, also below zero") {
    Restore restore;
    kumiko_set_num_threads(2);
    std::atomic<int64_t> sum{0};
    auto add = [](void *closure, int64_t i) {
        *static_cast<std::atomic<int64_t> *>(closure) += i;
        return 0;
    };
    CHECK(kumiko_parallel_for(add, &sum, -10, 15) == 0);
    CHECK(sum == -45);
    sum = 0;
    int64_t far = int64_t(1) << 40;
    CHECK(kumiko_parallel_for(add, &sum, far, 3) == 0);
    CHECK(sum == 3 * far + 3);
}

TEST_CASE("plain writes of a task are seen by the caller, loop after loop") {
    Restore restore;
    kumiko_set_num_threads(4);
    std::vector<int> values(257, 0);
    auto increment = [](void *closure, int64_t i) {
        (*static_cast<std::vector<int> *>(closure))[i]++;
        return 0;
    };
    for (int round = 1; round <= 2000; round++) {
        kumiko_parallel_for(increment, &values, 0, 257);
        REQUIRE(values[0] == round);
        REQUIRE(values[256] == round);
    }
}

TEST_CASE("sleeping threads wake for the next loop") {
    Restore restore;
    kumiko_set_num_threads(3);
    for (int round = 0; round < 20; round++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        Counts counts(50);
        CHECK(kumiko_parallel_for(count_hit, &counts, 0, 50) == 0);
        CHECK(counts.all_one());
    }
}

TEST_CASE("a failing task gives its code, and its text to the caller") {
    Restore restore;
    for (int threads : {1, 2, 4}) {
        kumiko_set_num_threads(threads);
        kumiko_clear_error();
        auto fail_late = [](void *, int64_t i) {
            return i == 70 ? kumiko_fail(KUMIKO_OUT_OF_MEMORY, "no workspace for task 70") : 0;
        };
        CHECK(kumiko_parallel_for(fail_late, nullptr, 0, 100) == KUMIKO_OUT_OF_MEMORY);
        CHECK(std::string(kumiko_error()) == "no workspace for task 70");
        Counts counts(10); // the pool works on
        CHECK(kumiko_parallel_for(count_hit, &counts, 0, 10) == 0);
        CHECK(counts.all_one());
    }
}

TEST_CASE("nested loops run in their task") {
    Restore restore;
    kumiko_set_num_threads(4);
    Counts counts(16 * 16);
    struct Closure {
        Counts *counts;
        int64_t row;
        std::thread::id thread;
    };
    auto outer = [](void *closure, int64_t row) {
        Closure inner_closure{static_cast<Counts *>(closure), row, std::this_thread::get_id()};
        auto inner = [](void *p, int64_t i) {
            auto *c = static_cast<Closure *>(p);
            c->counts->hits[c->row * 16 + i]++;
            return c->thread == std::this_thread::get_id() ? 0 : 1;
        };
        return kumiko_parallel_for(inner, &inner_closure, 0, 16);
    };
    CHECK(kumiko_parallel_for(outer, &counts, 0, 16) == 0);
    CHECK(counts.all_one());
}

TEST_CASE("several callers at once") {
    Restore restore;
    kumiko_set_num_threads(3);
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int c = 0; c < 4; c++) {
        callers.emplace_back([&] {
            for (int round = 0; round < 200; round++) {
                Counts counts(40);
                if (kumiko_parallel_for(count_hit, &counts, 0, 40) != 0 || !counts.all_one()) wrong++;
            }
        });
    }
    for (auto &t : callers) t.join();
    CHECK(wrong == 0);
}

TEST_CASE("threads end on request and start again with the next call") {
    Restore restore;
    kumiko_set_num_threads(4);
    for (int round = 0; round < 5; round++) {
        Counts counts(100);
        kumiko_parallel_for(count_hit, &counts, 0, 100);
        CHECK(counts.all_one());
        kumiko_shutdown_threads();
        kumiko_set_num_threads(2 + round);
    }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked child makes its own thread pool") {
    Restore restore;
    kumiko_set_num_threads(3);
    Counts before(30);
    kumiko_parallel_for(count_hit, &before, 0, 30);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        Counts counts(300);
        int code = kumiko_parallel_for(count_hit, &counts, 0, 300);
        _exit(code == 0 && counts.all_one() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    Counts after(30);
    kumiko_parallel_for(count_hit, &after, 0, 30);
    CHECK(after.all_one());
}
#endif

TEST_CASE("a hook replaces the pool") {
    Restore restore;
    auto backwards = [](kumiko_task task, void *closure, int64_t begin, int64_t count) {
        for (int64_t i = begin + count - 1; i >= begin; i--) {
            if (int code = task(closure, i)) return code;
        }
        return 0;
    };
    // doctest prints no function pointers
    CHECK((kumiko_set_parallel_for(backwards) == kumiko_default_parallel_for));
    std::vector<int64_t> order;
    auto note = [](void *closure, int64_t i) {
        static_cast<std::vector<int64_t> *>(closure)->push_back(i);
        return 0;
    };
    CHECK(kumiko_parallel_for(note, &order, 0, 3) == 0);
    CHECK(order == std::vector<int64_t>{2, 1, 0});
}

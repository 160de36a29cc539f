// A crash during compilation is reported as an error.
// Sanitized: no
#include "support/error.h"
#include "targets/cpu/crash_guard.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

using namespace kumiko;

TEST_CASE("aborts and faults become errors, and the program continues") {
    struct sigaction before {
    }, after{};
    sigaction(SIGSEGV, nullptr, &before);
    for (int times = 0; times < 3; times++) {
        CHECK_THROWS_AS(survive_crashes([] { abort(); }), InternalError);
        CHECK_THROWS_AS(survive_crashes([] { raise(SIGSEGV); }), InternalError);
        CHECK_THROWS_AS(survive_crashes([] { __builtin_trap(); }), InternalError);
    }
    int done = 0;
    survive_crashes([&] { done++; });
    CHECK(done == 1);
    sigaction(SIGSEGV, nullptr, &after);
    CHECK((after.sa_sigaction == before.sa_sigaction));
}

TEST_CASE("exceptions pass through the guard") {
    CHECK_THROWS_AS(survive_crashes([] { throw UserError("mine"); }), UserError);
    CHECK_THROWS_AS(survive_crashes([] { throw std::runtime_error("mine"); }), std::runtime_error);
}

TEST_CASE("threads crash by themselves") {
    int whole = 0, crashed = 0;
    std::thread one([&] {
        for (int n = 0; n < 50; n++) survive_crashes([&] { whole++; });
    });
    std::thread other([&] {
        for (int n = 0; n < 50; n++) {
            try {
                survive_crashes([] { abort(); });
            } catch (const InternalError &) {
                crashed++;
            }
        }
    });
    one.join();
    other.join();
    CHECK(whole == 50);
    CHECK(crashed == 50);
}

// The command of a fuzzer: FUZZER [--inputs N] [--seed S].
#pragma once

#include "support/duration.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace kumiko {

// Calls one() of a Fuzzer(seed) for each input, and prints its summary(). On an exception, or after
// five seconds for one input, prints the fuzzer's `input` and returns 1.
template<typename Fuzzer>
int run_fuzzer(int argc, char **argv, uint64_t inputs) {
    uint64_t seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!std::strcmp(argv[i], "--inputs")) inputs = std::strtoull(argv[i + 1], nullptr, 10);
        if (!std::strcmp(argv[i], "--seed")) seed = std::strtoull(argv[i + 1], nullptr, 10);
    }
    Fuzzer f(seed);
    const Stopwatch watch;
    for (uint64_t i = 0; i < inputs; i++) {
        const Stopwatch one;
        try {
            f.one();
            if (one.seconds() > 5) throw std::runtime_error("it took more than five seconds");
        } catch (const std::exception &e) {
            std::printf("seed %llu, input %llu: %s\n", (unsigned long long)seed, (unsigned long long)i, e.what());
            for (const unsigned char c : f.input)
                std::printf(c == '\n' || (c >= 32 && c < 127 && c != '\\') ? "%c" : "\\x%02x", c);
            std::printf("\n");
            return 1;
        }
    }
    std::printf("%llu inputs in %s: %s\n", (unsigned long long)inputs, duration_text(watch.seconds()).c_str(),
                f.summary().c_str());
    return 0;
}

} // namespace kumiko

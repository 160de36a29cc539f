// Labels: threads
// The processor's features, and the hook that overrides them.
#include "runtime/kumiko_runtime.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

TEST_CASE("features are found, the same by every thread") {
    std::vector<uint64_t> found(4);
    std::vector<std::thread> threads;
    for (uint64_t &f : found) threads.emplace_back([&f] { f = kumiko_cpu_features(); });
    for (std::thread &t : threads) t.join();
    for (uint64_t f : found) CHECK(f == kumiko_cpu_features());
#if defined(__x86_64__)
    const auto agrees = [](const char *name, bool there) {
        CHECK_MESSAGE(((kumiko_cpu_features() & kumiko_cpu_feature(name)) != 0) == there, name);
    };
    agrees("sse4.2", __builtin_cpu_supports("sse4.2"));
    agrees("avx2", __builtin_cpu_supports("avx2"));
    agrees("fma", __builtin_cpu_supports("fma"));
    agrees("avx512f", __builtin_cpu_supports("avx512f"));
    agrees("avx512vnni", __builtin_cpu_supports("avx512vnni"));
    agrees("avx512bf16", __builtin_cpu_supports("avx512bf16"));
    agrees("gfni", __builtin_cpu_supports("gfni"));
#endif
    CHECK(kumiko_cpu_feature("nonsense") == 0);
    CHECK(kumiko_cpu_feature("") == 0);
    CHECK(kumiko_cpu_feature(nullptr) == 0);
}

TEST_CASE("missing features are named, and the hook decides") {
#if defined(__x86_64__)
    const uint64_t two = kumiko_cpu_feature("avx2") | kumiko_cpu_feature("fma");
    REQUIRE(two != 0);
    REQUIRE(!kumiko_set_cpu_features([](uint64_t detected) { return detected & ~kumiko_cpu_feature("fma"); }));
    CHECK(kumiko_require_features(kumiko_cpu_feature("fma"), "mylib_k") == KUMIKO_MISSING_FEATURE);
    CHECK(std::string(kumiko_error()) == "mylib_k: this processor lacks fma, for which the kernel was built");
    kumiko_set_cpu_features([](uint64_t) -> uint64_t { return 0; });
    CHECK(kumiko_require_features(two, "k") == KUMIKO_MISSING_FEATURE);
    CHECK(std::string(kumiko_error()) == "k: this processor lacks fma, avx2, for which the kernel was built");
    CHECK(kumiko_require_features(~(uint64_t{1} << 63), std::string(2000, 'x').c_str()) == KUMIKO_MISSING_FEATURE);
    kumiko_set_cpu_features([](uint64_t detected) { return detected | ~(uint64_t{1} << 63); });
    CHECK(kumiko_require_features(two, "k") == KUMIKO_OK);
    kumiko_set_cpu_features(nullptr);
#endif
    CHECK(kumiko_require_features(0, "k") == KUMIKO_OK);
}

// Random numbers that are the same for a given seed on every machine and compiler, unlike the
// distributions in <random>. The generator is xoshiro256**, seeded by splitmix64 (D. Blackman and
// S. Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47, 2021).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kumiko {

// Also usable as a mixing function: consecutive states give values that look independent.
inline uint64_t splitmix64(uint64_t &state) {
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

// A generator of random numbers with a seed.
class Random {
public:
    // a UniformRandomBitGenerator, for std::shuffle if its order need not be portable.
    using result_type = uint64_t;

    explicit Random(uint64_t seed = 0) {
        for (uint64_t &s : state_) s = splitmix64(seed);
    }

    static constexpr uint64_t min() { return 0; }
    static constexpr uint64_t max() { return UINT64_MAX; }

    uint64_t operator()() {
        auto rotate = [](uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
        uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Uniform in [0, n). Requires n > 0. Rejects the few values that would bias the result.
    uint64_t below(uint64_t n) {
        uint64_t limit = -n % n;
        for (;;) {
            uint64_t r = (*this)();
            if (r >= limit) return r % n;
        }
    }

    // Uniform in [low, high], inclusive. Requires low <= high.
    int64_t between(int64_t low, int64_t high) {
        uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
        return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? (*this)() : below(span)));
    }

    // Uniform in [0, 1), in multiples of 2^-53.
    double real() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

    bool chance(double probability) { return real() < probability; }

    // A random element. Requires that `values` is not empty.
    template<typename T>
    const T &pick(const std::vector<T> &values) {
        return values[below(values.size())];
    }

    template<typename T>
    void shuffle(std::vector<T> &values) {
        for (size_t i = values.size(); i > 1; i--) std::swap(values[i - 1], values[below(i)]);
    }

    // A separate generator for a part of the work, so that parts can be done in any order.
    Random fork() { return Random((*this)()); }

private:
    std::array<uint64_t, 4> state_;
};

} // namespace kumiko

#include "support/hash.h"

#include "support/random.h"

namespace kumiko {

Hasher &Hasher::bytes(const void *data, size_t size) {
    const auto *p = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < size; i++) {
        a_ = (a_ ^ p[i]) * 0x100000001b3ULL;
        // A different odd multiplier, so that both lanes do not collide together.
        b_ = (b_ ^ p[i]) * 0x9fb21c651e98df25ULL;
        b_ ^= b_ >> 29;
    }
    return *this;
}

Hasher &Hasher::text(std::string_view text) {
    number(text.size());
    return bytes(text.data(), text.size());
}

Hasher &Hasher::number(uint64_t value) {
    unsigned char out[8];
    for (int i = 0; i < 8; i++) out[i] = static_cast<unsigned char>(value >> (8 * i));
    return bytes(out, 8);
}

std::string Hasher::hex() const {
    uint64_t first = a_, second = b_;
    const uint64_t words[2] = {splitmix64(first), splitmix64(second)};
    std::string out;
    for (uint64_t word : words) {
        for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(word >> shift) & 15];
    }
    return out;
}

std::string hash_hex(std::string_view text) { return Hasher().text(text).hex(); }

} // namespace kumiko

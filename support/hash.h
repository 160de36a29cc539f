// Content hashes that are stable across machines and versions, so they can be stored in files and
// databases. FNV-1a over the bytes in two 64-bit lanes with different initial values, with a final
// mixing function. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kumiko {

class Hasher {
public:
    Hasher &bytes(const void *data, size_t size);
    // Hashes the text with its length, so that ("ab", "c") and ("a", "bc") differ.
    Hasher &text(std::string_view text);
    // Hashes eight little-endian bytes, independently of the host's byte order.
    Hasher &number(uint64_t value);

    // 128 bits as 32 lower-case hexadecimal digits.
    std::string hex() const;

private:
    uint64_t a_ = 0xcbf29ce484222325ULL;
    uint64_t b_ = 0x9ae16a3b2f90404fULL;
};

std::string hash_hex(std::string_view text);

} // namespace kumiko

// Content hashes that are the same on every machine and in every version, so that they may stand in files and databases.
// FNV-1a over the bytes in two 64-bit lanes that begin differently, finished by a mixing function. Not for security.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kumiko {

class Hasher {
public:
    Hasher &bytes(const void *data, size_t size);
    // Text with its length, so that ("ab", "c") and ("a", "bc") differ.
    Hasher &text(std::string_view text);
    // As eight little-endian bytes, whatever the machine's order.
    Hasher &number(uint64_t value);

    uint64_t value64() const;
    // 128 bits as 32 lower-case hexadecimal digits.
    std::string hex() const;

private:
    uint64_t a_ = 0xcbf29ce484222325ULL;
    uint64_t b_ = 0x9ae16a3b2f90404fULL;
};

uint64_t hash64(std::string_view text);
std::string hash_hex(std::string_view text);

} // namespace kumiko

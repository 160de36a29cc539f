// A program: its words and its file formats.
#pragma once

#include "sim/isa.h"

#include <string>
#include <string_view>
#include <vector>

namespace kumiko::sim {

// The words of a program, in order.
struct Program {
    // The configuration that it was written for, or "" if any configuration that it fits will do.
    std::string machine;
    std::vector<Word> words;

    // The binary container. Loading checks every bound and field, and its result encodes to the
    // same bytes. Throws UserError that names the byte of the error; no input makes it crash, hang,
    // or use memory beyond a small multiple of the input's size.
    std::string save() const;
    static Program load(std::string_view bytes, const std::string &document);
    // Loads a container, or a text program (anything else), by its first bytes. Throws UserError.
    // `places`: error messages about the words of a text state their position (assembler.h).
    static Program load_file(const std::string &path, bool places = false);
};

// The word's fixed bit layout. Throws UserError for a field out of range, and HazardError for an
// immediate together with LM0 (H7), whose field it shares. Unused fields of a slot that is off must
// have their defaults; `canonical` sets them.
constexpr int encoded_words = 24; // of 64 bits
using EncodedWord = std::array<uint64_t, encoded_words>;
EncodedWord encode(const Word &word);
// Throws UserError for bits that encode no word.
Word decode(const EncodedWord &bits);
// The same word with every unused field at its default: the result of encoding and decoding, and of
// printing and assembling.
Word canonical(const Word &word);

} // namespace kumiko::sim

// A program: its words, and the file form of them.
#pragma once

#include "sim/isa.h"

#include <string>
#include <string_view>
#include <vector>

namespace kumiko::sim {

struct Program {
    std::string machine; // the configuration that it was written for, or "" when any that it fits will do
    std::vector<Word> words;

    // The binary container, and back. Loading checks every bound and field: what it returns encodes to the same bytes. Throws
    // UserError naming the byte where the data goes wrong; no input makes it crash, hang, or take memory beyond a small
    // multiple of the input's size.
    std::string save() const;
    static Program load(std::string_view bytes, const std::string &document);
    // A text program (anything that is not a container) or a container, by its first bytes. Throws UserError.
    // `places`: the words of a text say where they stand in what is wrong with them (assembler.h).
    static Program load_file(const std::string &path, bool places = false);
};

// The word's fixed bit layout. Throws UserError for a field out of its range, HazardError for an immediate beside LM0 (H7),
// whose field it shares. Unused fields of a slot that is off have to hold their defaults; `canonical` puts them so.
constexpr int encoded_words = 24; // of 64 bits
using EncodedWord = std::array<uint64_t, encoded_words>;
EncodedWord encode(const Word &word);
// Throws UserError for bits that no word encodes to.
Word decode(const EncodedWord &bits);
// The same word with everything unused at its default: what encoding and decoding, and printing and assembling, give back.
Word canonical(const Word &word);

} // namespace kumiko::sim

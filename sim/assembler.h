// The text form of programs. One line is one word; docs/chip.md has the grammar and a table of
// mnemonics.
//
//   rep 16,2 | l1.mab.2 l1bm[0 ^8] | mwrite.f16.2 y.0, lbf | mfma.f16 x, lm0[0+1 ^4], grf0[0+2]:2
//     -> grf0[0+2] ; comment      (one line)
#pragma once

#include "sim/program.h"

#include <string>
#include <string_view>

namespace kumiko::sim {

// Throws UserError "document:line:column: cause; what would be legal". A rule that a single word
// violates is reported here, as a HazardError with the same position in front. `places`: notes of
// the words, which messages quote, begin with their position ("document:line").
Program assemble(std::string_view text, const std::string &document, bool places = false);
// Assembles one word without a note.
Word assemble_word(std::string_view line);

// The text that assembles to the same program (the canonical form of its words); also for one word
// or slot.
std::string disassemble(const Program &program);
std::string disassemble(const Word &word);

// The slots of a word, in the order in which they are printed.
enum class Slot : uint8_t { Control, Mv, L2, L1, MatrixWrite, Mau, MatrixRead, Alu, Mask };
constexpr int slot_count = 9;
std::string slot_name(Slot slot);                     // "L1"
std::string disassemble(const Word &word, Slot slot); // "" when the slot does nothing

} // namespace kumiko::sim

// The library's templates, the most special first.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates();

// The chip's, likewise.
const std::vector<LibraryTemplate> &chip_templates();

// The first template that matches; null when none does.
const LibraryTemplate *find_template(const Op &op);
// What a program of the chip cannot be made for, whatever its schedule: throws UserError or Unsupported.
void require_chip_program(const Op &op);
// The first that matches on a machine, which may be a chip; null where the library has nothing for the op on the chip. Throws as
// require_chip_program.
const LibraryTemplate *fitting_template(const Op &op, const Machine &machine);
// The same, but throws Unsupported where there is none; of those whose callers pack weights, where asked so.
const LibraryTemplate *find_template(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
// The space of that one. Throws likewise.
std::unique_ptr<Space> space_of(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
// Throws UserError with a suggestion.
const LibraryTemplate &template_named(const std::string &name);

} // namespace kumiko::library

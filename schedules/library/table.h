// The library's templates, the most special first.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates();

// The chip's, likewise.
const std::vector<LibraryTemplate> &chip_templates();

// The first template that matches; null when none does.
const LibraryTemplate *find_template(const Op &op);
// The same for a machine, which may be a chip. Throws Unsupported where the library has nothing for the op on the chip.
const LibraryTemplate *find_template(const Op &op, const Machine &machine);
// Throws UserError with a suggestion.
const LibraryTemplate &template_named(const std::string &name);

} // namespace kumiko::library

// The library's templates, the most specialized first.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates();

// The templates for the chip, in the same order.
const std::vector<LibraryTemplate> &chip_templates();

// The first template that matches; null if none does.
const LibraryTemplate *find_template(const Op &op);
// Whether a template that matches is better on this machine than those after it.
bool suits(const LibraryTemplate &t, const Op &op, const Machine &machine);
// Whether a schedule whose caller packs weights is better than the default one, if both exist.
bool pays_to_pack_ahead(const Op &op, const Machine &machine);
// Checks that a program for the chip is possible under some schedule. Throws UserError or
// Unsupported if not.
void require_chip_program(const Op &op);
// The first template that matches and suits a machine. Null if the machine is a chip for which the
// library has none. Throws as require_chip_program.
const LibraryTemplate *fitting_template(const Op &op, const Machine &machine);
// The same, but throws Unsupported if there is none. With PackedBy::Caller, considers only
// templates whose callers pack weights.
const LibraryTemplate *find_template(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
// The space of that template. Throws as find_template.
std::unique_ptr<Space> space_of(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
// Throws UserError with a suggestion for an unknown name.
const LibraryTemplate &template_named(const std::string &name);

} // namespace kumiko::library

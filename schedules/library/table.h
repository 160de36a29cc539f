// The library's templates, the most special first.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates();

// The first template that matches; null when none does.
const LibraryTemplate *find_template(const Op &op);
// Throws UserError with a suggestion.
const LibraryTemplate &template_named(const std::string &name);

} // namespace kumiko::library

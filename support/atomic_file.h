// Atomic file writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kumiko {

// Writes `bytes` to a temporary file next to `path`, flushes it to disk, and renames it to `path`.
// If that fails (disk full, missing folder, no permission), the temporary file is removed, the
// previous file is unchanged, and UserError states what could not be written and why.
void write_file_atomically(const std::string &path, std::string_view bytes);

// Writes several files that belong together: all temporary files are written before the first is
// renamed, so a full disk changes none of them.
void write_files_atomically(const std::vector<std::pair<std::string, std::string>> &path_and_bytes);

} // namespace kumiko

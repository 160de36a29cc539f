// Files that are there whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kumiko {

// Writes `bytes` to `path`: to a temporary file beside it, flushed to the disk, then renamed over it. When that fails (disk
// full, no such folder, no permission) the temporary file is removed, what stood at `path` before is untouched, and
// UserError says what could not be written and why.
void write_file_atomically(const std::string &path, std::string_view bytes);

// Several files that belong together: all are written beside their places before the first is renamed, so that a full disk
// leaves none of them changed.
void write_files_atomically(const std::vector<std::pair<std::string, std::string>> &path_and_bytes);

} // namespace kumiko

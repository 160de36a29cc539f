// Memory: how much this machine has, and large arrays of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kumiko {

// Bytes: what is built in, or less where this program's control group is allowed less. 0: unknown.
int64_t machine_memory();

// Asks for large pages for an array of 4 MiB or more that has not been written yet, as NumPy does for its own: where each page of 4 KiB has
// to be looked up, sums of what exceeds the caches take a third longer. Nothing happens where the system has none.
void ask_for_large_pages(void *array, size_t bytes);

// Memory from the system, for which large pages are asked, aligned to lines of caches; std::free gives it back. Throws std::bad_alloc, and
// never returns null.
void *allocate_bytes(size_t bytes);

} // namespace kumiko

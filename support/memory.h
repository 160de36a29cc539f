// The machine's memory size, and allocation of large arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kumiko {

// Bytes of physical memory, or the limit of this program's control group if that is lower. 0:
// unknown.
int64_t machine_memory();

// Requests large pages for an unwritten array of 4 MiB or more, as NumPy does for its arrays: with
// 4 KiB pages, TLB misses make sums over more than the caches take a third longer. No effect on
// systems without large pages.
void ask_for_large_pages(void *array, size_t bytes);

// Allocates cache-line-aligned memory with large pages; free it with std::free. Throws
// std::bad_alloc and never returns null.
void *allocate_bytes(size_t bytes);

} // namespace kumiko

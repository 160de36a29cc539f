/* For tuners and tests: kernels whose workspaces hold what the caller wants. */
#ifndef KUMIKO_FILL_WORKSPACES_H
#define KUMIKO_FILL_WORKSPACES_H

#include "kumiko_runtime.h"

#ifdef KUMIKO_PREFIX
#define kumiko_fill_workspaces KUMIKO_JOIN(KUMIKO_PREFIX, fill_workspaces)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* After this call each block of kumiko_malloc is filled with `pattern` when a thread takes it for the first time, the kept ones too. A
 * block that is taken again has what was left in it. Call it while no block is in use. Replaced functions fill nothing. */
void kumiko_fill_workspaces(uint64_t pattern);

#ifdef __cplusplus
}
#endif

#endif

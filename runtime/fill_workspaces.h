/* For tuners and tests: fills workspaces with a pattern. */
#ifndef KUMIKO_FILL_WORKSPACES_H
#define KUMIKO_FILL_WORKSPACES_H

#include "kumiko_runtime.h"

#ifdef KUMIKO_PREFIX
#define kumiko_fill_workspaces KUMIKO_JOIN(KUMIKO_PREFIX, fill_workspaces)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* After this call, each block of kumiko_malloc is filled with `pattern` when a thread first
 * allocates it, including cached blocks. A block that is allocated again keeps its contents. Call
 * it while no block is in use. Has no effect on replaced allocation functions. */
void kumiko_fill_workspaces(uint64_t pattern);

#ifdef __cplusplus
}
#endif

#endif

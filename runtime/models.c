/* What the functions of models call: hooks of one run, and the check of weights. */
#include "kumiko_runtime.h"

int kumiko_parallel_for_in(const kumiko_context *context, kumiko_task task, void *closure, int64_t begin,
                           int64_t count) {
    if (context && context->parallel_for) return context->parallel_for(context->user, task, closure, begin, count);
    return kumiko_parallel_for(task, closure, begin, count);
}

void kumiko_begin_step(const kumiko_context *context, const kumiko_step *step) {
    if (context->profile) context->profile(context->user, step, 0);
}

void kumiko_end_step(const kumiko_context *context, const kumiko_step *step, const kumiko_stored_tensor *made,
                     int64_t count, void *const *arrays, void *arena) {
    if (context->profile) context->profile(context->user, step, 1);
    for (int64_t i = 0; context->dump && i < count; i++) {
        kumiko_tensor tensor = made[i].tensor;
        tensor.data = (const char *)(made[i].array < 0 ? arena : arrays[made[i].array]) + made[i].offset;
        context->dump(context->user, &tensor);
    }
}

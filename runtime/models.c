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

/* ---- Weights --------------------------------------------------------------------------------- */

enum { MESSAGE_BYTES = 256, WEIGHTS_VERSION = 1 };

typedef struct {
    char bytes[MESSAGE_BYTES];
    size_t size;
} message;

static void add_text(message *m, const char *text) {
    while (*text && m->size < MESSAGE_BYTES - 1) m->bytes[m->size++] = *text++;
    m->bytes[m->size] = 0;
}

static void add_number(message *m, uint64_t number) {
    char digits[21];
    int at = 20;
    digits[at] = 0;
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    add_text(m, digits + at);
}

/* Independent of the byte order of the processor. */
static uint64_t little_endian(const unsigned char *bytes, int count) {
    uint64_t number = 0;
    for (int i = count; i-- > 0;) number = number << 8 | bytes[i];
    return number;
}

/* The same of 8 bytes, which compilers make one load. */
static uint64_t word(const unsigned char *b) {
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 | (uint64_t)b[4] << 32 |
           (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
}

/* Fails with "MODEL: BEFORE NUMBER AFTER". */
static int refuse(const char *model, const char *before, uint64_t number, const char *after) {
    message m = {{0}, 0};
    add_text(&m, model);
    add_text(&m, ": ");
    add_text(&m, before);
    if (after) {
        add_number(&m, number);
        add_text(&m, after);
    }
    return kumiko_fail(KUMIKO_BAD_WEIGHTS, m.bytes);
}

/* FNV-1a over words of eight bytes, of which four chains run side by side, as a hash of bytes would
 * take a second per gigabyte. */
uint64_t kumiko_hash_weights(const void *data, size_t bytes) {
    const unsigned char *at = data;
    const uint64_t prime = 0x100000001b3ULL;
    uint64_t h[4], all = 0xcbf29ce484222325ULL ^ bytes;
    for (int lane = 0; lane < 4; lane++) h[lane] = 0xcbf29ce484222325ULL + (uint64_t)lane;
    for (; bytes >= 32; at += 32, bytes -= 32) {
        for (int lane = 0; lane < 4; lane++) {
            h[lane] = (h[lane] ^ word(at + 8 * lane)) * prime;
            h[lane] ^= h[lane] >> 32;
        }
    }
    for (int lane = 0; lane < 4; lane++) all = (all ^ h[lane]) * prime, all ^= all >> 29;
    for (; bytes > 0; at++, bytes--) all = (all ^ *at) * prime;
    return all ^ all >> 31;
}

int kumiko_match_weights(const void *file, uint64_t bytes, uint64_t hash, const char *model) {
    const unsigned char *at = file;
    static const char mark[] = KUMIKO_WEIGHTS_MARK;
    if ((uintptr_t)file % 64) return refuse(model, "the weights are not aligned to 64 bytes", 0, NULL);
    for (int i = 0; i < 8; i++) {
        if (at[i] != (unsigned char)mark[i])
            return refuse(model, "these are no weights; legal is the file that was built with the library", 0, NULL);
    }
    const uint64_t version = little_endian(at + 8, 4), stated = little_endian(at + 16, 8);
    if (version != WEIGHTS_VERSION) return refuse(model, "the weights have the version ", version, "; legal is 1");
    if (stated != bytes || little_endian(at + 24, 8) != hash)
        return refuse(model,
                      "the weights are of another model or build; legal is the file that was built with the library", 0,
                      NULL);
    return KUMIKO_OK;
}

int kumiko_verify_weights(const void *file, size_t given, uint64_t bytes, uint64_t hash, const char *model) {
    if (!file) return refuse(model, "the weights are a null pointer", 0, NULL);
    if (given < KUMIKO_WEIGHTS_HEADER)
        return refuse(model, "the weights have ", given, " bytes; legal is the file that was built with the library");
    const int code = kumiko_match_weights(file, bytes, hash, model);
    if (code) return code;
    if (given != bytes) return refuse(model, "the weights are cut off, or continue: they have ", given, " bytes");
    if (kumiko_hash_weights((const char *)file + KUMIKO_WEIGHTS_HEADER, given - KUMIKO_WEIGHTS_HEADER) != hash)
        return refuse(model, "the weights are damaged: their hash is not the one that they state", 0, NULL);
    return KUMIKO_OK;
}

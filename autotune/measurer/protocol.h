/* What the tuner and its measurer say to each other. Both run on one machine and come from one build, so plain structs
 * go over the wire; `magic` and `version` guard against a measurer of another build.
 *
 * The measurer is executed with
 *   descriptor 3  a stream socket: requests come, each is answered by one reply
 *   descriptor 4  a sealed memory file: the task, that is, the tensors' contents and what the outputs must be
 *   descriptor 5  a page of memory, where it keeps which slot is running and since when: what is known of one that ends the process,
 *                or has to be ended
 *   arguments     its name, the number of threads, a limit on its memory in MiB (0: none), and 1
 *                 when caches are to be cold, else 0
 * It says hello with an unasked reply, whose `clock_hz` is the clock it measured (0: unknown). */
#ifndef KUMIKO_MEASURER_PROTOCOL_H
#define KUMIKO_MEASURER_PROTOCOL_H

#include <stdint.h>

enum {
    MEASURER_MAGIC = 0x4b6d6561,
    MEASURER_VERSION = 12,
    MEASURER_SLOTS = 16,
    MEASURER_NAME = 240,
    MEASURER_PATH = 1024,
    MEASURER_CODE = 16,
    MEASURER_TEXT = 480,
    MEASURER_PACKS = 4,
    MEASURER_PACK_SIZES = 16
};
enum { MEASURER_SOCKET = 3, MEASURER_TASK = 4, MEASURER_PAGE = 5 };

typedef struct {
    volatile uint32_t running; /* the slot; of no one between requests: MEASURER_SLOTS */
    volatile uint32_t calls;   /* rises as a call of a kernel begins, and as it ends: odd while one runs */
} measurer_page;

/* ---- The task file: this header, sizes, tensors, functions, then data at the offsets given */

typedef struct {
    uint8_t code; /* halide_type_code_t: 0 int, 1 unsigned, 2 float, 4 bfloat */
    uint8_t bits; /* 1 for bool, whose elements are bytes */
    uint8_t output;
    uint8_t
        bounded; /* outputs: 0: `data` holds the expected elements; 1: expected values as f64, then bounds as f64; 2: likewise of a
                        sample, after its places as int64_t; the other elements have to be written at least */
    uint32_t samples;  /* how many the sample has */
    uint64_t bytes;    /* of the array */
    uint64_t elements; /* of a dense array: outputs are dense */
    uint64_t data;     /* offset */
    uint64_t before;   /* offset of what an output that is updated holds before a call; of others 0 */
} measurer_tensor;

typedef struct {
    uint32_t magic, version;
    uint32_t tensors, sizes, functions, pad;
    uint64_t bytes; /* of the file */
} measurer_task;    /* then int64_t[sizes], measurer_tensor[tensors], measurer_function[functions] */

/* A function that kernels call under `symbol`: at `offset` in the shared library `file`, or, where
 * that is empty, in the measuring program. `code` is how it begins. */
typedef struct {
    char symbol[MEASURER_NAME];
    char file[MEASURER_PATH];
    uint8_t code[MEASURER_CODE];
    uint64_t offset;
} measurer_function;

/* ---- Requests and replies ---- */

enum measurer_command {
    MEASURER_LOAD = 1, /* links the object that follows into slot slots[0], runs it once (times[0]), checks it */
    MEASURER_RUN = 2   /* times `count` slots, taking turns, and checks each again */
};

/* An input that the kernel takes as the function `entry` of its object packs it, once, before the kernel is called. */
typedef struct {
    char entry[MEASURER_NAME];
    uint64_t bytes; /* that it writes */
    uint32_t tensor, pad;
    int64_t size[MEASURER_PACK_SIZES]; /* that it is called with */
} measurer_pack;

typedef struct {
    uint32_t magic, command;
    uint64_t object_bytes; /* LOAD: that many bytes follow */
    char kernel[MEASURER_NAME];
    measurer_pack packs[MEASURER_PACKS]; /* LOAD; those without a name are none */
    uint32_t count;
    uint32_t slots[MEASURER_SLOTS];
    double budget;        /* RUN: seconds for all, beyond which only the least number of samples is taken */
    double tight;         /* RUN: stop when (median - least) / least is below this in every slot */
    double give_up_above; /* RUN of one slot: stop after few samples when the least is above this; 0: never */
    uint32_t
        paired; /* RUN of two slots: stop when the first's ratio to the second is known within `tight`, or above give_up_above */
    uint32_t pad;
} measurer_request;

enum measurer_status {
    MEASURER_OK = 0,
    MEASURER_BAD_OBJECT = 1, /* cannot be linked */
    MEASURER_FAILED = 2,     /* the kernel returned a code; its text is given */
    MEASURER_WRONG = 3,      /* an output differs */
    MEASURER_BAD_REQUEST = 4,
    MEASURER_NO_MEMORY = 5 /* for the arrays, an input that is packed, or the kernel's workspace */
};

typedef struct {
    double least, median, spread; /* seconds a call; spread: between the quartiles, as a part of the median */
    double ratio;                 /* the median over the rounds of this slot's sample / the last slot's */
    double ratio_error;           /* the standard error of that median, as a part of it */
    uint32_t samples, calls;      /* samples taken, calls in each */
} measurer_time;

typedef struct {
    uint32_t magic, version;
    uint32_t status;
    uint32_t slot; /* that failed */
    double clock_hz;
    measurer_time times[MEASURER_SLOTS];
    char text[MEASURER_TEXT];
} measurer_reply;

#endif

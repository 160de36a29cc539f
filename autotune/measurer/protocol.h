/* The protocol between the tuner and its measurer. Both run on one machine and come from one build,
 * so plain structs are sent; `magic` and `version` detect a measurer of another build.
 *
 * The measurer is executed with
 *   descriptor 3  a stream socket: each request is answered by one reply
 *   descriptor 4  a sealed memory file: the task, that is, the tensors' contents and the expected
 *                 outputs
 *   descriptor 5  a shared page with the running slot and a count of calls, which remains readable
 *                 if a candidate ends the process, or has to be killed
 *   arguments     its name, the number of threads, a memory limit in MiB (0: none), and 1
 *                 for cold caches, else 0
 * It starts with an unrequested reply, whose `clock_hz` is the measured clock (0: unknown). */
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
    volatile uint32_t running; /* the slot; MEASURER_SLOTS between requests */
    /* Incremented at the start and end of each kernel call: odd during a call. */
    volatile uint32_t calls;
} measurer_page;

/* ---- The task file: this header, sizes, tensors, functions, then data at the given offsets */

typedef struct {
    uint8_t code; /* halide_type_code_t: 0 int, 1 unsigned, 2 float, 4 bfloat */
    uint8_t bits; /* 1 for bool, whose elements are bytes */
    uint8_t output;
    /* Outputs. 0: `data` holds the expected elements. 1: expected values as f64, then bounds as
     * f64. 2: the positions of a sample as int64_t, then both for the sample; the other elements
     * must only be written. */
    uint8_t bounded;
    uint32_t samples;  /* size of the sample */
    uint64_t bytes;    /* of the array */
    uint64_t elements; /* of a dense array: outputs are dense */
    uint64_t data;     /* offset */
    uint64_t before;   /* offset of the initial contents of an updated output; otherwise 0 */
} measurer_tensor;

typedef struct {
    uint32_t magic, version;
    uint32_t tensors, sizes, functions, pad;
    uint64_t bytes; /* of the file */
    /* Followed by int64_t[sizes], measurer_tensor[tensors], measurer_function[functions]. */
} measurer_task;

/* A function that kernels call under `symbol`: at `offset` in the shared library `file`, or in the
 * measuring program if `file` is empty. `code` is its first bytes. */
typedef struct {
    char symbol[MEASURER_NAME];
    char file[MEASURER_PATH];
    uint8_t code[MEASURER_CODE];
    uint64_t offset;
} measurer_function;

/* ---- Requests and replies ---- */

enum measurer_command {
    /* Links the following object into slot slots[0], runs it once (times[0]), checks it. */
    MEASURER_LOAD = 1,
    MEASURER_RUN = 2 /* times `count` slots in alternation, and checks each again */
};

/* An input that the function `entry` of the object packs, once, before the kernel is called. */
typedef struct {
    char entry[MEASURER_NAME];
    uint64_t bytes; /* size of the result */
    uint32_t tensor, pad;
    int64_t size[MEASURER_PACK_SIZES]; /* arguments of the function */
} measurer_pack;

typedef struct {
    uint32_t magic, command;
    uint64_t object_bytes; /* LOAD: size of the object that follows */
    char kernel[MEASURER_NAME];
    measurer_pack packs[MEASURER_PACKS]; /* LOAD; unused if the name is empty */
    uint32_t count;
    uint32_t slots[MEASURER_SLOTS];
    /* RUN: seconds for all slots; afterwards only the minimum number of samples is taken. */
    double budget;
    double tight; /* RUN: stop when (median - least) / least is below this in every slot */
    /* RUN of one slot: stop after a few samples if the minimum is above; 0: never. */
    double give_up_above;
    /* RUN of two slots: stop when the error of the first's ratio to the second is below `tight`, or
     * the ratio is above give_up_above. */
    uint32_t paired;
    uint32_t pad;
} measurer_request;

enum measurer_status {
    MEASURER_OK = 0,
    MEASURER_BAD_OBJECT = 1, /* cannot be linked */
    MEASURER_FAILED = 2,     /* the kernel returned an error code; its text is given */
    MEASURER_WRONG = 3,      /* an output differs */
    MEASURER_BAD_REQUEST = 4,
    MEASURER_NO_MEMORY = 5 /* for the arrays, a packed input, or the kernel's workspace */
};

typedef struct {
    double least, median, spread; /* seconds per call; spread: interquartile range / median */
    double ratio;                 /* median over rounds of this slot's sample / the last slot's */
    double ratio_error;           /* relative standard error of that median */
    uint32_t samples, calls;      /* samples taken, calls in each */
} measurer_time;

typedef struct {
    uint32_t magic, version;
    uint32_t status;
    uint32_t slot; /* the slot that failed */
    double clock_hz;
    measurer_time times[MEASURER_SLOTS];
    char text[MEASURER_TEXT];
} measurer_reply;

#endif

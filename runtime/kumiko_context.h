/* Hooks for one run of a model. Headers of generated libraries contain the same types. */
#ifndef KUMIKO_CONTEXT
#define KUMIKO_CONTEXT 1

/* A step of a model: a kernel for a group of nodes, a copy, or a check of indices. */
typedef struct kumiko_step {
    int64_t index;         /* from 0, in the order of manifest.json */
    const char *nodes;     /* names of the group's nodes in ONNX, separated by ", " */
    const char *operators; /* theirs, as "Conv Relu"; "" for copies and checks */
} kumiko_step;

/* A tensor that a step has computed. Values that exist only inside of a group are none. */
typedef struct kumiko_tensor {
    const char *name;       /* in ONNX */
    const char *type;       /* of an element: "f32", "i64", "bool" */
    int64_t rank;           /* number of extents */
    const int64_t *extents; /* in elements */
    const void *data;       /* dense, the last axis inside; valid until the hook returns */
} kumiko_tensor;

/* All hooks may be NULL. They get `user`. The thread that runs the model calls them. */
typedef struct kumiko_context {
    void *user;
    /* Calls task(closure, i) for every i in [begin, begin + count), on any threads, and returns 0
     * or the first nonzero code. NULL: the library's own threads. */
    int (*parallel_for)(void *user, int (*task)(void *closure, int64_t i), void *closure, int64_t begin, int64_t count);
    /* Called before each step (after = 0) and after it (after = 1), unless it fails. */
    void (*profile)(void *user, const kumiko_step *step, int after);
    /* Called for each tensor of a step, after it. */
    void (*dump)(void *user, const kumiko_tensor *tensor);
} kumiko_context;

#elif KUMIKO_CONTEXT != 1
#error "two libraries of Kumiko in one program have different hooks of models; build them again"
#endif

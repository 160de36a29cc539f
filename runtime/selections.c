/* Operators of models that select elements by their values, so that the size of their result
 * depends on data (kumiko_runtime.h). They allocate nothing. */
#include "kumiko_runtime.h"

#include <string.h>

typedef struct {
    const uint8_t *elements;
    int64_t kind, bytes;          /* kumiko_element_kind; of an element */
    int64_t all, outside, inside; /* extent of the axis; products of those before and after it */
} slices;

static uint64_t bits_of(const uint8_t *at, int64_t bytes) {
    uint64_t bits = 0;
    if (bytes == 1) return *at;
    if (bytes == 2) {
        uint16_t b;
        memcpy(&b, at, sizeof b);
        bits = b;
    } else if (bytes == 4) {
        uint32_t b;
        memcpy(&b, at, sizeof b);
        bits = b;
    } else {
        memcpy(&bits, at, sizeof bits);
    }
    return bits;
}

/* An unsigned number whose order is that of the elements. NaN is the largest, and -0 is 0. */
static uint64_t order_of(const uint8_t *at, int64_t kind, int64_t bytes) {
    const uint64_t bits = bits_of(at, bytes), sign = (uint64_t)1 << (8 * bytes - 1), all = sign | (sign - 1);
    uint64_t infinity;
    if (kind == KUMIKO_UNSIGNED) return bits;
    if (kind == KUMIKO_SIGNED) return bits ^ sign;
    infinity = bytes == 8                   ? (uint64_t)0x7ff << 52
               : bytes == 4                 ? (uint64_t)0xff << 23
               : kind == KUMIKO_BRAIN_FLOAT ? (uint64_t)0xff << 7
                                            : (uint64_t)0x1f << 10;
    if ((bits & ~sign) > infinity) return ~(uint64_t)0;
    if ((bits & ~sign) == 0) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}

static int compare_slices(const slices *s, int64_t a, int64_t b) {
    for (int64_t o = 0; o < s->outside; o++) {
        for (int64_t n = 0; n < s->inside; n++) {
            const uint64_t x = order_of(s->elements + ((o * s->all + a) * s->inside + n) * s->bytes, s->kind, s->bytes),
                           y = order_of(s->elements + ((o * s->all + b) * s->inside + n) * s->bytes, s->kind, s->bytes);
            if (x != y) return x < y ? -1 : 1;
        }
    }
    return 0;
}

/* Whether slice or box a is not after b. */
typedef int not_after(const void *context, int64_t a, int64_t b);

/* A stable sort. `spare` has room for as many numbers. */
static void merge_sort(int64_t *numbers, int64_t *spare, int64_t count, not_after *before, const void *context) {
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * width) {
            const int64_t middle = begin + width < count ? begin + width : count,
                          end = begin + 2 * width < count ? begin + 2 * width : count;
            int64_t a = begin, b = middle;
            for (int64_t n = begin; n < end; n++)
                spare[n] =
                    b >= end || (a < middle && before(context, numbers[a], numbers[b])) ? numbers[a++] : numbers[b++];
        }
        memcpy(numbers, spare, (size_t)count * sizeof *numbers);
    }
}

int kumiko_select_nonzero(void *const *arrays, const int64_t *parameters, void *workspace) {
    const uint8_t *x = (const uint8_t *)arrays[0];
    int64_t *y = (int64_t *)arrays[1], *size = (int64_t *)arrays[2];
    const int64_t kind = parameters[0], bytes = parameters[1], rank = parameters[2], *extents = parameters + 3;
    const uint64_t zero = order_of((const uint8_t *)"\0\0\0\0\0\0\0", kind, bytes);
    int64_t all = 1, count = 0, n, d;
    (void)workspace;
    for (d = 0; d < rank; d++) all *= extents[d];
    for (n = 0; n < all; n++) count += order_of(x + n * bytes, kind, bytes) != zero;
    *size = count;
    count = 0;
    for (n = 0; n < all; n++) {
        int64_t rest = n;
        if (order_of(x + n * bytes, kind, bytes) == zero) continue;
        for (d = rank; d-- > 0;) {
            y[d * *size + count] = rest % extents[d];
            rest /= extents[d];
        }
        count++;
    }
    return KUMIKO_OK;
}

int kumiko_select_compress(void *const *arrays, const int64_t *parameters, void *workspace) {
    const uint8_t *x = (const uint8_t *)arrays[0], *kept = (const uint8_t *)arrays[1];
    uint8_t *y = (uint8_t *)arrays[2];
    const int64_t outside = parameters[0], all = parameters[1], row = parameters[2], named = parameters[3];
    int64_t count = 0, o, n;
    (void)workspace;
    for (n = 0; n < named; n++) count += kept[n] != 0;
    *(int64_t *)arrays[3] = count;
    for (o = 0; o < outside; o++) {
        for (n = 0; n < named; n++) {
            if (!kept[n]) continue;
            memcpy(y, x + (o * all + n) * row, (size_t)row);
            y += row;
        }
    }
    return KUMIKO_OK;
}

static int slice_not_after(const void *context, int64_t a, int64_t b) {
    return compare_slices((const slices *)context, a, b) <= 0;
}

static int number_not_after(const void *context, int64_t a, int64_t b) {
    const int64_t *numbers = (const int64_t *)context;
    return numbers[a] <= numbers[b];
}

/* Workspace: 5 numbers for each slice. */
int kumiko_select_unique(void *const *arrays, const int64_t *parameters, void *workspace) {
    const slices s = {
        (const uint8_t *)arrays[0], parameters[0], parameters[1], parameters[2], parameters[3], parameters[4]};
    const int64_t sorted = parameters[5], all = s.all, row = s.inside * s.bytes;
    int64_t *order = (int64_t *)workspace, *spare = order + all, *first = spare + all, *group = first + all,
            *place = group + all;
    uint8_t *y = (uint8_t *)arrays[1];
    int64_t *indices = (int64_t *)arrays[2], *inverse = (int64_t *)arrays[3], *counts = (int64_t *)arrays[4];
    int64_t found = 0, n, o;
    for (n = 0; n < all; n++) order[n] = n;
    merge_sort(order, spare, all, slice_not_after, &s);
    for (n = 0; n < all; n++) {
        if (n == 0 || compare_slices(&s, order[n - 1], order[n]) != 0) first[found++] = order[n];
        group[order[n]] = found - 1;
    }
    for (n = 0; n < found; n++) order[n] = n, counts[n] = 0;
    if (!sorted) merge_sort(order, spare, found, number_not_after, first);
    for (n = 0; n < found; n++) {
        place[order[n]] = n;
        indices[n] = first[order[n]];
    }
    for (n = 0; n < all; n++) {
        inverse[n] = place[group[n]];
        counts[inverse[n]]++;
    }
    for (o = 0; o < s.outside; o++) {
        for (n = 0; n < found; n++, y += row) memcpy(y, s.elements + (o * all + indices[n]) * row, (size_t)row);
    }
    *(int64_t *)arrays[5] = found;
    return KUMIKO_OK;
}

typedef struct {
    float top, left, bottom, right;
} box;

static box box_of(const float *p, int64_t by_centre) {
    box b;
    if (by_centre) {
        b.top = p[1] - p[3] / 2, b.left = p[0] - p[2] / 2, b.bottom = p[1] + p[3] / 2, b.right = p[0] + p[2] / 2;
    } else {
        b.top = p[2] < p[0] ? p[2] : p[0], b.left = p[3] < p[1] ? p[3] : p[1];
        b.bottom = p[0] < p[2] ? p[2] : p[0], b.right = p[1] < p[3] ? p[3] : p[1];
    }
    return b;
}

static float area_of(box b) { return (b.bottom - b.top) * (b.right - b.left); }

/* Whether the intersection over union of the boxes exceeds the threshold. */
static int overlap(box a, box b, float threshold) {
    const float width = (a.right < b.right ? a.right : b.right) - (b.left > a.left ? b.left : a.left),
                height = (a.bottom < b.bottom ? a.bottom : b.bottom) - (b.top > a.top ? b.top : a.top);
    float common, all;
    if (!(width > 0 && height > 0)) return 0;
    common = width * height, all = area_of(a) + area_of(b) - common;
    if (!(area_of(a) > 0 && area_of(b) > 0 && all > 0)) return 0;
    return common / all > threshold;
}

static int score_not_after(const void *context, int64_t a, int64_t b) {
    const float *scores = (const float *)context;
    return !(scores[b] > scores[a]);
}

/* Workspace: 2 numbers for each box. */
int kumiko_select_boxes(void *const *arrays, const int64_t *parameters, void *workspace) {
    const float *boxes = (const float *)arrays[0], *scores = (const float *)arrays[1];
    const int64_t batches = parameters[0], classes = parameters[1], count = parameters[2], by_centre = parameters[3];
    int64_t next = 2, most = 0, found = 0, batch, kind, n, k;
    float threshold = 0, least = 0;
    int64_t *order = (int64_t *)workspace, *spare = order + count, *y;
    /* parameters[4] to [6]: whether inputs 2 to 4 are given. */
    if (parameters[4]) most = *(const int64_t *)arrays[next++];
    if (parameters[5]) threshold = *(const float *)arrays[next++];
    if (parameters[6]) least = *(const float *)arrays[next++];
    y = (int64_t *)arrays[next];
    for (batch = 0; batch < batches; batch++) {
        for (kind = 0; kind < classes; kind++) {
            const float *own = scores + (batch * classes + kind) * count;
            const int64_t begin = found;
            int64_t candidates = 0;
            for (n = 0; n < count; n++) {
                if (!parameters[6] || own[n] > least) order[candidates++] = n;
            }
            merge_sort(order, spare, candidates, score_not_after, own);
            for (n = 0; n < candidates && found - begin < most; n++) {
                const box b = box_of(boxes + (batch * count + order[n]) * 4, by_centre);
                for (k = begin; k < found; k++) {
                    if (overlap(b, box_of(boxes + (batch * count + y[3 * k + 2]) * 4, by_centre), threshold)) break;
                }
                if (k < found) continue;
                y[3 * found] = batch, y[3 * found + 1] = kind, y[3 * found + 2] = order[n];
                found++;
            }
        }
    }
    *(int64_t *)arrays[next + 1] = found;
    return KUMIKO_OK;
}

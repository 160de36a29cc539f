/* A program that knows nothing of Kumiko but demo_kernels.h: it calls every kernel of the demo on the inputs that lie in a
 * folder and compares what comes out with what the formulas say, element by element.
 *
 *   cc app.c -Iout out/libdemo_kernels.a -lm -lpthread -o app && ./app out/expected */
#include "demo_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    float *values;
    long count;
} array;

static const char *folder;

static array read_array(const char *kernel, const char *tensor) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s.bin", folder, kernel, tensor);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    const long bytes = ftell(file);
    array a = {malloc(bytes), bytes / (long)sizeof(float)};
    rewind(file);
    if (!a.values || fread(a.values, 1, bytes, file) != (size_t)bytes) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    return a;
}

/* Prints one line; returns 1 when the kernel is wrong. */
static int compare(const char *kernel, int code, array actual, array expected) {
    if (code) {
        printf("  %-28s failed: %s\n", kernel, demo_kernels_error());
        return 1;
    }
    double worst = 0;
    for (long i = 0; i < expected.count; i++) {
        const double error = fabs((double)actual.values[i] - expected.values[i]);
        if (!(error <= worst)) worst = error; /* a NaN stays */
    }
    const int wrong = !(worst <= 1e-5);
    printf("  %-28s %8ld elements, largest difference %.2g%s\n", kernel, expected.count, worst,
           wrong        ? "  WRONG"
           : worst == 0 ? " (equal bits)"
                        : "");
    return wrong;
}

typedef int (*two_inputs)(const float *, const float *, float *);
typedef int (*one_input)(const float *, float *);

static int check_two(const char *name, two_inputs kernel, const char *a_name, const char *b_name,
                     const char *out_name) {
    array a = read_array(name, a_name), b = read_array(name, b_name), expected = read_array(name, out_name);
    array out = {malloc(expected.count * sizeof(float)), expected.count};
    for (long i = 0; i < out.count; i++) out.values[i] = NAN;
    const int wrong = compare(name, kernel(a.values, b.values, out.values), out, expected);
    free(a.values), free(b.values), free(expected.values), free(out.values);
    return wrong;
}

/* Weights are packed once, ahead of all calls. */
static int check_packed(const char *name, two_inputs kernel, one_input pack, int64_t elements) {
    array x = read_array(name, "X"), w = read_array(name, "W"), expected = read_array(name, "Y");
    array out = {malloc(expected.count * sizeof(float)), expected.count},
          packed = {malloc(elements * sizeof(float)), elements};
    for (long i = 0; i < out.count; i++) out.values[i] = NAN;
    int code = pack(w.values, packed.values);
    if (!code) code = kernel(x.values, packed.values, out.values);
    const int wrong = compare(name, code, out, expected);
    free(x.values), free(w.values), free(expected.values), free(out.values), free(packed.values);
    return wrong;
}

static int check_one(const char *name, one_input kernel, const char *in_name, const char *out_name) {
    array in = read_array(name, in_name), expected = read_array(name, out_name);
    array out = {malloc(expected.count * sizeof(float)), expected.count};
    for (long i = 0; i < out.count; i++) out.values[i] = NAN;
    const int wrong = compare(name, kernel(in.values, out.values), out, expected);
    free(in.values), free(expected.values), free(out.values);
    return wrong;
}

#define CONV(name) check_two(#name, name, "X", "W", "Y")
#define CONV_AHEAD(name) check_packed(#name, name, name##_pack_W, name##_pack_W_elements())
#define GEMM(name) check_two(#name, name, "A", "B", "C")

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    int wrong = 0;
    wrong += CONV_AHEAD(resnet_conv_64_3x3_56);
    wrong += CONV(resnet_conv_256_64_1x1_56);
    wrong += CONV_AHEAD(resnet_conv_512_3x3_7);
    wrong += CONV(mobilenet_depthwise_144_56);
    wrong += GEMM(bert_gemm_128_768_768);
    wrong += GEMM(bert_gemm_128_3072_768);
    wrong += check_one("softmax_1536_128", softmax_1536_128, "X", "Y");
    printf("%s\n", wrong ? "some kernels are wrong" : "every output is what its formula says");
    return wrong != 0;
}

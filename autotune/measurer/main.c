#include "autotune/measurer/measure.h"

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc == 4) return kumiko_measure(argv);
    fprintf(stderr, "kumiko_measurer runs candidates for the tuner of Kumiko, which starts it; it has no other use.\n");
    return 2;
}

/* What the program kumiko_measurer does, and any other that acts as one (autotune/measurer.h): `argv` is what protocol.h says.
 * Returns the exit status. */
#ifndef KUMIKO_MEASURER_MEASURE_H
#define KUMIKO_MEASURER_MEASURE_H

#ifdef __cplusplus
extern "C" {
#endif

int kumiko_measure(char **argv);

#ifdef __cplusplus
}
#endif

#endif

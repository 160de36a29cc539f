/* Runs the measurer in this process: the program kumiko_measurer, or one that acts as a measurer
 * (autotune/measurer.h). `argv`: as protocol.h says. Returns the exit status. */
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

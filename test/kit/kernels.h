/*
 * The way by kernel, for copies of calls on many. Its kernel is loaded beside the program, and such calls are its only
 * users. So that each run of a test makes the same calls of the runtime, tests choose: no kernel, or the kernel for all
 * calls on at least two copies, loaded before the test begins and never late.
 */
#ifndef KERNELS_H
#define KERNELS_H

/* Choose kernels, and load them on so many devices; or choose none. */
void use_kernels(int devices);
void use_no_kernels(void);
/* Chooses kernels if SYNCED_MEM_TEST_KERNELS is set in the environment, else none. */
void use_kernels_if_asked(int devices);

#endif

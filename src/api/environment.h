/* The environment's settings: a trace, its summary, debug mode. */
#ifndef SM_ENVIRONMENT_H
#define SM_ENVIRONMENT_H

/* Starts the trace and debug mode that the environment sets. Only the first call does anything. */
void sm_read_environment(void);

#endif

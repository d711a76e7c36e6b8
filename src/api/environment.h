/* What the environment asks for: a trace, its summary, debug mode. */
#ifndef SM_ENVIRONMENT_H
#define SM_ENVIRONMENT_H

/* Begins what the environment asks for, at its first call. */
void sm_read_environment(void);

#endif

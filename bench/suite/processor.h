/* The processor that the measuring thread runs on. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

/* Moves the calling thread to a processor of its NUMA node that nothing disturbs, if it is not on one: a short loop
 * tells. On a virtual machine the load of others slows single processors to a half, unseen and for seconds. The thread
 * may run on the same processors as before, and so may threads that it creates. */
void find_quiet_processor(void);

#endif

/* Replaces backend_cpu.c in a build without CBLAS. */
#include "backend.h"
#include "failure.h"

bool backend_cpu_built(void)
{
    return false;
}

bool backend_open_cpu(struct backend *backend, int processes)
{
    (void)backend, (void)processes;
    return fail("this program was built without CBLAS and computes on a GPU only");
}

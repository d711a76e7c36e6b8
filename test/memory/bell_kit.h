/* Sleeps that no time ends: sm_bell_sleep(), which the linker replaces with this one (--wrap). A wait in which nobody
 * rings does not end then, however busy the machine is. */
#ifndef BELL_KIT_H
#define BELL_KIT_H

#include "memory/shared/control_page.h"

static bool sleeps_until_rung;

void __real_sm_bell_sleep(struct sm_control_page *page, unsigned seen, uint64_t nanoseconds);
void __wrap_sm_bell_sleep(struct sm_control_page *page, unsigned seen, uint64_t nanoseconds);
void __wrap_sm_bell_sleep(struct sm_control_page *page, unsigned seen, uint64_t nanoseconds)
{
    do
        __real_sm_bell_sleep(page, seen, nanoseconds);
    while (sleeps_until_rung && atomic_load(&page->bell) == seen);
}

#endif

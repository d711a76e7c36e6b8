/* Names of addresses, and the calls on a thread's stack. */
#ifndef SM_SYSTEM_NAMES_H
#define SM_SYSTEM_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Stores the return addresses on the calling thread's stack that are behind the one given, innermost first. Returns how
 * many there are, at most so many. 0: the stack can't be read, or the address is not on it. Not for signal handlers. */
unsigned sm_backtrace(uintptr_t behind, uintptr_t *addresses, unsigned most);

/* The symbol or the module that an address belongs to. */
struct sm_name {
    const char *text; /* stays until the thread's next query, or until the module is unloaded */
    uintptr_t start;  /* the address of the thing with this name */
    bool is_symbol;   /* else a module: a program or a library, by its path; "" with start 0: it is not known */
};

/* Returns the symbol or the module at the address. Takes the dynamic linker's lock. */
struct sm_name sm_name_of(uintptr_t address);

#endif

/*
 * The report of the use of an expired pointer, inside a signal handler. It takes no lock, allocates no memory and uses
 * no stdio.
 */
#include "memory/guard.h"

#include "base/place.h"
#include "system/faults.h"
#include "system/file.h"

static const struct sm_guard *(*find_protecting_guard)(uintptr_t address);

struct text {
    size_t used;
    char bytes[2048];
};

static void add_text(struct text *text, const char *more)
{
    while (*more && text->used < sizeof text->bytes)
        text->bytes[text->used++] = *more++;
}

static void add_number(struct text *text, uintptr_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    add_text(text, digits + at);
}

/* Adds a line: "synced_mem: that call was made in 'train/conv1' at forward+0x1f < main+0x88". */
static void add_cause(struct text *text, const struct sm_guard *guard)
{
    char scope[SM_SCOPE_TEXT];
    const struct sm_place *const place = atomic_load(&guard->place);
    for (size_t i = 0; i < sizeof scope; i++)
        scope[i] = atomic_load_explicit(&guard->scope[i], memory_order_relaxed);
    scope[sizeof scope - 1] = 0;
    const bool known = place || scope[0];
    add_text(text, known ? "synced_mem: that call was made" : "");
    add_text(text, scope[0] ? " in '" : "");
    add_text(text, scope);
    add_text(text, scope[0] ? "'" : "");
    add_text(text, place ? " at " : "");
    add_text(text, place ? place->text : "");
    add_text(text, known ? "\n" : "");
}

/* Prints: "synced_mem: 'conv1.weight' (4096 bytes): its host copy at 0x7f00 is stale since synced_mem_mutable_gpu_data;
 * the pointer used at 0x7f08 expired then". */
static void print_fault(const struct sm_guard *guard, uintptr_t address)
{
    struct text text = {.used = 0};
    const char *const since = atomic_load(&guard->since);
    const bool stale = atomic_load(&guard->protection) == SM_PROTECT_ALL;
    add_text(&text, guard->name[0] ? "synced_mem: '" : "synced_mem: an object without a name");
    add_text(&text, guard->name);
    add_text(&text, guard->name[0] ? "' (" : " (");
    add_number(&text, guard->size, 10);
    add_text(&text, " bytes): its host copy at 0x");
    add_number(&text, (uintptr_t)guard->data, 16);
    add_text(&text, stale ? " is stale since " : " is read-only since ");
    add_text(&text, since ? since : "a call of the library");
    add_text(&text, "; the pointer used at 0x");
    add_number(&text, address, 16);
    add_text(&text, " expired then\n");
    add_cause(&text, guard);
    (void)sm_file_write(SM_STDERR, text.bytes, text.used);
}

static void report_fault(uintptr_t address)
{
    const struct sm_guard *const guard = find_protecting_guard(address);
    if (guard)
        print_fault(guard, address);
}

void sm_guard_catch_faults(const struct sm_guard *(*finder)(uintptr_t address))
{
    find_protecting_guard = finder;
    sm_faults_watch(report_fault);
}

/* Text for people. */
#include "base/text.h"

#include <stdio.h>

const char *sm_source_name(unsigned source)
{
    static const char *const names[] = {
        [SYNCED_MEM_SOURCE_NONE] = "none",           [SYNCED_MEM_SOURCE_PAGEABLE] = "pageable",
        [SYNCED_MEM_SOURCE_PINNED] = "page-locked",  [SYNCED_MEM_SOURCE_DEVICE] = "device",
        [SYNCED_MEM_SOURCE_BORROWED] = "borrowed",   [SYNCED_MEM_SOURCE_ADOPTED] = "adopted",
        [SYNCED_MEM_SOURCE_ALLOCATOR] = "allocator", [SYNCED_MEM_SOURCE_MAPPED] = "mapped",
        [SYNCED_MEM_SOURCE_MANAGED] = "managed",     [SYNCED_MEM_SOURCE_SHAREABLE] = "shareable"};
    return names[source];
}

const char *sm_head_name(unsigned head)
{
    static const char *const names[] = {"UNINITIALIZED", "AT_CPU", "AT_GPU", "SYNCED", "MIXED"};
    return names[head];
}

struct sm_size_text sm_size_text(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct sm_size_text out;
    unsigned unit = 0;
    uint64_t whole = bytes;
    uint64_t tenths = 0;
    for (; whole >= 1024; unit++) {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
    }
    if (unit == 0)
        (void)snprintf(out.text, sizeof out.text, "%u B", (unsigned)whole);
    else
        (void)snprintf(out.text, sizeof out.text, "%u.%u %s", (unsigned)whole, (unsigned)tenths, units[unit]);
    return out;
}

struct sm_name_text sm_name_text(const char *name)
{
    struct sm_name_text out = {.text = ""};
    for (size_t i = 0; i < sizeof out.text - 1 && name[i]; i++)
        out.text[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    return out;
}

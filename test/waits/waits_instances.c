/* Distinguishes instances of waits by the names of functions and lines, which addr2line provides. */
#include "waits.h"

#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ADDRESSES = 4000, FUNCTION = 64, PROGRAM = 1000 };

/* The function and the line of a return address. */
static struct address {
    uintptr_t offset;
    char function[FUNCTION];
    char where[FUNCTION]; /* file:line */
} addresses[MOST_ADDRESSES];
static int address_count;

static struct address *address_of(const struct emu_place *place)
{
    int at = 0;
    while (at < address_count && addresses[at].offset != place->offset)
        at++;
    if (at == MOST_ADDRESSES)
        fail("more than %d return addresses", MOST_ADDRESSES);
    if (at == address_count)
        addresses[address_count++].offset = place->offset;
    return &addresses[at];
}

static void read_line(FILE *from, char *to, size_t size)
{
    if (!fgets(to, (int)size, from))
        fail("addr2line printed too few lines");
    to[strcspn(to, " \n")] = '\0';
}

/* Resolves all addresses in one call, as addr2line is slow. */
static void ask_addr2line(void)
{
    char program[PROGRAM] = "";
    char command[2 * PROGRAM];
    char path[] = "/tmp/waits-XXXXXX";
    const int file = mkstemp(path);
    FILE *const list = file < 0 ? NULL : fdopen(file, "w");
    if (!list)
        fail("no temporary file");
    for (int i = 0; i < address_count; i++)
        (void)fprintf(list, "%#lx\n", (unsigned long)addresses[i].offset - 1);
    (void)fclose(list);
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        fail("the path of this program is unknown");
    (void)snprintf(command, sizeof command, "addr2line -f -s -e '%s' <'%s'", program, path);
    FILE *const answers = popen(command, "r");
    if (!answers)
        fail("no addr2line");
    for (int i = 0; i < address_count; i++) {
        read_line(answers, addresses[i].function, FUNCTION);
        read_line(answers, addresses[i].where, FUNCTION);
    }
    (void)pclose(answers);
    (void)remove(path);
}

static bool is_public(const struct address *address)
{
    return strncmp(address->function, "synced_mem_", 11) == 0;
}

/* The files whose functions wait only on behalf of their callers. */
static struct {
    const char *name;
    bool met;
} told[] = {{"runtime.c:", false},  {"memory.c:", false}, {"fence.c:", false},      {"stream.c:", false},
            {"inflight.c:", false}, {"waits.c:", false},  {"transaction.c:", false}};
enum { TOLD = sizeof told / sizeof told[0] };

static bool is_told_to(const struct address *address)
{
    int i = 0;
    while (i < TOLD && strncmp(address->where, told[i].name, strlen(told[i].name)) != 0)
        i++;
    if (i < TOLD)
        told[i].met = true;
    return i < TOLD;
}

static void name_instance(char *name, char *place, const struct emu_wait_place *chain)
{
    size_t at = (size_t)snprintf(name, NAME, "%s", chain->call);
    bool deciding = false;
    place[0] = '\0';
    for (unsigned i = 0; i < chain->depth; i++) {
        const struct address *const address = address_of(&chain->chain[i]);
        const char *const line = strchr(address->where, ':');
        at += (size_t)snprintf(name + at, at < NAME ? NAME - at : 0, " < %s%s", address->function, line ? line : "");
        if (!deciding && !is_told_to(address)) {
            deciding = true;
            (void)snprintf(place, NAME, "%s", name);
        }
        if (at >= NAME)
            fail("the name of a wait is longer than %d characters: %s", NAME, name);
        if (is_public(address))
            break;
    }
}

static struct instance *instance_named(struct instances *all, const char *name)
{
    int at = 0;
    while (at < all->count && strcmp(all->of[at].name, name) != 0)
        at++;
    if (at == MOST_INSTANCES)
        fail("more than %d instances of waits", MOST_INSTANCES);
    if (at == all->count)
        (void)snprintf(all->of[all->count++].name, NAME, "%s", name);
    return &all->of[at];
}

void instances_find(struct instances *all, const struct emu_wait_place *chains, int count)
{
    static struct instances places;
    char name[NAME];
    char place[NAME];
    for (int i = 0; i < count; i++)
        for (unsigned j = 0; j < chains[i].depth; j++)
            (void)address_of(&chains[i].chain[j]);
    ask_addr2line();
    for (int i = 0; i < count; i++) {
        name_instance(name, place, &chains[i]);
        struct instance *const instance = instance_named(all, name);
        if (instance->chains < CHAINS_EACH)
            instance->chain[instance->chains++] = i;
        instance->place = (int)(instance_named(&places, place) - places.of);
    }
    for (int i = 0; i < TOLD; i++) {
        if (!told[i].met) {
            (void)fprintf(stderr, "no wait passes through %s was this file renamed?\n", told[i].name);
            exit(EXIT_FAILURE);
        }
    }
    all->places = places.count;
}

const char *redundant_because(const struct instance *instance)
{
    static const struct {
        const char *part;
        const char *reason;
    } known[] = {
        {"cudaStreamSynchronize < free_behind", "cudaFree was seen to wait for the device, but nothing promises it"},
        {"cudaStreamSynchronize < sm_device_stream_sync < poll_frees",
         "it waits for nothing, but shows the runtime that frees are done"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(instance->name, known[i].part))
            return known[i].reason;
    return NULL;
}

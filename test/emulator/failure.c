/*
 * Failures that a test sets, and waits that it drops.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    char call[48];
    unsigned countdown; /* 0: an unused entry */
    cudaError_t code;
    bool sticky;
};

#define RULES 64

static struct rule failures[RULES];
static struct rule drops[RULES];
static size_t failure_count, drop_count;
static unsigned happened;

static void add_rule(struct rule *rules, size_t *count, const char *call, unsigned nth, cudaError_t code, bool sticky)
{
    if (nth == 0 || strlen(call) >= sizeof rules->call)
        return;
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i].countdown != 0)
            continue;
        rules[i] = (struct rule){.countdown = nth, .code = code, .sticky = sticky};
        strcpy(rules[i].call, call);
        ++*count;
        return;
    }
    fputs("cudart_emu: too many failures are set at a time\n", stderr);
    abort();
}

/* Counts this use for every rule. Returns the rule whose nth use this is, or NULL. */
static struct rule *count_down(struct rule *rules, size_t *count, enum emu_call call)
{
    struct rule *hit = NULL;
    if (*count == 0)
        return NULL;
    for (size_t i = 0; i < RULES; i++) {
        struct rule *rule = &rules[i];
        if (rule->countdown == 0 || (strcmp(rule->call, "*") != 0 && strcmp(rule->call, emu_call_names[call]) != 0))
            continue;
        if (--rule->countdown == 0) {
            --*count;
            hit = rule;
        }
    }
    return hit;
}

bool emu_injected(enum emu_call call, cudaError_t *code, bool *sticky)
{
    const struct rule *rule = count_down(failures, &failure_count, call);
    if (rule == NULL)
        return false;
    happened++;
    *code = rule->code;
    *sticky = rule->sticky;
    return true;
}

bool emu_wait_is_dropped(enum emu_call call)
{
    const bool by_place = emu_wait_is_noted_and_dropped(call);
    return count_down(drops, &drop_count, call) != NULL || by_place;
}

void emu_failures_reset(void)
{
    memset(failures, 0, sizeof failures);
    memset(drops, 0, sizeof drops);
    failure_count = drop_count = 0;
    happened = 0;
    emu_waits_reset();
}

void emu_fail(const char *call, unsigned nth, cudaError_t code, bool sticky)
{
    emu_lock();
    add_rule(failures, &failure_count, call, nth, code, sticky);
    emu_unlock();
}

void emu_fail_clear(void)
{
    emu_lock();
    memset(failures, 0, sizeof failures);
    failure_count = 0;
    emu_unlock();
}

unsigned emu_failures(void)
{
    emu_lock();
    const unsigned count = happened;
    emu_unlock();
    return count;
}

void emu_drop_wait(const char *call, unsigned nth)
{
    emu_lock();
    add_rule(drops, &drop_count, call, nth, cudaSuccess, false);
    emu_unlock();
}

unsigned emu_calls(const char *call)
{
    unsigned count = 0;
    emu_lock();
    for (int i = 0; i < EMU_CALL_COUNT; i++)
        if (strcmp(call, emu_call_names[i]) == 0)
            count = emu.calls[i];
    emu_unlock();
    return count;
}

void emu_each_call(void (*visit)(const char *call, unsigned count, void *user), void *user)
{
    for (int i = 0; i < EMU_CALL_COUNT; i++) {
        emu_lock();
        const unsigned count = emu.calls[i];
        emu_unlock();
        if (count > 0)
            visit(emu_call_names[i], count, user);
    }
}

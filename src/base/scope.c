/* Scopes. They are thread-local, so no lock guards them, and a forked child has those of the thread that forked. */
#include "base/scope.h"

#include <stdbool.h>
#include <string.h>

enum { DEPTH = 16, NAME = 48 };

static _Thread_local struct {
    size_t open; /* scopes deeper than DEPTH are counted, but their names are not kept */
    char names[DEPTH][NAME];
} scopes;

void sm_scope_begin(const char *name)
{
    const size_t at = scopes.open++;
    if (at >= DEPTH)
        return;
    const size_t length = name ? strnlen(name, NAME - 1) : 0;
    if (length > 0)
        memcpy(scopes.names[at], name, length);
    scopes.names[at][length] = 0;
}

void sm_scope_end(void)
{
    if (scopes.open > 0)
        scopes.open--;
}

/* Puts the name and a slash in front of the text. Returns false if there is no room. */
static bool prepend_name(char out[SM_SCOPE_TEXT], size_t *start, const char *name)
{
    const size_t length = strlen(name);
    const size_t slash = *start < SM_SCOPE_TEXT - 1;
    if (length + slash > *start)
        return false;
    if (slash)
        out[--*start] = '/';
    *start -= length;
    memcpy(out + *start, name, length);
    return true;
}

void sm_scope_text(char out[SM_SCOPE_TEXT])
{
    size_t start = SM_SCOPE_TEXT - 1;
    size_t at = scopes.open < DEPTH ? scopes.open : DEPTH;
    out[start] = 0;
    while (at > 0 && (!scopes.names[at - 1][0] || prepend_name(out, &start, scopes.names[at - 1])))
        at--;
    memmove(out, out + start, SM_SCOPE_TEXT - start);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

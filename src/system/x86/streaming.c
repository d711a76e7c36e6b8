/* Copies by the streaming stores of SSE2, which every x86-64 processor has. */
#include "system/streaming.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

enum { LINE = 128, VECTORS = LINE / 16, AHEAD = 1024 };

/* to is aligned to a line. */
static void copy_lines(char *to, const char *from, size_t lines)
{
    for (size_t line = 0; line < lines; line++, to += LINE, from += LINE) {
        __m128i vectors[VECTORS];
        __builtin_prefetch(from + AHEAD, 0, 0);
        __builtin_prefetch(from + AHEAD + LINE / 2, 0, 0);
        for (int i = 0; i < VECTORS; i++)
            vectors[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
        for (int i = 0; i < VECTORS; i++)
            _mm_stream_si128((__m128i *)(void *)to + i, vectors[i]);
    }
}

/* Streaming stores are in no order with later ones until the fence. */
void sm_copy_streaming(void *to, const void *from, size_t bytes)
{
    const size_t before = (size_t)(-(uintptr_t)to % LINE);
    const size_t head = before < bytes ? before : bytes;
    const size_t middle = (bytes - head) / LINE * LINE;
    memcpy(to, from, head);
    copy_lines((char *)to + head, (const char *)from + head, middle / LINE);
    memcpy((char *)to + head + middle, (const char *)from + head + middle, bytes - head - middle);
    _mm_sfence();
}

/* Text for the system and from it. */
#include "system/windows/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <windows.h>

wchar_t *sm_utf8_widen(const char *text)
{
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *const wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;
    if (wide)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
    else
        errno = length > 0 ? ENOMEM : EILSEQ;
    return wide;
}

char *sm_utf8_narrow(const wchar_t *text)
{
    const int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *const narrow = length > 0 ? malloc((size_t)length) : NULL;
    if (narrow)
        (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, length, NULL, NULL);
    return narrow;
}

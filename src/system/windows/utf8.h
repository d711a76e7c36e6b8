/* Text of the library is UTF-8. The system's has 16 bits to a character. */
#ifndef SM_SYSTEM_WINDOWS_UTF8_H
#define SM_SYSTEM_WINDOWS_UTF8_H

#include <wchar.h>

/* Returns the text for the system, to be freed. NULL: it is no UTF-8, or there is no memory; errno says which. */
wchar_t *sm_utf8_widen(const char *text);

/* Returns the text as UTF-8, to be freed. NULL: there is no memory. */
char *sm_utf8_narrow(const wchar_t *text);

#endif

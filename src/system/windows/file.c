/* Files, by the descriptors of the C library. Handles behind them are not inherited. */
#include "system/file.h"

#include "system/windows/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

void sm_file_close_on_exec(int file)
{
    (void)SetHandleInformation((HANDLE)_get_osfhandle(file), HANDLE_FLAG_INHERIT, 0);
}

/* The system gives the lowest free descriptor. So the ones that are too low stay open meanwhile. */
int sm_file_copy_up(int file, int *out)
{
    int low[SM_STDERR + 1];
    int count = 0;
    int error = 0;
    *out = _dup(file);
    while (*out >= 0 && *out <= SM_STDERR) {
        low[count++] = *out;
        *out = _dup(file);
    }
    if (*out < 0)
        error = errno;
    else
        sm_file_close_on_exec(*out);
    while (count > 0)
        (void)_close(low[--count]);
    return error;
}

int sm_file_move_up(int *file)
{
    const int low = *file;
    if (low > SM_STDERR)
        return 0;
    const int error = sm_file_copy_up(low, file);
    (void)_close(low);
    return error;
}

int sm_file_create(const char *path, int *file)
{
    *file = -1;
    wchar_t *const wide = sm_utf8_widen(path);
    if (!wide)
        return errno;
    *file = _wopen(wide, _O_WRONLY | _O_CREAT | _O_TRUNC | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
    const int error = *file < 0 ? errno : sm_file_move_up(file);
    free(wide);
    return error;
}

/* The standard error may be closed, or the program have none, which some C libraries take for a fatal mistake. And a
 * handler of faults may have interrupted the C library. So the system writes there. */
static int write_to_stderr(const void *data, unsigned bytes)
{
    DWORD wrote;
    const BOOL done = WriteFile(GetStdHandle(STD_ERROR_HANDLE), data, bytes, &wrote, NULL);
    return done ? (int)wrote : -1;
}

int sm_file_write(int file, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const char *const next = (const char *)data + done;
        const unsigned most = bytes - done < INT_MAX ? (unsigned)(bytes - done) : INT_MAX;
        errno = EIO;
        const int wrote = file == SM_STDERR ? write_to_stderr(next, most) : _write(file, next, most);
        if (wrote <= 0)
            return wrote == 0 ? ENOSPC : errno;
        done += (size_t)wrote;
    }
    return 0;
}

int sm_file_close(int file)
{
    return _close(file) == 0 ? 0 : errno;
}

static bool is_slash(char c)
{
    return c == '\\' || c == '/';
}

/* To open a pipe would be to connect to it, so its name alone is looked at: \\.\NAME, or \\SERVER\pipe\NAME. */
static bool names_device(const char *path)
{
    if (!is_slash(path[0]) || !is_slash(path[1]))
        return false;
    const char *rest = path + 2;
    while (*rest && !is_slash(*rest))
        rest++;
    const bool is_device = rest == path + 3 && path[2] == '.';
    return *rest && (is_device || (_strnicmp(rest + 1, "pipe", 4) == 0 && is_slash(rest[5])));
}

static bool is_on_disk(const wchar_t *path)
{
    const HANDLE handle =
        CreateFileW(path, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return true;
    BY_HANDLE_FILE_INFORMATION facts;
    const bool is_folder =
        GetFileInformationByHandle(handle, &facts) && (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const bool on_disk = GetFileType(handle) == FILE_TYPE_DISK && !is_folder;
    (void)CloseHandle(handle);
    return on_disk;
}

bool sm_file_is_special(const char *path)
{
    if (names_device(path))
        return true;
    wchar_t *const wide = sm_utf8_widen(path);
    const bool special = wide && !is_on_disk(wide);
    free(wide);
    return special;
}

const char *sm_file_name(const char *path)
{
    const char *name = path;
    for (const char *c = path; *c; c++)
        if (*c == '/' || *c == '\\' || *c == ':')
            name = c + 1;
    return name;
}

bool sm_is_out_of_memory(int error)
{
    return error == ENOMEM || error == ENOSPC;
}

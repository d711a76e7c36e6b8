/* Files at offsets, by the handles behind the descriptors of the C library. */
#include "system/file_at.h"

#include "system/file.h"

#include <errno.h>
#include <io.h>
#include <fcntl.h>
#include <windows.h>

enum { MOST = 1 << 30 };

static HANDLE get_handle(int file)
{
    return (HANDLE)_get_osfhandle(file);
}

/* Returns the C library's number of the system's last error. */
static int get_error(void)
{
    switch (GetLastError()) {
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ENOSPC;
    case ERROR_ACCESS_DENIED:
        return EACCES;
    case ERROR_INVALID_HANDLE:
        return EBADF;
    default:
        return EIO;
    }
}

static HANDLE reopen(HANDLE handle, DWORD access)
{
    return ReOpenFile(handle, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, 0);
}

/* Opening the file once more tells what the descriptor allows. */
static bool may_open(HANDLE handle, DWORD access)
{
    const HANDLE made = reopen(handle, access);
    if (made == INVALID_HANDLE_VALUE)
        return false;
    (void)CloseHandle(made);
    return true;
}

int sm_file_examine(int file, struct sm_file_facts *facts)
{
    const HANDLE handle = get_handle(file);
    if (handle == INVALID_HANDLE_VALUE)
        return EBADF;
    const bool is_file = GetFileType(handle) == FILE_TYPE_DISK;
    *facts = (struct sm_file_facts){.is_file = is_file,
                                    .reads = is_file && may_open(handle, GENERIC_READ),
                                    .writes = is_file && may_open(handle, GENERIC_READ | GENERIC_WRITE),
                                    .has_end = true,
                                    .alignment = 1};
    return 0;
}

/* A second handle of the same open file would move the place where the program reads. */
int sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out)
{
    (void)cached;
    const HANDLE made = reopen(get_handle(file), GENERIC_READ | (facts->writes ? GENERIC_WRITE : 0));
    *out = -1;
    if (made == INVALID_HANDLE_VALUE)
        return get_error();
    *out = _open_osfhandle((intptr_t)made, facts->writes ? _O_RDWR : _O_RDONLY);
    if (*out < 0) {
        (void)CloseHandle(made);
        return EMFILE;
    }
    sm_file_close_on_exec(*out);
    return sm_file_move_up(out);
}

int sm_file_allocate(int file, uint64_t offset, uint64_t bytes)
{
    (void)file;
    (void)offset;
    (void)bytes;
    return 0;
}

int sm_file_size(int file, uint64_t *size)
{
    LARGE_INTEGER found;
    if (!GetFileSizeEx(get_handle(file), &found))
        return get_error();
    *size = (uint64_t)found.QuadPart;
    return 0;
}

static OVERLAPPED get_place(uint64_t offset)
{
    return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

int sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    *done = 0;
    while (*done < bytes) {
        const DWORD most = bytes - *done < MOST ? (DWORD)(bytes - *done) : MOST;
        OVERLAPPED place = get_place(offset + *done);
        DWORD got = 0;
        if (!ReadFile(get_handle(file), (char *)data + *done, most, &got, &place))
            return GetLastError() == ERROR_HANDLE_EOF ? 0 : get_error();
        if (got == 0)
            return 0;
        *done += got;
    }
    return 0;
}

int sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        const DWORD most = bytes - done < MOST ? (DWORD)(bytes - done) : MOST;
        OVERLAPPED place = get_place(offset + done);
        DWORD wrote = 0;
        if (!WriteFile(get_handle(file), (const char *)data + done, most, &wrote, &place))
            return get_error();
        if (wrote == 0)
            return ENOSPC;
        done += wrote;
    }
    return 0;
}

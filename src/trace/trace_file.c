/* Writes events as JSON in Chrome's trace format. */
#include "trace/trace_file.h"

#include "base/side.h"
#include "base/status.h"
#include "base/text.h"
#include "system/file.h"
#include "system/process.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* FIRST_DEVICE: a device's process number in the file; numbers of real processes are smaller. So the tracks of devices
 * are apart from those of host threads. */
enum { FIRST_DEVICE = 1 << 24, STREAMS = 256, LINE = 16384, BUFFER = 65536, ESCAPED = SM_TRACE_NAME_BYTES * 6 };
/* SHOWN: bytes of a path in a message, which needs room for the reason. */
enum { MORE = 2048, SHOWN = 100 };

static struct {
    int fd; /* never a standard descriptor; 0: none */
    int error;
    bool begun; /* an event was written */
    uint64_t start;
    long process;
    /* Streams that have a named track, by their serials' last bits, and when the last transfer on each ended. */
    struct known {
        uint64_t serial;
        uint64_t end;
    } streams[STREAMS];
    size_t used;
    char buffer[BUFFER];
    char line[LINE];
} file;

/* ---- Bytes ---- */

void sm_trace_file_flush(void)
{
    if (file.error == 0)
        file.error = sm_file_write(file.fd, file.buffer, file.used);
    file.used = 0;
}

static void append_bytes(const char *text, size_t bytes)
{
    if (file.used + bytes > BUFFER)
        sm_trace_file_flush();
    memcpy(file.buffer + file.used, text, bytes);
    file.used += bytes;
}

/* Writes one event. */
static SM_LIKE_PRINTF(1, 2) void write_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(file.line, sizeof file.line, format, arguments);
    va_end(arguments);
    append_bytes(file.begun ? ",\n" : "[\n", 2);
    append_bytes(file.line, (size_t)length);
    file.begun = true;
}

/* Returns the length of the text's first character in bytes. 0: not UTF-8. */
static size_t measure_character(const unsigned char *text)
{
    const size_t length = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    const bool beyond = (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf4 && text[1] > 0x8f);
    return overlong || beyond ? 0 : length;
}

void sm_trace_escape(char *out, const char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    while (*from) {
        const size_t length = measure_character(from);
        if (length == 0)
            out += sprintf(out, "\\ufffd");
        else if (*from < 0x20 || *from == '"' || *from == '\\' || *from == 0x7f)
            out += sprintf(out, "\\u%04x", *from);
        else
            out = (char *)memcpy(out, from, length) + length;
        from += length > 0 ? length : 1;
    }
    *out = 0;
}

/* ---- Text ---- */

static const char *const directions[] = {[SM_H2D] = "h2d", [SM_D2H] = "d2h", [SM_D2D] = "d2d"};
static const char *const ways[] = {
    [SM_TRACE_ENGINE] = "engine", [SM_TRACE_KERNEL] = "kernel", [SM_TRACE_LISTED] = "list"};

/* Microseconds, with a point in every locale. */
struct number {
    char text[32];
};

static struct number format_micros(uint64_t nanoseconds)
{
    struct number out;
    (void)snprintf(out.text, sizeof out.text, "%llu.%03llu", (unsigned long long)(nanoseconds / 1000),
                   (unsigned long long)(nanoseconds % 1000));
    return out;
}

static struct number format_since_start(uint64_t time)
{
    return format_micros(time > file.start ? time - file.start : 0);
}

/* Writes "name#5", escaped; "" if the number is 0, for no object. */
static void write_escaped_name(char out[ESCAPED], const char *object, uint64_t id)
{
    char name[SM_TRACE_NAME_BYTES];
    sm_trace_name(name, object, id);
    sm_trace_escape(out, id > 0 ? name : "");
}

static const char *get_function_name(const struct sm_by *by)
{
    return by->function ? by->function : "";
}

/* The scope and the call place of a cause, under the given keys. Unknown ones are left out. */
struct by {
    char text[MORE];
};

static struct by format_cause(const struct sm_by *by, const char *scope_key, const char *place_key)
{
    struct by out;
    char scope[SM_SCOPE_TEXT * 6];
    int used = 0;
    sm_trace_escape(scope, by->scope);
    out.text[0] = 0;
    if (scope[0])
        used = snprintf(out.text, sizeof out.text, ",\"%s\":\"%s\"", scope_key, scope);
    if (by->place)
        (void)snprintf(out.text + used, sizeof out.text - (size_t)used, ",\"%s\":\"%s\"", place_key, by->place->text);
    return out;
}

/* A view's root; nothing of other objects. */
static struct by format_root(const struct sm_trace_who *who)
{
    struct by out = {.text = ""};
    char name[ESCAPED];
    write_escaped_name(name, who->root_name, who->root);
    if (who->root > 0)
        (void)snprintf(out.text, sizeof out.text, ",\"view_of\":\"%s\"", name);
    return out;
}

/* ---- Tracks ---- */

static void write_track_names(const struct sm_trace_event *event)
{
    write_line("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"device %d\"}}",
               FIRST_DEVICE + event->device, event->device);
    write_line("{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%llu,\"args\":{\"name\":\"%s %llu (%p)\"}}",
               FIRST_DEVICE + event->device, (unsigned long long)event->stream, event->stream_kind,
               (unsigned long long)event->stream, (void *)event->handle);
}

/* Returns the event's stream. Names its track at its first event, and again after another stream took its slot. */
static struct known *find_track(const struct sm_trace_event *event)
{
    struct known *const known = &file.streams[event->stream % STREAMS];
    if (known->serial != event->stream) {
        write_track_names(event);
        *known = (struct known){.serial = event->stream};
    }
    return known;
}

/* ---- Events ---- */

/* Moves a transfer behind the stream's last one. A device does a stream's transfers one after the other. Different
 * clocks, or two threads that queue on the stream at once, must not make them overlap. */
static void move_transfer_behind(struct known *stream, uint64_t *begin, uint64_t *end)
{
    *begin = *begin > stream->end ? *begin : stream->end;
    *end = *end > *begin ? *end : *begin;
    stream->end = *end;
}

/* Without the device's times, a transfer is shown on the host thread's track, at the time it was queued. */
static void write_transfer(const struct sm_trace_event *event)
{
    char name[ESCAPED];
    struct known *const stream = find_track(event);
    const char *const direction = directions[event->direction];
    uint64_t begin = event->begin;
    uint64_t end = event->end;
    if (event->timed)
        move_transfer_behind(stream, &begin, &end);
    char offset[40] = "";
    if (event->who.is_part)
        (void)snprintf(offset, sizeof offset, ",\"offset\":%zu", event->who.offset);
    write_escaped_name(name, event->who.name, event->who.id);
    write_line(
        "{\"name\":\"%s%s %s\",\"cat\":\"transfer\",\"ph\":\"X\",\"ts\":%s,\"dur\":%s,\"pid\":%ld,\"tid\":%llu,"
        "\"args\":{\"object\":\"%s\",\"direction\":\"%s\",\"bytes\":%llu,\"part\":%s,\"way\":\"%s\",\"from\":\"%s\","
        "\"to\":\"%s\",\"device\":%d,\"stream\":%llu,\"call\":\"%s\",\"clock\":\"%s\",\"queued\":%s,"
        "\"thread\":%llu%s%s%s}}",
        direction, event->part ? " part" : "", name, format_since_start(begin).text, format_micros(end - begin).text,
        event->timed ? (long)FIRST_DEVICE + event->device : file.process,
        (unsigned long long)(event->timed ? event->stream : event->thread), name, direction,
        (unsigned long long)event->bytes, event->part ? "true" : "false", ways[event->way], sm_source_name(event->from),
        sm_source_name(event->to), event->device, (unsigned long long)event->stream, get_function_name(&event->who.by),
        event->timed ? "device" : "host", format_since_start(event->queued).text, (unsigned long long)event->thread,
        offset, format_root(&event->who).text, format_cause(&event->who.by, "scope", "at").text);
}

/* Writes an event on a host thread's track, with or without a duration. format: more of its arguments. */
static SM_LIKE_PRINTF(5, 6) void write_on_thread(const struct sm_trace_event *event, const char *what,
                                                 const char *category, bool while_it_lasts, const char *format, ...)
{
    char name[ESCAPED];
    char more[512];
    char phase[64] = "\"ph\":\"i\",\"s\":\"t\"";
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(more, sizeof more, format, arguments);
    va_end(arguments);
    if (while_it_lasts)
        (void)snprintf(phase, sizeof phase, "\"ph\":\"X\",\"dur\":%s", format_micros(event->end - event->begin).text);
    write_escaped_name(name, event->who.name, event->who.id);
    write_line("{\"name\":\"%s%s%s\",\"cat\":\"%s\",%s,\"ts\":%s,\"pid\":%ld,\"tid\":%llu,"
               "\"args\":{\"object\":\"%s\",\"call\":\"%s\"%s%s%s}}",
               what, name[0] ? " " : "", name, category, phase, format_since_start(event->begin).text, file.process,
               (unsigned long long)event->thread, name, get_function_name(&event->who.by), more,
               format_root(&event->who).text, format_cause(&event->who.by, "scope", "at").text);
}

static void write_head(const struct sm_trace_event *event)
{
    char what[64];
    (void)snprintf(what, sizeof what, "%s \xe2\x86\x92 %s", sm_head_name(event->from), sm_head_name(event->to));
    char part[64] = "";
    if (event->part)
        (void)snprintf(part, sizeof part, ",\"offset\":%llu,\"bytes\":%llu", (unsigned long long)event->after,
                       (unsigned long long)event->bytes);
    write_on_thread(event, what, "head", false, ",\"before\":\"%s\",\"after\":\"%s\"%s", sm_head_name(event->from),
                    sm_head_name(event->to), part);
}

void sm_trace_file_write(const struct sm_trace_event *event)
{
    switch ((enum sm_trace_kind)event->kind) {
    case SM_TRACE_COPY:
        write_transfer(event);
        break;
    case SM_TRACE_STAGED:
        write_on_thread(event, event->direction == SM_H2D ? "fill buffer" : "empty buffer", "staging", true,
                        ",\"bytes\":%llu", (unsigned long long)event->bytes);
        break;
    case SM_TRACE_WAIT:
        write_on_thread(event, "wait", "wait", true, ",\"device\":%d,\"stream\":%llu", event->device,
                        (unsigned long long)event->after);
        break;
    case SM_TRACE_HEAD:
        write_head(event);
        break;
    case SM_TRACE_ALLOCATION:
        write_on_thread(event, "allocate", "allocation", false,
                        ",\"bytes\":%llu,\"source\":\"%s\",\"from\":\"%s\",\"device\":%d",
                        (unsigned long long)event->bytes, sm_source_name(event->from), event->what, event->device);
        break;
    case SM_TRACE_STREAM_WAIT:
        write_on_thread(event, "stream waits", "stream wait", false, ",\"stream\":%llu,\"for_stream\":%llu",
                        (unsigned long long)event->stream, (unsigned long long)event->after);
        break;
    case SM_TRACE_PREFETCH:
        write_on_thread(event, "prefetch", "prefetch", false, ",\"bytes\":%llu,\"direction\":\"%s\",\"stream\":%llu",
                        (unsigned long long)event->bytes, directions[event->direction],
                        (unsigned long long)event->stream);
        break;
    case SM_TRACE_FILE:
        write_on_thread(event, event->direction == SM_H2D ? "read file" : "write file", "file", true,
                        ",\"bytes\":%llu,\"file_offset\":%llu", (unsigned long long)event->bytes,
                        (unsigned long long)event->after);
        break;
    case SM_TRACE_HOLD:
        write_on_thread(event, "hold", "hold", false, ",\"number\":%llu,\"bytes\":%llu,\"mode\":\"%s\"",
                        (unsigned long long)event->who.id, (unsigned long long)event->bytes,
                        event->direction == SM_H2D ? "read" : "write");
        break;
    case SM_TRACE_EVICTION:
        write_on_thread(event, "evict", "eviction", true, ",\"bytes\":%llu,\"reason\":\"%s\"",
                        (unsigned long long)event->bytes, event->what);
        break;
    }
}

/* ---- The file ---- */

synced_mem_status sm_trace_file_open(const char *path)
{
    int fd;
    const int error = sm_file_create(path, &fd);
    if (error != 0)
        return sm_fail(SYNCED_MEM_ERR_FILE, "'%.*s%s' can't be opened to write: %s", SHOWN, path,
                       strlen(path) > SHOWN ? "..." : "", strerror(error));
    memset(&file, 0, offsetof(__typeof__(file), buffer));
    file.fd = fd;
    file.start = sm_trace_time();
    file.process = sm_process_id();
    write_line(
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%ld,\"args\":{\"name\":\"host (synced_mem %d.%d.%d)\"}}",
        file.process, SYNCED_MEM_VERSION_MAJOR, SYNCED_MEM_VERSION_MINOR, SYNCED_MEM_VERSION_PATCH);
    sm_trace_file_flush();
    return SYNCED_MEM_OK;
}

static void write_summary_object(const struct sm_traced *object, size_t rank)
{
    char name[SM_TRACE_NAME_BYTES];
    char escaped[ESCAPED];
    sm_trace_name(name, object->name, object->id);
    sm_trace_escape(escaped, name);
    write_line("{\"name\":\"back and forth: %s\",\"cat\":\"summary\",\"ph\":\"i\",\"s\":\"p\",\"ts\":%s,\"pid\":%ld,"
               "\"tid\":%ld,\"args\":{\"rank\":%zu,\"object\":\"%s\",\"turns\":%llu,\"h2d_transfers\":%llu,"
               "\"h2d_bytes\":%llu,\"d2h_transfers\":%llu,\"d2h_bytes\":%llu,\"h2d_by\":\"%s\",\"d2h_by\":\"%s\","
               "\"host_stale_by\":\"%s\",\"device_stale_by\":\"%s\"%s%s%s%s}}",
               escaped, format_since_start(sm_trace_time()).text, file.process, file.process, rank, escaped,
               (unsigned long long)object->turns, (unsigned long long)object->transfers[SM_GPU],
               (unsigned long long)object->bytes[SM_GPU], (unsigned long long)object->transfers[SM_CPU],
               (unsigned long long)object->bytes[SM_CPU], get_function_name(&object->moved_by[SM_GPU]),
               get_function_name(&object->moved_by[SM_CPU]), get_function_name(&object->stale_by[SM_CPU]),
               get_function_name(&object->stale_by[SM_GPU]),
               format_cause(&object->moved_by[SM_GPU], "h2d_scope", "h2d_at").text,
               format_cause(&object->moved_by[SM_CPU], "d2h_scope", "d2h_at").text,
               format_cause(&object->stale_by[SM_CPU], "host_stale_scope", "host_stale_at").text,
               format_cause(&object->stale_by[SM_GPU], "device_stale_scope", "device_stale_at").text);
}

synced_mem_status sm_trace_file_close(const struct sm_traced *top, size_t count, uint64_t lost)
{
    for (size_t i = 0; i < count; i++)
        write_summary_object(&top[i], i + 1);
    write_line("{\"name\":\"end of the trace\",\"cat\":\"summary\",\"ph\":\"i\",\"s\":\"p\",\"ts\":%s,\"pid\":%ld,"
               "\"tid\":%ld,\"args\":{\"events_lost\":%llu}}",
               format_since_start(sm_trace_time()).text, file.process, file.process, (unsigned long long)lost);
    append_bytes("\n]\n", 3);
    sm_trace_file_flush();
    const int error = sm_file_close(file.fd);
    file.fd = 0;
    if (file.error == 0)
        file.error = error;
    if (file.error != 0)
        return sm_fail(SYNCED_MEM_ERR_FILE, "the trace could not be written to the end: %s", strerror(file.error));
    return SYNCED_MEM_OK;
}

void sm_trace_file_leave(void)
{
    if (file.fd > 0)
        (void)sm_file_close(file.fd);
    file.fd = 0;
    file.used = 0;
}

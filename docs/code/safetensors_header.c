/*
 * The header of a file of safetensors: JSON, which names each tensor's type, shape and place.
 *
 * All of a header is objects, lists, texts and whole numbers, three levels deep. cJSON accepts more than JSON has: any
 * control character, bytes that are no UTF-8, escapes without digits, numbers like 01. It ends a text at an escaped
 * NUL, and rounds numbers from 2^53 on. So each byte is checked before cJSON reads it.
 */
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 3 };
static const uint64_t limit = (uint64_t)1 << 53; /* of numbers */

bool safetensors_refuse(struct safetensors *loaded, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(loaded->message, sizeof loaded->message, format, arguments);
    va_end(arguments);
    for (char *each = loaded->message; *each; each++) /* a name has any character, and terminals obey some */
        if ((unsigned char)*each < 0x20 || *each == 0x7f)
            *each = '?';
    return false;
}

/* ---- The bytes ---- */

struct reader {
    struct safetensors *loaded;
    const unsigned char *text;
    size_t length, at;
    size_t numbers;
};

static bool refuse_byte(const struct reader *reader, const char *why)
{
    return safetensors_refuse(reader->loaded, "byte %zu of the header: %s", reader->at, why);
}

/* Returns the bytes of a character in UTF-8; 0 if it is none. */
static size_t measure_character(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (at[0] < 0x80)
        return 1;
    const size_t size = at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
    if (size == 0 || size > left)
        return 0;
    uint32_t code = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    return code >= least[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? size : 0;
}

/* Returns the bytes of an escape; 0 if it is none, or stands for NUL. */
static size_t measure_escape(const unsigned char *at, size_t left)
{
    if (left >= 2 && at[1] != 0 && strchr("\"\\/bfnrt", at[1]))
        return 2;
    if (left < 6 || at[1] != 'u' || memcmp(at + 2, "0000", 4) == 0)
        return 0;
    for (size_t i = 2; i < 6; i++)
        if (at[i] == 0 || !strchr("0123456789abcdefABCDEF", at[i]))
            return 0;
    return 6;
}

static bool skip_text(struct reader *reader)
{
    reader->at++;
    while (reader->at < reader->length) {
        const unsigned char *const at = reader->text + reader->at;
        const size_t left = reader->length - reader->at;
        if (*at < 0x20)
            return refuse_byte(reader, "a text has a control character");
        if (*at == '"') {
            reader->at++;
            return true;
        }
        const size_t size = *at == '\\' ? measure_escape(at, left) : measure_character(at, left);
        if (size == 0)
            return refuse_byte(reader, *at == '\\' ? "a text has an escape of NUL, or one that JSON does not have"
                                                   : "a text is not in UTF-8");
        reader->at += size;
    }
    return refuse_byte(reader, "a text does not end");
}

static bool is_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool skip_number(struct reader *reader)
{
    const size_t begin = reader->at;
    uint64_t value = 0;
    for (; reader->at < reader->length && is_digit(reader->text[reader->at]); reader->at++) {
        if (reader->at > begin && value == 0)
            return refuse_byte(reader, "a number begins with 0");
        value = value * 10 + (reader->text[reader->at] - '0');
        if (value >= limit)
            return refuse_byte(reader, "a number is 2^53 or more");
    }
    reader->numbers++;
    return true;
}

/* Other bytes are refused with those of true, null, NaN, -1 and 1.5. */
static bool skip_sign(struct reader *reader, int *depth)
{
    const unsigned char byte = reader->text[reader->at];
    *depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
    if (*depth > DEEPEST)
        return refuse_byte(reader, "objects and lists are nested too deep");
    if (byte == 0 || !strchr("{}[]:, \t\r\n", byte))
        return refuse_byte(reader, "it is not of an object, list, text or whole number");
    reader->at++;
    return true;
}

static bool check_bytes(struct reader *reader)
{
    int depth = 0;
    if (reader->length == 0 || reader->text[0] != '{')
        return safetensors_refuse(reader->loaded, "the header does not begin with {");
    while (reader->at < reader->length) {
        const unsigned char byte = reader->text[reader->at];
        if (!(byte == '"' ? skip_text(reader) : is_digit(byte) ? skip_number(reader) : skip_sign(reader, &depth)))
            return false;
    }
    return true;
}

/* ---- The members ---- */

static size_t count_children(const cJSON *item)
{
    size_t count = 0;
    for (const cJSON *each = item->child; each; each = each->next)
        count++;
    return count;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static bool check_names(struct safetensors *loaded, const cJSON *object)
{
    const size_t count = count_children(object);
    const cJSON **const sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted)
        return safetensors_refuse(loaded, "no memory for %zu names", count);
    size_t i = 0;
    for (const cJSON *each = object->child; each; each = each->next)
        sorted[i++] = each;
    qsort(sorted, count, sizeof *sorted, compare_names);
    bool unique = true;
    for (i = 1; i < count && unique; i++)
        unique = compare_names(&sorted[i - 1], &sorted[i]) != 0 ||
                 safetensors_refuse(loaded, "the name '%.80s' stands twice", sorted[i]->string);
    free(sorted);
    return unique;
}

static bool read_metadata(struct safetensors *loaded, const cJSON *item)
{
    if (!cJSON_IsObject(item))
        return safetensors_refuse(loaded, "the metadata are no object");
    if (!check_names(loaded, item))
        return false;
    loaded->metadata = calloc(count_children(item) + 1, sizeof *loaded->metadata);
    if (!loaded->metadata)
        return safetensors_refuse(loaded, "no memory for the metadata");
    for (const cJSON *each = item->child; each; each = each->next) {
        if (!cJSON_IsString(each))
            return safetensors_refuse(loaded, "the metadata '%.80s' are no text", each->string);
        loaded->metadata[loaded->texts++] = (struct safetensors_text){.name = each->string, .text = each->valuestring};
    }
    return true;
}

/* ---- The tensors ---- */

static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {{"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},    {"U32", 32}, {"I32", 32},
              {"U64", 64},    {"I64", 64},    {"F16", 16},    {"BF16", 16},   {"F32", 32},    {"F64", 64}, {"C64", 64},
              {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

static bool read_dtype(struct safetensors *loaded, struct safetensor *tensor, const cJSON *item)
{
    if (!cJSON_IsString(item))
        return safetensors_refuse(loaded, "the type of the tensor '%.80s' is no text", tensor->name);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(item->valuestring, dtypes[i].name) == 0) {
            tensor->dtype = dtypes[i].name;
            tensor->bits = dtypes[i].bits;
            return true;
        }
    return safetensors_refuse(loaded, "the tensor '%.80s' is of the unknown type '%.80s'", tensor->name,
                              item->valuestring);
}

/* Appends the numbers of a list to the others. */
static bool read_numbers(struct safetensors *loaded, const cJSON *list, size_t *count)
{
    *count = 0;
    if (!cJSON_IsArray(list))
        return false;
    for (const cJSON *each = list->child; each; each = each->next) {
        if (!cJSON_IsNumber(each))
            return false;
        loaded->numbers[loaded->numbers_used++] = (uint64_t)each->valuedouble; /* a whole number below 2^53 */
        ++*count;
    }
    return true;
}

/* Returns whether the tensor has fewer than 2^53 bits. */
static bool count_bits(const struct safetensor *tensor, uint64_t *bits)
{
    *bits = tensor->bits;
    for (size_t i = 0; i < tensor->dimensions; i++)
        *bits = tensor->shape[i] == 0 ? 0 : *bits;
    for (size_t i = 0; i<tensor->dimensions && * bits> 0; i++) {
        if (*bits > limit / tensor->shape[i])
            return false;
        *bits *= tensor->shape[i];
    }
    return true;
}

static bool check_size(struct safetensors *loaded, const struct safetensor *tensor, uint64_t size)
{
    const unsigned long long begin = tensor->begin, end = tensor->end, all = size;
    uint64_t bits;
    if (end < begin)
        return safetensors_refuse(loaded, "the tensor '%.80s' ends before it begins", tensor->name);
    if (end > all)
        return safetensors_refuse(loaded, "the tensor '%.80s' ends at %llu, but the file has %llu bytes of tensors",
                                  tensor->name, end, all);
    if (!count_bits(tensor, &bits))
        return safetensors_refuse(loaded, "the tensor '%.80s' has too many elements", tensor->name);
    if (bits % 8 != 0)
        return safetensors_refuse(loaded, "the tensor '%.80s' ends within a byte", tensor->name);
    if (end - begin != bits / 8)
        return safetensors_refuse(loaded, "the tensor '%.80s' has %llu bytes by its shape, but a place of %llu",
                                  tensor->name, (unsigned long long)bits / 8, end - begin);
    return true;
}

static bool read_tensor(struct safetensors *loaded, const cJSON *item, uint64_t size)
{
    struct safetensor *const tensor = &loaded->tensors[loaded->count++];
    const cJSON *const dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *const shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *const place = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    size_t ends;
    tensor->name = item->string;
    if (!cJSON_IsObject(item) || count_children(item) != 3 || !dtype || !shape || !place)
        return safetensors_refuse(loaded, "the tensor '%.80s' has other members than dtype, shape and data_offsets",
                                  tensor->name);
    if (!read_dtype(loaded, tensor, dtype))
        return false;
    tensor->shape = loaded->numbers + loaded->numbers_used;
    if (!read_numbers(loaded, shape, &tensor->dimensions))
        return safetensors_refuse(loaded, "the shape of the tensor '%.80s' is no list of numbers", tensor->name);
    if (!read_numbers(loaded, place, &ends) || ends != 2)
        return safetensors_refuse(loaded, "the place of the tensor '%.80s' is no pair of numbers", tensor->name);
    loaded->numbers_used -= ends;
    tensor->begin = loaded->numbers[loaded->numbers_used];
    tensor->end = loaded->numbers[loaded->numbers_used + 1];
    return check_size(loaded, tensor, size);
}

static int compare_places(const void *a, const void *b)
{
    const struct safetensor *const first = a, *const second = b;
    if (first->begin != second->begin)
        return first->begin < second->begin ? -1 : 1;
    if (first->end != second->end)
        return first->end < second->end ? -1 : 1;
    return strcmp(first->name, second->name);
}

static bool check_places(struct safetensors *loaded, uint64_t size)
{
    uint64_t end = 0;
    for (size_t i = 0; i < loaded->count; i++) {
        const struct safetensor *const each = &loaded->tensors[i];
        if (each->begin < end)
            return safetensors_refuse(loaded, "the tensors '%.80s' and '%.80s' overlap", each[-1].name, each->name);
        if (each->begin > end)
            return safetensors_refuse(loaded, "no tensor has the %llu bytes before the tensor '%.80s'",
                                      (unsigned long long)(each->begin - end), each->name);
        end = each->end;
    }
    return end == size || safetensors_refuse(loaded, "no tensor has the last %llu bytes of the file",
                                             (unsigned long long)(size - end));
}

static bool read_members(struct safetensors *loaded, size_t numbers, uint64_t size)
{
    if (!check_names(loaded, loaded->tree))
        return false;
    loaded->tensors = calloc(count_children(loaded->tree) + 1, sizeof *loaded->tensors);
    loaded->numbers = calloc(numbers + 1, sizeof *loaded->numbers);
    if (!loaded->tensors || !loaded->numbers)
        return safetensors_refuse(loaded, "no memory for the tensors");
    for (const cJSON *each = loaded->tree->child; each; each = each->next) {
        const bool is_metadata = strcmp(each->string, "__metadata__") == 0;
        if (!(is_metadata ? read_metadata(loaded, each) : read_tensor(loaded, each, size)))
            return false;
    }
    qsort(loaded->tensors, loaded->count, sizeof *loaded->tensors, compare_places);
    return check_places(loaded, size);
}

bool safetensors_parse(struct safetensors *loaded, const char *text, size_t length, uint64_t size)
{
    struct reader reader = {.loaded = loaded, .text = (const unsigned char *)text, .length = length};
    const char *end = text;
    if (!check_bytes(&reader))
        return false;
    loaded->tree = cJSON_ParseWithLengthOpts(text, length + 1, &end, true);
    if (!loaded->tree)
        return safetensors_refuse(loaded, "byte %td of the header: it is no JSON, or memory is short", end - text);
    return read_members(loaded, reader.numbers, size);
}

/*
 * A fuzz target: bytes become the message of another process, the files that come with it, and a control page. The
 * object is received, or refused. Then its turns are taken, with words in the page that are written in between. An
 * input that ends early is filled up with zeros.
 */
#include "fuzz.h"
#include "peer.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, MOST_FILES = 6, TURNS = 4 };
enum { GOOD_MESSAGE = 1, GOOD_FACTS = 2, PACKETS = 4, STAYS_OPEN = 8, GOOD_FILES = 16, BY_VERSION = 32 };
enum { CONTROL, HOST, UNSEALED, NULL_DEVICE, PIPE, FILE_KINDS };

/* The first bytes of an input. The page's first bytes follow, and then the words that are written. */
struct input {
    struct peer_message message;
    uint8_t flags, sent, count;
    uint8_t kinds[MOST_FILES];
    uint8_t cut; /* bytes of the message that are missing */
};

/* The constants in the page, as the library writes them. */
struct facts {
    uint64_t magic;
    uint32_t version, policy;
    uint64_t size, alignment, host_bytes, device_bytes;
    unsigned char uuid[16];
};

/* One of the page's words and its value. */
struct change {
    uint64_t value;
    uint16_t where;
};

static int make_file(size_t bytes, bool sealed)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    MUST(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (sealed)
        MUST(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    return fd;
}

static int open_file(int kind, int control, int host)
{
    int ends[2];
    switch (kind % FILE_KINDS) {
    case CONTROL:
        return dup(control);
    case HOST:
        return dup(host);
    case UNSEALED:
        return make_file(PAGE, false);
    case NULL_DEVICE:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    default:
        MUST(pipe(ends) == 0);
        (void)close(ends[1]);
        return ends[0];
    }
}

static void send_all(int socket, const struct input *input, int control, int host)
{
    int files[MOST_FILES];
    const bool good = input->flags & GOOD_FILES;
    const size_t count = good ? 2 : input->count % (MOST_FILES + 1);
    for (size_t i = 0; i < count; i++)
        files[i] = open_file(good ? (int)i : input->kinds[i], control, host);
    MUST(send_files(socket, &input->message, sizeof input->message - input->cut % sizeof input->message, files, count));
    for (size_t i = 0; i < count; i++)
        (void)close(files[i]);
}

static void change_words(unsigned char *page)
{
    struct change change;
    for (int i = 0; i < 4 && left > 0; i++) {
        take(&change, sizeof change.value + sizeof change.where);
        memcpy(page + change.where % (PAGE / 8) * 8, &change.value, sizeof change.value);
    }
}

/* The turns are to write, and then to read, by turns. */
static synced_mem_status begin_turn(synced_mem *mem, int number, bool by_version)
{
    if (!by_version)
        return synced_mem_begin_turn(mem, SYNCED_MEM_SIDE_CPU,
                                     number % 2 ? SYNCED_MEM_TURN_READ : SYNCED_MEM_TURN_WRITE, 0);
    if (number % 2 == 0)
        return synced_mem_begin_consumed_turn(mem, SYNCED_MEM_SIDE_CPU, 0);
    if (number == 1)
        return synced_mem_begin_slot_turn(mem, SYNCED_MEM_SIDE_CPU, 0, 0);
    return synced_mem_begin_newer_turn(mem, SYNCED_MEM_SIDE_CPU, 0, 0);
}

static void take_turns(synced_mem *mem, unsigned char *page, bool by_version)
{
    uint64_t version;
    if (by_version)
        MUST(synced_mem_take_slot(mem, 0, NULL) == SYNCED_MEM_OK);
    for (int i = 0; i < TURNS; i++) {
        const synced_mem_turn turn = i % 2 ? SYNCED_MEM_TURN_READ : SYNCED_MEM_TURN_WRITE;
        change_words(page);
        const synced_mem_status status = begin_turn(mem, i, by_version);
        MUST(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_TIMEOUT || status == SYNCED_MEM_ERR_OWNER_DIED ||
             status == SYNCED_MEM_ERR_PEER || status == SYNCED_MEM_ERR_INVALID_DEVICE ||
             status == SYNCED_MEM_ERR_NO_GPU || (by_version && status == SYNCED_MEM_ERR_INVALID_STATE));
        if (status != SYNCED_MEM_OK)
            continue;
        char *const data = turn == SYNCED_MEM_TURN_READ ? (char *)(uintptr_t)synced_mem_cpu_data(mem)
                                                        : synced_mem_mutable_cpu_data(mem);
        MUST(data);
        if (turn == SYNCED_MEM_TURN_WRITE)
            memset(data, i, synced_mem_size(mem));
        change_words(page);
        MUST((i % 3 == 2 ? synced_mem_abandon_turn : synced_mem_end_turn)(mem) == SYNCED_MEM_OK);
        const synced_mem_status known = synced_mem_contents_version(mem, &version);
        MUST(known == SYNCED_MEM_OK || known == SYNCED_MEM_ERR_PEER);
    }
    (void)synced_mem_end_slot(mem, 0);
}

static struct facts get_good_facts(void)
{
    return (struct facts){.magic = 0x4d454d5f434e5953,
                          .version = 3,
                          .policy = SYNCED_MEM_SHAREABLE_ANY_USER,
                          .size = 5000,
                          .alignment = 64,
                          .host_bytes = 2 * PAGE};
}

static void receive_and_use(const struct input *input, int control, int host, unsigned char *page)
{
    int ends[2];
    synced_mem *mem = NULL;
    MUST(open_pair(input->flags & PACKETS ? SOCK_SEQPACKET : SOCK_STREAM, ends));
    send_all(ends[0], input, control, host);
    if (!(input->flags & STAYS_OPEN)) {
        (void)close(ends[0]);
        ends[0] = -1;
    }
    const synced_mem_status status = synced_mem_receive(&mem, ends[1], 0);
    MUST((status == SYNCED_MEM_OK) == (mem != NULL));
    if (mem) {
        MUST(synced_mem_size(mem) <= 2 * PAGE);
        take_turns(mem, page, input->flags & BY_VERSION);
        MUST(synced_mem_release(mem) == SYNCED_MEM_OK);
    }
    close_pair(ends);
}

/* Returns the lowest free descriptor, which shows whether one was left open. */
static int find_free_descriptor(void)
{
    const int fd = dup(STDIN_FILENO);
    (void)close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input;
    struct facts facts = get_good_facts();
    const int free_before = find_free_descriptor();
    begin_input(data, size);
    take(&input, sizeof input);
    if (input.flags & GOOD_MESSAGE) {
        input.message = good_message;
        input.cut = 0;
    }
    const int control = make_file(PAGE, true);
    const int host = make_file(2 * PAGE, true);
    unsigned char *const page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
    MUST(page != MAP_FAILED);
    if (!(input.flags & GOOD_FACTS))
        take(&facts, sizeof facts);
    memcpy(page, &facts, sizeof facts);
    receive_and_use(&input, control, host, page);
    (void)munmap(page, PAGE);
    (void)close(control);
    (void)close(host);
    MUST(find_free_descriptor() == free_before);
    return 0;
}

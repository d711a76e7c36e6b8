#include "machine.h"

#include "bare.h"
#include "child.h"
#include "commit.h"
#include "report.h"
#include "suite.h"
#include "synced_mem.h"

#include <ctype.h>
#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Reads the first line of a file, without its end; "" if there is none. */
static void read_line(const char *path, char *line, size_t room)
{
    FILE *const file = fopen(path, "r");
    line[0] = '\0';
    if (file && fgets(line, (int)room, file))
        line[strcspn(line, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

/* Reads the text after "name   :" from a file of such lines. */
static void read_field(const char *path, const char *name, char *value, size_t room)
{
    char line[512];
    FILE *const file = fopen(path, "r");
    value[0] = '\0';
    while (file && !value[0] && fgets(line, sizeof line, file)) {
        const char *const colon = strchr(line, ':');
        if (colon && strncmp(line, name, strlen(name)) == 0)
            (void)snprintf(value, room, "%.*s", (int)strcspn(colon + 1, "\n") - 1, colon + 2);
    }
    if (file)
        (void)fclose(file);
    while (*value && isspace((unsigned char)*value))
        memmove(value, value + 1, strlen(value));
}

static void read_host(struct machine *machine)
{
    struct utsname name;
    cpu_set_t set;
    read_field("/proc/cpuinfo", "model name", machine->cpu, sizeof machine->cpu);
    machine->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    machine->memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (uname(&name) == 0)
        (void)snprintf(machine->kernel, sizeof machine->kernel, "%.20s %.100s %.30s", name.sysname, name.release,
                       name.machine);
    if (!machine->cpu[0])
        (void)snprintf(machine->cpu, sizeof machine->cpu, "unknown");
    (void)snprintf(machine->compiler, sizeof machine->compiler, "%.100s%s", __VERSION__,
#ifdef __OPTIMIZE__
                   ""
#else
                   ", not optimized: the figures mean little"
#endif
    );
}

static void read_library(struct machine *machine)
{
    const time_t now = time(NULL);
    (void)strftime(machine->date, sizeof machine->date, "%Y-%m-%dT%H:%MZ", gmtime(&now));
    (void)snprintf(machine->version, sizeof machine->version, "%d.%d.%d", SYNCED_MEM_VERSION_MAJOR,
                   SYNCED_MEM_VERSION_MINOR, SYNCED_MEM_VERSION_PATCH);
    machine->commit = SUITE_COMMIT;
    const bool is_archive = strcmp(machine->commit, machine->version) == 0;
    (void)snprintf(machine->library, sizeof machine->library, "synced_mem %s%s%s, GPU runtime %s", machine->version,
                   is_archive ? "" : ", commit ", is_archive ? "" : machine->commit, suite.runtime);
}

/* ---- The GPU ---- */

static void read_link(struct machine *machine, const char *bus)
{
    char speed[64], width[64], most_speed[64], most_width[64], path[128];
    static const char *const names[] = {"current_link_speed", "current_link_width", "max_link_speed", "max_link_width"};
    char *const values[] = {speed, width, most_speed, most_width};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", bus, names[i]);
        read_line(path, values[i], sizeof speed);
    }
    if (speed[0] && width[0])
        (void)snprintf(machine->link, sizeof machine->link, "%.40s x%.8s (at most %.40s x%.8s)", speed, width,
                       most_speed, most_width);
}

/* Reads the output of nvidia-smi, if there is one. */
static void ask_driver(struct machine *machine, const char *bus)
{
    static const char query[] = "--query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max";
    char text[512], choice[32];
    (void)snprintf(choice, sizeof choice, "--id=%s", bus);
    const char *const arguments[] = {"nvidia-smi", query, "--format=csv,noheader", choice, NULL};
    char name[128] = "", driver[64] = "", generation[32] = "", width[32] = "";
    if (!has_program("nvidia-smi") || run_program(arguments, NULL, true, text, sizeof text) != 0 ||
        sscanf(text, "%127[^,], %63[^,], %31[^,], %31[^,\n]", name, driver, generation, width) != 4)
        return;
    (void)snprintf(machine->gpu, sizeof machine->gpu, "%s", name);
    (void)snprintf(machine->driver, sizeof machine->driver, "%s", driver);
    if (!machine->link[0])
        (void)snprintf(machine->link, sizeof machine->link, "generation %s, x%s, at most", generation, width);
}

static void read_gpu(struct machine *machine)
{
    synced_mem_device_info info = {.struct_size = sizeof info};
    char bus[32] = "";
    if (synced_mem_get_device_info(0, &info) != SYNCED_MEM_OK)
        return;
    for (size_t i = 0; i < sizeof info.pci_bus_id && info.pci_bus_id[i]; i++)
        bus[i] = (char)tolower((unsigned char)info.pci_bus_id[i]);
    if (machine->is_emulated) {
        (void)snprintf(machine->gpu, sizeof machine->gpu, "none: emulated on the CPU");
        return;
    }
    read_link(machine, bus);
    (void)snprintf(machine->cuda, sizeof machine->cuda, "runtime %d.%d, driver for %d.%d", info.runtime_version / 1000,
                   info.runtime_version % 1000 / 10, info.driver_version / 1000, info.driver_version % 1000 / 10);
    read_line("/proc/driver/nvidia/version", machine->driver, sizeof machine->driver);
    (void)snprintf(machine->gpu, sizeof machine->gpu, "%.1f GiB, %s", (double)info.total_memory / GIB, bus);
    ask_driver(machine, bus);
    const size_t length = strlen(machine->gpu);
    if (!strstr(machine->gpu, "GiB"))
        (void)snprintf(machine->gpu + length, sizeof machine->gpu - length, ", %.1f GiB, %s, copies beside kernels: %d",
                       (double)info.total_memory / GIB, bus, info.async_engines);
}

void machine_read(struct machine *machine)
{
    read_host(machine);
    read_library(machine);
    machine->has_gpu = synced_mem_device_count() > 0 && bare_start();
    machine->is_emulated = machine->has_gpu && bare_is_emulated();
    (void)snprintf(machine->gpu, sizeof machine->gpu, "none");
    if (machine->has_gpu)
        read_gpu(machine);
}

/* ---- Output ---- */

static void print_if(const char *name, const char *value)
{
    if (value[0])
        (void)printf("%-9s %s\n", name, value);
}

void machine_print(const struct machine *machine)
{
    print_if("date", machine->date);
    print_if("library", machine->library);
    print_if("compiler", machine->compiler);
    (void)printf("%-9s %s, %d cores, %.1f GiB of memory\n", "CPU", machine->cpu, machine->cores, machine->memory / GIB);
    print_if("system", machine->kernel);
    print_if("GPU", machine->gpu);
    print_if("driver", machine->driver);
    print_if("CUDA", machine->cuda);
    print_if("PCIe", machine->link);
    if (machine->is_emulated)
        (void)printf(
            "\nThe GPU is emulated: its figures mean nothing, sizes are limited, and targets are not those of a "
            "GPU.\n");
    if (suite.quick)
        (void)printf("\nA quick run: few repetitions and small sizes. Its figures only show that everything works.\n");
}

void machine_write_json(const struct machine *machine, FILE *json)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"date", machine->date},       {"version", machine->version},   {"commit", machine->commit},
                 {"library", machine->library}, {"compiler", machine->compiler}, {"cpu", machine->cpu},
                 {"system", machine->kernel},   {"gpu", machine->gpu},           {"driver", machine->driver},
                 {"cuda", machine->cuda},       {"pcie", machine->link}};
    (void)fprintf(json, "{\"machine\":{\"cores\":%d,\"memory\":%.0f,\"has_gpu\":%s,\"emulated\":%s,\"quick\":%s",
                  machine->cores, machine->memory, machine->has_gpu ? "true" : "false",
                  machine->is_emulated ? "true" : "false", suite.quick ? "true" : "false");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)fprintf(json, ",\"%s\":", texts[i].name);
        json_string(json, texts[i].value);
    }
    (void)fputs("}}\n", json);
}

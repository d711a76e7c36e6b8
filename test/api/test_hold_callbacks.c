/*
 * Tests release callbacks that become due while a hold makes room. They may hold objects themselves, and release them.
 * None of them runs while the thread has victims that others wait for.
 */
#include "hold_tensor_kit.h"

#include "cudart_emu.h"

#include <stdlib.h>

enum { UNIT = 10000 };

static synced_mem_stream stream;
static struct DLManagedTensorVersioned *tensor;
static synced_mem *inner; /* the callback's */
static synced_mem_side side;
static unsigned calls;

static synced_mem *make_units(const char *name, size_t units, unsigned pattern)
{
    synced_mem *const mem = make_evictable(name, units * UNIT);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), units * UNIT, pattern);
    return mem;
}

static synced_mem_status hold_there(synced_mem *mem)
{
    return synced_mem_hold(mem, side, SYNCED_MEM_READ, stream);
}

static synced_mem_status unhold_there(synced_mem *mem)
{
    return synced_mem_unhold(mem, side);
}

/* Memory that is exported can't go. */
static void export_tensor(synced_mem *mem)
{
    OK(hold_there(mem));
    OK(give_out(mem, side, &tensor));
    OK(unhold_there(mem));
}

/* Waits for room in vain. */
static void hold_too_much(void *data, void *user, synced_mem_stream none)
{
    (void)user;
    (void)none;
    free(data);
    calls++;
    SOUND(hold_there(inner) ==
          (side == SYNCED_MEM_SIDE_GPU ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY));
}

/* The memory is in use by a transfer until somebody waits for that. */
static void retire_adopted_memory(void)
{
    synced_mem *const mem = make_on(UNIT, 0);
    synced_mem_memory memory = {.struct_size = sizeof memory,
                                .cpu_data = aligned_alloc(4096, 3 * 4096),
                                .callback = hold_too_much,
                                .flags = SYNCED_MEM_MEMORY_PAGE_LOCK};
    host_fill(memory.cpu_data, UNIT, 9);
    OK(synced_mem_use_memory(mem, &memory));
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
}

static void end_tensor(void)
{
    emu_run_all();
    OK(synced_mem_reap());
    ck_assert_uint_eq(calls, 1);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    tensor->deleter(tensor);
}

START_TEST(a_callback_holds_while_a_victim_is_stuck)
{
    calls = 0;
    side = SYNCED_MEM_SIDE_GPU;
    stream = open_stream(NON_BLOCKING);
    synced_mem *const stuck = make_units("stuck", 10, 1);
    synced_mem *const wanted = make_units("wanted", 15, 2);
    inner = make_units("inner", 15, 3);
    set_budget(21 * UNIT);
    export_tensor(stuck);
    retire_adopted_memory();
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, hold_there(wanted));
    end_tensor();
    RELEASE_EACH(stuck, wanted, inner);
    CLOSE_EACH(stream);
}
END_TEST

/* The host copy of the victim that goes is still read by the device. */
START_TEST(a_callback_holds_while_a_host_copy_is_stuck)
{
    calls = 0;
    side = SYNCED_MEM_SIDE_CPU;
    stream = open_stream(NON_BLOCKING);
    synced_mem *const stuck = make_units("stuck", 10, 1);
    synced_mem *const going = make_units("going", 5, 1);
    synced_mem *const wanted = make_evictable("wanted", 20 * UNIT);
    inner = make_evictable("inner", 20 * UNIT);
    OK(synced_mem_async_gpu_push(stuck, stream));
    OK(synced_mem_wait(stuck));
    OK(synced_mem_cpu_set_budget(21 * UNIT, NULL, NULL));
    export_tensor(stuck);
    retire_adopted_memory();
    OK(synced_mem_async_gpu_push(going, stream));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_there(wanted));
    end_tensor();
    RELEASE_EACH(stuck, going, wanted, inner);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_callbacks");
    add_gpu_tests(add_case(made, "callbacks"), a_callback_holds_while_a_victim_is_stuck,
                  a_callback_holds_while_a_host_copy_is_stuck);
    return made;
}

/* Checks the pageable host memory that the library allocates. */
#include "fixture.h"

#include "memory/host_memory.h"

#include <stdint.h>

START_TEST(host_memory)
{
    static const size_t sizes[] = {1, 100, 65536, (1 << 25) - 1, 1 << 25};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2) {
            void *const data = sm_host_memory_alloc(sizes[i], alignment, true);
            ck_assert_ptr_nonnull(data);
            ck_assert_uint_eq((uintptr_t)data % alignment, 0);
            ck_assert(pattern_is(data, sizes[i], 0));
            pattern_write(data, sizes[i], 1);
            sm_host_memory_free(data, sizes[i]);
        }
    }
    ck_assert_ptr_null(sm_host_memory_alloc((size_t)PTRDIFF_MAX - 4096, 64, true));
    ck_assert_ptr_null(sm_host_memory_alloc((size_t)PTRDIFF_MAX - 4096, 64, false));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_memory");
    TCase *const tests = add_case(made, "host_memory");
    tcase_add_test(tests, host_memory);
    return made;
}

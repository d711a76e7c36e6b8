/* Calls a fuzz target with each of the named files, in place of libFuzzer's main(). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    uint8_t *const data = malloc(MOST_BYTES);
    for (int i = 1; data && i < argc; i++) {
        FILE *const file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return EXIT_FAILURE;
        }
        const size_t size = fread(data, 1, MOST_BYTES, file);
        (void)fclose(file);
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    (void)printf("%d inputs\n", argc - 1);
    free(data);
    return data && argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Prints the library's table of transitions as an inline in Promela, the language of the spin model. */
#include "object/transitions.h"

#include <stdio.h>

int main(void)
{
    printf("inline look_up(state, side, mode)\n{\n    if\n");
    for (int head = 0; head < 4; head++)
        for (int side = 0; side < SM_SIDES; side++)
            for (int mode = 0; mode < SM_MODES; mode++)
                printf("    :: (state) == %d && (side) == %d && (mode) == %d -> work = %d; next = %d\n", head, side,
                       mode, sm_transitions[head][side][mode].work, sm_transitions[head][side][mode].next);
    printf("    fi\n}\n");
    printf("#define CPU %d\n#define GPU %d\n", SM_CPU, SM_GPU);
    printf("#define READ %d\n#define MUTABLE %d\n#define OVERWRITE %d\n", SM_READ, SM_MUTABLE, SM_OVERWRITE);
    printf("#define NOTHING %d\n#define ZERO %d\n#define MOVE %d\n", SM_NOTHING, SM_ZERO, SM_MOVE);
    return 0;
}

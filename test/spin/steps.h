/* The steps of turns.pml on which the participants rely. Each has a number, so that it can be left out. */

/* A participant stores CHOOSING before it reads the places of the others. */
#define MARK_CHOOSING 1
/* Of two equal places, that with the lower index comes first. */
#define TIE_BY_INDEX 2
/* Turns to fill exclude each other. */
#define FILL_EXCLUDES 3
/* The contents are read after the front was seen empty. */
#define FRONT_BEFORE_CONTENTS 4
/* A writer stores WRITTEN before it writes. */
#define STORE_WRITTEN_FIRST 5
/* The contents are stored before the word in line: at the end of a writer's turn, and of a turn to fill. */
#define CONTENTS_BEFORE_OUT 6
#define CONTENTS_BEFORE_READ 7
/* The head and the count of deaths are stored as one word. */
#define COUNT_WITH_HEAD 8
/* A participant keeps the count of deaths that it was told of, and that of the time when it joined. */
#define KEEP_COUNT 9
#define COUNT_AT_JOIN 10
/* A writer that abandons its turn counts a death, of which it is not told. */
#define COUNT_ABANDONED 12
#define KNOW_ABANDONED 25
/* A participant that cleans up stores OUT only if the word is still the one that it has read: whoever joins with the
 * index meanwhile stores words of another incarnation. */
#define COMPARE_TO_CLEAN 11
/* A participant that joins stores OUT in the word of the one that had its index. */
#define OUT_AT_JOIN 13
/* The bell is read before the front. The word in line is stored before the others are read, to see whether to ring. The
 * bell changes before the sleeping participants are woken. */
#define BELL_BEFORE_FRONT 14
#define OUT_BEFORE_RING 15
#define CHANGE_BEFORE_WAKE 16
/* A participant rings when it leaves the line after its turn, when its turn to fill becomes one to read, when it times
 * out, when it is told of a death, when it has cleaned up, and when it joins. */
#define RING_AT_HAND_OVER 17
#define RING_WHEN_FILLED 18
#define RING_AT_TIMEOUT 19
#define RING_WHEN_TOLD 20
#define RING_AFTER_CLEANING 21
#define RING_AT_JOIN 22
/* A waiting participant cleans up even if a ring ends each of its sleeps. */
#define CLEAN_IN_TIME 23
/* One that is seen CHOOSING with a second count is not waited for. */
#define PASS_SECOND_CHOICE 24

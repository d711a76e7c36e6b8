/* The steps of versions.pml on which the participants rely. Each has a number, so that it can be left out. */

/* In its turn a participant compares the contents with its wish again, before it writes anything. */
#define CHECK_IN_TURN 1
/* One that watches stores its word, and reads the bell, before it reads the contents and the slots. */
#define WATCH_BEFORE_LOOK 2
#define BELL_BEFORE_LOOK 3
/* A participant rings after it has ended a turn to write, and after it has ended a slot. A reader consumes before it
 * rings. */
#define RING_AFTER_TURN 4
#define RING_AFTER_SLOT 5
#define CONSUME_BEFORE_OUT 6
/* A reader rings for those that watch if all slots have consumed. It looks at these after it has consumed. */
#define RING_AFTER_LAST 13
#define NEWS_AFTER_CONSUME 14
/* A reader consumes at the end of its turn, and only if the slot is still as its turn has found it. */
#define CONSUME_AT_END 7
#define COMPARE_TO_CONSUME 8
/* The head and the version are stored as one word. */
#define VERSION_WITH_HEAD 9
/* The count of a death marks the contents as lost. A side that is filled leaves them so; a writer need not wait for
 * slots then. */
#define MARK_LOST 10
#define WRITE_LOST_AGAIN 11
/* One that watches gets in line if a writer has died and left the line. */
#define FIND_DEAD_WRITER 12
/* A reader that abandons its turn consumes nothing. A writer that does marks the contents as lost. */
#define ABANDON_CONSUMES_NOTHING 15
#define ABANDON_LOSES 16

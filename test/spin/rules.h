/* The rules that views.pml keeps. Each has a number, so that it can be left out. */

/* A call that waited without the lock looks up the pieces of its range again. */
#define LOOK_UP_AGAIN 1
/* A cut withdraws the pointers of the objects on the piece's list. */
#define CUT_WITHDRAWS 2
/* The left half keeps the record. */
#define CUT_KEEPS_LEFT 3
/* The right half inherits the fences and the open uses. */
#define CUT_INHERITS_FENCES 4
#define CUT_INHERITS_USES 5
/* Two pieces join if no object has a border between them, their heads and their work in flight are equal, and no call
 * uses them. The left record stays. */
#define JOIN_NO_BORDER 6
#define JOIN_SAME_HEAD 7
#define JOIN_SAME_WORK 8
#define JOIN_UNUSED 9
#define JOIN_KEEPS_LEFT 10
/* Only an object that is exactly one piece goes on the piece's list. */
#define PUBLISH_ONE_PIECE 11
/* An unlock publishes the pointers of all objects on the lists of the pieces that have changed, also before a wait. */
#define PUBLISH_LIST 12
#define PUBLISH_BEFORE_WAIT 13
/* A released view leaves its list, and its pointers are withdrawn. */
#define RELEASE_WITHDRAWS 14
/* An access serves each of its pieces: the host waits for its work, a stream is ordered behind its work, a transfer
 * moves its bytes, and its head is set. */
#define WAIT_EVERY_PIECE 15
#define ORDER_EVERY_PIECE 16
#define MOVE_EVERY_PIECE 17
#define SET_EVERY_HEAD 18

/* The waits of the library that the spin model has. Each has a number, so that it can be left out. */

#define ALWAYS 100 /* four waits that are never left out */

/* An access on a stream makes the stream wait for the library's write, for another stream's open write, for the
 * library's transfers from the copy, and for other streams that read it. */
#define STREAM_WRITE 1
#define STREAM_TURN 2
#define STREAM_TRANSFERS 3
#define STREAM_READERS 4
/* A transfer, before it writes its target. */
#define TARGET_WRITE 5
#define TARGET_TURN 6
#define TARGET_TRANSFERS 7
#define TARGET_READERS 8
/* A fill of device memory. */
#define FILL_WRITE 9
#define FILL_TURN 10
#define FILL_TRANSFERS 11
#define FILL_READERS 12
/* The stream-ordered free of device memory, and the callback of adopted memory. */
#define FREE_WRITE 13
#define FREE_TURN 14
#define FREE_TRANSFERS 15
#define FREE_READERS 16
/* A transfer, before it reads its source. */
#define SOURCE_WRITE 17
#define SOURCE_TURN 18
/* The host, before it returns the device copy without a stream. */
#define ANY_WRITE 21
#define ANY_TURN 22
#define ANY_TRANSFERS 23
#define ANY_READERS 24
/* The host, before it returns the host copy: contents that are arriving, a caller's stream that fills it, transfers
 * from it. */
#define HOST_WRITE 25
#define HOST_TURN 26
#define HOST_TRANSFERS 27
/* The host, before it fills the host copy with zeros; before it fills the copy's end or moves it to larger memory. */
#define ZERO_HOST 28
#define RESIZE_HOST 29
/* The host, before a transfer from memory that the runtime may read during the call. */
#define SOURCE_READY 30
/* The host, before borrowed memory goes back: in a replacement, in the release of a side, in a resize. The others name
 * the work: a transfer to the memory, one from it, one that a later open write covers. */
#define HAND_BACK_REPLACE 31
#define HAND_BACK_RELEASE 32
#define HAND_BACK_RESIZE 33
#define HAND_BACK_WRITE 34
#define HAND_BACK_READS 35
#define HAND_BACK_OWED 36
/* The host, before one side is released: the contents must have arrived on the other one. */
#define ARRIVAL 37
/* Host memory is freed, or adopted host memory goes back, behind three kinds of work: transfers to it, a caller's
 * stream that fills it, transfers from it. */
#define IDLE_WRITE 38
#define IDLE_TURN 39
#define IDLE_TRANSFERS 40
/* An event ends a writer's open write, and a reader's use. */
#define SETTLE_WRITER 42
#define SETTLE_READERS 43
/* After each wait of the host a call reads the state again: in an access, and in calls that change memory or size. */
#define LOOK_AGAIN_ACCESS 44
#define LOOK_AGAIN_STORAGE 45
/* The hot path returns a pointer only if nothing is in flight, and a device pointer only to a domain that was given it.
 * */
#define HOT_BLOCKER 46
#define HOT_GIVEN 47
/* synced_mem_wait() waits for transfers. */
#define WAIT_TRANSFERS 48
/* The host, before a resize gives back borrowed device memory whose contents it has copied. */
#define HAND_BACK_GROWN 49
/* A reader's use ends with an event of its own. The event of the stream's open write does not suffice if an earlier
 * call recorded it. */
#define END_ANEW 50
/* Contents that a resize has copied before a wait count only if the device copy was not written since. */
#define GROW_ANEW 51

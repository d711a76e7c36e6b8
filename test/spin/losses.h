/* Each place that detects a lost arrival. The script `run` leaves out one after the other. */
#define LOST_FOR_HOST 1
#define LOST_FOR_STREAM 2
#define LOST_FOR_MOVE 3
#define LOST_FOR_RESIZE 4
#define LOST_FOR_RELEASE 5

#include <posix.h>

#include "synced_mem/dlpack.h" /* this file is the name of version 0.1 */

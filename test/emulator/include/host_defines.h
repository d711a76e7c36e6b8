/* Words that only nvcc knows, for other compilers. As in the toolkit's header of this name. */
#ifndef CUDART_EMU_HOST_DEFINES_H
#define CUDART_EMU_HOST_DEFINES_H

#define CUDARTAPI
#define CUDART_CB

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

#endif

/* Vectors of one to four components, and the shape of a grid. As in the toolkit's header of this name. */
#ifndef CUDART_EMU_VECTOR_TYPES_H
#define CUDART_EMU_VECTOR_TYPES_H

#include <host_defines.h>

/* The alignments permit loads of two and of four components at once. */
#define CUDART_EMU_VECTORS(name, type, align2, align4)                                                                 \
    struct name##1                                                                                                     \
    {                                                                                                                  \
        type x;                                                                                                        \
    };                                                                                                                 \
    struct __align__(align2) name##2                                                                                   \
    {                                                                                                                  \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct name##3                                                                                                     \
    {                                                                                                                  \
        type x, y, z;                                                                                                  \
    };                                                                                                                 \
    struct __align__(align4) name##4                                                                                   \
    {                                                                                                                  \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    typedef struct name##1 name##1;                                                                                    \
    typedef struct name##2 name##2;                                                                                    \
    typedef struct name##3 name##3;                                                                                    \
    typedef struct name##4 name##4;

CUDART_EMU_VECTORS(char, signed char, 2, 4)
CUDART_EMU_VECTORS(uchar, unsigned char, 2, 4)
CUDART_EMU_VECTORS(short, short, 4, 8)
CUDART_EMU_VECTORS(ushort, unsigned short, 4, 8)
CUDART_EMU_VECTORS(int, int, 8, 16)
CUDART_EMU_VECTORS(uint, unsigned int, 8, 16)
CUDART_EMU_VECTORS(long, long int, 16, 16)
CUDART_EMU_VECTORS(ulong, unsigned long int, 16, 16)
CUDART_EMU_VECTORS(longlong, long long int, 16, 16)
CUDART_EMU_VECTORS(ulonglong, unsigned long long int, 16, 16)
CUDART_EMU_VECTORS(float, float, 8, 16)
CUDART_EMU_VECTORS(double, double, 16, 16)

#undef CUDART_EMU_VECTORS

struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz)
    {
    }
    dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
#endif
};
typedef struct dim3 dim3;

#endif

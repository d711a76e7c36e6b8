/* The machine code of copy_kernel.cu, in the file that copy_kernel.sh makes. */
#ifndef SM_COPY_KERNEL_H
#define SM_COPY_KERNEL_H

extern const unsigned long long sm_copy_kernel_code[];

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ISA-L's code for AVX-512 returns without VZEROUPPER (2.30). The next instructions of SSE, which
 * compilers use in all code for x86-64, then wait: about 90 ns each time on an Intel Xeon of 2023,
 * more than the CRC of 1 KiB takes ("Intel 64 and IA-32 Architectures Optimization Reference
 * Manual", Mixing AVX Code with SSE Code).
 */
#ifndef XT_SIMD_H
#define XT_SIMD_H

/* To be called after functions of ISA-L. */
static inline void xt_simd_end(void)
{
	if (__builtin_cpu_supports("avx512f"))
		__asm__ volatile("vzeroupper" : : : "memory");
}

#endif /* XT_SIMD_H */

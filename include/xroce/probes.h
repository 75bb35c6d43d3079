/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * USDT probes of the provider "xroce", for bpftrace and perf: docs/probes.md. A probe is a nop and
 * a note in the ELF file; its arguments must be at hand. Without <sys/sdt.h> (systemtap-sdt-dev)
 * when xroce is built there are none.
 */
#ifndef XROCE_PROBES_H
#define XROCE_PROBES_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

#ifdef DTRACE_PROBE2
#define XR_PROBE2(name, a, b) DTRACE_PROBE2(xroce, name, a, b)
#define XR_PROBE3(name, a, b, c) DTRACE_PROBE3(xroce, name, a, b, c)
#define XR_PROBE4(name, a, b, c, d) DTRACE_PROBE4(xroce, name, a, b, c, d)
#else
#define XR_PROBE2(name, a, b) ((void)(a), (void)(b))
#define XR_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define XR_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif /* XROCE_PROBES_H */

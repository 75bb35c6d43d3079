/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accesses to mapped memory of regions. The owner can free pages at any time, by truncating the
 * file or punching a hole; an access to an absent page raises SIGBUS. The signal handler calls
 * xt_guard_fault(), which ends the access; the function that made it returns -EFAULT. Part of the
 * bytes may have been copied then. Memory without faults needs no handler.
 */
#ifndef XT_GUARD_H
#define XT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xt_seg;

/* Like xt_copy(). */
int xt_guard_copy(void *to, const void *from, size_t len);
/* The same from offset @skip of a list of bytes, which has at least skip + len. */
int xt_guard_copy_segs(uint8_t *to, const struct xt_seg *from, uint64_t skip, size_t len);
/*
 * Copies into memory of a program, which may poll the last byte of a message. The last bytes, at
 * most XT_GUARD_TAIL, are stored after all others, with release order: as one word if that is
 * aligned, else byte by byte. memcpy() may store the end first.
 */
#define XT_GUARD_TAIL 8
int xt_guard_place(void *to, const void *from, size_t len);
/*
 * The same if the ranges may overlap. On an error, *src_failed is true if the absent page is one of
 * the source.
 */
int xt_guard_move(void *to, const void *from, size_t len, bool *src_failed);
/* Reads a byte of each page. */
int xt_guard_probe(const uint8_t *p, size_t len);

/* Atomics; *old is the value before. */
int xt_guard_cmp_swap(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *old);
int xt_guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *old);
int xt_guard_store(uint64_t *p, uint64_t value);

/*
 * To be called by the handler of SIGBUS, with the address of the fault. Returns if the interrupted
 * code is none of the functions above. The signal must not be blocked in its handler (SA_NODEFER).
 */
void xt_guard_fault(const void *addr);

/*
 * An access that a peer wants, or that changes nothing. The program has told the peer when it may
 * be, and hears from the peer that it was, in ways that ThreadSanitizer does not see. It does see
 * how programs and the engine order the accesses of work requests.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define XT_UNORDERED(access)                                                                       \
	({                                                                                         \
		__typeof__(access) result_;                                                        \
                                                                                                   \
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);                                      \
		AnnotateIgnoreWritesBegin(__FILE__, __LINE__);                                     \
		result_ = access;                                                                  \
		AnnotateIgnoreWritesEnd(__FILE__, __LINE__);                                       \
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);                                        \
		result_;                                                                           \
	})
#else
#define XT_UNORDERED(access) (access)
#endif

#endif /* XT_GUARD_H */

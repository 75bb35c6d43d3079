/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of libc behind the interposed ones. Each file of interposed functions has a list,
 *
 *	#define FUNCTIONS(X) X(name, type, parameters) ...
 *	XP_NEXT_TABLE(file, FUNCTIONS)
 *
 * and calls XP_NEXT(name). The function that is made has the name of the file in its own.
 * Interposed functions may be called in signal handlers, so the functions are looked up when the
 * library is loaded.
 */
#ifndef XP_NEXT_H
#define XP_NEXT_H

/* Returns the function that follows this library's in the search order; NULL: libc lacks it. */
void *xp_find_next(const char *name);

/* Returns *fn, or looks it up: constructors of other libraries may run before ours. */
void *xp_get_next(void **fn, const char *name);

#define XP_NEXT_FIELD(name, type, params) type(*name) params;
#define XP_NEXT_FIND(name, type, params)                                                           \
	__atomic_store_n((void **)&next.name, xp_find_next(#name), __ATOMIC_RELAXED);
#define XP_NEXT_TABLE(file, FUNCTIONS)                                                             \
	static struct {                                                                            \
		FUNCTIONS(XP_NEXT_FIELD)                                                           \
	} next;                                                                                    \
	__attribute__((constructor)) static void file##_find_next(void)                            \
	{                                                                                          \
		FUNCTIONS(XP_NEXT_FIND)                                                            \
	}

#define XP_NEXT(name) ((__typeof__(next.name))xp_get_next((void **)&next.name, #name))

#endif /* XP_NEXT_H */

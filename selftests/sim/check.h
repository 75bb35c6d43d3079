/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks of a simulation whose struct world has `const char *wrong`: the first one that failed */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#define CHECK(w, cond, what)                                                                       \
	do {                                                                                       \
		if (!(cond) && !(w)->wrong)                                                        \
			(w)->wrong = what;                                                         \
	} while (0)

#endif /* SIM_CHECK_H */

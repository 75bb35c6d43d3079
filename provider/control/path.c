// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/control/path.h"

#include <string.h>

bool xp_path_of_word(const char *word, enum xp_path *path)
{
	static const char *const words[] = {
		[XP_PATH_DAEMON] = "daemon",
		[XP_PATH_DIRECT] = "direct",
		[XP_PATH_AUTO] = "auto",
	};

	*path = XP_PATH_AUTO;
	if (!word || !*word)
		return true;
	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(word, words[i])) {
			*path = (enum xp_path)i;
			return true;
		}
	}
	return false;
}

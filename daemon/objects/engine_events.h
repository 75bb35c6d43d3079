/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of the engines, passed on to the clients that own the objects. */
#ifndef XD_ENGINE_EVENTS_H
#define XD_ENGINE_EVENTS_H

#include "daemon/datapath/worker.h"

extern const struct xd_engine_events xd_engine_events;

#endif /* XD_ENGINE_EVENTS_H */

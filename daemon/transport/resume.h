/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef XT_RESUME_H
#define XT_RESUME_H

struct xt_engine;

/* Resumes QPs whose accesses have finished, as many as one round permits. */
void xt_resume(struct xt_engine *e);

#endif /* XT_RESUME_H */

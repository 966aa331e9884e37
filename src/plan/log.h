/*
 * log.h: what the library has to say to the caller's function and to the file in options.log_dir (log.c); bgi_say is in
 * plan.h, as runs have something to say too.
 */
#ifndef BGI_PLAN_LOG_H
#define BGI_PLAN_LOG_H

#include "plan/plan.h"

#define BGI_LOG_NAME "brigade.log"

/* Whether anybody hears it: texts that cost something to make are made then only. */
bool bgi_is_heard(const bg_options *options);
/* For plans that are only tried. */
void bgi_silence(bg_options *options);

/* Makes the folder and the file. BG_ERROR_IO. */
bg_status bgi_log_begin(const bg_options *options, bg_error *error);
/* Stages, memory and timetable, into the file. */
bg_status bgi_log_plan(const bg_plan *plan, bg_error *error);

#endif

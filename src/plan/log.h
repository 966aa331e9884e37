/*
 * log.h: declares functions that deliver messages to the caller's function and to the file in options.files.log_dir
 * (log.c). bgi_log is in plan.h, because runs log too.
 */
#ifndef BGI_PLAN_LOG_H
#define BGI_PLAN_LOG_H

#include "plan/plan.h"

#define BGI_LOG_NAME "brigade.log"

/* Whether messages have a destination; if not, callers skip messages that take time to make. */
bool bgi_log_is_enabled(const bg_options *options);
/* Turns logging off, for trials. */
void bgi_disable_log(bg_options *options);

/* Creates the folder and the file. Errors: BG_ERROR_IO. */
bg_status bgi_log_begin(const bg_options *options, bg_error *error);
/* Writes the plan's stages, memory and timetable to the file. */
bg_status bgi_log_plan(const bg_plan *plan, bg_error *error);

#endif

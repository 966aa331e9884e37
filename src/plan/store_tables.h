/*
 * store_tables.h: declares visitors of the parts of a plan without op types and kernels, and visitors that store.c also
 * uses.
 */
#ifndef BGI_PLAN_STORE_TABLES_H
#define BGI_PLAN_STORE_TABLES_H

#include "core/archive.h"
#include "plan/plan.h"

/* Each function writes or reads, depending on the archive. bgi_store_type visits a type that may be missing
 * (BG_DTYPE_NONE), bgi_store_present_type one that must be present. */
void bgi_store_type(bgi_archive *archive, bg_type *type);
void bgi_store_present_type(bgi_archive *archive, bg_type *type);
void bgi_store_name(bgi_archive *archive, const char **name);
void bgi_store_operand(bgi_archive *archive, bgi_operand *operand);
void bgi_store_action(bgi_archive *archive, bg_action *action);

/* Visits everything in a plan except its devices' programs. Reading returns BG_ERROR_PARSE when the schedule is wrong
 * or belongs to another plan; other damage makes the archive fail. */
bg_status bgi_store_tables(bgi_archive *archive, bg_plan *plan, bg_error *error);

#endif

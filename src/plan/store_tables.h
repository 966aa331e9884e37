/*
 * store_tables.h: the parts of a stored plan that know neither op types nor kernels, and what other parts are made of.
 */
#ifndef BGI_PLAN_STORE_TABLES_H
#define BGI_PLAN_STORE_TABLES_H

#include "core/archive.h"
#include "plan/plan.h"

/* Each writes or reads, as the archive says. A type may be none (BG_DTYPE_NONE), or must be there. */
void bgi_store_type(bgi_archive *archive, bg_type *type);
void bgi_store_present_type(bgi_archive *archive, bg_type *type);
void bgi_store_name(bgi_archive *archive, const char **name);
void bgi_store_operand(bgi_archive *archive, bgi_operand *operand);
void bgi_store_action(bgi_archive *archive, bg_action *action);

/* All of a plan but its devices' programs. Reading: BG_ERROR_PARSE when the schedule is wrong or another plan's; other
 * nonsense makes the archive fail. */
bg_status bgi_store_tables(bgi_archive *archive, bg_plan *plan, bg_error *error);

#endif

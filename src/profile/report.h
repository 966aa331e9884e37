/*
 * report.h: reports of summaries: one HTML file, or text. A summary may come from anywhere: its content is treated as
 * data.
 */
#ifndef BGI_PROFILE_REPORT_H
#define BGI_PROFILE_REPORT_H

#include <brigade/profile.h>

/* The largest summary that is read: several times the largest that is written. */
#define BGI_SUMMARY_LIMIT_BYTES ((size_t)64 << 20)

typedef struct bgi_report_part {
    const char *name; /* of the folder; "": the only report */
    const char *summary;
    size_t size_bytes;
} bgi_report_part;

/* Checks that a text is a summary: JSON of the format and a version that this release reads. */
bg_status bgi_summary_check(const char *name, const char *text, size_t size_bytes, bg_error *error);
/* The HTML of one or two summaries that were checked; malloc'ed. */
bg_status bgi_report_make(const bgi_report_part *parts, uint32_t count, char **out, size_t *out_bytes, bg_error *error);
/* The text of one or two summaries; BG_ERROR_PARSE for invalid ones. Malloc'ed. */
bg_status bgi_report_print(const bgi_report_part *parts, uint32_t count, bool colored, char **out, bg_error *error);

#endif

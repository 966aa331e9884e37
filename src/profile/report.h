/*
 * report.h: makes reports from summaries, as one HTML file or as text. A summary may be from any source, so its content
 * is not trusted.
 */
#ifndef BGI_PROFILE_REPORT_H
#define BGI_PROFILE_REPORT_H

#include <brigade/profile.h>

/* The largest summary that is read, several times the largest that is written. */
#define BGI_SUMMARY_LIMIT_BYTES ((size_t)64 << 20)

typedef struct bgi_report_part {
    const char *name; /* name of the folder; "" for a single report */
    const char *summary;
    size_t size_bytes;
} bgi_report_part;

/* Checks that a text is a summary: JSON with the format's name and a version that this release reads. */
bg_status bgi_summary_check(const char *name, const char *text, size_t size_bytes, bg_error *error);
/* Makes the HTML of one or two summaries that were checked; malloc'ed. */
bg_status bgi_report_make(const bgi_report_part *parts, uint32_t count, char **out, size_t *out_bytes, bg_error *error);
/* Makes the text of one or two summaries. Errors: BG_ERROR_PARSE for invalid ones. Malloc'ed. */
bg_status bgi_report_print(const bgi_report_part *parts, uint32_t count, bool colored, char **out, bg_error *error);

#endif

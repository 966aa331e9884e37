/*
 * report_folder.c: makes reports of folders with profiles, after it has read and checked the summaries.
 */
#include <stdlib.h>

#include "core/error.h"
#include "core/file.h"
#include "profile/report.h"

typedef struct loaded {
    bgi_report_part parts[2];
    char *texts[2];
    uint32_t count;
} loaded;

static bg_status load_one(loaded *all, const char *folder, bg_error *error)
{
    char *path = bgi_path_join(folder, "summary.json");
    bgi_report_part *part = &all->parts[all->count];
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bgi_file_load(path, BGI_SUMMARY_LIMIT_BYTES, &all->texts[all->count], &part->size_bytes, error);
    if (status == BG_OK) {
        part->summary = all->texts[all->count++];
        part->name = folder;
        status = bgi_summary_check(path, part->summary, part->size_bytes, error);
    }
    free(path);
    return status;
}

static bg_status load_all(loaded *all, const char *folder, const char *other, bg_error *error)
{
    BGI_TRY(load_one(all, folder, error));
    return other != NULL ? load_one(all, other, error) : BG_OK;
}

bg_status bg_profile_report(const char *folder, const char *other, const char *path, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(folder, "folder", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));

    loaded all = {.count = 0};
    char *html = NULL;
    size_t size_bytes = 0;
    bg_status status = load_all(&all, folder, other, error);

    if (status == BG_OK)
        status = bgi_report_make(all.parts, all.count, &html, &size_bytes, error);
    if (status == BG_OK)
        status = bgi_file_save(path, html, size_bytes, error);
    free(html);
    free(all.texts[0]);
    free(all.texts[1]);
    return status;
}

bg_status bg_profile_print_report(const char *folder, const char *other, bool colored, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(folder, "folder", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    loaded all = {.count = 0};
    bg_status status = load_all(&all, folder, other, error);

    if (status == BG_OK)
        status = bgi_report_print(all.parts, all.count, colored, out_text, error);
    free(all.texts[0]);
    free(all.texts[1]);
    return status;
}

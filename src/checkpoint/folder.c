/*
 * folder.c: lists the checkpoints of a folder, and removes old ones. It reads only names and metadata.
 *
 * A checkpoint gets its name when it is complete (core/file.h), so every file with such a name counts. A process that
 * is killed while it writes leaves a file whose name ends in ".tmp-" and six characters. Such files, and parts without
 * a manifest, are removed together with old checkpoints.
 */
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

static const char name_start[] = "checkpoint_train_step_";
static const char name_end[] = ".safetensors";
static const char temporary_end[] = ".tmp-";

const char *bgi_checkpoint_name(uint64_t step, char text[BGI_CHECKPOINT_NAME_BYTES])
{
    snprintf(text, BGI_CHECKPOINT_NAME_BYTES, "%s%" PRIu64 "%s", name_start, step, name_end);
    return text;
}

bool bgi_checkpoint_is_tag(const char *text)
{
    return strspn(text, "0123456789abcdef") == BGI_CHECKPOINT_TAG_BYTES - 1 &&
           text[BGI_CHECKPOINT_TAG_BYTES - 1] == '\0';
}

const char *bgi_checkpoint_part_name(uint64_t step, const char *tag, uint32_t number, uint32_t count,
                                     char text[BGI_CHECKPOINT_PART_BYTES])
{
    snprintf(text, BGI_CHECKPOINT_PART_BYTES, "%s%" PRIu64 ".%s.part-%05" PRIu32 "-of-%05" PRIu32 "%s", name_start,
             step, tag, number, count, name_end);
    return text;
}

bool bgi_checkpoint_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (; *text != '\0'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* Returns true if `name` begins with the name of a checkpoint's file; *rest is the text after that. */
static bool parse_name(const char *name, uint64_t *out_step, const char **rest)
{
    char digits[24];
    const char *begin, *end;

    if (strncmp(name, name_start, sizeof name_start - 1) != 0)
        return false;
    begin = name + sizeof name_start - 1;
    end = strstr(begin, name_end);
    if (end == NULL || (size_t)(end - begin) >= sizeof digits)
        return false;
    memcpy(digits, begin, (size_t)(end - begin));
    digits[end - begin] = '\0';
    *rest = end + sizeof name_end - 1;
    return bgi_checkpoint_number(digits, out_step);
}

/* Returns true for the name of a part, complete or temporary; finds its step and the tag of the save that wrote it. */
static bool parse_part(const char *name, uint64_t *out_step, char tag[BGI_CHECKPOINT_TAG_BYTES])
{
    char digits[24] = "", rest[16] = "";

    if (strncmp(name, name_start, sizeof name_start - 1) != 0 ||
        sscanf(name + sizeof name_start - 1, "%23[0-9].%8[0-9a-f].part-%*5[0-9]-of-%*5[0-9]%15[.a-z]", digits, tag,
               rest) != 3)
        return false;
    return bgi_checkpoint_number(digits, out_step) && bgi_checkpoint_is_tag(tag) &&
           strncmp(rest, name_end, sizeof name_end - 1) == 0;
}

static int compare_steps(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

static bg_status read_names(DIR *folder, const char *directory, bgi_checkpoint_list *out, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    const struct dirent *entry;

    while (errno = 0, (entry = readdir(folder)) != NULL) {
        const char *rest;
        uint64_t step;
        if (!parse_name(entry->d_name, &step, &rest) || rest[0] != '\0')
            continue;
        if (!bgi_array_reserve((void **)&out->steps, &out->capacity, out->count + 1, sizeof *out->steps))
            return bgi_error_memory(error, "checkpoints", (out->count + 1) * sizeof *out->steps);
        out->steps[out->count++] = step;
    }
    if (errno != 0)
        return bg_error_set(error, BG_ERROR_IO, "%s: cannot read the folder: %s", directory,
                            bgi_errno_text(errno, reason));
    if (out->count > 0)
        qsort(out->steps, out->count, sizeof *out->steps, compare_steps);
    return BG_OK;
}

bg_status bgi_checkpoint_find(const char *directory, bgi_checkpoint_list *out, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    DIR *folder = opendir(directory);
    bg_status status;

    if (folder == NULL && errno == ENOENT)
        return BG_OK;
    if (folder == NULL)
        return bg_error_set(error, errno == ENOMEM ? BG_ERROR_MEMORY : BG_ERROR_IO, "%s: cannot read the folder: %s",
                            directory, errno == ENOMEM ? "out of memory" : bgi_errno_text(errno, reason));
    status = read_names(folder, directory, out, error);
    closedir(folder);
    return status;
}

static void warn(const char *directory, const char *what, const char *name, const char *reason, bg_log_function log,
                 void *log_user)
{
    char text[2 * BG_ERROR_MESSAGE_BYTES];

    snprintf(text, sizeof text, "checkpoint: cannot %s %s in %s: %s; remove old files by hand", what, name, directory,
             reason);
    if (log != NULL)
        log(log_user, BG_LOG_WARNING, text);
}

static void remove_file(const char *directory, const char *name, bg_log_function log, void *log_user)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    char *path = bgi_path_join(directory, name);

    if (path == NULL)
        warn(directory, "remove", name, "out of memory", log, log_user);
    else if (unlink(path) != 0 && errno != ENOENT)
        warn(directory, "remove", name, bgi_errno_text(errno, reason), log, log_user);
    free(path);
}

/* Whether the folder's manifest of a step refers to parts with this tag; also true if the manifest cannot be read. */
static bool is_meant(const char *directory, uint64_t step, const char *tag)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    char *path = bgi_path_join(directory, bgi_checkpoint_name(step, name));
    bg_safetensors *file = NULL;
    const bg_status status = path != NULL ? bg_safetensors_open_header(path, &file, NULL) : BG_ERROR_MEMORY;
    const char *meant = status == BG_OK ? bg_safetensors_metadata_find(file, BGI_CHECKPOINT_TAG) : NULL;
    const bool is = status == BG_OK ? meant != NULL && strcmp(meant, tag) == 0 : status != BG_ERROR_NOT_FOUND;

    bg_safetensors_destroy(file);
    free(path);
    return is;
}

/* Returns the modification time of a checkpoint's file in seconds; 0 if it is unknown. */
static int64_t time_of(const char *directory, uint64_t step)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    char *path = bgi_path_join(directory, bgi_checkpoint_name(step, name));
    struct stat state;
    const int64_t time = path != NULL && stat(path, &state) == 0 ? (int64_t)state.st_mtime : 0;

    free(path);
    return time;
}

/* Removes the checkpoints list->steps[begin] and older ones. With an interval, keeps the oldest checkpoint, and each
 * later one that is at least the interval younger than the last one kept for this reason. Also keeps checkpoints that
 * `best` marks. */
static void remove_checkpoints(const char *directory, const bgi_checkpoint_list *list, size_t begin,
                               uint64_t keep_interval_s, const bool *best, bg_log_function log, void *log_user)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    int64_t kept = INT64_MIN / 2;

    for (size_t i = list->count; i-- > begin;) {
        const int64_t time = keep_interval_s > 0 ? time_of(directory, list->steps[i]) : 0;
        if (keep_interval_s > 0 && time - kept >= (int64_t)keep_interval_s)
            kept = time;
        else if (best == NULL || !best[i])
            remove_file(directory, bgi_checkpoint_name(list->steps[i], name), log, log_user);
    }
}

bool *bgi_checkpoint_best_of(const char *directory, const uint64_t *steps, size_t count, uint32_t keep_best)
{
    char **paths = calloc(count + 1, sizeof *paths), name[BGI_CHECKPOINT_NAME_BYTES];
    bool *best = NULL;
    size_t made = 0;

    while (paths != NULL && made < count &&
           (paths[made] = bgi_path_join(directory, bgi_checkpoint_name(steps[made], name))) != NULL)
        made++;
    if (paths != NULL && made == count)
        best = bgi_checkpoint_find_best(paths, count, keep_best);
    while (made > 0)
        free(paths[--made]);
    free(paths);
    return best;
}

/* Marks the best checkpoints: element 0 is that of `step`, the newest, and the others are those of the list from
 * `first` on. The caller frees the result, which is NULL when memory is exhausted. */
static bool *find_best(const char *directory, const bgi_checkpoint_list *list, size_t first, uint64_t step,
                       uint32_t keep_best)
{
    const size_t earlier = list->count - first;
    uint64_t *steps = malloc((earlier + 1) * sizeof *steps);
    bool *best = NULL;

    if (steps != NULL) {
        steps[0] = step;
        for (size_t i = 0; i < earlier; i++)
            steps[1 + i] = list->steps[first + i];
        best = bgi_checkpoint_best_of(directory, steps, 1 + earlier, keep_best);
    }
    free(steps);
    return best;
}

static void remove_listed(const char *directory, const bgi_checkpoint_list *list, uint64_t step,
                          const bg_checkpoint_save_options *options, bg_log_function log, void *log_user)
{
    const size_t first =
        list->count > 0 && list->steps[0] == step; /* 1 if the new checkpoint replaced the first one of the list */
    const size_t begin = (size_t)options->max_checkpoints - 1 + first;
    bool *best;

    if (options->keep_best == 0) {
        remove_checkpoints(directory, list, begin, options->keep_interval_s, NULL, log, log_user);
        return;
    }
    best = find_best(directory, list, first, step, options->keep_best);
    if (best == NULL)
        warn(directory, "remove", "older checkpoints", "out of memory", log, log_user);
    else /* best[1 - first] belongs to list->steps[0] */
        remove_checkpoints(directory, list, begin, options->keep_interval_s, best + 1 - first, log, log_user);
    free(best);
}

void bgi_checkpoint_remove_old(const char *directory, const bgi_checkpoint_list *list, uint64_t step,
                               const bg_checkpoint_save_options *options, bg_log_function log, void *log_user)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    const struct dirent *entry;
    DIR *folder;

    remove_listed(directory, list, step, options, log, log_user);
    folder = opendir(directory);
    if (folder == NULL)
        warn(directory, "find", "files of earlier saves", bgi_errno_text(errno, reason), log, log_user);
    while (folder != NULL && (errno = 0, entry = readdir(folder)) != NULL) {
        char tag[BGI_CHECKPOINT_TAG_BYTES];
        const char *rest;
        uint64_t found;
        if (parse_name(entry->d_name, &found, &rest) && strncmp(rest, temporary_end, sizeof temporary_end - 1) == 0 &&
            strlen(rest) == sizeof temporary_end - 1 + 6)
            remove_file(directory, entry->d_name, log, log_user);
        else if (parse_part(entry->d_name, &found, tag) && !is_meant(directory, found, tag))
            remove_file(directory, entry->d_name, log, log_user);
    }
    if (folder != NULL && errno != 0)
        warn(directory, "find", "files of earlier saves", bgi_errno_text(errno, reason), log, log_user);
    if (folder != NULL)
        closedir(folder);
}

/* Refuses a folder with a later checkpoint, which the next load would choose as the newest one. */
bg_status bgi_checkpoint_check_order(const char *directory, const bgi_checkpoint_list *list, uint64_t step,
                                     bg_error *error)
{
    char later[BGI_CHECKPOINT_NAME_BYTES];

    if (list->count > 0 && list->steps[0] > step)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: %s has `%s`, which is later than step %" PRIu64
                            " of this run; remove it, or save to another directory",
                            directory, bgi_checkpoint_name(list->steps[0], later), step);
    return BG_OK;
}

/*
 * folder.c: which checkpoints a folder has, and which of them go. Knows names, no contents.
 *
 * A checkpoint gets its name when it is complete (core/file.h), so what has the name counts. A process that is killed
 * while it writes leaves "NAME.tmp-" and six letters: such files go with the old ones.
 */
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* True for a checkpoint's name; *rest is what follows it. */
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

    snprintf(text, sizeof text, "checkpoint: cannot %s %s from %s: %s; remove it by hand", what, name, directory,
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

void bgi_checkpoint_remove_old(const char *directory, const bgi_checkpoint_list *list, size_t begin,
                               bg_log_function log, void *log_user)
{
    char name[BGI_CHECKPOINT_NAME_BYTES], reason[BGI_ERRNO_TEXT_BYTES];
    const struct dirent *entry;
    DIR *folder;

    for (size_t i = begin; i < list->count; i++)
        remove_file(directory, bgi_checkpoint_name(list->steps[i], name), log, log_user);
    folder = opendir(directory);
    if (folder == NULL)
        warn(directory, "find", "temporary files", bgi_errno_text(errno, reason), log, log_user);
    while (folder != NULL && (errno = 0, entry = readdir(folder)) != NULL) {
        const char *rest;
        uint64_t step;
        if (parse_name(entry->d_name, &step, &rest) && strncmp(rest, temporary_end, sizeof temporary_end - 1) == 0 &&
            strlen(rest) == sizeof temporary_end - 1 + 6)
            remove_file(directory, entry->d_name, log, log_user);
    }
    if (folder != NULL && errno != 0)
        warn(directory, "find", "temporary files", bgi_errno_text(errno, reason), log, log_user);
    if (folder != NULL)
        closedir(folder);
}

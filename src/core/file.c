/*
 * file.c: atomic writing and bounded reading of files. Knows no formats.
 */
#define _XOPEN_SOURCE 700 /* realpath */

#include "core/file.h"

#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *bgi_errno_text(int error_number, char text[BGI_ERRNO_TEXT_BYTES])
{
    if (strerror_r(error_number, text, BGI_ERRNO_TEXT_BYTES) != 0)
        snprintf(text, BGI_ERRNO_TEXT_BYTES, "system error %d", error_number);
    return text;
}

static bg_status fail_io(bg_error *error, const char *path, const char *action, int error_number)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, error_number == ENOENT ? BG_ERROR_NOT_FOUND : BG_ERROR_IO, "%s: cannot %s: %s", path,
                        action, bgi_errno_text(error_number, reason));
}

static bg_status refuse_kind(bg_error *error, const char *path, mode_t mode)
{
    const char *kind = S_ISDIR(mode)                    ? "a folder"
                       : S_ISFIFO(mode)                 ? "a pipe"
                       : S_ISSOCK(mode)                 ? "a socket"
                       : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                        : "something else";

    return bg_error_set(error, BG_ERROR_IO, "%s: is %s, not a file", path, kind);
}

char *bgi_path_join(const char *folder, const char *name)
{
    const size_t folder_bytes = strlen(folder), name_bytes = strlen(name);
    const bool needs_slash = folder_bytes > 0 && folder[folder_bytes - 1] != '/';
    char *path = malloc(folder_bytes + name_bytes + 2);

    if (path == NULL)
        return NULL;
    memcpy(path, folder, folder_bytes);
    if (needs_slash)
        path[folder_bytes] = '/';
    memcpy(path + folder_bytes + needs_slash, name, name_bytes + 1);
    return path;
}

bool bgi_file_exists(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Where a file would come to lie that does not exist yet: its folder without links, and its name. */
static char *find_place(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *real = folder != NULL ? realpath(folder, NULL) : NULL;
    char *place = real != NULL ? bgi_path_join(real, slash == NULL ? path : slash + 1) : NULL;

    free(folder);
    free(real);
    return place;
}

bool bgi_file_is_same(const char *a, const char *b)
{
    struct stat about_a, about_b;
    const bool has_a = stat(a, &about_a) == 0, has_b = stat(b, &about_b) == 0;
    char *place_a, *place_b;
    bool is_same;

    if (has_a && has_b)
        return about_a.st_dev == about_b.st_dev && about_a.st_ino == about_b.st_ino;
    if (has_a || has_b)
        return false;
    place_a = find_place(a);
    place_b = find_place(b);
    is_same = place_a != NULL && place_b != NULL && strcmp(place_a, place_b) == 0;
    free(place_a);
    free(place_b);
    return is_same;
}

bg_status bgi_folder_create(const char *path, bg_error *error)
{
    struct stat about;
    char *partial = strdup(path);
    bg_status status = BG_OK;

    if (partial == NULL)
        return bgi_error_memory(error, "a path", strlen(path) + 1);
    for (size_t i = 1; i <= strlen(path) && status == BG_OK; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        partial[i] = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST)
            status = fail_io(error, partial, "create the folder", errno);
        partial[i] = path[i];
    }
    free(partial);
    if (status == BG_OK && (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)))
        status = bg_error_set(error, BG_ERROR_IO, "%s: is not a folder", path);
    return status;
}

bg_status bgi_folder_hold(const char *path, int *out, bg_error *error)
{
    bool is_taken;

    *out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out < 0)
        return fail_io(error, path, "open the folder", errno);
    if (flock(*out, LOCK_EX | LOCK_NB) == 0)
        return BG_OK;
    is_taken = errno == EWOULDBLOCK;
    bgi_folder_release(out);
    if (!is_taken)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s: another run writes there; wait for its end or name another folder", path);
}

void bgi_folder_release(int *held)
{
    if (*held >= 0)
        close(*held);
    *held = -1;
}

/* ---- writing ---- */

/* A rename is on disk only once its folder is. Some file systems cannot sync folders; the rename still holds then. */
static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder;
    int descriptor;

    if (slash == NULL)
        folder = strdup(".");
    else
        folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (folder == NULL)
        return;
    descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (descriptor < 0)
        return;
    (void)fsync(descriptor);
    close(descriptor);
}

static void free_paths(bgi_file_writer *writer)
{
    free(writer->path);
    free(writer->temporary_path);
    memset(writer, 0, sizeof *writer);
}

/* mkstemp gives mode 0600; a file written for keeps should have the mode that open() would have given it. */
static int create_like_open(char *temporary_path)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const size_t length = strlen(temporary_path);
    struct timespec now = {0};
    uint64_t state;
    int descriptor = -1;

    timespec_get(&now, TIME_UTC);
    state = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 30) ^ ((uint64_t)getpid() << 44);
    for (int attempt = 0; attempt < 100 && descriptor < 0; attempt++) {
        for (size_t i = length - 6; i < length; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            temporary_path[i] = letters[(state >> 33) % (sizeof letters - 1)];
        }
        descriptor = open(temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    return descriptor;
}

/* A rename would put a file in the place of a device or of a link: the first is refused, the second followed.
 * *out_mode: the permissions of the file that is there, 0 when there is none. */
static bg_status resolve_target(const char *path, char **out_path, mode_t *out_mode, bg_error *error)
{
    struct stat about;

    *out_mode = 0;
    if (lstat(path, &about) != 0) {
        *out_path = strdup(path);
        return *out_path != NULL ? BG_OK : bgi_error_memory(error, "a path", strlen(path));
    }
    if (S_ISLNK(about.st_mode)) {
        *out_path = realpath(path, NULL);
        if (*out_path == NULL || stat(*out_path, &about) != 0) {
            free(*out_path);
            *out_path = NULL;
            return fail_io(error, path, "follow the link", errno);
        }
    } else {
        *out_path = strdup(path);
    }
    if (*out_path == NULL)
        return bgi_error_memory(error, "a path", strlen(path));
    if (!S_ISREG(about.st_mode)) {
        free(*out_path);
        *out_path = NULL;
        return refuse_kind(error, path, about.st_mode);
    }
    *out_mode = about.st_mode & 0777;
    return BG_OK;
}

bg_status bgi_file_writer_begin(bgi_file_writer *writer, const char *path, bg_error *error)
{
    static const char suffix[] = ".tmp-______";
    size_t path_bytes;
    int descriptor, kept_errno;
    mode_t mode;

    memset(writer, 0, sizeof *writer);
    BGI_TRY(resolve_target(path, &writer->path, &mode, error));
    path_bytes = strlen(writer->path);
    writer->temporary_path = malloc(path_bytes + sizeof suffix);
    if (writer->temporary_path == NULL) {
        free_paths(writer);
        return bgi_error_memory(error, "a path", path_bytes + sizeof suffix);
    }
    memcpy(writer->temporary_path, writer->path, path_bytes);
    memcpy(writer->temporary_path + path_bytes, suffix, sizeof suffix);
    descriptor = create_like_open(writer->temporary_path);
    if (descriptor >= 0) {
        /* Where permissions cannot be set (some network file systems), the content still counts. */
        if (mode != 0)
            (void)fchmod(descriptor, mode);
        writer->stream = fdopen(descriptor, "wb");
        if (writer->stream != NULL)
            return BG_OK;
        kept_errno = errno;
        close(descriptor);
        unlink(writer->temporary_path);
    } else {
        kept_errno = errno;
    }
    free_paths(writer);
    fail_io(error, path, "create a file there", kept_errno);
    return kept_errno == ENOENT ? BG_ERROR_NOT_FOUND : BG_ERROR_IO;
}

void bgi_file_write(bgi_file_writer *writer, const void *data, size_t size_bytes)
{
    if (writer->first_errno != 0 || size_bytes == 0)
        return;
    errno = 0;
    if (fwrite(data, 1, size_bytes, writer->stream) != size_bytes)
        writer->first_errno = errno != 0 ? errno : EIO;
}

bg_status bgi_file_writer_commit(bgi_file_writer *writer, bg_error *error)
{
    bg_status status = BG_OK;
    int problem = writer->first_errno;

    if (problem == 0 && ferror(writer->stream))
        problem = EIO;
    if (problem == 0 && fflush(writer->stream) != 0)
        problem = errno;
    if (problem == 0 && fsync(fileno(writer->stream)) != 0)
        problem = errno;
    if (fclose(writer->stream) != 0 && problem == 0)
        problem = errno;
    writer->stream = NULL;
    if (problem == 0 && rename(writer->temporary_path, writer->path) != 0)
        problem = errno;
    if (problem != 0) {
        unlink(writer->temporary_path);
        status = fail_io(error, writer->path, "write", problem);
    } else {
        sync_folder_of(writer->path);
    }
    free_paths(writer);
    return status;
}

void bgi_file_writer_abandon(bgi_file_writer *writer)
{
    if (writer->stream != NULL) {
        fclose(writer->stream);
        unlink(writer->temporary_path);
    }
    free_paths(writer);
}

bg_status bgi_file_save(const char *path, const void *data, size_t size_bytes, bg_error *error)
{
    bgi_file_writer writer = {0};

    BGI_TRY(bgi_file_writer_begin(&writer, path, error));
    bgi_file_write(&writer, data, size_bytes);
    return bgi_file_writer_commit(&writer, error);
}

/* ---- reading ---- */

bg_status bgi_file_open(const char *path, FILE **out_stream, bg_error *error)
{
    struct stat about;
    FILE *stream;

    /* fopen succeeds on a folder, and waits for somebody who writes into a pipe. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return refuse_kind(error, path, about.st_mode);
    stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_io(error, path, "open", errno);
    *out_stream = stream;
    return BG_OK;
}

/* Reads to the end or to one byte more than the limit. Sizes from stat are only a first guess: files may grow. */
static bg_status read_stream(FILE *stream, const char *path, size_t limit_bytes, char **data, size_t *size_bytes,
                             bg_error *error)
{
    size_t capacity = 0, size = 0;
    struct stat about;

    if (fstat(fileno(stream), &about) == 0 && about.st_size > 0 && (uintmax_t)about.st_size <= limit_bytes)
        capacity = (size_t)about.st_size + 2;
    if (capacity < 4096)
        capacity = 4096;
    *data = malloc(capacity);
    if (*data == NULL)
        return bgi_error_memory(error, path, capacity);
    for (;;) {
        errno = 0;
        size += fread(*data + size, 1, capacity - 1 - size, stream);
        if (ferror(stream))
            return fail_io(error, path, "read", errno != 0 ? errno : EIO);
        if (size > limit_bytes)
            return bg_error_set(error, BG_ERROR_INVALID, "%s: is longer than the limit of %zu bytes", path,
                                limit_bytes);
        if (size < capacity - 1)
            break;
        char *grown = capacity > SIZE_MAX / 2 ? NULL : realloc(*data, 2 * capacity);
        if (grown == NULL)
            return bgi_error_memory(error, path, 2 * capacity);
        *data = grown;
        capacity *= 2;
    }
    (*data)[size] = '\0';
    *size_bytes = size;
    return BG_OK;
}

bg_status bgi_file_load(const char *path, size_t limit_bytes, char **out_data, size_t *out_size_bytes, bg_error *error)
{
    FILE *stream = NULL;
    char *data = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_open(path, &stream, error));
    status = read_stream(stream, path, limit_bytes, &data, &size_bytes, error);
    fclose(stream);
    if (status != BG_OK) {
        free(data);
        return status;
    }
    *out_data = data;
    *out_size_bytes = size_bytes;
    return BG_OK;
}

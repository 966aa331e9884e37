/*
 * file.c: writes files atomically and reads them up to a limit. It does not interpret their content.
 */
#define _XOPEN_SOURCE 700 /* realpath */

#include "core/file.h"

#include "core/error.h"
#include "core/write_back.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
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

    if (error_number == ENOMEM)
        return bg_error_set(error, BG_ERROR_MEMORY, "%s: cannot %s: out of memory", path, action);
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

/* Finds the location of a file that does not exist yet: its folder with links resolved, and its name. */
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

bg_status bgi_folder_is_empty(const char *path, bool *out, bg_error *error)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool is_empty = true;

    if (folder == NULL)
        return fail_io(error, path, "open the folder", errno);
    errno = 0;
    while (is_empty && (entry = readdir(folder)) != NULL)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (is_empty && errno != 0) {
        const int reason = errno;
        closedir(folder);
        return fail_io(error, path, "read the folder", reason);
    }
    closedir(folder);
    *out = is_empty;
    return BG_OK;
}

bg_status bgi_folder_lock(const char *path, int *out, bg_error *error)
{
    int problem;

    *out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out < 0)
        return fail_io(error, path, "open the folder", errno);
    do
        problem = flock(*out, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    while (problem == EINTR);
    if (problem == 0)
        return BG_OK;
    bgi_folder_release(out);
    /* These errors mean that the file system has no locks, as with some network file systems. */
    if (problem == EOPNOTSUPP || problem == ENOSYS || problem == ENOLCK || problem == EINVAL)
        return BG_OK;
    if (problem != EWOULDBLOCK)
        return fail_io(error, path, "lock the folder", problem);
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

enum { BUFFER_BYTES = 1 << 16, STRETCH_BYTES = 16 << 20 };

/* Flushes the folder of a path, without which a rename is not on the disk. Returns 0 or the error number. The function
 * cuts the path in place and restores it, because there may be no memory for a copy. */
static int sync_folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    char *end = slash != NULL ? slash + (slash == path) : path + strlen(path);
    const char cut = *end;
    int descriptor, problem = 0;

    *end = '\0';
    descriptor = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        problem = errno;
    *end = cut;
    /* A folder that is writable but not readable cannot be flushed; the rename is valid anyway. */
    if (descriptor < 0)
        return problem == EACCES ? 0 : problem;
    /* EINVAL: the file system does not support flushing folders. */
    if (fsync(descriptor) != 0 && errno != EINVAL)
        problem = errno;
    close(descriptor);
    return problem;
}

static void end_writer(bgi_file_writer *writer)
{
    free(writer->path);
    free(writer->temporary_path);
    free(writer->buffer);
    memset(writer, 0, sizeof *writer);
}

/* Creates a temporary file with the mode that open() gives to new files; mkstemp would create mode 0600. */
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

/* Finds the file to replace. A rename would replace a device or a link, so devices are refused and links are followed.
 * Sets *out_mode to the permissions of the existing file, or to 0. */
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
    mode_t mode;

    memset(writer, 0, sizeof *writer);
    BGI_TRY(resolve_target(path, &writer->path, &mode, error));
    path_bytes = strlen(writer->path);
    writer->temporary_path = malloc(path_bytes + sizeof suffix);
    writer->buffer = malloc(BUFFER_BYTES);
    if (writer->temporary_path == NULL || writer->buffer == NULL) {
        end_writer(writer);
        return bgi_error_memory(error, path, path_bytes + sizeof suffix + BUFFER_BYTES);
    }
    memcpy(writer->temporary_path, writer->path, path_bytes);
    memcpy(writer->temporary_path + path_bytes, suffix, sizeof suffix);
    writer->descriptor = create_like_open(writer->temporary_path);
    if (writer->descriptor < 0) {
        const int problem = errno;
        end_writer(writer);
        return fail_io(error, path, "create a file there", problem);
    }
    /* If permissions cannot be set (on some network file systems), the content is written anyway. */
    if (mode != 0)
        (void)fchmod(writer->descriptor, mode);
    return BG_OK;
}

/* Writes to the file, not to the buffer. For a large file the disk starts writing each part immediately, so that it is
 * always busy. */
static void write_through(bgi_file_writer *writer, const unsigned char *data, size_t size_bytes)
{
    while (size_bytes > 0 && writer->first_errno == 0) {
        const ssize_t written =
            write(writer->descriptor, data, size_bytes < STRETCH_BYTES ? size_bytes : STRETCH_BYTES);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            writer->first_errno = written < 0 ? errno : EIO;
            return;
        }
        data += written;
        size_bytes -= (size_t)written;
        writer->unsent_bytes += (size_t)written;
        writer->written_bytes += (size_t)written;
        if (writer->unsent_bytes >= STRETCH_BYTES) {
            bgi_begin_write_back(writer->descriptor);
            writer->unsent_bytes = 0;
        }
    }
}

static void empty_buffer(bgi_file_writer *writer)
{
    write_through(writer, writer->buffer, writer->buffered);
    writer->buffered = 0;
}

void bgi_file_write(bgi_file_writer *writer, const void *data, size_t size_bytes)
{
    if (size_bytes > BUFFER_BYTES - writer->buffered)
        empty_buffer(writer);
    if (size_bytes >= BUFFER_BYTES) {
        write_through(writer, data, size_bytes);
    } else if (size_bytes > 0) {
        memcpy(writer->buffer + writer->buffered, data, size_bytes);
        writer->buffered += size_bytes;
    }
}

void bgi_file_print(bgi_file_writer *writer, const char *format, ...)
{
    char *const at = (char *)writer->buffer + writer->buffered;
    const size_t room = BUFFER_BYTES - writer->buffered;
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(at, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room) {
        writer->buffered += (size_t)length;
        return;
    }
    text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (text == NULL) {
        if (writer->first_errno == 0)
            writer->first_errno = ENOMEM;
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    bgi_file_write(writer, text, (size_t)length);
    free(text);
}

static void flush_writer(bgi_file_writer *writer)
{
    empty_buffer(writer);
    if (writer->first_errno == 0 && fsync(writer->descriptor) != 0)
        writer->first_errno = errno;
}

static bg_status fail_write(const bgi_file_writer *writer, bg_error *error)
{
    if (writer->first_errno == ENOMEM)
        return bgi_error_memory(error, writer->path, BUFFER_BYTES);
    return fail_io(error, writer->path, "write", writer->first_errno);
}

void bgi_file_writer_restart(bgi_file_writer *writer)
{
    empty_buffer(writer);
    if (writer->first_errno == 0 && lseek(writer->descriptor, 0, SEEK_SET) != 0)
        writer->first_errno = errno;
}

bg_status bgi_file_writer_send(bgi_file_writer *writer, bg_error *error)
{
    empty_buffer(writer);
    bgi_begin_write_back(writer->descriptor);
    return writer->first_errno == 0 ? BG_OK : fail_write(writer, error);
}

/* Removes the temporary file. If this fails and `error` has an error, adds to it that the file remains. */
static void remove_temporary(const bgi_file_writer *writer, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    if (unlink(writer->temporary_path) == 0 || errno == ENOENT || error == NULL || error->status == BG_OK)
        return;
    bg_error_context(error, error->status, "%s was not removed: %s", writer->temporary_path,
                     bgi_errno_text(errno, reason));
}

bg_status bgi_file_writer_commit(bgi_file_writer *writer, bg_error *error)
{
    bg_status status = BG_OK;
    bool is_gone = false;
    int problem;

    flush_writer(writer);
    /* Some file systems report only here that the disk is full. */
    if (close(writer->descriptor) != 0 && errno != EINTR && writer->first_errno == 0)
        writer->first_errno = errno;
    if (writer->first_errno == 0 && rename(writer->temporary_path, writer->path) != 0) {
        writer->first_errno = errno;
        is_gone = errno == ENOENT;
    }
    if (writer->first_errno != 0) {
        status = is_gone
                     ? bg_error_set(error, BG_ERROR_IO,
                                    "%s: the temporary file %s disappeared before it was complete; another process may "
                                    "be writing to this folder",
                                    writer->path, writer->temporary_path)
                     : fail_write(writer, error);
        remove_temporary(writer, error);
    } else if ((problem = sync_folder_of(writer->path)) != 0) {
        status = fail_io(error, writer->path, "flush the folder, so a power failure may undo the write", problem);
    }
    end_writer(writer);
    return status;
}

void bgi_file_writer_abandon(bgi_file_writer *writer, bg_error *error)
{
    if (writer->buffer != NULL) {
        close(writer->descriptor);
        remove_temporary(writer, error);
    }
    end_writer(writer);
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

    /* fopen succeeds for a folder, and for a pipe it waits for a writer. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return refuse_kind(error, path, about.st_mode);
    stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_io(error, path, "open", errno);
    *out_stream = stream;
    return BG_OK;
}

/* Reads up to the end, or to one byte more than the limit. The size from stat is only a first guess, because files may
 * grow. */
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

/*
 * mapped_store.c: maps a remote store in a file.
 *
 *     | 4096 bytes: which store of which files, with a checksum | the store, as the device's program finds it |
 *
 * A file is accepted if its first page and its length are as expected. The store itself cannot be checked, because
 * computations change it in place.
 */
#include "device/mapped_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/crc64.h"
#include "core/error.h"
#include "core/file.h"

enum { VERSION = 1, BYTE_ORDER_MARK = 0x01020304, MAGIC_BYTES = 16 };
static const char magic[MAGIC_BYTES] = "brigade store\r\n";

/* Linux has locks that belong to an open file instead of a process, so that two sessions of one process exclude each
 * other too. These locks last as long as a mapping of the file. POSIX has adopted them since. The number 37 is part of
 * the kernel's interface. */
#if defined(F_OFD_SETLK)
enum { LOCK_OF_FILE = F_OFD_SETLK };
#elif defined(__linux__)
enum { LOCK_OF_FILE = 37 };
#else
enum { LOCK_OF_FILE = F_SETLK };
#endif

/* The first bytes of a store; zeros up to BGI_MAPPED_STORE_HEADER_BYTES follow. */
typedef struct header {
    char magic[MAGIC_BYTES];
    uint32_t version, byte_order;
    uint64_t identity, id;
    uint64_t store_bytes; /* bytes of the store without its first page */
    uint32_t replica, device;
    uint64_t checksum; /* CRC-64 of the fields before it */
} header;

void bgi_mapped_store_name(uint32_t replica, uint32_t device, char name[BGI_MAPPED_STORE_NAME_BYTES])
{
    snprintf(name, BGI_MAPPED_STORE_NAME_BYTES, "replica%" PRIu32 ".device%" PRIu32 ".store", replica, device);
}

bg_status bgi_mapped_store_fail(bg_error *error, const char *path, const char *what)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_IO, "memmap_dir: %s %s: %s", path, what, bgi_errno_text(errno, reason));
}

static bool try_lock(int file, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    if (fcntl(file, LOCK_OF_FILE, &lock) == 0)
        return true;
    return errno == EINVAL && fcntl(file, F_SETLK, &lock) == 0;
}

bg_status bgi_mapped_store_lock(int file, const char *path, const char *what, bool is_shared, bg_error *error)
{
    if (try_lock(file, is_shared ? F_RDLCK : F_WRLCK))
        return BG_OK;
    if (errno != EAGAIN && errno != EACCES)
        return bgi_mapped_store_fail(error, path, "cannot be locked");
    return bg_error_set(error, BG_ERROR_INVALID,
                        "memmap_dir %s is in use by another session, here or in another process; wait for its end or "
                        "use another directory",
                        what);
}

static void describe(const bgi_mapped_store *s, uint64_t identity, uint64_t id, header *out)
{
    bgi_crc64 crc;

    memset(out, 0, sizeof *out);
    memcpy(out->magic, magic, sizeof magic);
    out->version = VERSION;
    out->byte_order = BYTE_ORDER_MARK;
    out->identity = identity;
    out->id = id;
    out->store_bytes = s->store_bytes;
    out->replica = s->replica;
    out->device = s->device;
    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, out, offsetof(header, checksum));
    out->checksum = bgi_crc64_value(&crc);
}

static bool header_is_whole(const header *found)
{
    bgi_crc64 crc;

    bgi_crc64_init(&crc);
    bgi_crc64_add(&crc, found, offsetof(header, checksum));
    return bgi_crc64_value(&crc) == found->checksum;
}

/* Returns why a store does not belong to the index, or NULL if it does. */
static const char *find_fault(const header *found, const header *expected)
{
    if (memcmp(found->magic, magic, sizeof magic) != 0)
        return "is not a remote store of Brigade";
    if (found->byte_order != BYTE_ORDER_MARK)
        return "was written by a machine with another byte order, or is damaged";
    if (!header_is_whole(found))
        return "is damaged: the checksum of its first page is wrong";
    if (found->version != VERSION)
        return "has another version of the format, because another release of Brigade wrote it";
    if (found->identity != expected->identity || found->store_bytes != expected->store_bytes)
        return "was made for another plan (model, devices or strategy)";
    if (found->id != expected->id || found->replica != expected->replica || found->device != expected->device)
        return "does not belong to the index in the same directory, because it was copied or renamed";
    return NULL;
}

static bg_status fail_store(bg_error *error, const bgi_mapped_store *s, const char *fault)
{
    return bg_error_set(error, BG_ERROR_PARSE,
                        "memmap_dir: %s %s; it is not used: resume with the same plan, load a checkpoint into new "
                        "files, or use another directory",
                        s->path, fault);
}

/* Maps a store that is open and long enough. The store stays locked as long as it is mapped. */
static bg_status map_store(bgi_mapped_store *s, int file, bool is_private, bg_error *error)
{
    void *mapping = mmap(NULL, BGI_MAPPED_STORE_HEADER_BYTES + s->store_bytes, PROT_READ | PROT_WRITE,
                         is_private ? MAP_PRIVATE : MAP_SHARED, file, 0);

    if (mapping == MAP_FAILED)
        return bgi_mapped_store_fail(error, s->path, "cannot be mapped");
    s->mapping = mapping;
    return BG_OK;
}

static bg_status check_store(const bgi_mapped_store *s, int file, const header *expected, bg_error *error)
{
    header found;
    struct stat facts;
    const char *fault;

    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))
        return fail_store(error, s, "is not a regular file");
    if (facts.st_size < (off_t)sizeof found || pread(file, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return fail_store(error, s, "is truncated");
    fault = find_fault(&found, expected);
    if (fault != NULL)
        return fail_store(error, s, fault);
    if ((uint64_t)facts.st_size != BGI_MAPPED_STORE_HEADER_BYTES + (uint64_t)s->store_bytes) {
        char text[128];
        snprintf(text, sizeof text, "is truncated: it has %lld bytes but must have %llu", (long long)facts.st_size,
                 (unsigned long long)BGI_MAPPED_STORE_HEADER_BYTES + s->store_bytes);
        return fail_store(error, s, text);
    }
    return BG_OK;
}

bg_status bgi_mapped_store_open(bgi_mapped_store *s, uint64_t identity, uint64_t id, bool is_private, bg_error *error)
{
    const int file = open(s->path, (is_private ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    bg_status status;
    header expected;

    if (file < 0 && errno == ENOENT)
        return fail_store(error, s, "is missing");
    if (file < 0)
        return bgi_mapped_store_fail(error, s->path, "cannot be opened");
    describe(s, identity, id, &expected);
    status = check_store(s, file, &expected, error);
    if (status == BG_OK)
        status = bgi_mapped_store_lock(file, s->path, s->path, is_private, error);
    if (status == BG_OK)
        status = map_store(s, file, is_private, error);
    close(file); /* the mapping keeps the file open */
    return status;
}

static bg_status fail_space(bg_error *error, const bgi_mapped_store *s, int reason)
{
    char text[BGI_ERRNO_TEXT_BYTES];
    struct statvfs facts;
    double free_bytes = 0.0;

    if (statvfs(s->path, &facts) == 0)
        free_bytes = (double)facts.f_bavail * (double)facts.f_frsize;
    return bg_error_set(
        error, BG_ERROR_IO,
        "memmap_dir: %s needs %.3f MB, but only %.3f MB are free there: %s; free some, or use another directory",
        s->path, ((double)s->store_bytes + BGI_MAPPED_STORE_HEADER_BYTES) * 1e-6, free_bytes * 1e-6,
        bgi_errno_text(reason, text));
}

bg_status bgi_mapped_store_make(bgi_mapped_store *s, uint64_t identity, uint64_t id, bg_error *error)
{
    const int file = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bg_status status = BG_OK;
    header first;
    int reason;

    if (file < 0)
        return bgi_mapped_store_fail(error, s->path, "cannot be created");
    s->is_ours = true;
    describe(s, identity, id, &first);
    status = bgi_mapped_store_lock(file, s->path, s->path, false, error);
    reason = status == BG_OK ? posix_fallocate(file, 0, (off_t)(BGI_MAPPED_STORE_HEADER_BYTES + s->store_bytes)) : 0;
    if (reason != 0)
        status = fail_space(error, s, reason);
    else if (status == BG_OK && pwrite(file, &first, sizeof first, 0) != (ssize_t)sizeof first)
        status = bgi_mapped_store_fail(error, s->path, "cannot be written");
    if (status == BG_OK)
        status = map_store(s, file, false, error);
    close(file);
    return status;
}

/* Whether an open file is a store, complete or not. */
static bool is_some(int file)
{
    char found[MAGIC_BYTES] = {0};
    struct stat facts = {0};
    const ssize_t count = fstat(file, &facts) == 0 ? pread(file, found, sizeof found, 0) : -1;

    /* A file without content is the beginning of a store whose creation was interrupted. */
    return count == 0 || (count == MAGIC_BYTES && (memcmp(found, magic, sizeof magic) == 0 || found[0] == '\0'));
}

bg_status bgi_mapped_store_remove(const bgi_mapped_store *s, bool only_looks, bg_error *error)
{
    int file;
    bg_status status = BG_OK;

    if (access(s->path, F_OK) != 0)
        return BG_OK;
    file = open(s->path, O_RDWR | O_CLOEXEC);
    if (file < 0 || !is_some(file))
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "memmap_dir: %s is not a remote store of Brigade, so it is not overwritten; use another "
                              "directory",
                              s->path);
    if (status == BG_OK)
        status = bgi_mapped_store_lock(file, s->path, s->path, false, error);
    if (status == BG_OK && !only_looks && unlink(s->path) != 0 && errno != ENOENT)
        status = bgi_mapped_store_fail(error, s->path, "cannot be removed");
    if (file >= 0)
        close(file);
    return status;
}

void bgi_mapped_store_unmap(bgi_mapped_store *s)
{
    if (s->mapping != NULL)
        munmap(s->mapping, BGI_MAPPED_STORE_HEADER_BYTES + s->store_bytes);
    s->mapping = NULL;
}

bg_status bgi_mapped_store_flush(const bgi_mapped_store *s, bg_error *error)
{
    if (s->mapping != NULL && msync(s->mapping, BGI_MAPPED_STORE_HEADER_BYTES + s->store_bytes, MS_SYNC) != 0)
        return bgi_mapped_store_fail(error, s->path, "cannot be written to the disk");
    return BG_OK;
}

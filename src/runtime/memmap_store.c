/*
 * memmap_store.c: one remote store as a file.
 *
 *     | 4096 bytes: which store of which files, with a checksum | the store, as the device's program finds it |
 *
 * A file is believed when its first page and its length are those that are expected; of the store itself nothing can be
 * known, since its bytes are the memory that is computed with.
 */
#include "runtime/memmap_store.h"

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

/* The first bytes of a store; zeros up to BGI_MEMMAP_HEADER_BYTES follow. */
typedef struct header {
    char magic[MAGIC_BYTES];
    uint32_t version, byte_order;
    uint64_t identity, id;
    uint64_t store_bytes; /* without this page */
    uint32_t replica, device;
    uint64_t checksum; /* CRC-64 of what stands before it */
} header;

void bgi_memmap_store_name(uint32_t replica, uint32_t device, char name[BGI_MEMMAP_NAME_BYTES])
{
    snprintf(name, BGI_MEMMAP_NAME_BYTES, "replica%" PRIu32 ".device%" PRIu32 ".store", replica, device);
}

bg_status bgi_memmap_fail(bg_error *error, const char *path, const char *what)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_IO, "memmap_dir: %s %s: %s", path, what, bgi_errno_text(errno, reason));
}

static void describe(const bgi_memmap_store *s, uint64_t identity, uint64_t id, header *out)
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

/* Why a store cannot be what the index speaks of; NULL: it is. */
static const char *find_fault(const header *found, const header *expected)
{
    if (memcmp(found->magic, magic, sizeof magic) != 0)
        return "is no remote store of Brigade";
    if (found->byte_order != BYTE_ORDER_MARK)
        return "was written by a machine of another byte order, or is damaged";
    if (!header_is_whole(found))
        return "is damaged: the checksum of its first page is wrong";
    if (found->version != VERSION)
        return "has another version of the format: another release of Brigade wrote it";
    if (found->identity != expected->identity || found->store_bytes != expected->store_bytes)
        return "was made for another plan (model, devices or strategy)";
    if (found->id != expected->id || found->replica != expected->replica || found->device != expected->device)
        return "is of other files than the index beside it: it was copied or renamed";
    return NULL;
}

static bg_status fail_store(bg_error *error, const bgi_memmap_store *s, const char *fault)
{
    return bg_error_set(
        error, BG_ERROR_PARSE,
        "memmap_dir: %s %s; it is not used: go on with the same plan, load a checkpoint into files that "
        "are made anew, or use another directory",
        s->path, fault);
}

/* Maps a store that is open and long enough. */
static bg_status map_store(bgi_memmap_store *s, int file, bool is_private, bg_error *error)
{
    void *mapping = mmap(NULL, BGI_MEMMAP_HEADER_BYTES + s->store_bytes, PROT_READ | PROT_WRITE,
                         is_private ? MAP_PRIVATE : MAP_SHARED, file, 0);

    if (mapping == MAP_FAILED)
        return bgi_memmap_fail(error, s->path, "cannot be mapped");
    s->mapping = mapping;
    return BG_OK;
}

static bg_status check_store(const bgi_memmap_store *s, int file, const header *expected, bg_error *error)
{
    header found;
    struct stat facts;
    const char *fault;

    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))
        return fail_store(error, s, "is no regular file");
    if (facts.st_size < (off_t)sizeof found || pread(file, &found, sizeof found, 0) != (ssize_t)sizeof found)
        return fail_store(error, s, "is truncated");
    fault = find_fault(&found, expected);
    if (fault != NULL)
        return fail_store(error, s, fault);
    if ((uint64_t)facts.st_size != BGI_MEMMAP_HEADER_BYTES + (uint64_t)s->store_bytes) {
        char text[128];
        snprintf(text, sizeof text, "is truncated: it has %lld bytes, expected %llu", (long long)facts.st_size,
                 (unsigned long long)BGI_MEMMAP_HEADER_BYTES + s->store_bytes);
        return fail_store(error, s, text);
    }
    return BG_OK;
}

bg_status bgi_memmap_store_open(bgi_memmap_store *s, uint64_t identity, uint64_t id, bool is_private, bg_error *error)
{
    const int file = open(s->path, (is_private ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    bg_status status;
    header expected;

    if (file < 0 && errno == ENOENT)
        return fail_store(error, s, "is missing");
    if (file < 0)
        return bgi_memmap_fail(error, s->path, "cannot be opened");
    describe(s, identity, id, &expected);
    status = check_store(s, file, &expected, error);
    if (status == BG_OK)
        status = map_store(s, file, is_private, error);
    close(file); /* the mapping keeps it */
    return status;
}

static bg_status fail_space(bg_error *error, const bgi_memmap_store *s, int reason)
{
    char text[BGI_ERRNO_TEXT_BYTES];
    struct statvfs facts;
    double free_bytes = 0.0;

    if (statvfs(s->path, &facts) == 0)
        free_bytes = (double)facts.f_bavail * (double)facts.f_frsize;
    return bg_error_set(error, BG_ERROR_IO,
                        "memmap_dir: %s needs %.3f MB, %.3f MB are free there: %s; free some, or use another directory",
                        s->path, ((double)s->store_bytes + BGI_MEMMAP_HEADER_BYTES) * 1e-6, free_bytes * 1e-6,
                        bgi_errno_text(reason, text));
}

bg_status bgi_memmap_store_make(bgi_memmap_store *s, uint64_t identity, uint64_t id, bg_error *error)
{
    const int file = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bg_status status = BG_OK;
    header first;
    int reason;

    if (file < 0)
        return bgi_memmap_fail(error, s->path, "cannot be made");
    s->is_ours = true;
    describe(s, identity, id, &first);
    reason = posix_fallocate(file, 0, (off_t)(BGI_MEMMAP_HEADER_BYTES + s->store_bytes));
    if (reason != 0)
        status = fail_space(error, s, reason);
    else if (pwrite(file, &first, sizeof first, 0) != (ssize_t)sizeof first)
        status = bgi_memmap_fail(error, s->path, "cannot be written");
    if (status == BG_OK)
        status = map_store(s, file, false, error);
    close(file);
    return status;
}

bool bgi_memmap_store_is_some(const char *path)
{
    char found[MAGIC_BYTES] = {0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts = {0};
    ssize_t count;

    if (file < 0)
        return false;
    count = fstat(file, &facts) == 0 ? pread(file, found, sizeof found, 0) : -1;
    close(file);
    /* One that nothing was written to yet is a beginning that ended early. */
    return count == 0 || (count == MAGIC_BYTES && (memcmp(found, magic, sizeof magic) == 0 || found[0] == '\0'));
}

void bgi_memmap_store_unmap(bgi_memmap_store *s)
{
    if (s->mapping != NULL)
        munmap(s->mapping, BGI_MEMMAP_HEADER_BYTES + s->store_bytes);
    s->mapping = NULL;
}

bg_status bgi_memmap_store_flush(const bgi_memmap_store *s, bg_error *error)
{
    if (s->mapping != NULL && msync(s->mapping, BGI_MEMMAP_HEADER_BYTES + s->store_bytes, MS_SYNC) != 0)
        return bgi_memmap_fail(error, s->path, "cannot be written to the disk");
    return BG_OK;
}

/*
 * doctor_measure.c: measures a folder's disk and messages between ranks as checkpoints and training use them, with
 * flushed files and messages through the transport.
 */
#define _GNU_SOURCE /* CPU_COUNT */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"

enum {
    PART_BYTES = 1 << 20,
    PARTS = 128,
    FLUSHES = 5,
    PINGS = 200,
    SMALL_BYTES = 8,
    LARGE_BYTES = 1 << 20,
    LARGE = 20
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- a disk ---- */

static bool write_parts(int file, unsigned char *part, int count)
{
    for (int i = 0; i < count; i++) {
        memcpy(part, &i, sizeof i);
        if (write(file, part, PART_BYTES) != PART_BYTES)
            return false;
    }
    return fsync(file) == 0;
}

/* Reads the file in parts. First asks the system to drop the file from its cache, so that the data come from the disk
 * if possible. */
static bool read_parts(int file, unsigned char *part)
{
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (lseek(file, 0, SEEK_SET) != 0)
        return false;
    for (int i = 0; i < PARTS; i++)
        if (read(file, part, PART_BYTES) != PART_BYTES)
            return false;
    return true;
}

static bool measure_file(int file, unsigned char *part, doctor_disk *out)
{
    double begin = now_s();

    if (!write_parts(file, part, PARTS))
        return false;
    out->write_bytes_per_s = (double)PARTS * PART_BYTES / (now_s() - begin);
    begin = now_s();
    if (!read_parts(file, part))
        return false;
    out->read_bytes_per_s = (double)PARTS * PART_BYTES / (now_s() - begin);
    begin = now_s();
    for (int i = 0; i < FLUSHES; i++)
        if (pwrite(file, part, 512, 512 * i) != 512 || fsync(file) != 0)
            return false;
    out->flush_ms = 1e3 * (now_s() - begin) / FLUSHES;
    return true;
}

bg_status doctor_measure_disk(const char *folder, doctor_disk *out, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    char *path = bgi_path_join(folder, "brigade-doctor-XXXXXX");
    unsigned char *part = malloc(PART_BYTES);
    struct statvfs space;
    bg_status status = BG_OK;
    int file = -1;

    *out = (doctor_disk){.folder = folder};
    if (path == NULL || part == NULL) {
        status = bgi_error_memory(error, "a file", PART_BYTES);
    } else {
        memset(part, 0x5a, PART_BYTES);
        if (statvfs(folder, &space) == 0)
            out->free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
        file = mkstemp(path);
        if (file < 0 || unlink(path) != 0 || !measure_file(file, part, out))
            status = bg_error_set(error, BG_ERROR_IO, "%s: a file of %d MB cannot be written and read: %s", folder,
                                  PARTS, bgi_errno_text(errno, reason));
    }
    if (file >= 0)
        close(file);
    free(path);
    free(part);
    return status;
}

/* ---- ranks ---- */

typedef struct lane {
    const bg_transport *transport;
    void *lane;
    unsigned char *out, *in;
} lane;

/* Waits until `count` operations are complete. */
static bg_status wait_for(const lane *l, uint32_t count, bg_error *error)
{
    while (count > 0) {
        void *done[2];
        uint32_t some = 0;
        BGI_TRY(l->transport->poll(l->transport->user, l->lane, done, 2, &some, error));
        count -= some < count ? some : count;
    }
    return BG_OK;
}

/* Sends a message to rank `other` and receives one of the same size. If `answers` is true, this rank receives first. */
static bg_status ping(const lane *l, uint32_t other, size_t size_bytes, bool answers, bg_error *error)
{
    const bg_transport *t = l->transport;
    char own[2];

    BGI_TRY(t->receive(t->user, l->lane, other, 0, l->in, size_bytes, &own[0], error));
    if (answers)
        BGI_TRY(wait_for(l, 1, error));
    BGI_TRY(t->send(t->user, l->lane, other, 0, l->out, size_bytes, &own[1], error));
    return wait_for(l, answers ? 1 : 2, error);
}

static bg_status measure_link(const lane *l, uint32_t other, doctor_link *out, bg_error *error)
{
    const bool answers = l->transport->rank != 0;
    const size_t large = l->transport->message_bytes < LARGE_BYTES ? l->transport->message_bytes : LARGE_BYTES;
    double begin;

    for (int i = 0; i < PINGS / 10; i++)
        BGI_TRY(ping(l, other, SMALL_BYTES, answers, error));
    begin = now_s();
    for (int i = 0; i < PINGS; i++)
        BGI_TRY(ping(l, other, SMALL_BYTES, answers, error));
    out->latency_us = 1e6 * (now_s() - begin) / PINGS / 2;
    BGI_TRY(ping(l, other, large, answers, error));
    begin = now_s();
    for (int i = 0; i < LARGE; i++)
        BGI_TRY(ping(l, other, large, answers, error));
    out->bytes_per_s = 2.0 * LARGE * (double)large / (now_s() - begin);
    return BG_OK;
}

static bool is_near(const bg_transport *t, uint32_t a, uint32_t b)
{
    return t->hosts == NULL || t->hosts[a] == t->hosts[b];
}

/* Each rank sends the set of processors that it may use to rank 0, which counts the processors of the ranks on its
 * host. */
static bg_status gather_processors(const lane *l, doctor_ranks *out, bg_error *error)
{
    const bg_transport *t = l->transport;
    cpu_set_t all, other;
    char own;

    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        CPU_ZERO(&all);
    if (t->rank != 0) {
        BGI_TRY(t->send(t->user, l->lane, 0, 1, &all, sizeof all, &own, error));
        return wait_for(l, 1, error);
    }
    for (uint32_t rank = 1; rank < t->rank_count; rank++) {
        BGI_TRY(t->receive(t->user, l->lane, rank, 1, &other, sizeof other, &own, error));
        BGI_TRY(wait_for(l, 1, error));
        if (is_near(t, 0, rank))
            CPU_OR(&all, &all, &other);
    }
    out->host_processors = (uint32_t)CPU_COUNT(&all);
    return BG_OK;
}

static bg_status measure_links(const lane *l, doctor_ranks *out, bg_error *error)
{
    const bg_transport *t = l->transport;
    doctor_link ignored;

    for (uint32_t other = 1; other < t->rank_count && other <= DOCTOR_MOST_RANKS; other++) {
        if (t->rank == other)
            BGI_TRY(measure_link(l, 0, &ignored, error));
        if (t->rank != 0)
            continue;
        out->links[out->link_count] = (doctor_link){.rank = other, .is_near = is_near(t, 0, other)};
        BGI_TRY(measure_link(l, other, &out->links[out->link_count++], error));
    }
    return BG_OK;
}

bg_status doctor_measure_ranks(const bg_transport *transport, doctor_ranks *out, bg_error *error)
{
    lane l = {.transport = transport, .out = calloc(1, LARGE_BYTES), .in = calloc(1, LARGE_BYTES)};
    bg_status status = BG_OK;

    *out = (doctor_ranks){
        .name = transport->name, .count = transport->rank_count, .takes_any_thread = transport->takes_any_thread};
    for (uint32_t i = 0; i < transport->rank_count; i++)
        out->on_host += is_near(transport, transport->rank, i);
    if (l.out == NULL || l.in == NULL)
        status = bgi_error_memory(error, "messages", LARGE_BYTES);
    if (status == BG_OK)
        status = transport->open(transport->user, &l.lane, error);
    if (status == BG_OK) {
        status = gather_processors(&l, out, error);
        if (status == BG_OK)
            status = measure_links(&l, out, error);
        transport->close(transport->user, l.lane);
    }
    free(l.out);
    free(l.in);
    return status;
}

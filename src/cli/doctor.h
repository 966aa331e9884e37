/*
 * doctor.h: declares facts about the machine and measurements, from which `brigade doctor` derives its findings.
 */
#ifndef BGI_CLI_DOCTOR_H
#define BGI_CLI_DOCTOR_H

#include <brigade/transport.h>

enum { DOCTOR_TEXT_BYTES = 256, DOCTOR_MOST_CACHES = 8, DOCTOR_MOST_FINDINGS = 32, DOCTOR_MOST_RANKS = 64 };

/* Facts about the machine; a value is 0 if the system does not report it. */
typedef struct doctor_machine {
    char processor[DOCTOR_TEXT_BYTES], sets[DOCTOR_TEXT_BYTES], huge_pages[DOCTOR_TEXT_BYTES], governor[64];
    uint32_t online, allowed; /* processors */
    double quota;             /* number of processors that a control group grants */
    uint64_t memory_bytes, available_bytes, swap_used_bytes, memory_limit_bytes;
    struct {
        char name[16];
        uint64_t bytes;
    } caches[DOCTOR_MOST_CACHES];
    uint32_t cache_count;
    double load;                                                /* average number of running tasks in the last minute */
    uint64_t file_limit, address_limit, lock_limit, size_limit; /* UINT64_MAX: no limit */
} doctor_machine;

/* The link between rank 0 and another rank. */
typedef struct doctor_link {
    uint32_t rank;
    bool is_near; /* both ranks are on one host */
    double latency_us, bytes_per_s;
} doctor_link;

typedef struct doctor_disk {
    const char *folder;
    double write_bytes_per_s, read_bytes_per_s, flush_ms;
    uint64_t free_bytes;
} doctor_disk;

typedef struct doctor_ranks {
    const char *name;
    uint32_t count, on_host,
        host_processors; /* host_processors: number of processors that any rank of this host may use */
    bool takes_any_thread;
    doctor_link links[DOCTOR_MOST_RANKS];
    uint32_t link_count;
} doctor_ranks;

/* Reads facts about the machine (doctor_machine.c). */
void doctor_look(doctor_machine *out);
/* Measures the disk of a folder (doctor_measure.c). */
bg_status doctor_measure_disk(const char *folder, doctor_disk *out, bg_error *error);
/* Measures messages between ranks (doctor_measure.c). All ranks must call the function; only rank 0 gets the
 * measurements. */
bg_status doctor_measure_ranks(const bg_transport *transport, doctor_ranks *out, bg_error *error);

#endif

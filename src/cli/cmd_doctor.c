/*
 * cmd_doctor.c: `brigade doctor`: describes the machine, measures its disk and the messages between ranks, and lists
 * bad settings, each with a remedy.
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/text.h"
#include "formats/json_write.h"
#include "predict/call_costs.h"

typedef struct doctor_settings {
    bool json, no_disk;
    const char *folder;
} doctor_settings;

#define AT(field) .offset = offsetof(doctor_settings, field)

static const cli_option doctor_table[] = {
    {CLI_TEXT, "dir", AT(folder), .value = "DIR",
     .help = "folder for checkpoints; the test writes 128 MB there and removes them"},
    {CLI_FLAG, "no-disk", AT(no_disk), .help = "do not measure the disk"},
    {CLI_FLAG, "json", AT(json), .help = "print one JSON object"},
    CLI_OPTIONS_END,
};

typedef struct finding {
    const char *subject;
    char text[DOCTOR_TEXT_BYTES], remedy[DOCTOR_TEXT_BYTES];
} finding;

typedef struct examination {
    doctor_machine machine;
    doctor_disk disk;
    bool has_disk;
    doctor_ranks ranks; /* count 0 means one process */
    finding findings[DOCTOR_MOST_FINDINGS];
    uint32_t finding_count;
} examination;

/* ---- checks ---- */

/* Adds a finding, whose texts the caller then sets. */
static finding *find(examination *e, const char *subject)
{
    finding *next =
        &e->findings[e->finding_count < DOCTOR_MOST_FINDINGS ? e->finding_count++ : DOCTOR_MOST_FINDINGS - 1];

    memset(next, 0, sizeof *next);
    next->subject = subject;
    return next;
}

static void say_text(finding *f, const char *format, ...) BG_PRINTF(2, 3);
static void say_text(finding *f, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
}

static void say_remedy(finding *f, const char *format, ...) BG_PRINTF(2, 3);
static void say_remedy(finding *f, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(f->remedy, sizeof f->remedy, format, arguments);
    va_end(arguments);
}

static void judge_processors(examination *e)
{
    const doctor_machine *m = &e->machine;
    const uint32_t processors = e->ranks.host_processors; /* processors that any rank of this host may use */
    finding *f;

    if (m->quota > 0.0 && m->quota < (double)m->allowed) {
        f = find(e, "processors");
        say_text(
            f,
            "A control group grants this process %.3g of the %u processors that it sees, so additional threads wait.",
            m->quota, m->allowed);
        say_remedy(f, "Run with --cores %d, or raise the limit of the container (docker --cpus).",
                   m->quota < 1.0 ? 1 : (int)m->quota);
    }
    if (e->ranks.on_host > processors && processors > 0) {
        f = find(e, "oversubscription");
        say_text(f, "%u ranks share %u processor%s of this host: waiting threads slow down working ones.",
                 e->ranks.on_host, processors, cli_s(processors));
        say_remedy(f, "Start at most %u rank%s on this host.", processors, cli_s(processors));
    } else if (e->ranks.on_host > 1 && m->allowed == m->online && m->online > 1) {
        f = find(e, "pinning");
        say_text(f,
                 "%u ranks of this host are not pinned: each starts its share of threads, which may run on all %u "
                 "processors and compete with each other.",
                 e->ranks.on_host, m->online);
        say_remedy(f, "Give each rank its own processors: mpirun --map-by slot:pe=%u --bind-to core, or --cores %u.",
                   m->online / e->ranks.on_host > 0 ? m->online / e->ranks.on_host : 1,
                   m->online / e->ranks.on_host > 0 ? m->online / e->ranks.on_host : 1);
    }
    if (m->online > 0 && m->load > 0.5 * (double)m->online + 0.5) {
        f = find(e, "load");
        say_text(f, "Other programs use %.1f of %u processors (average of the last minute).", m->load, m->online);
        say_remedy(f, "Measure and train after they end, or leave them some cores: --cores N.");
    }
    if (strcmp(m->governor, "powersave") == 0) {
        f = find(e, "frequency");
        say_text(f, "The governor `powersave` may keep the processors at a low frequency.");
        say_remedy(f, "As root: cpupower frequency-set -g performance.");
    }
}

static void judge_memory(examination *e)
{
    const doctor_machine *m = &e->machine;
    finding *f;

    if (strcmp(m->huge_pages, "never") == 0) {
        f = find(e, "huge pages");
        say_text(f, "Transparent huge pages are off, so large arenas need many more page table entries.");
        say_remedy(f, "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled.");
    }
    if (m->memory_limit_bytes > 0 && m->memory_limit_bytes < m->memory_bytes) {
        f = find(e, "memory");
        say_text(f,
                 "A control group limits memory to %.3g GB of the machine's %.3g GB; beyond it the process is killed.",
                 1e-9 * (double)m->memory_limit_bytes, 1e-9 * (double)m->memory_bytes);
        say_remedy(f, "Give plans this limit as their budget (--device-memory), or raise it (docker --memory).");
    }
    if (m->memory_bytes > 0 && m->swap_used_bytes > m->memory_bytes / 20) {
        f = find(e, "swap");
        say_text(f, "%.3g GB are swapped out: memory is short, and steps will wait for the disk.",
                 1e-9 * (double)m->swap_used_bytes);
        say_remedy(f, "End other programs, or train with less memory (--recompute, --offload, --memmap-dir).");
    }
}

static void judge_limits(examination *e)
{
    const doctor_machine *m = &e->machine;
    finding *f;

    if (m->address_limit != UINT64_MAX) {
        f = find(e, "limits");
        say_text(f, "The address space is limited to %.3g GB (ulimit -v).", 1e-9 * (double)m->address_limit);
        say_remedy(f, "Run `ulimit -v unlimited`, unless the limit is intended.");
    }
    if (m->file_limit < 1024) {
        f = find(e, "limits");
        say_text(f, "This process may open %" PRIu64 " files (ulimit -n); remote memory in files and MPI need more.",
                 m->file_limit);
        say_remedy(f, "Run `ulimit -n 4096`.");
    }
    if (m->size_limit != UINT64_MAX) {
        f = find(e, "limits");
        say_text(f, "A file may have at most %.3g GB (ulimit -f): a larger checkpoint fails.",
                 1e-9 * (double)m->size_limit);
        say_remedy(f, "Run `ulimit -f unlimited`.");
    }
}

/* Checks whether threads of a BLAS of the calling program, such as NumPy's, would compete with Brigade's. */
static void judge_blas(examination *e)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                        "BLIS_NUM_THREADS"};
    const bool is_shared = e->ranks.on_host > 1 && e->ranks.host_processors == e->machine.allowed;
    const uint32_t share = is_shared ? e->machine.allowed / e->ranks.on_host : e->machine.allowed;
    finding *f;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        const unsigned long threads = text != NULL ? strtoul(text, NULL, 10) : 0;
        if (threads <= share || share == 0)
            continue;
        f = find(e, "BLAS threads");
        say_text(
            f,
            "%s is %.20s, and there %s %u processor%s for this process: threads of the caller's BLAS and Brigade's "
            "will take turns.",
            names[i], text, share == 1 ? "is" : "are", share, cli_s(share));
        say_remedy(f, "export %s=1 while Brigade trains; its own kernels use no BLAS.", names[i]);
    }
    if (getenv(names[0]) == NULL && e->ranks.on_host > 1) {
        f = find(e, "BLAS threads");
        say_text(f,
                 "OMP_NUM_THREADS is not set: a BLAS that the calling program uses starts a thread for each processor, "
                 "in each of %u ranks.",
                 e->ranks.on_host);
        say_remedy(f,
                   "Start with mpirun -x OMP_NUM_THREADS=1, if the program also computes with NumPy, SciPy or a BLAS.");
    }
}

static void judge_disk(examination *e)
{
    finding *f;

    if (!e->has_disk)
        return;
    if (e->disk.write_bytes_per_s < 50e6) {
        f = find(e, "disk");
        say_text(f, "%s writes %.3g MB/s, so a checkpoint of 1 GB takes %.0f s.", e->disk.folder,
                 1e-6 * e->disk.write_bytes_per_s, 1e9 / e->disk.write_bytes_per_s);
        say_remedy(f, "Use another disk, fewer checkpoints, or --checkpoint-async.");
    }
    if (e->disk.free_bytes < (uint64_t)1 << 30) {
        f = find(e, "disk");
        say_text(f, "%s has %.3g GB left; a checkpoint needs space in addition to the previous one.", e->disk.folder,
                 1e-9 * (double)e->disk.free_bytes);
        say_remedy(f, "Free some space, or name another folder.");
    }
}

static void judge_ranks(examination *e)
{
    finding *f;

    if (e->ranks.count > 1 && !e->ranks.takes_any_thread) {
        f = find(e, "MPI");
        say_text(f, "%s gives MPI_THREAD_FUNNELED or less: only one thread moves all messages.", e->ranks.name);
        say_remedy(f, "Initialize MPI with MPI_THREAD_SERIALIZED or MULTIPLE.");
    }
    for (uint32_t i = 0; i < e->ranks.link_count; i++) {
        const doctor_link *link = &e->ranks.links[i];
        if (link->latency_us < 100.0)
            continue;
        f = find(e, "latency");
        say_text(f, "A message to rank %u, on %s host, takes %.0f us.", link->rank, link->is_near ? "this" : "another",
                 link->latency_us);
        say_remedy(f, link->is_near ? "Messages within a host take microseconds if each rank has its own processor."
                                    : "Check whether MPI uses the fast network: UCX_NET_DEVICES, --mca btl.");
        return; /* one finding is enough, because all ranks have the same settings */
    }
}

/* ---- output ---- */

static void print_machine(const doctor_machine *m)
{
    printf("Processor      %s\n", m->processor[0] != '\0' ? m->processor : "unknown");
    printf("Processors     %u, of which this process may use %u\n", m->online, m->allowed);
    printf("Instructions   %s\n", m->sets);
    printf("Caches        ");
    for (uint32_t i = 0; i < m->cache_count; i++)
        printf(" %s %.4g kB%s", m->caches[i].name, (double)m->caches[i].bytes / 1024.0,
               i + 1 < m->cache_count ? "," : "");
    printf("%s\n", m->cache_count == 0 ? " unknown" : "");
    printf("Memory         %.3g GB, %.3g GB available\n", 1e-9 * (double)m->memory_bytes,
           1e-9 * (double)m->available_bytes);
    printf("Huge pages     %s\n", m->huge_pages[0] != '\0' ? m->huge_pages : "unknown");
}

/* Stores the link with the costs of calls, where `brigade plan` finds it. If the cache cannot be written, nothing is
 * reported, because the printed option has the same numbers. */
static void store_link(double latency_us, double bytes_per_s)
{
    char *path = bgi_call_costs_path();
    bgi_call_costs costs = {.costs = NULL};
    bg_error error = {0};

    if (path != NULL) {
        if (bgi_call_costs_load(path, &costs, &error) != BG_OK)
            bg_error_clear(&error);
        costs.rank_link = (bgi_link_model){.bytes_per_ns = 1e-9 * bytes_per_s, .latency_ns = 1e3 * latency_us};
        bgi_call_costs_save(&costs, path, &error);
    }
    bgi_call_costs_clear(&costs);
    free(path);
}

/* Prints the option with which `brigade plan` predicts these ranks, and stores its numbers. They are the largest
 * latency and the lowest speed of all links, because a step waits for the slowest link. */
static void print_plan_option(const doctor_ranks *ranks)
{
    double latency_us = 0.0, bytes_per_s = ranks->links[0].bytes_per_s;

    for (uint32_t i = 0; i < ranks->link_count; i++) {
        latency_us = ranks->links[i].latency_us > latency_us ? ranks->links[i].latency_us : latency_us;
        bytes_per_s = ranks->links[i].bytes_per_s < bytes_per_s ? ranks->links[i].bytes_per_s : bytes_per_s;
    }
    printf("  brigade plan predicts such ranks with --rank-link %.3g,%.3g\n", latency_us, 1e-9 * bytes_per_s);
    store_link(latency_us, bytes_per_s);
}

static void print_examination(const examination *e)
{
    const char *launcher = cli_ranks_launcher();
    const bool is_alone = cli_ranks() == NULL && strcmp(launcher, "none") != 0;

    print_machine(&e->machine);
    printf("Launcher       %s%s\n", launcher, is_alone ? "; each process runs alone (BRIGADE_MPI=none)" : "");
    printf("MPI            %s\n", e->ranks.count > 1 ? e->ranks.name : cli_ranks_built());
    if (e->ranks.count > 1)
        printf("Ranks          %u, %u on this host, %s\n", e->ranks.count, e->ranks.on_host,
               e->ranks.takes_any_thread ? "any thread may call MPI" : "one thread calls MPI");
    for (uint32_t i = 0; i < e->ranks.link_count; i++)
        printf("  rank 0 to %-4u %.3g us, %.3g GB/s, %s\n", e->ranks.links[i].rank, e->ranks.links[i].latency_us,
               1e-9 * e->ranks.links[i].bytes_per_s, e->ranks.links[i].is_near ? "the same host" : "another host");
    if (e->ranks.link_count > 0)
        print_plan_option(&e->ranks);
    if (e->has_disk)
        printf("Disk           %s: writes %.3g MB/s, reads %.3g MB/s, flushes in %.2g ms, %.3g GB free\n",
               e->disk.folder, 1e-6 * e->disk.write_bytes_per_s, 1e-6 * e->disk.read_bytes_per_s, e->disk.flush_ms,
               1e-9 * (double)e->disk.free_bytes);
    printf("\n%u finding%s\n", e->finding_count, cli_s(e->finding_count));
    for (uint32_t i = 0; i < e->finding_count; i++) {
        printf("- ");
        cli_print_wrapped(e->findings[i].text, 2, 2);
        printf("  ");
        cli_print_wrapped(e->findings[i].remedy, 2, 2);
    }
}

static void add_machine(bgi_json_writer *w, const doctor_machine *m)
{
    bgi_json_open(w, "machine", '{');
    bgi_json_text(w, "processor", m->processor);
    bgi_json_count(w, "processors", m->online);
    bgi_json_count(w, "allowed_processors", m->allowed);
    bgi_json_text(w, "instructions", m->sets);
    bgi_json_open(w, "caches", '[');
    for (uint32_t i = 0; i < m->cache_count; i++) {
        bgi_json_open(w, NULL, '{');
        bgi_json_text(w, "name", m->caches[i].name);
        bgi_json_count(w, "bytes", m->caches[i].bytes);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
    bgi_json_count(w, "memory_bytes", m->memory_bytes);
    bgi_json_count(w, "available_bytes", m->available_bytes);
    bgi_json_text(w, "huge_pages", m->huge_pages);
    bgi_json_real(w, "load", m->load, 4);
    bgi_json_close(w, '}');
}

static void add_measurements(bgi_json_writer *w, const examination *e)
{
    bgi_json_text(w, "launcher", cli_ranks_launcher());
    bgi_json_text(w, "mpi", e->ranks.count > 1 ? e->ranks.name : cli_ranks_built());
    bgi_json_count(w, "ranks", e->ranks.count > 1 ? e->ranks.count : 1);
    bgi_json_open(w, "links", '[');
    for (uint32_t i = 0; i < e->ranks.link_count; i++) {
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "rank", e->ranks.links[i].rank);
        bgi_json_bool(w, "is_same_host", e->ranks.links[i].is_near);
        bgi_json_real(w, "latency_us", e->ranks.links[i].latency_us, 6);
        bgi_json_real(w, "bytes_per_s", e->ranks.links[i].bytes_per_s, 6);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
    if (!e->has_disk)
        return;
    bgi_json_open(w, "disk", '{');
    bgi_json_text(w, "folder", e->disk.folder);
    bgi_json_real(w, "write_bytes_per_s", e->disk.write_bytes_per_s, 6);
    bgi_json_real(w, "read_bytes_per_s", e->disk.read_bytes_per_s, 6);
    bgi_json_real(w, "flush_ms", e->disk.flush_ms, 6);
    bgi_json_count(w, "free_bytes", e->disk.free_bytes);
    bgi_json_close(w, '}');
}

static bg_status print_json(const examination *e, bg_error *error)
{
    bgi_json_writer w = {0};
    size_t text_bytes = 0;
    char *text = NULL;

    bgi_json_open(&w, NULL, '{');
    add_machine(&w, &e->machine);
    add_measurements(&w, e);
    bgi_json_open(&w, "findings", '[');
    for (uint32_t i = 0; i < e->finding_count; i++) {
        bgi_json_open(&w, NULL, '{');
        bgi_json_text(&w, "subject", e->findings[i].subject);
        bgi_json_text(&w, "text", e->findings[i].text);
        bgi_json_text(&w, "remedy", e->findings[i].remedy);
        bgi_json_close(&w, '}');
    }
    bgi_json_close(&w, ']');
    bgi_json_close(&w, '}');
    BGI_TRY(bgi_json_finish(&w, &text, &text_bytes, error));
    printf("%s\n", text);
    free(text);
    return BG_OK;
}

/* ---- the examination ---- */

static bg_status examine(const doctor_settings *settings, examination *e, bg_error *error)
{
    doctor_look(&e->machine);
    if (cli_ranks() != NULL)
        BGI_TRY(doctor_measure_ranks(cli_ranks(), &e->ranks, error));
    if (!cli_ranks_is_first())
        return BG_OK;
    e->has_disk = !settings->no_disk;
    if (e->has_disk)
        BGI_TRY(doctor_measure_disk(settings->folder, &e->disk, error));
    judge_processors(e);
    judge_memory(e);
    judge_limits(e);
    judge_blas(e);
    judge_disk(e);
    judge_ranks(e);
    if (settings->json)
        return print_json(e, error);
    print_examination(e);
    return BG_OK;
}

static const cli_help_page page = {
    .usage = "Usage: brigade doctor [OPTION]...\n"
             "Describes this machine and lists bad settings, with remedies. Under mpirun or srun it also measures "
             "messages between ranks: docs/operations.md.\n",
    .examples = "brigade doctor\n"
                "brigade doctor --no-disk --json\n",
};

int cli_doctor(int argc, char **argv)
{
    doctor_settings settings = {.folder = "."};
    const doctor_settings defaults = settings;
    examination *e = calloc(1, sizeof *e);
    const char *words[1];
    cli_help help = CLI_HELP_NONE;
    uint32_t word_count = 0;
    bg_error error = {0};
    int code = CLI_DONE;

    if (cli_options_read(doctor_table, argc, argv, &settings, words, 0, &word_count, &help, NULL, &error) != BG_OK) {
        code = cli_fail("doctor", CLI_USAGE, &error);
    } else if (help != CLI_HELP_NONE) {
        cli_print_help(help, &page, doctor_table, &defaults);
    } else if (e == NULL) {
        code = cli_fail("doctor", CLI_FAILED, &(bg_error){.message = "out of memory"});
    } else {
        cli_end_at_signals("doctor");
        if (examine(&settings, e, &error) != BG_OK)
            code = cli_fail("doctor", CLI_FAILED, &error);
    }
    free(e);
    return code;
}

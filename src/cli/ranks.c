/*
 * ranks.c: loads MPI if the environment of a launcher is present; without a launcher the program does not need MPI.
 * Each MPI has its own binary interface and a matching library of Brigade.
 */
#define _DEFAULT_SOURCE
#include "cli/ranks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/program.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/launcher.h"

enum { PATH_BYTES = 4096, AGREED_BYTES = 1024, LATER_S = 2, LATEST = 8, FORWARD_NS = 200000000 };

#ifndef BGI_MPI
#define BGI_MPI ""
#endif
#ifndef BGI_LIBRARIES
#define BGI_LIBRARIES "/usr/local/lib"
#endif

static struct {
    bg_transport *transport;
    bg_status (*begin)(bg_transport **out, bg_error *error);
    void (*end)(bg_transport *transport, int code);
    char agreed[AGREED_BYTES], log[PATH_BYTES];
    bool keeps_log;
    uint64_t rank; /* the rank that the launcher has set, for the time before there is a transport */
} mpi;

const char *cli_ranks_launcher(void)
{
    const bgi_launcher *found = bgi_launcher_find();

    return found != NULL ? found->name : "none";
}

bool cli_ranks_is_spare(void)
{
    const bgi_launcher *found = bgi_launcher_find();

    return found != NULL && bgi_launcher_number(found->rank) > 0;
}

/* Loads Brigade's library for the MPI `name` from the program's folder, from the folder lib next to that folder, from
 * the installation, or from the system's folders. */
static void *load(const char *name)
{
    char self[PATH_BYTES], path[PATH_BYTES + 512];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    void *library = NULL;

    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        snprintf(path, sizeof path, "%s/libbrigade_mpi_%s.so", self, name);
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        snprintf(path, sizeof path, "%s/../lib/libbrigade_mpi_%s.so", self, name);
        if (library == NULL)
            library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    snprintf(path, sizeof path, "%s/libbrigade_mpi_%s.so", BGI_LIBRARIES, name);
    if (library == NULL)
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    snprintf(path, sizeof path, "libbrigade_mpi_%s.so", name);
    return library != NULL ? library : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bg_status load_functions(const bgi_launcher *found, const char *name, bg_error *error)
{
    void *library = load(name);
    void *begin, *end;

    if (library == NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "%s started this as one of several processes, but libbrigade_mpi_%s.so cannot be loaded "
                            "(%s): install that MPI and build again, or set BRIGADE_MPI to the other one (openmpi, "
                            "mpich), or to none for independent processes",
                            found->name, name, dlerror());
    begin = dlsym(library, "bg_transport_mpi_begin");
    end = dlsym(library, "bg_transport_mpi_end");
    if (begin == NULL || end == NULL)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "libbrigade_mpi_%s.so is of another version; install that of this program", name);
    memcpy(&mpi.begin, &begin, sizeof mpi.begin);
    memcpy(&mpi.end, &end, sizeof mpi.end);
    return BG_OK;
}

static void mute(void)
{
    const int null = open("/dev/null", O_WRONLY);

    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        close(null);
    }
}

/* Checks for an interface between srun and MPI, because without one Open MPI ends the process with a page of
 * messages. */
static bg_status check_interface(const bgi_launcher *found, const char *named, bg_error *error)
{
    if (!found->needs_interface || named != NULL || bgi_launcher_has_interface())
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "srun has started %llu processes without an interface to MPI: start them with srun --mpi=pmix "
                        "for Open MPI, or --mpi=pmi2 for MPICH (srun --mpi=list lists the available ones); or set "
                        "BRIGADE_MPI to the MPI (openmpi, mpich), or to none to run each process alone",
                        (unsigned long long)bgi_launcher_number(found->size));
}

/* Checks that MPI sees several processes. PMIx does not give their number, so with PMIx a single process is not a
 * mistake. */
static bg_status check_count(const bgi_launcher *found, bg_error *error)
{
    if (mpi.transport->rank_count > 1 || found->size == NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "the launcher has started %llu processes, but MPI sees one (%s): set BRIGADE_MPI to the "
                        "launcher's MPI (openmpi, mpich), or to none to run each process alone",
                        (unsigned long long)bgi_launcher_number(found->size), mpi.transport->name);
}

bg_status cli_ranks_begin(bg_error *error)
{
    const bgi_launcher *found = bgi_launcher_find();
    const char *named = getenv("BRIGADE_MPI");

    if (found == NULL || (named != NULL && strcmp(named, "none") == 0))
        return BG_OK;
    mpi.rank = bgi_launcher_number(found->rank);
    if (named != NULL && strcmp(named, "openmpi") != 0 && strcmp(named, "mpich") != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "$BRIGADE_MPI is `%s`; it must be openmpi, mpich or none", named);
    BGI_TRY(check_interface(found, named, error));
    BGI_TRY(load_functions(found, named != NULL ? named : found->mpi, error));
    BGI_TRY(mpi.begin(&mpi.transport, error));
    BGI_TRY(check_count(found, error));
    if (mpi.transport->rank > 0)
        mute();
    return BG_OK;
}

const bg_transport *cli_ranks(void)
{
    return mpi.transport;
}

bool cli_ranks_is_first(void)
{
    return mpi.transport == NULL || mpi.transport->rank == 0;
}

void cli_ranks_agree(const char *format, ...)
{
    const size_t length = strlen(mpi.agreed);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(mpi.agreed + length, sizeof mpi.agreed - length, format, arguments);
    va_end(arguments);
    if (mpi.transport != NULL)
        mpi.transport->agreed = mpi.agreed;
}

const char *cli_ranks_log(const char *path)
{
    const char *place = path != NULL ? strstr(path, "%r") : NULL;
    const unsigned rank = mpi.transport != NULL ? mpi.transport->rank : 0;

    mpi.keeps_log = rank == 0 || place != NULL;
    if (place == NULL ||
        snprintf(mpi.log, sizeof mpi.log, "%.*s%u%s", (int)(place - path), path, rank, place + 2) >= PATH_BYTES)
        return path;
    return mpi.log;
}

bool cli_ranks_keeps_log(void)
{
    return cli_ranks_is_first() || mpi.keeps_log;
}

bool cli_writes_to_terminal(void)
{
    return mpi.transport == NULL && isatty(STDOUT_FILENO) == 1;
}

bool cli_ranks_says_error(void)
{
    const uint64_t rank = mpi.transport != NULL ? mpi.transport->rank : mpi.rank;
    const struct timespec later = {.tv_sec = LATER_S * (time_t)(rank < LATEST ? rank : LATEST)};

    /* A launcher ends the other processes with SIGTERM, which the program catches, so that nanosleep returns an
     * error. */
    return rank == 0 || nanosleep(&later, NULL) == 0;
}

void cli_ranks_share_signal(bool is_asked)
{
    if (mpi.transport != NULL && is_asked && cli_received_signal == 0)
        cli_received_signal = SIGTERM;
}

/* Ends MPI. After a signal all ranks return the same exit code. After an error this process ends the others, but waits
 * a moment first, because MPICH's launcher drops output that it has not forwarded yet. */
int cli_ranks_end(int code)
{
    if (mpi.transport != NULL && code != 0 && code <= 128)
        bgi_clock_sleep(FORWARD_NS);
    fflush(NULL);
    if (mpi.transport != NULL)
        mpi.end(mpi.transport, code);
    mpi.transport = NULL;
    return code;
}

const char *cli_ranks_built(void)
{
    return BGI_MPI[0] != '\0' ? BGI_MPI : "none";
}

/*
 * mpi.c: implements the functions of a transport with MPI. It uses only brigade/transport.h and MPI, and links no other
 * part of Brigade. So one build serves programs that link it and programs that load it at run time.
 *
 * A lane is a duplicate of the communicator. All ranks make the duplicate together, and a missing rank must not keep
 * the other ranks inside MPI. So opening a lane only begins the duplication. Until the duplication completes, sends and
 * receives wait in a list, where the caller's time limits apply. Requests in progress are in an array without gaps,
 * parallel to an array of their operations, so that one MPI_Testsome tests all of them.
 */
#include <brigade/mpi.h>

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_BYTES = 128,
    MESSAGE_BYTES = 1 << 30,
    LOOKS = 2,    /* calls of MPI_Testsome of a poll */
    YIELDS = 100, /* of a thread that waits for another one to leave MPI, before it sleeps */
    CLOSE_LIMIT_MS = 1000,
    END_LIMIT_S = 3, /* the limit is one second longer for every RANKS_A_SECOND ranks */
    RANKS_A_SECOND = 4
};

/* The largest message that MPI sends within a host without a handshake: up to 4 KB with its header in Open MPI, a
 * little above 8 KB in MPICH over UCX. Other networks allow more. */
#ifdef OPEN_MPI
enum { EAGER_BYTES = 4032 };
#else
enum { EAGER_BYTES = 8192 };
#endif

/* An operation that cannot begin before the lane is open. */
typedef struct waiting {
    bool is_receive;
    uint32_t rank, tag;
    void *data;
    size_t size_bytes;
    void *operation;
} waiting;

typedef struct lane {
    MPI_Comm comm;
    MPI_Request opening; /* MPI_REQUEST_NULL: the lane is open */
    waiting *waiting;
    int waiting_count, waiting_capacity;
    int count, capacity;
    MPI_Request *requests;
    void **operations;
    bool *are_receives;
    int *finished; /* memory for MPI_Testsome, as is `statuses` */
    MPI_Status *statuses;
    void **done; /* completed operations that have not been reported, from `first_done` on */
    int done_count, first_done;
} lane;

typedef struct mpi {
    bg_transport base;
    MPI_Comm comm;
    atomic_bool is_busy; /* a thread is inside MPI */
    char name[NAME_BYTES];
    uint32_t *hosts;
    bool owns_mpi;
    bool is_stuck; /* a lane was closed in the middle of a message that does not end */
} mpi;

static bg_status fail(bg_error *error, bg_status status, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    if (error != NULL) {
        error->status = status;
        snprintf(error->message, sizeof error->message, "MPI: %s%s%s", what, length > 0 ? ": " : "", text);
    }
    return status;
}

static void clear(bg_error *error)
{
    if (error != NULL)
        memset(error, 0, sizeof *error);
}

static bg_status out_of_memory(bg_error *error)
{
    return fail(error, BG_ERROR_MEMORY, "out of memory", MPI_SUCCESS);
}

/* ---- one thread at a time ---- */

/* Waits until no other thread is inside MPI. Calls are short, so this usually succeeds at once. In contrast to a mutex,
 * leaving is a plain store: it does not wait until the processor has written the message that was just sent. */
static void enter(mpi *m)
{
    const struct timespec pause = {.tv_nsec = 50000};

    for (int looks = 0; atomic_exchange_explicit(&m->is_busy, true, memory_order_acquire); looks++) {
        if (looks < YIELDS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

static void leave(mpi *m)
{
    atomic_store_explicit(&m->is_busy, false, memory_order_release);
}

/* ---- lanes ---- */

static bool grow(void **array, int capacity, size_t element_bytes)
{
    void *larger = realloc(*array, (size_t)capacity * element_bytes);

    if (larger != NULL)
        *array = larger;
    return larger != NULL;
}

/* Reserves memory for one more request and its completion. */
static bool reserve(lane *l)
{
    const int needed = l->count + l->done_count + 1, capacity = 2 * needed + 64;

    if (needed <= l->capacity)
        return true;
    if (!grow((void **)&l->requests, capacity, sizeof *l->requests) ||
        !grow((void **)&l->operations, capacity, sizeof *l->operations) ||
        !grow((void **)&l->are_receives, capacity, sizeof *l->are_receives) ||
        !grow((void **)&l->finished, capacity, sizeof *l->finished) ||
        !grow((void **)&l->statuses, capacity, sizeof *l->statuses) ||
        !grow((void **)&l->done, capacity, sizeof *l->done))
        return false;
    l->capacity = capacity;
    return true;
}

static bg_status open_lane(void *user, void **out_lane, bg_error *error)
{
    mpi *m = user;
    lane *l = calloc(1, sizeof *l);
    int code;

    if (l == NULL)
        return out_of_memory(error);
    if (m->is_stuck) {
        free(l);
        return fail(error, BG_ERROR_IO, "a rank was lost in the middle of a message; only a new process can continue",
                    MPI_SUCCESS);
    }
    enter(m);
    code = MPI_Comm_idup(m->comm, &l->comm, &l->opening);
    leave(m);
    if (code != MPI_SUCCESS) {
        free(l);
        return fail(error, BG_ERROR_IO, "MPI_Comm_idup", code);
    }
    *out_lane = l;
    return BG_OK;
}

/* Cancels the receives in progress and waits briefly for their end; returns whether all have ended. A receive whose
 * message has begun to arrive ends with the message, so it never ends if the sender is lost. */
static bool end_receives(lane *l)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int waited_ms = 0;

    for (int i = 0; i < l->count; i++)
        if (l->are_receives[i])
            MPI_Cancel(&l->requests[i]);
    for (int i = 0; i < l->count; i++) {
        int is_done = !l->are_receives[i];
        while (!is_done && MPI_Test(&l->requests[i], &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done) {
            if (waited_ms++ == CLOSE_LIMIT_MS)
                return false;
            nanosleep(&pause, NULL);
        }
    }
    return true;
}

/* Waits briefly for the opening of a lane that is closed before it was open; returns whether it has opened. MPI can
 * release only an open lane. */
static bool end_opening(lane *l)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int is_done = l->opening == MPI_REQUEST_NULL;

    for (int waited_ms = 0; !is_done && waited_ms < CLOSE_LIMIT_MS; waited_ms++)
        if (MPI_Test(&l->opening, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        else if (!is_done)
            nanosleep(&pause, NULL);
    return is_done != 0;
}

/* Receives that are no longer needed are canceled. From now on MPI owns messages that were sent and not received. */
static void close_lane(void *user, void *of)
{
    mpi *m = user;
    lane *l = of;
    int is_over = 0;

    enter(m);
    MPI_Finalized(&is_over);
    if (!is_over && !(end_opening(l) && end_receives(l)))
        m->is_stuck = true;
    for (int i = 0; i < l->count && !is_over; i++)
        if (!l->are_receives[i])
            MPI_Request_free(&l->requests[i]);
    if (!is_over && !m->is_stuck)
        MPI_Comm_free(&l->comm);
    leave(m);
    free(l->waiting);
    free(l->requests);
    free(l->operations);
    free(l->are_receives);
    free(l->finished);
    free(l->statuses);
    free(l->done);
    free(l);
}

/* ---- messages ---- */

/* Begins a send or receive. It does not test a send at once: that would take in arrivals before their receives have
 * begun, and MPI copies such messages twice. */
static bg_status begin_now(lane *l, const waiting *w, bg_error *error)
{
    MPI_Request *request;
    int code;

    if (!reserve(l))
        return out_of_memory(error);
    request = &l->requests[l->count];
    code = w->is_receive
               ? MPI_Irecv(w->data, (int)w->size_bytes, MPI_BYTE, (int)w->rank, (int)w->tag, l->comm, request)
               : MPI_Isend(w->data, (int)w->size_bytes, MPI_BYTE, (int)w->rank, (int)w->tag, l->comm, request);
    if (code != MPI_SUCCESS)
        return fail(error, BG_ERROR_IO, w->is_receive ? "MPI_Irecv" : "MPI_Isend", code);
    l->operations[l->count] = w->operation;
    l->are_receives[l->count++] = w->is_receive;
    return BG_OK;
}

static bg_status begin_later(lane *l, const waiting *w, bg_error *error)
{
    if (l->waiting_count == l->waiting_capacity) {
        const int capacity = 2 * l->waiting_capacity + 64;
        if (!grow((void **)&l->waiting, capacity, sizeof *l->waiting))
            return out_of_memory(error);
        l->waiting_capacity = capacity;
    }
    l->waiting[l->waiting_count++] = *w;
    return BG_OK;
}

/* Checks whether the lane is open; once it is, begins the operations that have waited for it. */
static bg_status look_at_opening(lane *l, bg_error *error)
{
    int is_done = 0, code = MPI_Test(&l->opening, &is_done, MPI_STATUS_IGNORE);

    if (code == MPI_SUCCESS && is_done)
        code = MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS)
        return fail(error, BG_ERROR_IO, "MPI_Comm_idup", code);
    for (int i = 0; is_done && i < l->waiting_count; i++) {
        const bg_status status = begin_now(l, &l->waiting[i], error);
        if (status != BG_OK)
            return status;
    }
    if (is_done)
        l->waiting_count = 0;
    return BG_OK;
}

static bg_status begin(mpi *m, lane *l, const waiting *w, bg_error *error)
{
    bg_status status;

    enter(m);
    status = l->opening != MPI_REQUEST_NULL ? begin_later(l, w, error) : begin_now(l, w, error);
    leave(m);
    return status;
}

static bg_status begin_send(void *user, void *of, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    return begin(user, of, &(waiting){false, to, tag, (void *)(uintptr_t)data, size_bytes, operation}, error);
}

static bg_status begin_receive(void *user, void *of, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                               void *operation, bg_error *error)
{
    return begin(user, of, &(waiting){true, from, tag, data, size_bytes, operation}, error);
}

/* Sorts the numbers of finished requests. MPI libraries usually report them in this order. */
static void sort(int *numbers, int count)
{
    for (int i = 1; i < count; i++)
        for (int at = i; at > 0 && numbers[at - 1] > numbers[at]; at--) {
            const int larger = numbers[at - 1];
            numbers[at - 1] = numbers[at];
            numbers[at] = larger;
        }
}

/* Moves finished requests to the completed operations, the last one first, so that the numbers of the requests not yet
 * visited do not change. Returns whether one of them is a receive. */
static bool take_finished(lane *l, int finished_count)
{
    bool has_receive = false;

    sort(l->finished, finished_count);
    for (int i = 0; i < finished_count; i++) {
        l->done[l->done_count++] = l->operations[l->finished[i]];
        has_receive |= l->are_receives[l->finished[i]];
    }
    for (int i = finished_count; i-- > 0;) {
        const int at = l->finished[i], last = --l->count;
        l->requests[at] = l->requests[last];
        l->operations[at] = l->operations[last];
        l->are_receives[at] = l->are_receives[last];
    }
    return has_receive;
}

static uint32_t hand_out(lane *l, void **out_operations, uint32_t most)
{
    uint32_t count = 0;

    while (count < most && l->first_done < l->done_count)
        out_operations[count++] = l->done[l->first_done++];
    if (l->first_done == l->done_count)
        l->first_done = l->done_count = 0;
    return count;
}

/* Takes finished requests. An MPI_Testsome that finds nothing checks for arrivals, but reports them only the next time;
 * one that finds only sends does not check. So it is called again until a receive has finished. */
static int look_at_requests(lane *l)
{
    bool has_receive = false;
    int code = MPI_SUCCESS;

    for (int look = 0; look < LOOKS && l->count > 0 && !has_receive && code == MPI_SUCCESS; look++) {
        int finished = 0;
        code = MPI_Testsome(l->count, l->requests, &finished, l->finished, l->statuses);
        if (code == MPI_SUCCESS && finished != MPI_UNDEFINED && finished > 0)
            has_receive = take_finished(l, finished);
    }
    return code;
}

static bg_status poll_lane(void *user, void *of, void **out_operations, uint32_t most, uint32_t *out_count,
                           bg_error *error)
{
    mpi *m = user;
    lane *l = of;
    bg_status status = BG_OK;
    int code;

    enter(m);
    if (l->opening != MPI_REQUEST_NULL)
        status = look_at_opening(l, error);
    code = look_at_requests(l);
    *out_count = hand_out(l, out_operations, most);
    leave(m);
    return code == MPI_SUCCESS ? status : fail(error, BG_ERROR_IO, "MPI_Testsome", code);
}

/* ---- life ---- */

static const char *name_level(int level)
{
    return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
           : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                            : "MPI_THREAD_MULTIPLE";
}

/* Writes a name such as "Open MPI v4.1.4, MPI_THREAD_FUNNELED". */
static void describe(mpi *m, int level)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    for (char *c = version; *c != '\0'; c++)
        if (*c == '\t')
            *c = ' ';
    snprintf(m->name, sizeof m->name, "%.90s, %s", version, name_level(level));
}

/* Sets the host of each rank; a host is identified by its lowest rank. */
static int find_hosts(mpi *m)
{
    MPI_Comm host = MPI_COMM_NULL;
    int own = (int)m->base.rank, lowest = own;
    int code = MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, own, MPI_INFO_NULL, &host);

    if (code == MPI_SUCCESS)
        code = MPI_Allreduce(&own, &lowest, 1, MPI_INT, MPI_MIN, host);
    if (host != MPI_COMM_NULL)
        MPI_Comm_free(&host);
    if (code == MPI_SUCCESS)
        code = MPI_Allgather(&lowest, 1, MPI_INT, m->hosts, 1, MPI_INT, m->comm);
    return code;
}

static bg_status fill(mpi *m, MPI_Comm comm, bg_error *error)
{
    int rank = 0, size = 0, level = MPI_THREAD_SINGLE, has_limit = 0, *limit = NULL;
    int code = MPI_Comm_dup(comm, &m->comm);

    if (code != MPI_SUCCESS)
        return fail(error, BG_ERROR_IO, "MPI_Comm_dup", code);
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &rank);
    MPI_Comm_size(m->comm, &size);
    MPI_Query_thread(&level);
    MPI_Comm_get_attr(m->comm, MPI_TAG_UB, (void *)&limit, &has_limit);
    m->hosts = calloc((size_t)size, sizeof *m->hosts);
    if (m->hosts == NULL)
        return out_of_memory(error);
    describe(m, level);
    m->base = (bg_transport){.struct_bytes = sizeof m->base,
                             .name = m->name,
                             .rank = (uint32_t)rank,
                             .rank_count = (uint32_t)size,
                             .hosts = m->hosts,
                             .tag_count = has_limit ? (uint32_t)*limit : INT16_MAX + 1u,
                             .message_bytes = MESSAGE_BYTES,
                             .eager_bytes = EAGER_BYTES,
                             .takes_any_thread = level >= MPI_THREAD_SERIALIZED,
                             .user = m,
                             .open = open_lane,
                             .close = close_lane,
                             .send = begin_send,
                             .receive = begin_receive,
                             .poll = poll_lane};
    code = find_hosts(m);
    return code == MPI_SUCCESS ? BG_OK : fail(error, BG_ERROR_IO, "ranks of one host", code);
}

void bg_transport_mpi_destroy(bg_transport *transport)
{
    mpi *m = (mpi *)transport;
    int is_over = 0;

    if (m == NULL)
        return;
    MPI_Finalized(&is_over);
    if (m->comm != MPI_COMM_NULL && !is_over && !m->is_stuck)
        MPI_Comm_free(&m->comm);
    free(m->hosts);
    free(m);
}

bg_status bg_transport_mpi_create(MPI_Comm comm, bg_transport **out, bg_error *error)
{
    clear(error);

    int is_begun = 0, is_over = 0;
    bg_status status;
    mpi *m;

    if (out == NULL)
        return fail(error, BG_ERROR_INVALID, "bg_transport_mpi_create: `out` is NULL", MPI_SUCCESS);
    MPI_Initialized(&is_begun);
    MPI_Finalized(&is_over);
    if (!is_begun || is_over)
        return fail(error, BG_ERROR_INVALID,
                    is_over ? "a transport cannot be created after MPI_Finalize"
                            : "MPI is not initialized: call MPI_Init before creating a transport",
                    MPI_SUCCESS);
    if (comm == MPI_COMM_NULL)
        return fail(error, BG_ERROR_INVALID,
                    "MPI_COMM_NULL is not a communicator: create the transport on ranks that belong to one",
                    MPI_SUCCESS);
    m = calloc(1, sizeof *m);
    if (m == NULL)
        return out_of_memory(error);
    m->comm = MPI_COMM_NULL;
    status = fill(m, comm, error);
    if (status != BG_OK)
        bg_transport_mpi_destroy(&m->base);
    else
        *out = &m->base;
    return status;
}

bg_status bg_transport_mpi_create_fortran(MPI_Fint comm, bg_transport **out, bg_error *error)
{
    clear(error);
    return bg_transport_mpi_create(MPI_Comm_f2c(comm), out, error);
}

/* ---- for programs without other MPI code ---- */

bg_status bg_transport_mpi_begin(bg_transport **out, bg_error *error)
{
    clear(error);

    int level = MPI_THREAD_SINGLE, is_begun = 0, code = MPI_SUCCESS;
    bg_status status;

    MPI_Initialized(&is_begun);
    if (!is_begun)
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS)
        return fail(error, BG_ERROR_IO, "MPI_Init_thread", code);
    status = bg_transport_mpi_create(MPI_COMM_WORLD, out, error);
    if (status == BG_OK)
        ((mpi *)*out)->owns_mpi = !is_begun;
    return status;
}

/* Whether this rank has failed by itself. A code above 128 means that a signal has ended all ranks together. */
static bool is_failure(int code)
{
    return code != 0 && code <= 128;
}

typedef struct ending {
    int code, limit_s;
} ending;

static void *leave_late(void *of)
{
    const ending *e = of;

    nanosleep(&(const struct timespec){.tv_sec = e->limit_s}, NULL);
    _exit(e->code);
}

/* Starts a thread that ends the process after the limit. It blocks all signals, so that they reach the program's
 * threads. */
static bool start_watcher(pthread_t *watcher, ending *e)
{
    sigset_t all, before;
    int result;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(watcher, NULL, leave_late, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0;
}

/* Ends MPI. MPI_Abort asks the launcher to end all ranks and waits for its reply, which cannot arrive over a broken
 * connection. MPI_Finalize of MPICH 4.0 over UCX and TCP sometimes waits for a peer that is already in MPI_Finalize.
 * The watcher ends this rank in both cases. Many ranks on few processors need longer to finish. */
static void end_mpi(int code, uint32_t rank_count)
{
    pthread_t watcher;
    ending e = {code, END_LIMIT_S + (int)(rank_count / RANKS_A_SECOND)};
    const bool is_watched = start_watcher(&watcher, &e);

    if (is_failure(code))
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    if (!is_watched)
        return;
    pthread_cancel(watcher);
    pthread_join(watcher, NULL);
}

void bg_transport_mpi_end(bg_transport *transport, int code)
{
    const bool owns_mpi = transport != NULL && ((mpi *)transport)->owns_mpi;
    const uint32_t rank_count = transport != NULL ? transport->rank_count : 1;

    if (owns_mpi && !is_failure(code))
        MPI_Barrier(((mpi *)transport)->comm);
    bg_transport_mpi_destroy(transport);
    if (owns_mpi)
        end_mpi(code, rank_count);
}

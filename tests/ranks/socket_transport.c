/*
 * socket_transport.c: sends frames of lane, tag, size and data over stream sockets, one socket between any two ranks.
 * Data to send are copied at once and count as sent when they are written to the socket. Data that arrive before their
 * receive wait in a list.
 */
#define _GNU_SOURCE
#include "ranks/socket_transport.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, READ_BYTES = 1 << 16 };

typedef struct frame {
    uint64_t size_bytes;
    uint32_t lane, tag;
} frame;

/* A message that is being sent or has arrived, or a waiting receive. */
typedef struct item {
    struct item *next;
    frame head;
    uint32_t rank;
    size_t done;
    char *content; /* for a receive, the caller's memory */
    void *operation;
} item;

typedef struct list {
    item *first, **last;
} list;

typedef struct lane {
    uint32_t number;
    list receives, done;
} lane;

typedef struct sockets {
    bg_transport base;
    pthread_mutex_t mutex;
    int fds[MOST_RANKS];
    pid_t children[MOST_RANKS];
    int done[2], go[2]; /* children report that they are done, and wait until all children are */
    list out[MOST_RANKS], come;
    item *in[MOST_RANKS]; /* for each rank, the message from it that has begun to arrive */
    frame heads[MOST_RANKS];
    size_t head_bytes[MOST_RANKS];
    uint32_t lane_count;
    lane *lanes[8192];
} sockets;

static void check(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    abort();
}

static void append(list *to, item *i)
{
    if (to->last == NULL)
        to->last = &to->first;
    i->next = NULL;
    *to->last = i;
    to->last = &i->next;
}

static item *take(list *from, item **link)
{
    item *i = *link;

    *link = i->next;
    if (*link == NULL)
        from->last = link;
    return i;
}

static item *new_item(uint32_t number, uint32_t rank, uint32_t tag, size_t size_bytes, void *operation)
{
    item *i = calloc(1, sizeof *i);

    check(i != NULL, "item");
    i->head = (frame){.size_bytes = size_bytes, .lane = number, .tag = tag};
    i->rank = rank;
    i->operation = operation;
    return i;
}

/* ---- matching ---- */

static void complete(lane *l, item *receive, item *message)
{
    check(message->head.size_bytes <= receive->head.size_bytes, "a message longer than its receive");
    if (message->head.size_bytes > 0)
        memcpy(receive->content, message->content, message->head.size_bytes);
    free(message->content);
    free(message);
    append(&l->done, receive);
}

static int fits(const item *receive, const item *message)
{
    return receive->head.lane == message->head.lane && receive->head.tag == message->head.tag &&
           receive->rank == message->rank;
}

static void arrive(sockets *s, item *message)
{
    lane *l = message->head.lane < s->lane_count ? s->lanes[message->head.lane] : NULL;

    for (item **link = l != NULL ? &l->receives.first : NULL; link != NULL && *link != NULL; link = &(*link)->next)
        if (fits(*link, message)) {
            complete(l, take(&l->receives, link), message);
            return;
        }
    append(&s->come, message);
}

/* Frees a list and the memory that its items own. A receive's content belongs to the caller. */
static void free_messages(list *l)
{
    while (l->first != NULL) {
        item *i = take(l, &l->first);
        free(i->content);
        free(i);
    }
}

/* ---- moving ---- */

static void write_some(sockets *s, uint32_t rank)
{
    while (s->out[rank].first != NULL) {
        item *i = s->out[rank].first;
        const size_t total = sizeof i->head + i->head.size_bytes;
        const char *from =
            i->done < sizeof i->head ? (char *)&i->head + i->done : i->content + (i->done - sizeof i->head);
        const size_t left = i->done < sizeof i->head ? sizeof i->head - i->done : total - i->done;
        const ssize_t count = send(s->fds[rank], from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count <= 0)
            return;
        i->done += (size_t)count;
        if (i->done < total)
            continue;
        take(&s->out[rank], &s->out[rank].first);
        free(i->content);
        i->content = NULL;
        if (s->lanes[i->head.lane] != NULL)
            append(&s->lanes[i->head.lane]->done, i);
        else
            free(i);
    }
}

/* Returns false when the other side has closed. */
static int read_some(sockets *s, uint32_t rank)
{
    for (;;) {
        item *i = s->in[rank];
        ssize_t count;
        if (i == NULL) {
            count = recv(s->fds[rank], (char *)&s->heads[rank] + s->head_bytes[rank],
                         sizeof(frame) - s->head_bytes[rank], MSG_DONTWAIT);
            if (count <= 0)
                return count < 0 && (errno == EAGAIN || errno == EINTR);
            s->head_bytes[rank] += (size_t)count;
            if (s->head_bytes[rank] < sizeof(frame))
                continue;
            s->head_bytes[rank] = 0;
            i = s->in[rank] =
                new_item(s->heads[rank].lane, rank, s->heads[rank].tag, (size_t)s->heads[rank].size_bytes, NULL);
            i->content = malloc((size_t)i->head.size_bytes + 1);
            check(i->content != NULL, "content");
        }
        while (i->done < i->head.size_bytes) {
            count = recv(s->fds[rank], i->content + i->done, (size_t)i->head.size_bytes - i->done, MSG_DONTWAIT);
            if (count <= 0)
                return count < 0 && (errno == EAGAIN || errno == EINTR);
            i->done += (size_t)count;
        }
        s->in[rank] = NULL;
        arrive(s, i);
    }
}

/* ---- the transport ---- */

static bg_status open_lane(void *user, void **out_lane, bg_error *error)
{
    sockets *s = user;
    lane *l = calloc(1, sizeof *l);

    (void)error;
    check(l != NULL, "lane");
    pthread_mutex_lock(&s->mutex);
    check(s->lane_count < sizeof s->lanes / sizeof s->lanes[0], "lanes");
    l->number = s->lane_count;
    s->lanes[s->lane_count++] = l;
    pthread_mutex_unlock(&s->mutex);
    *out_lane = l;
    return BG_OK;
}

static void free_items(list *l)
{
    while (l->first != NULL)
        free(take(l, &l->first));
}

static void close_lane(void *user, void *of)
{
    sockets *s = user;
    lane *l = of;

    pthread_mutex_lock(&s->mutex);
    s->lanes[l->number] = NULL;
    pthread_mutex_unlock(&s->mutex);
    free_items(&l->receives);
    free_items(&l->done);
    free(l);
}

static bg_status begin_send(void *user, void *of, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    sockets *s = user;
    lane *l = of;
    item *i = new_item(l->number, to, tag, size_bytes, operation);

    (void)error;
    i->content = malloc(size_bytes + 1);
    check(i->content != NULL, "content");
    memcpy(i->content, data, size_bytes);
    pthread_mutex_lock(&s->mutex);
    append(&s->out[to], i);
    write_some(s, to);
    pthread_mutex_unlock(&s->mutex);
    return BG_OK;
}

static bg_status begin_receive(void *user, void *of, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                               void *operation, bg_error *error)
{
    sockets *s = user;
    lane *l = of;
    item *i = new_item(l->number, from, tag, size_bytes, operation);

    (void)error;
    i->content = data;
    pthread_mutex_lock(&s->mutex);
    for (item **link = &s->come.first; *link != NULL; link = &(*link)->next)
        if (fits(i, *link)) {
            complete(l, i, take(&s->come, link));
            pthread_mutex_unlock(&s->mutex);
            return BG_OK;
        }
    append(&l->receives, i);
    pthread_mutex_unlock(&s->mutex);
    return BG_OK;
}

static bg_status poll_lane(void *user, void *of, void **out_operations, uint32_t most, uint32_t *out_count,
                           bg_error *error)
{
    sockets *s = user;
    lane *l = of;
    uint32_t gone = UINT32_MAX;

    *out_count = 0;
    pthread_mutex_lock(&s->mutex);
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        if (rank == s->base.rank)
            continue;
        write_some(s, rank);
        if (!read_some(s, rank))
            gone = rank;
    }
    while (*out_count < most && l->done.first != NULL) {
        item *i = take(&l->done, &l->done.first);
        out_operations[(*out_count)++] = i->operation;
        free(i);
    }
    pthread_mutex_unlock(&s->mutex);
    if (*out_count == 0 && gone != UINT32_MAX && l->receives.first != NULL)
        return bg_error_set(error, BG_ERROR_IO, "rank %u has closed its connection", gone);
    return BG_OK;
}

/* ---- creation and destruction ---- */

/* Allows this process `count` open files, because it has the sockets of all ranks before it forks. */
static void allow_files(rlim_t count)
{
    struct rlimit limit;

    check(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    if (limit.rlim_cur < count && limit.rlim_max >= count) {
        limit.rlim_cur = count;
        check(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    }
}

bg_transport *test_sockets_fork(uint32_t rank_count)
{
    static int pairs[MOST_RANKS][MOST_RANKS][2];
    sockets *s = calloc(1, sizeof *s);
    const int bytes = 1 << 20;

    check(s != NULL && rank_count <= MOST_RANKS, "ranks");
    allow_files(rank_count * rank_count + 64);
    pthread_mutex_init(&s->mutex, NULL);
    for (uint32_t a = 0; a < rank_count; a++)
        for (uint32_t b = a + 1; b < rank_count; b++) {
            check(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[a][b]) == 0, "socketpair");
            setsockopt(pairs[a][b][0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
            setsockopt(pairs[a][b][1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        }
    check(pipe(s->done) == 0 && pipe(s->go) == 0, "pipe");
    for (uint32_t rank = 1; rank < rank_count && s->base.rank == 0; rank++) {
        s->children[rank] = fork();
        check(s->children[rank] >= 0, "fork");
        if (s->children[rank] == 0)
            s->base.rank = rank;
    }
    for (uint32_t a = 0; a < rank_count; a++)
        for (uint32_t b = a + 1; b < rank_count; b++) {
            if (a == s->base.rank)
                s->fds[b] = pairs[a][b][0];
            else
                close(pairs[a][b][0]);
            if (b == s->base.rank)
                s->fds[a] = pairs[a][b][1];
            else
                close(pairs[a][b][1]);
        }
    close(s->base.rank == 0 ? s->done[1] : s->go[1]);
    s->base.struct_bytes = sizeof s->base;
    s->base.name = "sockets of a test";
    s->base.rank_count = rank_count;
    s->base.tag_count = UINT32_MAX;
    s->base.message_bytes = 40000;
    s->base.takes_any_thread = true;
    s->base.user = s;
    s->base.open = open_lane;
    s->base.close = close_lane;
    s->base.send = begin_send;
    s->base.receive = begin_receive;
    s->base.poll = poll_lane;
    return &s->base;
}

/* Waits until each child is done or has ended, and then lets the children exit. */
static void wait_for_all(sockets *s, int codes[MOST_RANKS], bool has_ended[MOST_RANKS])
{
    const struct timespec little = {.tv_nsec = 1000000};
    uint32_t left = s->base.rank_count - 1;
    char byte;

    check(fcntl(s->done[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
    while (left > 0) {
        while (left > 0 && read(s->done[0], &byte, 1) == 1)
            left--;
        for (uint32_t rank = 1; rank < s->base.rank_count && left > 0; rank++)
            if (!has_ended[rank] && waitpid(s->children[rank], &codes[rank], WNOHANG) == s->children[rank]) {
                has_ended[rank] = true;
                left--;
            }
        nanosleep(&little, NULL);
    }
    close(s->go[1]);
}

int test_sockets_join(bg_transport *transport, int code)
{
    sockets *s = (sockets *)transport;
    int codes[MOST_RANKS] = {0};
    bool has_ended[MOST_RANKS] = {false};
    char byte;

    if (s->base.rank != 0) {
        check(write(s->done[1], "", 1) == 1, "write");
        while (read(s->go[0], &byte, 1) < 0 && errno == EINTR)
            continue;
        _exit(code);
    }
    wait_for_all(s, codes, has_ended);
    for (uint32_t rank = 1; rank < s->base.rank_count; rank++) {
        if (!has_ended[rank])
            check(waitpid(s->children[rank], &codes[rank], 0) == s->children[rank], "waitpid");
        if (!WIFEXITED(codes[rank]) || WEXITSTATUS(codes[rank]) != 0) {
            fprintf(stderr, "rank %u ended with status %#x\n", rank, codes[rank]);
            code = 1;
        }
    }
    /* A message that one rank sent after another had closed its lane was never received. */
    free_messages(&s->come);
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        free_messages(&s->out[rank]);
        if (s->in[rank] != NULL)
            free(s->in[rank]->content);
        free(s->in[rank]);
    }
    free(s);
    return code;
}

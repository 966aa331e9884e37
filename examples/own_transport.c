/*
 * own_transport.c: two processes train one network, and the program itself moves bytes between them, with five
 * functions and a socket. MPI is not needed. The process with the first stage starts the other one, which has the last
 * stage and the loss; afterward the first process trains alone, and its losses are bit-identical.
 *
 *     cc own_transport.c $(pkg-config --cflags --libs brigade) -o own_transport
 *     ./own_transport
 *
 * A packet is a header and at most PACKET_BYTES of a message; the socket preserves packets and their order. Brigade
 * calls the functions below from one thread, because takes_any_thread is false, and none of them may wait.
 */
#define _GNU_SOURCE
#include <brigade.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKET_BYTES = 32 << 10, LANES = 64, MICRO_BATCH = 8, MICRO_BATCHES = 4, FEATURES = 16, WIDTH = 64, RUNS = 20 };

/* ---- the transport ---- */

typedef struct header {
    uint32_t lane, tag;
    uint64_t size_bytes;
} header;

/* An operation: a send that waits for the socket, a receive that waits for its packet, a packet that came before its
 * receive, or a completed operation that `poll` has not returned. */
typedef struct item {
    struct item *next;
    header head;
    void *data; /* Brigade's memory, or the program's own for a packet that came early */
    void *operation;
} item;

typedef struct wire {
    bg_transport base; /* the part that Brigade uses */
    int socket;
    uint32_t lane_count; /* lanes opened so far: both processes open them in the same order */
    bool is_open[LANES];
    item *sends, *receives, *early, *done;
    char packet[sizeof(header) + PACKET_BYTES];
} wire;

static bg_status fail(bg_error *error, bg_status status, const char *what)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->message, sizeof error->message, "the socket: %s", what);
    }
    return status;
}

static void append(item **list, item *added)
{
    while (*list != NULL)
        list = &(*list)->next;
    added->next = NULL;
    *list = added;
}

static item *add(item **list, header head, void *data, void *operation)
{
    item *added = malloc(sizeof *added);

    if (added == NULL)
        return NULL;
    *added = (item){.head = head, .data = data, .operation = operation};
    append(list, added);
    return added;
}

static item *take(item **link)
{
    item *taken = *link;

    *link = taken->next;
    return taken;
}

static item *take_match(item **list, header head)
{
    for (item **link = list; *link != NULL; link = &(*link)->next)
        if ((*link)->head.lane == head.lane && (*link)->head.tag == head.tag)
            return take(link);
    return NULL;
}

static void drop_lane(item **list, uint32_t lane, bool owns_data)
{
    while (*list != NULL)
        if ((*list)->head.lane == lane) {
            item *dropped = take(list);
            if (owns_data)
                free(dropped->data);
            free(dropped);
        } else {
            list = &(*list)->next;
        }
}

/* Sends as much as the socket accepts now. */
static bg_status push(wire *w, bg_error *error)
{
    while (w->sends != NULL) {
        struct iovec parts[] = {{&w->sends->head, sizeof w->sends->head}, {w->sends->data, w->sends->head.size_bytes}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (sendmsg(w->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return errno == EAGAIN || errno == EINTR ? BG_OK : fail(error, BG_ERROR_IO, strerror(errno));
        append(&w->done, take(&w->sends));
    }
    return BG_OK;
}

/* Handles a packet: copies it into the memory of its receive, or into the program's own memory until that receive is
 * posted. */
static bg_status arrive(wire *w, bg_error *error)
{
    header head;
    item *receive;
    void *copy;

    memcpy(&head, w->packet, sizeof head);
    receive = take_match(&w->receives, head);
    if (receive != NULL) {
        memcpy(receive->data, w->packet + sizeof head, head.size_bytes);
        append(&w->done, receive);
        return BG_OK;
    }
    if (head.lane <= w->lane_count && !w->is_open[head.lane])
        return BG_OK; /* this lane is closed here */
    copy = malloc(head.size_bytes + 1);
    if (copy == NULL || add(&w->early, head, copy, NULL) == NULL) {
        free(copy);
        return fail(error, BG_ERROR_MEMORY, "out of memory");
    }
    memcpy(copy, w->packet + sizeof head, head.size_bytes);
    return BG_OK;
}

static bg_status pull(wire *w, bg_error *error)
{
    for (;;) {
        const ssize_t count = recv(w->socket, w->packet, sizeof w->packet, MSG_DONTWAIT);
        bg_status status;
        if (count < 0)
            return errno == EAGAIN || errno == EINTR ? BG_OK : fail(error, BG_ERROR_IO, strerror(errno));
        if (count == 0) /* packets that arrived before are still returned */
            return w->done == NULL && w->receives != NULL ? fail(error, BG_ERROR_IO, "the other process has ended")
                                                          : BG_OK;
        status = arrive(w, error);
        if (status != BG_OK)
            return status;
    }
}

/* Opens a lane. It is represented by the number in packet headers, from 1 on, because NULL would mean no lane. */
static bg_status open_lane(void *user, void **out_lane, bg_error *error)
{
    wire *w = user;

    if (w->lane_count + 1 >= LANES)
        return fail(error, BG_ERROR_UNSUPPORTED, "more sessions than lanes");
    w->is_open[++w->lane_count] = true;
    *out_lane = (void *)(uintptr_t)w->lane_count;
    return BG_OK;
}

static void close_lane(void *user, void *lane)
{
    wire *w = user;
    const uint32_t number = (uint32_t)(uintptr_t)lane;

    w->is_open[number] = false;
    drop_lane(&w->sends, number, false);
    drop_lane(&w->receives, number, false);
    drop_lane(&w->done, number, false);
    drop_lane(&w->early, number, true);
}

static bg_status begin_send(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    wire *w = user;
    const header head = {(uint32_t)(uintptr_t)lane, tag, size_bytes};

    (void)to; /* there is only one other process */
    if (add(&w->sends, head, (void *)(uintptr_t)data, operation) == NULL)
        return fail(error, BG_ERROR_MEMORY, "out of memory");
    return push(w, error);
}

static bg_status begin_receive(void *user, void *lane, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                               void *operation, bg_error *error)
{
    wire *w = user;
    const header head = {(uint32_t)(uintptr_t)lane, tag, size_bytes};
    item *early = take_match(&w->early, head);

    (void)from;
    if (add(early != NULL ? &w->done : &w->receives, head, data, operation) == NULL)
        return fail(error, BG_ERROR_MEMORY, "out of memory");
    if (early == NULL)
        return BG_OK;
    memcpy(data, early->data, early->head.size_bytes);
    free(early->data);
    free(early);
    return BG_OK;
}

static bg_status poll_lane(void *user, void *lane, void **out_operations, uint32_t most, uint32_t *out_count,
                           bg_error *error)
{
    wire *w = user;
    const uint32_t number = (uint32_t)(uintptr_t)lane;
    bg_status status = push(w, error);
    item **link = &w->done;

    if (status == BG_OK)
        status = pull(w, error);
    *out_count = 0;
    while (status == BG_OK && *link != NULL && *out_count < most)
        if ((*link)->head.lane == number) {
            item *done = take(link);
            out_operations[(*out_count)++] = done->operation;
            free(done);
        } else {
            link = &(*link)->next;
        }
    return status;
}

/* ---- training ---- */

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "own_transport: %s\n", error.message);
    exit(1);
}

/* Makes a plan of two stages; with a transport, each process has one of them. */
static bg_plan *make_plan(bg_transport *transport)
{
    const bg_type features = bg_matrix(BG_FLOAT32, MICRO_BATCH, FEATURES),
                  number = bg_matrix(BG_FLOAT32, MICRO_BATCH, 1);
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    bg_graph *graph;
    bg_plan *plan;
    bg_value x, y, loss;

    check(bg_graph_create(&graph, &error));
    x = bg_graph_input(graph, "x", &features);
    y = bg_graph_input(graph, "y", &number);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, WIDTH, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    loss = bg_mse_loss(graph, "mse", bg_linear_layer(graph, "fc2", x, 1, true), y, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.cores = 1;
    options.execution.transport = transport;
    check(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error));
    bg_graph_destroy(graph);
    return plan;
}

/* Trains for RUNS runs. Writes the loss of the last micro-batch of each run to `losses`. */
static void train(bg_transport *transport, float losses[RUNS])
{
    static float x[MICRO_BATCHES * MICRO_BATCH * FEATURES], y[MICRO_BATCHES * MICRO_BATCH];
    const void *inputs[2];
    bg_plan *plan = make_plan(transport);
    bg_session *session;

    check(bg_session_create(plan, NULL, &session, &error));
    for (int i = 0; i < MICRO_BATCHES * MICRO_BATCH; i++) {
        for (int f = 0; f < FEATURES; f++)
            x[i * FEATURES + f] = (float)((i * 31 + f * 17) % 64) / 32 - 1;
        y[i] = x[i * FEATURES] * x[i * FEATURES + 1];
    }
    inputs[bg_session_find_input(session, "x")] = x;
    inputs[bg_session_find_input(session, "y")] = y;
    for (int run = 0; run < RUNS; run++)
        check(bg_session_run(session, inputs, (void *[]){&losses[run]}, &error));
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

int main(void)
{
    static wire w;
    float together[RUNS], alone[RUNS];
    int sockets[2], code = 0;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0 || (child = fork()) < 0) {
        perror("own_transport");
        return 1;
    }
    w.socket = sockets[child == 0];
    close(sockets[child != 0]);
    w.base = (bg_transport){.struct_bytes = sizeof w.base,
                            .name = "a socket",
                            .rank = child == 0,
                            .rank_count = 2,
                            .tag_count = UINT32_MAX,
                            .message_bytes = PACKET_BYTES,
                            .takes_any_thread = false,
                            .user = &w,
                            .open = open_lane,
                            .close = close_lane,
                            .send = begin_send,
                            .receive = begin_receive,
                            .poll = poll_lane};
    train(&w.base, together);
    if (child == 0)
        return 0;
    waitpid(child, &code, 0);
    train(NULL, alone);
    printf("two processes: loss %.6f after the first run, %.6f after %d\n", together[0], together[RUNS - 1], RUNS);
    printf("one process has %s\n", memcmp(together, alone, sizeof alone) == 0 ? "the same losses" : "other losses");
    return code != 0 || memcmp(together, alone, sizeof alone) != 0;
}

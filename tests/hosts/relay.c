/*
 * relay.c: a cable between hosts that are network namespaces of one machine. It opens a network interface in each
 * namespace and passes Ethernet frames between the interfaces until a signal stops it. The delay and the rate can be
 * set.
 *
 *     relay [--delay-ms MS] [--rate-mbit RATE] NAMESPACE...
 *
 * The interface is eth0 and has the address 02:00:00:00:00:NN in the NNth namespace. `ready` on standard output means
 * that all interfaces exist. After SIGUSR1 all frames are lost, but interfaces stay up, as when a switch loses power.
 * It runs only on Linux and as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MAX_HOSTS    16
#define MAX_FRAME    9216
#define QUEUE_FRAMES 1024

typedef struct frame {
    int64_t due_ns;
    size_t size_bytes;
    uint32_t to; /* the index of a host, or EVERYBODY */
    unsigned char bytes[MAX_FRAME];
} frame;

typedef struct cable {
    int interface;
    int64_t free_ns; /* the time at which the last frame has passed the cable */
    size_t first, count;
    frame *queue; /* frames that this host has sent, in order */
} cable;

typedef struct relay {
    uint32_t count;
    int64_t delay_ns;
    double ns_per_byte;
    cable cables[MAX_HOSTS];
} relay;

#define EVERYBODY UINT32_MAX

static volatile sig_atomic_t is_cut;

static void cut(int signal_number)
{
    (void)signal_number;
    is_cut = 1;
}

static void die(const char *what, const char *which)
{
    fprintf(stderr, "relay: %s %s: %s\n", what, which, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Opens an interface in the namespace; the process stays in its own namespace. */
static int open_interface(const char *name)
{
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int there, interface;

    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    there = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0)
        die("cannot enter the namespace", name);
    interface = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    strcpy(request.ifr_name, "eth0");
    if (interface < 0 || ioctl(interface, TUNSETIFF, &request) != 0)
        die("cannot make an interface in", name);
    if (setns(home, CLONE_NEWNET) != 0)
        die("cannot come back from the namespace", name);
    close(there);
    close(home);
    return interface;
}

/* Returns the index of the host that has the frame's address, or EVERYBODY if no host has it. */
static uint32_t find_receiver(const relay *r, const unsigned char *bytes)
{
    static const unsigned char ours[5] = {2, 0, 0, 0, 0};

    if (memcmp(bytes, ours, sizeof ours) == 0 && bytes[5] >= 1 && bytes[5] <= r->count)
        return bytes[5] - 1u;
    return EVERYBODY;
}

/* Receives what a host has sent. A frame is lost if the queue is full, as in a switch. */
static void take_frames(relay *r, cable *c, int64_t now)
{
    static unsigned char dropped[MAX_FRAME];

    for (;;) {
        frame *f = c->count < QUEUE_FRAMES ? &c->queue[(c->first + c->count) % QUEUE_FRAMES] : NULL;
        const ssize_t size = read(c->interface, f != NULL ? f->bytes : dropped, MAX_FRAME);
        if (size < 14)
            return;
        if (f == NULL || is_cut)
            continue;
        c->free_ns = (c->free_ns > now ? c->free_ns : now) + (int64_t)(r->ns_per_byte * (double)size);
        f->due_ns = c->free_ns + r->delay_ns;
        f->size_bytes = (size_t)size;
        f->to = find_receiver(r, f->bytes);
        c->count++;
    }
}

/* Delivers a frame, which is lost if the interface does not accept it. */
static void deliver(const relay *r, uint32_t from, const frame *f)
{
    for (uint32_t to = 0; to < r->count; to++) {
        if (to == from || (f->to != EVERYBODY && f->to != to))
            continue;
        if (write(r->cables[to].interface, f->bytes, f->size_bytes) < 0 && errno != EAGAIN && errno != EIO)
            die("cannot write to", "eth0"); /* EIO: the interface is not up yet */
    }
}

/* Delivers the frames that are due, and returns the time of the next frame, or -1 if the queue is empty. */
static int64_t pass_frames(relay *r, int64_t now)
{
    int64_t next = -1;

    for (uint32_t from = 0; from < r->count; from++) {
        cable *c = &r->cables[from];
        while (c->count > 0 && c->queue[c->first].due_ns <= now) {
            if (!is_cut)
                deliver(r, from, &c->queue[c->first]);
            c->first = (c->first + 1) % QUEUE_FRAMES;
            c->count--;
        }
        if (c->count > 0 && (next < 0 || c->queue[c->first].due_ns < next))
            next = c->queue[c->first].due_ns;
    }
    return next;
}

static void run(relay *r)
{
    struct pollfd events[MAX_HOSTS];

    for (uint32_t i = 0; i < r->count; i++)
        events[i] = (struct pollfd){.fd = r->cables[i].interface, .events = POLLIN};
    for (;;) {
        const int64_t next = pass_frames(r, now_ns());
        int64_t wait_ns = next < 0 ? -1 : next - now_ns(), now;
        struct timespec wait;
        wait_ns = next >= 0 && wait_ns < 0 ? 0 : wait_ns;
        wait = (struct timespec){wait_ns / 1000000000, wait_ns % 1000000000};
        if (ppoll(events, r->count, wait_ns < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR)
            die("cannot wait for", "frames");
        now = now_ns();
        for (uint32_t i = 0; i < r->count; i++)
            take_frames(r, &r->cables[i], now);
    }
}

static double read_number(const char *text)
{
    char *end;
    const double number = strtod(text != NULL ? text : "", &end);

    if (text != NULL && end != text && *end == '\0' && number >= 0)
        return number;
    fprintf(stderr, "relay: `%s` is not a number\n", text != NULL ? text : "");
    exit(2);
}

int main(int argc, char **argv)
{
    static relay r;
    struct sigaction action = {.sa_handler = cut};

    sigaction(SIGUSR1, &action, NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--delay-ms") == 0) {
            r.delay_ns = (int64_t)(read_number(argv[++i]) * 1e6);
        } else if (strcmp(argv[i], "--rate-mbit") == 0) {
            const double rate = read_number(argv[++i]);
            r.ns_per_byte = rate > 0 ? 8e3 / rate : 0;
        } else if (r.count < MAX_HOSTS) {
            cable *c = &r.cables[r.count++];
            c->interface = open_interface(argv[i]);
            c->queue = calloc(QUEUE_FRAMES, sizeof *c->queue);
            if (c->queue == NULL)
                die("no memory for the frames of", argv[i]);
        }
    }
    if (r.count < 2) {
        fprintf(stderr, "relay [--delay-ms MS] [--rate-mbit RATE] NAMESPACE NAMESPACE...\n");
        return 2;
    }
    puts("ready");
    fflush(stdout);
    run(&r);
}

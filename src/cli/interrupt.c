/*
 * interrupt.c: handles signals that ask the program to end. A signal sets a flag, so that the program can finish
 * properly. If nothing needs to be saved, a signal prints "brigade COMMAND: stopped by signal N" and ends the program
 * at once.
 */
#include "cli/program.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t cli_received_signal;
static atomic_bool is_asked_to_stop; /* whether a signal has arrived, for all threads */

bool cli_is_asked_to_stop(void *user)
{
    (void)user;
    return atomic_load_explicit(&is_asked_to_stop, memory_order_relaxed);
}

/* Records the signal. A second signal ends the program in the usual way, because of SA_RESETHAND. */
static void note_signal(int number)
{
    cli_received_signal = number;
    atomic_store_explicit(&is_asked_to_stop, true, memory_order_relaxed);
}

static char last_words[64]; /* the message of end_at_once, up to the number */

/* Prints last_words and the signal's number, and ends the program. As a signal handler it calls only async-signal-safe
 * functions. */
static void end_at_once(int number)
{
    char line[sizeof last_words + 4];
    size_t length = strlen(last_words);

    memcpy(line, last_words, length);
    if (number >= 10)
        line[length++] = (char)('0' + number / 10);
    line[length++] = (char)('0' + number % 10);
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        _exit(128 + number); /* the message is lost */
    _exit(128 + number);
}

static void answer_signals(void (*handler)(int number))
{
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    /* SA_RESTART is not set, so that a signal ends a write that waits for the reader of a pipe. */
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A signal that nohup ignores stays ignored. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void cli_catch_signals(void)
{
    answer_signals(note_signal);
}

void cli_end_at_signals(const char *command)
{
    snprintf(last_words, sizeof last_words, "brigade %s: stopped by signal ", command);
    answer_signals(end_at_once);
    if (cli_received_signal != 0) /* a signal has arrived since the last check */
        end_at_once((int)cli_received_signal);
}

/*
 * interrupt.c: signals that ask a program to end are noted, so that it can end in good order.
 */
#include "cli/program.h"

#include <string.h>

volatile sig_atomic_t cli_received_signal;

/* The second signal ends the program in the usual way: SA_RESETHAND. */
static void note_signal(int number)
{
    cli_received_signal = number;
}

void cli_catch_signals(void)
{
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    /* Not SA_RESTART: a write to a pipe that nobody reads must end. */
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup stays nohup. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

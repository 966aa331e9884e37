/*
 * test_workers.c: runs parity/test_recorded.c over copied messages, on three workers and an I/O thread that all deliver
 * them: the same bits.
 */
#define main whole_suite
int whole_suite(void);
#include "../parity/test_recorded.c"
#undef main

#include "copied/wrap.h"

int main(void)
{
    test_copied_workers(3, 1);
    return whole_suite();
}

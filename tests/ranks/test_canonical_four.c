/* test_canonical_four.c: runs parity/test_canonical.c over four processes and expects the same bits. */
#include "../parity/test_canonical.c"

/* Runs before wrap.c reads the variable. */
__attribute__((constructor)) static void ask_for_four(void)
{
    setenv("BRIGADE_TEST_RANKS", "4", 0);
}

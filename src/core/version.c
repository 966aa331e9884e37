/*
 * version.c: which release this is.
 */
#include <brigade/base.h>

const char *bg_version(void)
{
    return BGI_VERSION;
}

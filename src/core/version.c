/*
 * version.c: returns the version of this release.
 */
#include <brigade/base.h>

const char *bg_version(void)
{
    return BGI_VERSION;
}

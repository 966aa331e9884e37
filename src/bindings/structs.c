/*
 * structs.c: the size of each struct of the public headers, by its name. structs.def lists them and is made from the
 * headers (tools/make_bindings.py).
 */
#include <brigade.h>

#include <stdlib.h>
#include <string.h>

typedef struct known_struct {
    const char *name;
    size_t size_bytes;
} known_struct;

#define STRUCT(name) {#name, sizeof(struct name)},
static const known_struct structs[] = {
#include "bindings/structs.def"
};
#undef STRUCT

static int compare(const void *name, const void *entry)
{
    return strcmp(name, ((const known_struct *)entry)->name);
}

size_t bg_struct_bytes(const char *name)
{
    const known_struct *found;

    if (name == NULL)
        return 0;
    found = bsearch(name, structs, sizeof structs / sizeof structs[0], sizeof structs[0], compare);
    return found != NULL ? found->size_bytes : 0;
}

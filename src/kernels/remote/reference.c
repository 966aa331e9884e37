/*
 * reference.c: loads or stores one of the entries of a buffer. Only that entry is accessed, whether the buffer is in a
 * device's memory or in its remote store. An index beyond the entries loads zeros and stores nothing. The kernels have
 * no attributes:
 *
 *     REMOTE_LOAD   buffer [E, ...], index int32 (one) -> entry [...]
 *     REMOTE_STORE  buffer [E, ...], index, entry -> index
 */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/reference/operands.h"

/* Returns the entry's address, or NULL if the index is out of range. */
static unsigned char *find_entry(const bg_kernel_call *call, size_t *out_size_bytes)
{
    const bg_type *buffer = bgi_input_type(call, 0);
    const int32_t index = *(const int32_t *)call->operands[1];

    *out_size_bytes = bg_type_size_bytes(buffer) / (size_t)buffer->dims[0];
    if (index < 0 || index >= buffer->dims[0])
        return NULL;
    return (unsigned char *)call->operands[0] + (size_t)index * *out_size_bytes;
}

void bgi_reference_remote_load(const bg_kernel_call *call, uint32_t part)
{
    size_t size_bytes;
    const unsigned char *entry = find_entry(call, &size_bytes);

    (void)part;
    if (entry != NULL)
        memcpy(bgi_output(call, 0), entry, size_bytes);
    else
        memset(bgi_output(call, 0), 0, size_bytes);
}

void bgi_reference_remote_store(const bg_kernel_call *call, uint32_t part)
{
    size_t size_bytes;
    unsigned char *entry = find_entry(call, &size_bytes);

    (void)part;
    if (entry != NULL)
        memcpy(entry, call->operands[2], size_bytes);
    *(int32_t *)bgi_output(call, 0) = *(const int32_t *)call->operands[1];
}

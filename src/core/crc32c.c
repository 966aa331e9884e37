/*
 * crc32c.c: computes CRC-32C (reflected, polynomial 0x1edc6f41, RFC 3720), four bits at a time, with a table of 16
 * entries. This is fast compared with the code that reads the data.
 */
#include "core/crc32c.h"

/* Entry i: the remainder of i, shifted through four bits with 0x82f63b78, the polynomial with its bits reversed. */
static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                   0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t bgi_crc32c(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

uint32_t bgi_crc32c_masked(const void *data, size_t size_bytes)
{
    const uint32_t crc = bgi_crc32c(data, size_bytes);

    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/*
 * crc64.c: a table-driven CRC, eight bytes a step: the checksum is linear, so that of eight bytes is the sum (xor) of
 * what each contributes with zeros behind it.
 */
#include "core/crc64.h"

static const uint64_t polynomial = 0xc96c5795d7870f42u;

void bgi_crc64_init(bgi_crc64 *crc)
{
    crc->value = ~(uint64_t)0;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ ((value & 1) != 0 ? polynomial : 0);
        crc->table[0][byte] = value;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (unsigned byte = 0; byte < 256; byte++) {
            const uint64_t before = crc->table[zeros - 1][byte];
            crc->table[zeros][byte] = before >> 8 ^ crc->table[0][before & 255];
        }
}

void bgi_crc64_add(bgi_crc64 *crc, const void *data, size_t size_bytes)
{
    const unsigned char *at = data;
    uint64_t value = crc->value;

    for (; size_bytes >= 8; size_bytes -= 8, at += 8) {
        uint64_t next = 0;
        for (int i = 0; i < 8; i++)
            next ^= crc->table[7 - i][(value >> (8 * i) & 255) ^ at[i]];
        value = next;
    }
    for (; size_bytes > 0; size_bytes--)
        value = value >> 8 ^ crc->table[0][(value ^ *at++) & 255];
    crc->value = value;
}

uint64_t bgi_crc64_value(const bgi_crc64 *crc)
{
    return ~crc->value;
}

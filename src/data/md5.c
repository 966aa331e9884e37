/*
 * md5.c: computes the MD5 digest of RFC 1321 in its simplest form: two tables (rotations, sines) and a loop over 64
 * steps.
 */
#include "data/md5.h"

#include <stdio.h>
#include <string.h>

static const unsigned char rotations[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static uint32_t rotate_left(uint32_t value, unsigned count)
{
    return value << count | value >> (32 - count);
}

static uint32_t read_word(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void digest_block(uint32_t state[4], const unsigned char *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

    for (unsigned i = 0; i < 64; i++) {
        uint32_t mixed, kept;
        unsigned word;

        switch (i / 16) {
        case 0:
            mixed = (b & c) | (~b & d);
            word = i;
            break;
        case 1:
            mixed = (d & b) | (~d & c);
            word = (5 * i + 1) % 16;
            break;
        case 2:
            mixed = b ^ c ^ d;
            word = (3 * i + 5) % 16;
            break;
        default:
            mixed = c ^ (b | ~d);
            word = 7 * i % 16;
            break;
        }
        kept = d;
        d = c;
        c = b;
        b += rotate_left(a + mixed + sines[i] + read_word(block + 4 * (size_t)word), rotations[i / 16][i % 4]);
        a = kept;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void bgi_md5_init(bgi_md5 *md5)
{
    *md5 = (bgi_md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

void bgi_md5_add(bgi_md5 *md5, const void *data, size_t size_bytes)
{
    const unsigned char *at = data;
    size_t waiting = md5->size_bytes % 64;

    md5->size_bytes += size_bytes;
    while (size_bytes > 0) {
        const size_t part = 64 - waiting < size_bytes ? 64 - waiting : size_bytes;

        if (part == 64) {
            digest_block(md5->state, at);
        } else {
            memcpy(md5->block + waiting, at, part);
            waiting += part;
            if (waiting == 64) {
                digest_block(md5->state, md5->block);
                waiting = 0;
            }
        }
        at += part;
        size_bytes -= part;
    }
}

void bgi_md5_text(bgi_md5 *md5, char text[BGI_MD5_TEXT_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    const uint64_t size_bits = md5->size_bytes * 8;
    const size_t waiting = md5->size_bytes % 64;
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(size_bits >> (8 * i));
    bgi_md5_add(md5, padding, waiting < 56 ? 56 - waiting : 120 - waiting);
    bgi_md5_add(md5, length, sizeof length);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", (unsigned)(md5->state[i / 4] >> (8 * (i % 4)) & 0xff));
}

/*
 * crc64.c: computes a table-driven CRC, eight bytes per step. The checksum is linear, so the checksum of eight bytes is
 * the sum (xor) of what each byte contributes with zeros after it.
 *
 * If the processor multiplies polynomials, long data are summed in a different way, with the same value. Sixteen bytes
 * can be replaced by zeros if bytes with the same remainder are added D bytes later. The added bytes are the sum of the
 * two halves of the sixteen bytes, each multiplied by a power of x modulo the polynomial. Four such sums are computed
 * in parallel, and the table adds the last 16 bytes.
 *
 *     0 1 2 3 | 4 5 6 7 | ...   blocks of 16 bytes: 0 is added to 4, 1 to 5, ..., and in the end 0 to 1 to 2 to 3
 */
#include "core/crc64.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define BGI_CRC64_FOLDS 1
#include <immintrin.h>
#endif

static const uint64_t polynomial = 0xc96c5795d7870f42u;

enum { BLOCK_BYTES = 16, STREAMS = 4, FOLDED_BYTES_LEAST = 2 * STREAMS * BLOCK_BYTES };

/* Multiplies by x modulo the polynomial. The lowest bit is the coefficient of the highest power. */
static uint64_t shift(uint64_t value)
{
    return value >> 1 ^ ((value & 1) != 0 ? polynomial : 0);
}

/* Returns x to the power `exponent`, modulo the polynomial. */
static uint64_t power_of_x(unsigned exponent)
{
    uint64_t value = (uint64_t)1 << 63;

    while (exponent-- > 0)
        value = shift(value);
    return value;
}

void bgi_crc64_init(bgi_crc64 *crc)
{
    crc->value = ~(uint64_t)0;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = shift(value);
        crc->table[0][byte] = value;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (unsigned byte = 0; byte < 256; byte++) {
            const uint64_t before = crc->table[zeros - 1][byte];
            crc->table[zeros][byte] = before >> 8 ^ crc->table[0][before & 255];
        }
    /* The exponents are one less than the distances in bits: the product of two reversed polynomials has 127 bits, but
     * the register has 128. */
    for (unsigned i = 0; i < 2; i++) {
        const unsigned bits = 8 * BLOCK_BYTES * (i == 0 ? 1 : STREAMS);
        crc->fold[2 * i] = power_of_x(bits + 63);
        crc->fold[2 * i + 1] = power_of_x(bits - 1);
    }
#ifdef BGI_CRC64_FOLDS
    crc->folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#else
    crc->folds = false;
#endif
}

static uint64_t add_by_table(const bgi_crc64 *crc, uint64_t value, const unsigned char *at, size_t size_bytes)
{
    for (; size_bytes >= 8; size_bytes -= 8, at += 8) {
        uint64_t next = 0;
        for (int i = 0; i < 8; i++)
            next ^= crc->table[7 - i][(value >> (8 * i) & 255) ^ at[i]];
        value = next;
    }
    for (; size_bytes > 0; size_bytes--)
        value = value >> 8 ^ crc->table[0][(value ^ *at++) & 255];
    return value;
}

#ifdef BGI_CRC64_FOLDS
#define FOLDING __attribute__((target("pclmul,sse4.1")))

/* Moves 16 bytes forward by the distance that `by` describes. */
FOLDING static inline __m128i fold(__m128i bytes, __m128i by)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(bytes, by, 0x00), _mm_clmulepi64_si128(bytes, by, 0x11));
}

FOLDING static inline __m128i load(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Adds data in four sums. `size_bytes` is at least 128 and a multiple of 64, the bytes of one step of all sums. */
FOLDING static uint64_t add_folded(const bgi_crc64 *crc, uint64_t value, const unsigned char *at, size_t size_bytes)
{
    const __m128i next = load((const unsigned char *)&crc->fold[0]), far = load((const unsigned char *)&crc->fold[2]);
    unsigned char last[BLOCK_BYTES];
    __m128i stream[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        stream[i] = load(at + BLOCK_BYTES * i);
    stream[0] = _mm_xor_si128(stream[0], _mm_cvtsi64_si128((long long)value));
    for (size_t done = STREAMS * BLOCK_BYTES; done < size_bytes; done += STREAMS * BLOCK_BYTES)
        for (int i = 0; i < STREAMS; i++)
            stream[i] = _mm_xor_si128(fold(stream[i], far), load(at + done + (size_t)(BLOCK_BYTES * i)));
    for (int i = 1; i < STREAMS; i++)
        stream[i] = _mm_xor_si128(fold(stream[i - 1], next), stream[i]);
    _mm_storeu_si128((__m128i *)(void *)last, stream[STREAMS - 1]);
    return add_by_table(crc, 0, last, sizeof last);
}
#endif

void bgi_crc64_add(bgi_crc64 *crc, const void *data, size_t size_bytes)
{
    const unsigned char *at = data;

#ifdef BGI_CRC64_FOLDS
    if (crc->folds && size_bytes >= FOLDED_BYTES_LEAST) {
        const size_t folded = size_bytes - size_bytes % (STREAMS * BLOCK_BYTES);
        crc->value = add_folded(crc, crc->value, at, folded);
        at += folded;
        size_bytes -= folded;
    }
#endif
    crc->value = add_by_table(crc, crc->value, at, size_bytes);
}

/* Computes the product modulo the polynomial. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (int bit = 63; bit >= 0; bit--) {
        product ^= (a >> bit & 1) != 0 ? b : 0;
        b = shift(b);
    }
    return product;
}

/* Moves the value so far forward by the part's bytes, and combines it with the checksum of the part. */
void bgi_crc64_join(bgi_crc64 *crc, uint64_t part, uint64_t size_bytes)
{
    uint64_t factor = power_of_x(8);

    for (; size_bytes > 0; size_bytes >>= 1) {
        if ((size_bytes & 1) != 0)
            crc->value = multiply(crc->value, factor);
        factor = multiply(factor, factor);
    }
    crc->value ^= part;
}

uint64_t bgi_crc64_value(const bgi_crc64 *crc)
{
    return ~crc->value;
}

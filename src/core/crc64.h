/*
 * crc64.h: computes the CRC-64 of the xz format (its specification, section 6): the polynomial of ECMA-182, bits
 * reflected, initial value and final xor all ones. The checksum detects damage, but not manipulation. It detects every
 * change within 64 neighboring bits, and all but one in 2^64 of the other changes.
 */
#ifndef BGI_CORE_CRC64_H
#define BGI_CORE_CRC64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bgi_crc64 {
    uint64_t value;
    uint64_t table[8][256]; /* values of a byte with 0 to 7 zero bytes after it */
    uint64_t fold[4]; /* factors that move the two halves of 16 bytes forward: fold[0], fold[1] by 16 bytes; fold[2],
                         fold[3] by 64 bytes */
    bool folds;       /* the processor multiplies polynomials: long data are folded. Results are the same */
} bgi_crc64;

void bgi_crc64_init(bgi_crc64 *crc);
void bgi_crc64_add(bgi_crc64 *crc, const void *data, size_t size_bytes);
/* Adds `size_bytes` bytes of data; `part` is their checksum, computed from an initial value of 0. */
void bgi_crc64_join(bgi_crc64 *crc, uint64_t part, uint64_t size_bytes);
uint64_t bgi_crc64_value(const bgi_crc64 *crc); /* returns the checksum of the data so far; more may be added */

#endif

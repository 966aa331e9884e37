/*
 * md5.h: computes the MD5 digest (RFC 1321), to verify published files by the MD5 of their publishers. It detects
 * damage, but not manipulation.
 */
#ifndef BGI_DATA_MD5_H
#define BGI_DATA_MD5_H

#include <stddef.h>
#include <stdint.h>

typedef struct bgi_md5 {
    uint32_t state[4];
    uint64_t size_bytes;
    unsigned char block[64]; /* the last size_bytes % 64 bytes, which are not digested yet */
} bgi_md5;

enum { BGI_MD5_TEXT_BYTES = 33 };

void bgi_md5_init(bgi_md5 *md5);
void bgi_md5_add(bgi_md5 *md5, const void *data, size_t size_bytes);

/* Ends the digest; writes 32 hexadecimal digits and a zero byte. */
void bgi_md5_text(bgi_md5 *md5, char text[BGI_MD5_TEXT_BYTES]);

#endif

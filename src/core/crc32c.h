/*
 * crc32c.h: computes the CRC-32C (Castagnoli) checksum of TFRecord files, plain or masked.
 */
#ifndef BGI_CORE_CRC32C_H
#define BGI_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t bgi_crc32c(const void *data, size_t size_bytes);

/* Returns the masked form that files store, because a plain checksum of data that contain checksums would be weak. */
uint32_t bgi_crc32c_masked(const void *data, size_t size_bytes);

#endif

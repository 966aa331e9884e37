/*
 * device_model.h: declares the numbers that describe a device for predictions: arithmetic speed, memory sizes and
 * bandwidths. They are read from a JSON file (docs/formats.md), and every value is checked.
 */
#ifndef BGI_PREDICT_DEVICE_MODEL_H
#define BGI_PREDICT_DEVICE_MODEL_H

#include <brigade/base.h>

/* A connection between memories: a message of n bytes takes latency_ns + n / bytes_per_ns. */
typedef struct bgi_link_model {
    double bytes_per_ns; /* above 0 */
    double latency_ns;
} bgi_link_model;

enum { BGI_DEVICE_NAME_BYTES = 96, BGI_DEVICE_SOURCE_BYTES = 640 };

typedef struct bgi_device_model {
    char name[BGI_DEVICE_NAME_BYTES];
    char source[BGI_DEVICE_SOURCE_BYTES]; /* the origin of the numbers */
    double memory_bytes;                  /* memory of one device */
    double memory_bytes_per_ns;           /* speed between this memory and the arithmetic units */
    double flops_per_ns[BG_DTYPE_COUNT];  /* by type of the operands; 0 means the value of float32 */
    double efficiency;     /* the fraction of flops_per_ns and memory_bytes_per_ns that ops reach: above 0, at most 1 */
    double call_ns;        /* time to begin an op */
    bgi_link_model link;   /* connection between devices of a link domain */
    uint32_t link_devices; /* number of devices of a link domain */
    bgi_link_model network; /* connection between link domains */
    double remote_bytes;    /* streaming memory of one device; 0: unlimited */
    bgi_link_model remote;  /* connection between a device and its streaming memory */
} bgi_device_model;

/* Reads a device description from a text. Messages begin with `name`. Errors: BG_ERROR_PARSE (the message names the
 * key, its value and what is allowed), BG_ERROR_MEMORY. */
bg_status bgi_device_model_parse(const char *name, const char *text, size_t size_bytes, bgi_device_model *out,
                                 bg_error *error);
/* Reads a device description from a file. Errors: those of bgi_device_model_parse and of reading the file. */
bg_status bgi_device_model_load(const char *path, bgi_device_model *out, bg_error *error);

/* Returns the number of operations per nanosecond for operands of a type; that of float32 if the type has none. */
double bgi_device_model_flops(const bgi_device_model *model, bg_dtype dtype);

#endif

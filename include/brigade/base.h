/*
 * base.h: what every other header needs: visibility, status codes, errors, element types, shapes.
 *
 * Errors. Every function that can fail returns a bg_status and takes an optional `bg_error *` (NULL is fine). The
 * struct may be uninitialized or hold an older failure, because the function clears it first. Success leaves the struct
 * clear; failure leaves a message that says what failed, where, which value is wrong, and what would be right. Within a
 * call the first cause is kept, and outer layers prepend the place where it happened. Recording an error allocates no
 * memory, so it works when memory has run out. A NULL where an object, a path, options, a list or an output pointer is
 * required gives BG_ERROR_INVALID, and the message names the parameter.
 *
 * Ownership, for the whole library: what comes through an `out` parameter is yours to destroy; what is returned
 * directly is borrowed from its parent. `*_destroy(NULL)` is fine. On failure `*out` is untouched.
 *
 * Threads: any thread may call these functions at any time; one thread at a time uses a bg_error.
 *
 * Errors: bg_error_set and bg_error_context return the status that the caller passes; bg_type_validate returns
 * BG_ERROR_SHAPE, or BG_ERROR_INVALID for NULL.
 */
#ifndef BRIGADE_BASE_H
#define BRIGADE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BG_API               __attribute__((visibility("default")))
#define BG_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define BG_API
#define BG_PRINTF(at, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Codes differ where a caller would react differently to a failure. */
typedef enum bg_status {
    BG_OK = 0,
    BG_ERROR_INVALID,       /* an argument or option is wrong: fix the call */
    BG_ERROR_SHAPE,         /* shapes or types do not fit together: fix the model */
    BG_ERROR_PARSE,         /* a file's content is wrong: fix the file */
    BG_ERROR_NOT_FOUND,     /* something with the given name does not exist */
    BG_ERROR_MEMORY,        /* the allocator returned NULL */
    BG_ERROR_BUDGET,        /* a plan exceeds a device's memory budget, or a session the machine's free memory */
    BG_ERROR_UNSUPPORTED,   /* a valid request that this build or machine does not support */
    BG_ERROR_IO,            /* the operating system refused */
    BG_ERROR_COMMUNICATION, /* a peer failed or disconnected */
    BG_ERROR_TIMEOUT,       /* a wait lasted longer than its limit */
    BG_ERROR_CANCELED,      /* a callback of the caller ended the work */
    BG_ERROR_RANGE,         /* the data ended: provide more data, or repeat the data */
    BG_ERROR_INTERNAL,      /* a defect in the library itself */
    BG_ERROR_NOT_FINITE     /* a loss is infinite or NaN, and its update was refused (numerics.guard_loss) */
} bg_status;

/* Structs that callers fill begin with their size, struct_bytes, so a program that was compiled for a release in
 * which a struct has another size gets an error (BG_ERROR_INVALID, which names the struct):
 *
 * - If a function makes the struct (bg_options_defaults(), bg_adamw(), bg_loader_options_defaults(), or for bindings an
 *   ..._init function, which gets the size as an argument), this function sets the size, and a size of 0 is an error
 *   that names the function.
 * - If the struct may be all-zero at first ((bg_run){.inputs = inputs}), a size of 0 means the library's size. A
 *   program that wants the check sets `.struct_bytes = sizeof(bg_run)`.
 *
 * Small values (bg_type, bg_mesh, bg_initializer), elements of arrays, and structs that the library fills have no size
 * field; they change only with the library's SONAME. */

#define BG_ERROR_MESSAGE_BYTES 4096

/* An error, in memory of the caller. Functions that take a bg_error clear it first, whatever it holds, except
 * bg_error_set and bg_error_context, which keep the recorded text. For these two the struct must be zero-initialized,
 * cleared, or one that the library passed to a callback. */
typedef struct bg_error {
    bg_status status;
    char message[BG_ERROR_MESSAGE_BYTES];
} bg_error;

/* Returns the release of the library with which the program runs, such as "0.1.0". */
BG_API const char *bg_version(void);

/* Returns a short name for a status ("shape", "budget", ...); never NULL. */
BG_API const char *bg_status_name(bg_status status);

/* Records a failure, with a message in the style of printf, and returns `status`. Use it in your own ops and data sets,
 * which the library calls with a cleared error. A cause that is already recorded is kept. `error` may be NULL. */
BG_API bg_status bg_error_set(bg_error *error, bg_status status, const char *format, ...) BG_PRINTF(3, 4);

/* Prepends "where: " to the recorded message and returns `status`. `error` may be NULL. */
BG_API bg_status bg_error_context(bg_error *error, bg_status status, const char *format, ...) BG_PRINTF(3, 4);

/* Clears an error, so that it can be used again. */
BG_API void bg_error_clear(bg_error *error);

/* A callback that is called repeatedly during long work, in the thread that does the work. Returning true ends the work
 * with BG_ERROR_CANCELED. The callback must return quickly, and after it has returned true, further calls must return
 * true too. */
typedef bool (*bg_stop_function)(void *user);

/* A callback that is called during long work, in the thread that does the work, at the beginning of each part, when
 * `done` of `total` units are finished. `what` names the part, such as a pass of the compiler or a tensor, and is valid
 * during the call. Returning true ends the work with BG_ERROR_CANCELED. */
typedef bool (*bg_progress_function)(void *user, const char *what, uint64_t done, uint64_t total);

/* ---- memory ---- */

/* The caller's allocator. `allocate` must return size_bytes (above 0) with undefined content, at a multiple of
 * `alignment` (a power of two), or NULL. `release` gets the memory back, with the same size. Set both functions or
 * neither; if neither is set, memory comes from the C library. The functions are called in the threads that create, use
 * and destroy the objects to which the allocator was given, and by several threads at once if objects of several
 * threads share the allocator. The allocator must outlive these objects. */
typedef struct bg_allocator {
    void *(*allocate)(void *user, size_t alignment, size_t size_bytes);
    void (*release)(void *user, void *memory, size_t size_bytes);
    void *user; /* passed to both */
} bg_allocator;

/* ---- element types and shapes ---- */

typedef enum bg_dtype {
    BG_DTYPE_NONE = 0,
    BG_FLOAT32,
    BG_BFLOAT16,
    BG_FLOAT64, /* for gradient checks; every reference kernel supports this type */
    BG_INT32,
    BG_UINT8,
    BG_FLOAT16, /* IEEE 754 binary16 */
    BG_INT64,   /* like int32, for counters beyond 2^31 */
    BG_DTYPE_COUNT
} bg_dtype;

#define BG_MAX_RANK 6

/* An element type and a shape. Values are dense and row-major; rank 0 is a scalar. dims[rank..] are zero. */
typedef struct bg_type {
    bg_dtype dtype;
    uint32_t rank;
    int64_t dims[BG_MAX_RANK];
} bg_type;

BG_API size_t bg_dtype_size_bytes(bg_dtype dtype); /* 0 for BG_DTYPE_NONE and unknown values */
BG_API const char *bg_dtype_name(bg_dtype dtype);  /* "float32", ...; "none" if unknown */
BG_API bg_dtype bg_dtype_find(const char *name);   /* BG_DTYPE_NONE when there is no such type */
BG_API bool bg_dtype_is_float(bg_dtype dtype);
BG_API bg_type bg_type_make(bg_dtype dtype, uint32_t rank, const int64_t *dims);
BG_API bg_type bg_scalar(bg_dtype dtype);
BG_API bg_type bg_vector(bg_dtype dtype, int64_t d0);
BG_API bg_type bg_matrix(bg_dtype dtype, int64_t d0, int64_t d1);
BG_API bg_type bg_tensor3(bg_dtype dtype, int64_t d0, int64_t d1, int64_t d2);
BG_API bg_type bg_tensor4(bg_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
BG_API int64_t bg_type_element_count(const bg_type *type); /* 1 for a scalar */
BG_API size_t bg_type_size_bytes(const bg_type *type);
BG_API bool bg_type_equal(const bg_type *a, const bg_type *b);

/* Rejects unknown dtypes, ranks above BG_MAX_RANK, dims below 1 and sizes that overflow. */
BG_API bg_status bg_type_validate(const bg_type *type, bg_error *error);

#define BG_TYPE_TEXT_BYTES 160
/* Writes a type as text, such as "float32[40,1,28,28]", into `text` (BG_TYPE_TEXT_BYTES), and returns `text`. */
BG_API const char *bg_type_text(const bg_type *type, char *text);

#ifdef __cplusplus
}
#endif

#endif

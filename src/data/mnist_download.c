/*
 * mnist_download.c: downloads missing files of MNIST. A file is kept in memory until the MD5 of its unpacked content is
 * the published one; only then is it written, under a temporary name first. So a folder never contains a partial
 * download.
 *
 * libcurl is loaded at the first download, because it loads thirty libraries, which programs without downloads do not
 * need.
 */
#include "data/mnist.h"
#include "data/md5.h"

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char *const public_mirrors[] = {
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
};

/* The largest canonical file is 10 MB packed and 47 MB unpacked. */
enum { LARGEST_PACKED_BYTES = 64 << 20, LARGEST_UNPACKED_BYTES = 512 << 20 };
enum { CONNECT_TIMEOUT_S = 15, STALLED_BELOW_BYTES_PER_S = 500, STALLED_FOR_S = 30, MOST_REDIRECTS = 5 };

/* The functions of libcurl that are used. */
typedef struct curl_library {
    void *handle;
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*easy_perform)(CURL *curl);
    void (*easy_cleanup)(CURL *curl);
    const char *(*easy_strerror)(CURLcode code);
} curl_library;

typedef struct transfer {
    const bg_mnist_download_options *options;
    curl_library curl; /* empty until the first download */
    const char *file_name;
    unsigned char *data;
    size_t capacity;
    size_t size_bytes;
    bool is_canceled;
    bool is_too_long;
    bool is_out_of_memory;
} transfer;

void bg_mnist_download_options_init(bg_mnist_download_options *options, size_t struct_bytes, const char *folder)
{
    const bg_mnist_download_options made = {.struct_bytes = struct_bytes,
                                            .folder = folder,
                                            .mirrors = public_mirrors,
                                            .mirror_count = sizeof public_mirrors / sizeof public_mirrors[0]};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Finds a function of the library. POSIX allows functions in data pointers but ISO C does not, so the pointer is
 * copied. */
static bool find_function(const curl_library *curl, const char *name, void *out_function)
{
    void *const found = dlsym(curl->handle, name);

    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

static bg_status load_curl(curl_library *curl, bg_error *error)
{
    /* libcurl stays loaded, because its resolver's threads may outlive an abandoned transfer. The number in its file
     * name has been 4 since 2006; the two names on Debian differ in their TLS library. */
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};

    for (size_t i = 0; i < sizeof names / sizeof names[0] && curl->handle == NULL; i++)
        curl->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (curl->handle == NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "downloads need libcurl, which cannot be loaded (%s); install it (Debian: libcurl4)",
                            dlerror());
    if (!find_function(curl, "curl_easy_init", &curl->easy_init) ||
        !find_function(curl, "curl_easy_setopt", &curl->easy_setopt) ||
        !find_function(curl, "curl_easy_perform", &curl->easy_perform) ||
        !find_function(curl, "curl_easy_cleanup", &curl->easy_cleanup) ||
        !find_function(curl, "curl_easy_strerror", &curl->easy_strerror))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "libcurl lacks a function that downloads need (%s); install libcurl4", dlerror());
    return BG_OK;
}

/* Stores received data. If it returns fewer bytes than it received, curl stops. */
static size_t receive(char *data, size_t unit, size_t count, void *user)
{
    transfer *t = user;
    const size_t size = unit * count;

    t->is_too_long = size > LARGEST_PACKED_BYTES - t->size_bytes;
    if (t->is_too_long)
        return 0;
    t->is_out_of_memory = !bgi_array_reserve((void **)&t->data, &t->capacity, t->size_bytes + size, 1);
    if (t->is_out_of_memory)
        return 0;
    memcpy(t->data + t->size_bytes, data, size);
    t->size_bytes += size;
    return size;
}

static int report(void *user, curl_off_t total, curl_off_t done, curl_off_t upload_total, curl_off_t upload_done)
{
    transfer *t = user;
    (void)upload_total;
    (void)upload_done;

    if (t->options->progress != NULL && !t->is_canceled)
        t->is_canceled = !t->options->progress(t->options->user, t->file_name, done > 0 ? (uint64_t)done : 0,
                                               total > 0 ? (uint64_t)total : 0);
    return t->is_canceled;
}

static CURLcode configure(CURL *curl, transfer *t, const char *address, char *reason)
{
    CURLcode code = t->curl.easy_setopt(curl, CURLOPT_URL, address);

#define SET(option, value)                                                                                             \
    if (code == CURLE_OK)                                                                                              \
    code = t->curl.easy_setopt(curl, option, value)
    SET(CURLOPT_ERRORBUFFER, reason);
    SET(CURLOPT_FAILONERROR, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)STALLED_BELOW_BYTES_PER_S);
    SET(CURLOPT_LOW_SPEED_TIME, (long)STALLED_FOR_S);
    SET(CURLOPT_NOSIGNAL, 1L); /* the caller may have threads */
    SET(CURLOPT_WRITEFUNCTION, receive);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, report);
    SET(CURLOPT_XFERINFODATA, t);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#undef SET
    return code;
}

static bg_status fetch(transfer *t, const char *address, bg_error *error)
{
    char reason[CURL_ERROR_SIZE] = "";
    CURL *curl;
    CURLcode code;

    if (t->curl.handle == NULL)
        BGI_TRY(load_curl(&t->curl, error));
    curl = t->curl.easy_init();
    if (curl == NULL)
        return bgi_error_memory(error, "a curl handle", 0);
    t->size_bytes = 0;
    t->is_too_long = t->is_out_of_memory = false;
    code = configure(curl, t, address, reason);
    if (code == CURLE_OK)
        code = t->curl.easy_perform(curl);
    t->curl.easy_cleanup(curl);
    if (code == CURLE_OK)
        return BG_OK;
    if (t->is_canceled)
        return bg_error_set(error, BG_ERROR_CANCELED, "download of %s canceled", t->file_name);
    if (t->is_out_of_memory)
        return bgi_error_memory(error, t->file_name, t->size_bytes);
    if (t->is_too_long)
        return bg_error_set(error, BG_ERROR_IO, "%s: is longer than the limit of %d bytes", address,
                            LARGEST_PACKED_BYTES);
    return bg_error_set(error, BG_ERROR_IO, "%s: %s", address,
                        reason[0] != '\0' ? reason : t->curl.easy_strerror(code));
}

/* Computes the MD5 of the unpacked content. Returns false if the content is not a complete gzip stream. */
static bool digest_unpacked(const transfer *t, char text[BGI_MD5_TEXT_BYTES])
{
    unsigned char chunk[65536];
    z_stream inflater = {0};
    bgi_md5 md5;
    size_t total = 0;
    int result;

    inflater.next_in = t->data;
    inflater.avail_in = (uInt)t->size_bytes;
    if (inflateInit2(&inflater, 16 + MAX_WBITS) != Z_OK)
        return false;
    bgi_md5_init(&md5);
    do {
        inflater.next_out = chunk;
        inflater.avail_out = sizeof chunk;
        result = inflate(&inflater, Z_NO_FLUSH);
        bgi_md5_add(&md5, chunk, sizeof chunk - inflater.avail_out);
        total += sizeof chunk - inflater.avail_out;
    } while (result == Z_OK && total <= LARGEST_UNPACKED_BYTES);
    inflateEnd(&inflater);
    bgi_md5_text(&md5, text);
    return result == Z_STREAM_END && inflater.avail_in == 0;
}

static bg_status check_digest(const transfer *t, const char *address, const char *expected, bg_error *error)
{
    char found[BGI_MD5_TEXT_BYTES];

    if (!digest_unpacked(t, found))
        return bg_error_set(error, BG_ERROR_IO, "%s: the %zu bytes that were downloaded are not a whole gzip file",
                            address, t->size_bytes);
    if (strcmp(found, expected) != 0)
        return bg_error_set(error, BG_ERROR_IO, "%s: checksum (MD5, unpacked) is %s but must be %s", address, found,
                            expected);
    return BG_OK;
}

static bg_status fetch_checked(transfer *t, const char *mirror, const char *expected_md5, bg_error *error)
{
    char *address = bgi_path_join(mirror, t->file_name);
    bg_status status;

    if (address == NULL)
        return bgi_error_memory(error, "an address", strlen(mirror));
    status = fetch(t, address, error);
    if (status == BG_OK)
        status = check_digest(t, address, expected_md5, error);
    free(address);
    return status;
}

static bg_status try_mirrors(transfer *t, const char *expected_md5, bg_error *error)
{
    const bg_mnist_download_options *options = t->options;
    char reasons[2048] = "";
    bg_error *attempt = malloc(sizeof *attempt);
    bg_status status = BG_ERROR_IO;

    if (attempt == NULL)
        return bgi_error_memory(error, "an error record", sizeof *attempt);
    for (size_t i = 0; i < options->mirror_count && status == BG_ERROR_IO; i++) {
        const size_t used = strlen(reasons);

        bg_error_clear(attempt);
        status = fetch_checked(t, options->mirrors[i], expected_md5, attempt);
        if (status != BG_OK)
            snprintf(reasons + used, sizeof reasons - used, "%s%.600s", used > 0 ? "; " : "", attempt->message);
    }
    free(attempt);
    if (status != BG_OK)
        bg_error_set(error, status, "cannot download %s: %s", t->file_name, reasons);
    return status;
}

static bg_status download_file(transfer *t, const bgi_mnist_file *file, const char *expected_md5, bg_error *error)
{
    char *path = NULL;
    bg_status status;

    BGI_TRY(bgi_mnist_find(t->options->folder, file, &path, error));
    if (path != NULL) { /* the file exists already, under one of its names */
        free(path);
        return BG_OK;
    }
    t->file_name = file->names[0];
    BGI_TRY(try_mirrors(t, expected_md5, error));
    path = bgi_path_join(t->options->folder, t->file_name);
    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(t->options->folder));
    status = bgi_file_save(path, t->data, t->size_bytes, error);
    free(path);
    return status;
}

bg_status bg_mnist_download(const bg_mnist_download_options *options, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_mnist_download_options",
                             "bg_mnist_download_options_defaults()", error));

    bg_mnist_download_options filled = *options;
    transfer t = {.options = &filled};
    bg_status status;

    if (filled.folder == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "MNIST download: options.folder is NULL but must name a folder");
    if (filled.mirrors == NULL) {
        filled.mirrors = public_mirrors;
        filled.mirror_count = sizeof public_mirrors / sizeof public_mirrors[0];
    }
    if (filled.mirror_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "MNIST download: options.mirror_count is 0 but must be at least 1");
    BGI_TRY(bgi_folder_create(filled.folder, error));
    status = BG_OK;
    for (int i = 0; i < BGI_MNIST_FILE_COUNT && status == BG_OK; i++)
        status =
            download_file(&t, &bgi_mnist_files[i], filled.md5 != NULL ? filled.md5[i] : bgi_mnist_files[i].md5, error);
    free(t.data);
    if (t.curl.handle != NULL)
        dlclose(t.curl.handle);
    return status;
}

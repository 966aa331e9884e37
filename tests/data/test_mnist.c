/*
 * MNIST: the search in folders, files that do not match, and downloads from a server in this process. The first part of
 * the URL selects whether the server succeeds or how it fails.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "data/md5.h"
#include "data/mnist.h"
#include "support/folder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a separate folder for each test ---- */

static int set_up(void **state)
{
    *state = malloc(TEST_FOLDER_BYTES);
    if (*state == NULL)
        return -1;
    test_folder_create(*state);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(*state);
    free(*state);
    return 0;
}

/* Writes an array of `count` items that is uint8 [count, rows, columns], or [count] when rows is 0. */
static void write_array(const char *folder, const char *name, int64_t count, int64_t rows, int64_t columns,
                        uint8_t value)
{
    const bg_type type = rows > 0 ? bg_tensor3(BG_UINT8, count, rows, columns) : bg_vector(BG_UINT8, count);
    char *path = bgi_path_join(folder, name);
    bg_array array = {0};
    bg_error error = {0};

    assert_int_equal(bg_array_init(&array, &type, &error), BG_OK);
    memset(array.data, value, bg_type_size_bytes(&type));
    assert_int_equal(bg_idx_write(path, &array, &error), BG_OK);
    bg_array_clear(&array);
    free(path);
}

static void assert_loads(const char *folder, bool is_training, int64_t count)
{
    bg_image_set set = {0};
    bg_error error = {0};

    if (bg_mnist_load((const char *const[]){NULL, folder}, 2, is_training, &set, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(set.images.type.dims[0], count);
    assert_int_equal(set.labels.type.dims[0], count);
    assert_int_equal(set.class_count, 10);
    assert_non_null(strstr(set.source, folder));
    bg_image_set_clear(&set);
}

static void assert_does_not_load(const char *folder, bg_status expected, const char *text)
{
    bg_image_set set = {0};
    bg_error error = {0};

    assert_int_equal(bg_mnist_load(&folder, 1, true, &set, &error), expected);
    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, text);
    assert_null(set.images.data);
}

/* ---- finding ---- */

static void test_finds_every_form_of_name(void **state)
{
    static const char *const names[][2] = {
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte.gz"},
        {"mnist/train-images-idx3-ubyte.gz", "mnist/train-labels.idx1-ubyte"},
    };
    char *inner = bgi_path_join(*state, "mnist");

    mkdir(inner, 0755);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        write_array(*state, names[i][0], 3, 28, 28, 5);
        write_array(*state, names[i][1], 3, 0, 0, 5);
        assert_loads(*state, true, 3);
        for (int k = 0; k < 2; k++) {
            char *path = bgi_path_join(*state, names[i][k]);
            remove(path);
            free(path);
        }
    }
    free(inner);
    assert_does_not_load(*state, BG_ERROR_NOT_FOUND, *state);
}

static void test_folders_in_order_and_splits(void **state)
{
    char *second = bgi_path_join(*state, "second");
    bg_image_set set = {0};
    bg_error error = {0};
    const char *folders[] = {*state, second};

    mkdir(second, 0755);
    write_array(second, "t10k-images-idx3-ubyte", 4, 28, 28, 1);
    write_array(second, "t10k-labels-idx1-ubyte", 4, 0, 0, 1);
    write_array(*state, "t10k-images-idx3-ubyte", 5, 28, 28, 1); /* without labels the search continues */
    assert_int_equal(bg_mnist_load(folders, 2, false, &set, &error), BG_OK);
    assert_int_equal(set.images.type.dims[0], 4);
    bg_image_set_clear(&set);
    write_array(*state, "t10k-labels-idx1-ubyte", 5, 0, 0, 1);
    assert_loads(*state, false, 5);
    assert_int_equal(bg_mnist_load(folders, 2, true, &set, &error), BG_ERROR_NOT_FOUND);
    free(second);
}

static void test_missing_half_is_named(void **state)
{
    write_array(*state, "train-images-idx3-ubyte", 3, 28, 28, 5);
    assert_does_not_load(*state, BG_ERROR_NOT_FOUND, "(has train-images-idx3-ubyte, lacks train-labels-idx1-ubyte.gz)");
}

static void test_pairs_that_do_not_fit(void **state)
{
    write_array(*state, "train-images-idx3-ubyte", 3, 28, 28, 5);
    write_array(*state, "train-labels-idx1-ubyte", 4, 0, 0, 5);
    assert_does_not_load(*state, BG_ERROR_PARSE, "train-labels-idx1-ubyte has 4 labels but ");
    write_array(*state, "train-labels-idx1-ubyte", 3, 0, 0, 10);
    assert_does_not_load(*state, BG_ERROR_PARSE, "label 0 (byte 8) is 10 but must be 0 to 9");
    write_array(*state, "train-labels-idx1-ubyte", 3, 1, 1, 1);
    assert_does_not_load(*state, BG_ERROR_PARSE, "3 dimensions but labels have 1");
    write_array(*state, "train-labels-idx1-ubyte", 3, 0, 0, 1);
    write_array(*state, "train-images-idx3-ubyte", 3, 28, 27, 5);
    assert_does_not_load(*state, BG_ERROR_PARSE, "images are 28 x 27 but must be 28 x 28");
    write_array(*state, "train-images-idx3-ubyte", 3, 0, 0, 5);
    assert_does_not_load(*state, BG_ERROR_PARSE, "1 dimensions but images have 3");
}

static void test_write_and_load_back(void **state)
{
    const bg_digits_options options = {.seed = 5, .count = 20};
    bg_image_set set = {0}, again = {0};
    bg_error error = {0};
    const char *folder = *state;

    assert_int_equal(bg_digits_create(&options, &set, &error), BG_OK);
    assert_int_equal(bg_image_set_write_mnist(&set, folder, true, true, &error), BG_OK);
    assert_int_equal(bg_image_set_write_mnist(&set, folder, false, false, &error), BG_OK);
    for (int split = 0; split < 2; split++) {
        assert_int_equal(bg_mnist_load(&folder, 1, split == 0, &again, &error), BG_OK);
        assert_memory_equal(again.images.data, set.images.data, 20 * 784);
        assert_memory_equal(again.labels.data, set.labels.data, 20);
        bg_image_set_clear(&again);
    }
    bg_image_set_clear(&set);
}

/* ---- a server ---- */

typedef struct served_file {
    char *data;
    size_t size_bytes;
} served_file;

typedef struct server {
    int socket;
    uint16_t port;
    pthread_t thread;
    served_file files[BGI_MNIST_FILE_COUNT];
    char md5[BGI_MNIST_FILE_COUNT][BGI_MD5_TEXT_BYTES];
    char addresses[4][64];
} server;

static void send_all(int connection, const char *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        const ssize_t sent = send(connection, data, size_bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        data += sent;
        size_bytes -= (size_t)sent;
    }
}

/* Answers a request: /good/NAME gets the file, /damaged/NAME the file with a changed byte, /short/NAME half of the
 * file, and /gone/NAME an error; /quit ends the server. */
static bool serve(const server *s, int connection)
{
    char request[2048] = "", kind[64] = "", name[128] = "", head[128];
    size_t used = 0;

    while (used < sizeof request - 1 && strstr(request, "\r\n\r\n") == NULL) {
        const ssize_t got = recv(connection, request + used, sizeof request - 1 - used, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
        request[used] = '\0';
    }
    if (strncmp(request, "GET /quit", 9) == 0)
        return false;
    sscanf(request, "GET /%63[^/]/%127[^ ]", kind, name);
    for (int i = 0; i < BGI_MNIST_FILE_COUNT; i++) {
        const served_file *file = &s->files[i];

        if (strcmp(name, bgi_mnist_files[i].names[0]) != 0 || strcmp(kind, "gone") == 0)
            continue;
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                 file->size_bytes);
        send_all(connection, head, strlen(head));
        if (strcmp(kind, "short") == 0) {
            send_all(connection, file->data, file->size_bytes / 2);
        } else if (strcmp(kind, "damaged") == 0) {
            send_all(connection, file->data, file->size_bytes - 1);
            send_all(connection, "?", 1); /* no file here ends in '?', so this changes the file */
        } else {
            send_all(connection, file->data, file->size_bytes);
        }
        return true;
    }
    snprintf(head, sizeof head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    send_all(connection, head, strlen(head));
    return true;
}

static void *run_server(void *argument)
{
    server *s = argument;
    bool goes_on = true;

    while (goes_on) {
        const int connection = accept(s->socket, NULL, NULL);
        if (connection < 0)
            break;
        goes_on = serve(s, connection);
        close(connection);
    }
    return NULL;
}

static void make_files(server *s)
{
    char folder[TEST_FOLDER_BYTES];
    const bg_digits_options options = {.seed = 1, .count = 30};
    bg_image_set set = {0};
    bg_error error = {0};

    test_folder_create(folder);
    assert_int_equal(bg_digits_create(&options, &set, &error), BG_OK);
    assert_int_equal(bg_image_set_write_mnist(&set, folder, true, true, &error), BG_OK);
    assert_int_equal(bg_image_set_write_mnist(&set, folder, false, true, &error), BG_OK);
    for (int i = 0; i < BGI_MNIST_FILE_COUNT; i++) {
        static const unsigned char headers[2][16] = {{0, 0, 8, 3, 0, 0, 0, 30, 0, 0, 0, 28, 0, 0, 0, 28},
                                                     {0, 0, 8, 1, 0, 0, 0, 30}};
        const bg_array *array = i % 2 == 0 ? &set.images : &set.labels;
        char *path = bgi_path_join(folder, bgi_mnist_files[i].names[0]);
        bgi_md5 md5;

        assert_int_equal(bgi_file_load(path, 1 << 20, &s->files[i].data, &s->files[i].size_bytes, &error), BG_OK);
        free(path);
        bgi_md5_init(&md5);
        bgi_md5_add(&md5, headers[i % 2], i % 2 == 0 ? 16 : 8);
        bgi_md5_add(&md5, array->data, bg_type_size_bytes(&array->type));
        bgi_md5_text(&md5, s->md5[i]);
    }
    bg_image_set_clear(&set);
    test_folder_remove(folder);
}

static void start_server(server *s)
{
    static const char *const kinds[] = {"good", "damaged", "short", "gone"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;

    memset(s, 0, sizeof *s);
    make_files(s);
    s->socket = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->socket >= 0);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->socket, 8), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&address, &length), 0);
    for (int i = 0; i < 4; i++)
        snprintf(s->addresses[i], sizeof s->addresses[i], "http://127.0.0.1:%d/%s", ntohs(address.sin_port), kinds[i]);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, run_server, s), 0);
    setenv("no_proxy", "127.0.0.1", 1);
}

static void stop_server(server *s)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int connection = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(connection, (struct sockaddr *)&address, sizeof address), 0);
    send_all(connection, "GET /quit HTTP/1.1\r\n\r\n", 22);
    pthread_join(s->thread, NULL);
    close(connection);
    close(s->socket);
    for (int i = 0; i < BGI_MNIST_FILE_COUNT; i++)
        free(s->files[i].data);
}

typedef struct attempt {
    server server;
    const char *mirrors[4];
    const char *md5[BGI_MNIST_FILE_COUNT];
    bg_mnist_download_options options;
    bg_error error;
} attempt;

/* Downloads from servers whose answers are, in this order, those of the letters in `faces`: g(ood), d(amaged), s(hort),
 * n(ot found). */
static bg_status download(attempt *a, const char *folder, const char *faces)
{
    static const char letters[] = "gdsn";

    a->options.folder = folder;
    a->options.mirrors = a->mirrors;
    a->options.mirror_count = strlen(faces);
    a->options.md5 = a->md5;
    for (size_t i = 0; i < strlen(faces); i++)
        a->mirrors[i] = a->server.addresses[strchr(letters, faces[i]) - letters];
    for (int i = 0; i < BGI_MNIST_FILE_COUNT; i++)
        a->md5[i] = a->server.md5[i];
    bg_error_clear(&a->error);
    return bg_mnist_download(&a->options, &a->error);
}

static attempt *new_attempt(void)
{
    attempt *a = calloc(1, sizeof *a);

    assert_non_null(a);
    start_server(&a->server);
    a->options = bg_mnist_download_options_defaults("");
    return a;
}

static void end_attempt(attempt *a)
{
    stop_server(&a->server);
    free(a);
}

static bool note_progress(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes)
{
    int *reports = user;
    (void)file_name;

    assert_true(total_bytes == 0 || done_bytes <= total_bytes);
    ++*reports;
    return true;
}

static bool cancel(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)user, (void)file_name, (void)done_bytes, (void)total_bytes;
    return false;
}

static void test_download(void **state)
{
    attempt *a = new_attempt();
    char *folder = bgi_path_join(*state, "new/folder");
    int reports = 0;

    a->options.progress = note_progress;
    a->options.user = &reports;
    if (download(a, folder, "g") != BG_OK)
        fail_msg("%s", a->error.message);
    assert_int_equal(test_folder_count(folder), 4);
    assert_true(reports > 0);
    assert_loads(folder, true, 30);
    assert_loads(folder, false, 30);
    /* A file that exists is not downloaded again. */
    assert_int_equal(download(a, folder, "n"), BG_OK);
    free(folder);
    end_attempt(a);
}

static void test_download_goes_on_to_the_next_mirror(void **state)
{
    attempt *a = new_attempt();

    assert_int_equal(download(a, *state, "ndsg"), BG_OK);
    assert_loads(*state, true, 30);
    end_attempt(a);
}

static void assert_download_fails(attempt *a, const char *folder, const char *faces, bg_status expected,
                                  const char *text)
{
    assert_int_equal(download(a, folder, faces), expected);
    if (strstr(a->error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", a->error.message, text);
    assert_non_null(strstr(a->error.message, "train-images-idx3-ubyte.gz"));
    assert_int_equal(test_folder_count(folder), 0);
}

/* The checksums are the published ones: one wrong digit would make every download fail. */
static void test_published_digests(void **state)
{
    static const char *const digests[] = {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
                                          "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"};
    (void)state;

    for (size_t i = 0; i < BGI_MNIST_FILE_COUNT; i++)
        assert_string_equal(bgi_mnist_files[i].md5, digests[i]);
}

static void test_failed_downloads_leave_nothing(void **state)
{
    attempt *a = new_attempt();

    assert_download_fails(a, *state, "n", BG_ERROR_IO, "404");
    assert_download_fails(a, *state, "s", BG_ERROR_IO, "transfer closed");
    assert_download_fails(a, *state, "d", BG_ERROR_IO, "are not a whole gzip file");
    assert_download_fails(a, *state, "ns", BG_ERROR_IO, "; http://127.0.0.1");
    a->options.progress = cancel;
    assert_download_fails(a, *state, "g", BG_ERROR_CANCELED, "canceled");
    a->options.progress = NULL;
    /* A complete file that is not of the published MNIST is an error too. */
    a->options.mirrors = a->mirrors;
    a->options.mirror_count = 1;
    a->options.md5 = NULL;
    a->mirrors[0] = a->server.addresses[0];
    bg_error_clear(&a->error);
    assert_int_equal(bg_mnist_download(&a->options, &a->error), BG_ERROR_IO);
    assert_non_null(strstr(a->error.message, "must be 6bbc9ace898e44ae57da46a324031adb"));
    assert_int_equal(test_folder_count(*state), 0);
    end_attempt(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_finds_every_form_of_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_in_order_and_splits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_half_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pairs_that_do_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_write_and_load_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_download, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_download_goes_on_to_the_next_mirror, set_up, tear_down),
        cmocka_unit_test(test_published_digests),
        cmocka_unit_test_setup_teardown(test_failed_downloads_leave_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("data/mnist", tests, NULL, NULL);
}

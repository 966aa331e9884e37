/*
 * Tests atomic writing and bounded reading of files.
 */
#define _GNU_SOURCE /* syscall */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/input.h"
#include "support/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct fixture {
    char folder[TEST_FOLDER_BYTES];
    char path[128];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    if (f == NULL)
        return -1;
    test_folder_create(f->folder);
    snprintf(f->path, sizeof f->path, "%s/file", f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    test_folder_remove(f->folder);
    free(f);
    return 0;
}

static void assert_content(const char *path, const char *expected)
{
    char *data = NULL;
    size_t size = 0;
    bg_error error = {0};

    assert_int_equal(bgi_file_load(path, 1 << 20, &data, &size, &error), BG_OK);
    assert_int_equal(size, strlen(expected));
    assert_string_equal(data, expected);
    free(data);
}

static void test_save_and_load(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    struct stat about;
    mode_t mask = umask(022);

    assert_int_equal(bgi_file_save(f->path, "first", 5, &error), BG_OK);
    assert_content(f->path, "first");
    assert_int_equal(bgi_file_save(f->path, "second!", 7, &error), BG_OK);
    assert_content(f->path, "second!");
    assert_int_equal(bgi_file_save(f->path, NULL, 0, &error), BG_OK);
    assert_content(f->path, "");
    assert_int_equal(test_folder_count(f->folder), 1);
    assert_int_equal(stat(f->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0644);
    umask(mask);
}

static void test_target_is_old_until_commit(void **state)
{
    fixture *f = *state;
    bgi_file_writer writer = {0};
    bg_error error = {0};

    assert_int_equal(bgi_file_save(f->path, "old", 3, &error), BG_OK);
    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    bgi_file_write(&writer, "new", 3);
    assert_int_equal(bgi_file_writer_send(&writer, &error), BG_OK);
    assert_content(f->path, "old");
    assert_content(writer.temporary_path, "new");
    assert_int_equal(bgi_file_writer_commit(&writer, &error), BG_OK);
    assert_content(f->path, "new");
    bgi_file_writer_abandon(&writer, NULL); /* the file is already committed, so this has no effect */
    assert_content(f->path, "new");
}

static void test_abandon_leaves_nothing(void **state)
{
    fixture *f = *state;
    bgi_file_writer writer = {0};
    bg_error error = {0};

    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    bgi_file_write(&writer, "new", 3);
    bgi_file_writer_abandon(&writer, NULL);
    assert_int_equal(test_folder_count(f->folder), 0);
}

/* A folder gets the target's name, so that only the rename fails. */
static void test_failed_rename_leaves_nothing(void **state)
{
    fixture *f = *state;
    bgi_file_writer writer = {0};
    bg_error error = {0};

    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    assert_int_equal(mkdir(f->path, 0755), 0);
    assert_int_equal(bgi_file_writer_commit(&writer, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, f->path));
    assert_non_null(strstr(error.message, "cannot write"));
    assert_int_equal(test_folder_count(f->folder), 1);
}

static void assert_refused(const fixture *f, const char *kind)
{
    bg_error error = {0};
    struct stat before, after;
    char *data = NULL;
    size_t size = 0;

    assert_int_equal(lstat(f->path, &before), 0);
    assert_int_equal(bgi_file_save(f->path, "x", 1, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, f->path));
    assert_non_null(strstr(error.message, kind));
    bg_error_clear(&error);
    assert_int_equal(bgi_file_load(f->path, 10, &data, &size, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, kind));
    assert_int_equal(lstat(f->path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mode == after.st_mode);
    assert_int_equal(test_folder_count(f->folder), 1);
}

static void test_what_is_no_file_is_refused(void **state)
{
    fixture *f = *state;

    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_refused(f, "is a pipe, not a file");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_refused(f, "is a folder, not a file");
}

static void test_link_to_a_pipe_is_refused(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    struct stat about;
    char link[160];

    snprintf(link, sizeof link, "%s/link", f->folder);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(bgi_file_save(link, "x", 1, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "is a pipe, not a file"));
    assert_int_equal(stat(f->path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(test_folder_count(f->folder), 2);
}

static void test_same_files(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    char link[160], around[160], other[160];

    snprintf(link, sizeof link, "%s/link", f->folder);
    snprintf(around, sizeof around, "%s/./file", f->folder);
    snprintf(other, sizeof other, "%s/other", f->folder);
    assert_true(bgi_file_is_same(f->path, around));
    assert_false(bgi_file_is_same(f->path, other));
    assert_int_equal(bgi_file_save(f->path, "x", 1, &error), BG_OK);
    assert_true(bgi_file_is_same(f->path, around));
    assert_false(bgi_file_is_same(f->path, other));
    assert_int_equal(symlink("file", link), 0);
    assert_true(bgi_file_is_same(f->path, link));
    assert_int_equal(bgi_file_save(other, "x", 1, &error), BG_OK);
    assert_false(bgi_file_is_same(link, other));
}

static void test_link_stays_and_its_target_is_written(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    struct stat about;
    char link[160];

    snprintf(link, sizeof link, "%s/link", f->folder);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(bgi_file_save(link, "x", 1, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, link));
    assert_int_equal(bgi_file_save(f->path, "old", 3, &error), BG_OK);
    assert_int_equal(bgi_file_save(link, "new", 3, &error), BG_OK);
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_content(f->path, "new");
    assert_int_equal(test_folder_count(f->folder), 2);
}

static void test_permissions_stay(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    struct stat about;

    assert_int_equal(bgi_file_save(f->path, "old", 3, &error), BG_OK);
    assert_int_equal(chmod(f->path, 0640), 0);
    assert_int_equal(bgi_file_save(f->path, "new", 3, &error), BG_OK);
    assert_int_equal(stat(f->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_content(f->path, "new");
}

static void test_full_disk_is_reported_at_commit(void **state)
{
    bgi_file_writer writer = {0};
    bg_error error = {0};
    fixture *f = *state;
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    if (full < 0)
        skip();
    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    dup2(full, writer.descriptor);
    close(full);
    bgi_file_write(&writer, "data", 4);
    assert_int_equal(bgi_file_writer_commit(&writer, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "No space left"));
    assert_non_null(strstr(error.message, f->path));
    assert_int_equal(test_folder_count(f->folder), 0);
}

/* Strings and bytes of all sizes around the buffer's size are read back unchanged. */
static void test_long_content(void **state)
{
    enum { LONGEST = 70000, PARTS = 40 };
    static char text[LONGEST + 1];
    bgi_file_writer writer = {0};
    fixture *f = *state;
    bg_error error = {0};
    char *data = NULL, *at;
    size_t size = 0, sum = 0;

    memset(text, 'x', LONGEST);
    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    for (size_t i = 0; i < PARTS; i++) {
        const size_t length = i * 1777 % LONGEST;
        text[0] = (char)('a' + i % 26);
        bgi_file_write(&writer, text, length);
        bgi_file_print(&writer, "%zu %.*s\n", i, (int)(LONGEST - length), text);
    }
    assert_int_equal(bgi_file_writer_commit(&writer, &error), BG_OK);
    assert_int_equal(bgi_file_load(f->path, (size_t)1 << 24, &data, &size, &error), BG_OK);
    at = data;
    for (size_t i = 0; i < PARTS; i++) {
        const size_t length = i * 1777 % LONGEST;
        char number[24];
        text[0] = (char)('a' + i % 26);
        assert_memory_equal(at, text, length);
        at += length;
        snprintf(number, sizeof number, "%zu ", i);
        assert_memory_equal(at, number, strlen(number));
        at += strlen(number);
        assert_memory_equal(at, text, LONGEST - length);
        at += LONGEST - length;
        assert_int_equal(*at++, '\n');
        sum = (size_t)(at - data);
    }
    assert_int_equal(size, sum);
    free(data);
}

/* The error numbers that the functions below return instead of calling the system's functions; 0 means that they call
 * these. */
static int fsync_problem, flock_problem;

int fsync(int descriptor)
{
    struct stat about;

    if (fsync_problem != 0 && fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode)) {
        errno = fsync_problem;
        return -1;
    }
    return (int)syscall(SYS_fsync, descriptor);
}

int flock(int descriptor, int operation)
{
    if (flock_problem == 0)
        return (int)syscall(SYS_flock, descriptor, operation);
    errno = flock_problem;
    return -1;
}

static void test_folder_that_cannot_be_flushed(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    bg_status status;

    fsync_problem = EIO;
    status = bgi_file_save(f->path, "new", 3, &error);
    fsync_problem = EINVAL; /* the error of file systems that do not flush folders */
    assert_int_equal(bgi_file_save(f->path, "newer", 5, NULL), BG_OK);
    fsync_problem = 0;
    assert_int_equal(status, BG_ERROR_IO);
    assert_non_null(strstr(error.message, f->path));
    assert_non_null(strstr(error.message, "Input/output error"));
    assert_content(f->path, "newer");
}

static void test_folder_that_cannot_be_locked(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    int held = 7;
    bg_status status;

    flock_problem = EIO;
    status = bgi_folder_lock(f->folder, &held, &error);
    flock_problem = 0;
    assert_int_equal(status, BG_ERROR_IO);
    assert_int_equal(held, -1);
    assert_non_null(strstr(error.message, "cannot lock the folder"));
    flock_problem = ENOLCK; /* a file system without locks allows every process */
    status = bgi_folder_lock(f->folder, &held, NULL);
    flock_problem = 0;
    assert_int_equal(status, BG_OK);
    assert_int_equal(held, -1);
}

/* Reading past the end of a truncated file is an error that names the file; bytes before the end can still be read. */
static void test_input_that_shrinks(void **state)
{
    fixture *f = *state;
    bgi_input input = {.name = NULL};
    bg_error error = {0};
    char text[8] = "";

    assert_int_equal(bgi_file_save(f->path, "0123456789", 10, &error), BG_OK);
    assert_int_equal(bgi_input_open(&input, f->path, &error), BG_OK);
    assert_int_equal(input.size_bytes, 10);
    assert_int_equal(bgi_input_read(&input, 5, text, 5, &error), BG_OK);
    assert_string_equal(text, "56789");
    assert_int_equal(truncate(f->path, 7), 0);
    assert_int_equal(bgi_input_read(&input, 5, text, 5, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, f->path));
    assert_non_null(strstr(error.message, "ends at byte 7 but had 10"));
    assert_int_equal(bgi_input_read(&input, 2, text, 5, NULL), BG_OK);
    assert_memory_equal(text, "23456", 5);
    bgi_input_close(&input);
    bgi_input_close(&input);
}

static void test_missing_folder_and_file(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    char path[256], *data = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "%s/absent/file", f->folder);
    assert_int_equal(bgi_file_save(path, "x", 1, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "No such file or directory"));
    bg_error_clear(&error);
    assert_int_equal(bgi_file_load(path, 10, &data, &size, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "No such file or directory"));
    bg_error_clear(&error);
    assert_int_equal(bgi_file_load(f->folder, 10, &data, &size, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "is a folder"));
    assert_null(data);
}

static void test_load_limit(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    char *data = NULL;
    size_t size = 0;

    assert_int_equal(bgi_file_save(f->path, "0123456789", 10, &error), BG_OK);
    assert_int_equal(bgi_file_load(f->path, 9, &data, &size, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "limit of 9 bytes"));
    assert_null(data);
    bg_error_clear(&error);
    assert_int_equal(bgi_file_load(f->path, 10, &data, &size, &error), BG_OK);
    assert_int_equal(size, 10);
    free(data);
}

static void test_folder_create_and_join(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    char *path = bgi_path_join(f->folder, "a/b");
    char *same = bgi_path_join("x/", "y"), *bare = bgi_path_join("", "y");
    bool is_empty = false;

    assert_string_equal(same, "x/y");
    assert_string_equal(bare, "y");
    assert_int_equal(bgi_folder_create(path, &error), BG_OK);
    assert_int_equal(bgi_folder_create(path, &error), BG_OK);
    assert_false(bgi_file_exists(path));
    assert_int_equal(bgi_file_save(f->path, "x", 1, &error), BG_OK);
    assert_true(bgi_file_exists(f->path));
    assert_int_equal(bgi_folder_create(f->path, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "is not a folder"));
    assert_int_equal(bgi_folder_is_empty(path, &is_empty, &error), BG_OK);
    assert_true(is_empty);
    free(path);
    path = bgi_path_join(f->folder, "a/b/.hidden");
    assert_int_equal(bgi_file_save(path, "x", 1, &error), BG_OK);
    *strrchr(path, '/') = '\0';
    assert_int_equal(bgi_folder_is_empty(path, &is_empty, &error), BG_OK);
    assert_false(is_empty);
    is_empty = true;
    assert_int_equal(bgi_folder_is_empty(f->folder, &is_empty, &error), BG_OK);
    assert_false(is_empty);
    bg_error_clear(&error);
    assert_int_equal(bgi_folder_is_empty(f->path, &is_empty, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, f->path));
    free(path);
    free(same);
    free(bare);
}

/* If the temporary file is gone, the error names the usual reason: another process may be writing to the folder. */
static void test_temporary_file_that_vanished(void **state)
{
    fixture *f = *state;
    bgi_file_writer writer = {0};
    bg_error error = {0};

    assert_int_equal(bgi_file_writer_begin(&writer, f->path, &error), BG_OK);
    bgi_file_write(&writer, "x", 1);
    assert_int_equal(remove(writer.temporary_path), 0);
    assert_int_equal(bgi_file_writer_commit(&writer, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "another process may be writing to this folder"));
}

/* A second lock of a folder fails, even in the same process. */
static void test_folder_hold(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    int first = -1, second = -1;

    assert_int_equal(bgi_folder_lock(f->folder, &first, &error), BG_OK);
    if (first < 0) {
        skip(); /* a file system without locks */
    }
    assert_int_equal(bgi_folder_lock(f->folder, &second, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "another run writes there"));
    assert_non_null(strstr(error.message, f->folder));
    assert_int_equal(second, -1);
    bg_error_clear(&error);
    bgi_folder_release(&first);
    assert_int_equal(first, -1);
    assert_int_equal(bgi_folder_lock(f->folder, &second, &error), BG_OK);
    bgi_folder_release(&second);
    bgi_folder_release(&second);
    assert_int_equal(bgi_file_save(f->path, "x", 1, &error), BG_OK);
    assert_int_equal(bgi_folder_lock(f->path, &second, &error), BG_ERROR_IO);
    assert_int_equal(second, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_save_and_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_target_is_old_until_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abandon_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_rename_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_to_a_pipe_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_stays_and_its_target_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_permissions_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk_is_reported_at_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_folder_and_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folder_create_and_join, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folder_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_temporary_file_that_vanished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folder_that_cannot_be_flushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folder_that_cannot_be_locked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_input_that_shrinks, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("core/file", tests, NULL, NULL);
}

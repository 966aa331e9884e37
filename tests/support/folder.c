/*
 * folder.c: temporary folders.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/folder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void test_folder_create(char path[TEST_FOLDER_BYTES])
{
    const int length = snprintf(path, TEST_FOLDER_BYTES, "/tmp/brigade-test-");

    memset(path + length, 'X', 6); /* the characters that mkdtemp replaces */
    path[length + 6] = '\0';
    if (mkdtemp(path) == NULL)
        fail_msg("cannot make a folder like %s", path);
}

static bool is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

void test_folder_remove(const char *path)
{
    DIR *directory = opendir(path);

    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char inner[1024];

        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (is_entry(entry) && remove(inner) != 0)
            test_folder_remove(inner);
    }
    if (directory != NULL)
        closedir(directory);
    rmdir(path);
}

int test_folder_count(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;

    if (directory == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += is_entry(entry);
    closedir(directory);
    return count;
}

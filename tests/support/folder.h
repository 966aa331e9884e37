/*
 * folder.h: a temporary folder for a test that works with files.
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

enum { TEST_FOLDER_BYTES = 48 };

/* Makes a new folder and writes its path; fails the test (cmocka) if this is not possible. */
void test_folder_create(char path[TEST_FOLDER_BYTES]);

/* Removes a folder and its content. */
void test_folder_remove(const char *path);

/* Returns the number of entries of a folder without "." and "..", or -1 if the folder cannot be read. */
int test_folder_count(const char *path);

#endif

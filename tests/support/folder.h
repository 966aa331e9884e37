/*
 * folder.h: a temporary folder for a test that works with files.
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

enum { TEST_FOLDER_BYTES = 48 };

/* Makes a new folder and writes its path; fails the test (cmocka) when it cannot. */
void test_folder_create(char path[TEST_FOLDER_BYTES]);

/* Removes a folder with everything in it. */
void test_folder_remove(const char *path);

/* Entries of a folder, not counting "." and ".."; -1 when it cannot be read. */
int test_folder_count(const char *path);

#endif

/*
 * Compares MD5 with the test suite of RFC 1321, with messages in one piece and in pieces of every size.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/md5.h"

#include <string.h>

static void test_rfc_vectors(void **state)
{
    static const char *const cases[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[BGI_MD5_TEXT_BYTES];
        bgi_md5 md5;

        bgi_md5_init(&md5);
        bgi_md5_add(&md5, cases[i][0], strlen(cases[i][0]));
        bgi_md5_text(&md5, text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void test_pieces_do_not_matter(void **state)
{
    unsigned char data[300];
    char whole[BGI_MD5_TEXT_BYTES], text[BGI_MD5_TEXT_BYTES];
    bgi_md5 md5;
    (void)state;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i);
    bgi_md5_init(&md5);
    bgi_md5_add(&md5, data, sizeof data);
    bgi_md5_text(&md5, whole);
    for (size_t piece = 1; piece < sizeof data; piece++) {
        bgi_md5_init(&md5);
        for (size_t at = 0; at < sizeof data; at += piece)
            bgi_md5_add(&md5, data + at, sizeof data - at < piece ? sizeof data - at : piece);
        bgi_md5_text(&md5, text);
        assert_string_equal(text, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rfc_vectors), cmocka_unit_test(test_pieces_do_not_matter)};
    return cmocka_run_group_tests_name("data/md5", tests, NULL, NULL);
}

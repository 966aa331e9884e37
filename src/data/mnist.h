/*
 * mnist.h: declares the names of the four MNIST files for the code that finds, writes and downloads them.
 */
#ifndef BGI_DATA_MNIST_H
#define BGI_DATA_MNIST_H

#include <brigade/data.h>

enum { BGI_MNIST_FILE_COUNT = 4, BGI_MNIST_NAME_FORMS = 4 };

/* One of the files. In bgi_mnist_files they have the order train images, train labels, test images, test labels. */
typedef struct bgi_mnist_file {
    const char *names[BGI_MNIST_NAME_FORMS]; /* names[0] is the name of the downloaded file */
    const char *md5;                         /* MD5 of the unpacked file */
} bgi_mnist_file;

extern const bgi_mnist_file bgi_mnist_files[BGI_MNIST_FILE_COUNT];

/* Finds the file in `folder` under any of its names. *out_path is malloc'ed, and NULL if the file does not exist. */
bg_status bgi_mnist_find(const char *folder, const bgi_mnist_file *file, char **out_path, bg_error *error);

#endif

#!/bin/sh
# Writes the files, one after the other, as a C array on standard output: pack_text.sh NAME FILE...
name=$1
shift
printf '/* Made by tools/pack_text.sh of %s. */\n#include <stddef.h>\n' "$*"
printf 'extern const unsigned char %s[];\nextern const size_t %s_bytes;\n' "$name" "$name"
printf 'const unsigned char %s[] = {\n' "$name"
cat "$@" | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++) printf "%s,", $i; print "" }'
printf '};\nconst size_t %s_bytes = sizeof %s;\n' "$name" "$name"

#!/bin/sh
# Prints the folder of this repository's developers that holds MNIST: $BRIGADE_DATA, data, or ../shared/data, a folder
# that several clones share. Prints nothing if no folder has it. The program itself looks only in the first two.
[ $# -eq 0 ] || { echo "usage: find_data.sh (in the repository's folder)" >&2; exit 2; }
for place in "${BRIGADE_DATA:-}" data ../shared/data; do
    [ -n "$place" ] || continue
    for file in "$place"/train-images*idx3-ubyte* "$place"/mnist/train-images*idx3-ubyte*; do
        [ -e "$file" ] && { printf '%s\n' "$place"; exit 0; }
    done
done
exit 0

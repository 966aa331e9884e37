#!/bin/sh
# Draws every schedule that the program knows as SVG: tools/draw_schedules.sh PROGRAM FOLDER
#
# Each has four devices, eight micro-batches and the same network. With two stages per device each stage costs half.
set -eu
program=$1 folder=$2

mkdir -p "$folder"
"$program" schedule --help | sed -n '/^Schedules:/,/^$/p' | sed -n 's/^  \([a-z][a-z0-9-]*\) .*/\1/p' | while read -r name; do
    for problem in '--stages 4 --forward 2 --backward 2 --weights 2' '--stages 8 --forward 1 --backward 1 --weights 1'; do
        # shellcheck disable=SC2086
        if "$program" schedule show "$name" --devices 4 $problem --svg - >"$folder/$name.svg.new" 2>/dev/null; then
            mv "$folder/$name.svg.new" "$folder/$name.svg"
            break
        fi
        rm -f "$folder/$name.svg.new"
    done
done

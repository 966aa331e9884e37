# pages.sh: code that the tests of pages share. Source it after cli/support.sh; begin with `prepare_pages`.
#
# A page shows commands and what they print, indented by four spaces:
#
#         $ brigade data digits --dir data --count 2000 --test-count 500
#         2000 training and 500 test images are in data
#
# The test runs the commands of a page one after the other in a separate folder, and compares their output. A command
# may continue on the next line after a backslash. Some output may differ between machines:
#
# - empty lines are ignored;
# - a line `...` matches any lines;
# - a number with a unit of time or rate (ms, us, s, it/s, images/s, samples/s, tokens/s) matches any number;
# - a number with a decimal point may differ by 2 % plus one unit in its last place;
# - a hexadecimal number of 16 digits or more matches any other, but always the same one on a page.
#
# A block of C or Python must be, line by line, in the file of examples/ that the page named last before the block.

# Provides the programs of a reader: `brigade`, and `cc`, which copies the program that make has built from the same
# source.
prepare_pages() {
    mkdir -p "$folder/bin"
    ln -s "$program" "$folder/bin/brigade"
    cat >"$folder/bin/cc" <<END
#!/bin/sh
# cc NAME.c ... -o NAME
source=\$1
while [ \$# -gt 1 ] && [ "\$1" != -o ]; do shift; done
[ "\$2.c" = "\$source" ] && cp "$build/examples/tutorial/\$2" "\$2"
END
    printf '#!/bin/sh\n' >"$folder/bin/pkg-config"
    # Allows more ranks than processors, and running as root.
    for mpi in openmpi mpich; do
        [ -f "$build/libbrigade_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null 2>&1 || continue
        printf '#!/bin/sh\nexec mpirun.%s "$@"\n' "$mpi$([ $mpi = openmpi ] && echo ' --oversubscribe')" >"$folder/bin/mpirun"
        break
    done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    chmod +x "$folder"/bin/*
    PATH="$folder/bin:$PATH"
    unset BRIGADE_DATA BRIGADE_PROFILE
}

# split_page PAGE: writes command n to n.command, its output to n.shown, code block n to n.code, and its file's name to
# n.file.
split_page() {
    awk '
        function close_command() { if (on) close(n ".shown"); on = 0 }
        /^```/ && !fence {
            close_command()
            fence = 1
            language = substr($0, 4)
            is_code = language == "c" || language == "python"
            if (is_code) { code++; print file >(code ".file"); close(code ".file") }
            next
        }
        /^```/ { fence = 0; if (is_code) close(code ".code"); next }
        fence { if (is_code) print >(code ".code"); next }
        goes_on { print substr($0, 5) >(n ".command"); goes_on = /\\$/; if (!goes_on) close(n ".command"); next }
        /^    \$ / {
            close_command()
            n++
            on = 1
            printf "" >(n ".shown")
            print substr($0, 7) >(n ".command")
            goes_on = /\\$/
            if (!goes_on) close(n ".command")
            next
        }
        /^    / { if (on) print substr($0, 5) >(n ".shown"); next }
        on && /^$/ { next }
        { close_command() }
        match($0, /examples\/[A-Za-z0-9_\/]+\.[a-z]+/) { file = substr($0, RSTART, RLENGTH) }' "$1"
}

# Replaces times and rates by #, and spaces before numbers, which depend on the numbers' width, by one. Removes empty
# lines.
mask_times() {
    sed -E -e '/^ *$/d' -e 's,[0-9]+(\.[0-9]+)? ?(ms|us|s|(it|images|samples|tokens)/s)([^A-Za-z0-9/]|$),#\4,g' \
        -e 's,[0-9]+(\.[0-9]+)? ?(ms|us|s|(it|images|samples|tokens)/s)([^A-Za-z0-9/]|$),#\4,g' -e 's, +, ,g' "$1"
}

# agrees SHOWN PRINTED HASHES: succeeds if printed and shown output agree by the rules above. HASHES has lines "SHOWN
# PRINTED" of the page so far.
agrees() {
    mask_times "$1" >masked.shown
    mask_times "$2" >masked.printed
    awk -v hashes="$3" '
        BEGIN {
            digits = "[0-9a-f]"
            for (i = 0; i < 4; i++) digits = digits digits
            number = digits "[0-9a-f]*|[0-9]+[.][0-9]+(e[-+]?[0-9]+)?"
            while ((getline entry <hashes) > 0) { split(entry, pair, " "); known[pair[1]] = pair[2]; taken[pair[2]] = pair[1] }
            close(hashes)
        }
        function size(x) { return x < 0 ? -x : x }
        # Numbers at the same position in the text.
        function alike(a, b, places, unit, i) {
            if (a !~ /[.]/) {
                if (b ~ /[.]/) return 0
                if (length(a) < 16 || length(a) != length(b)) return a == b
                if (!(a in known) && !(b in taken)) { known[a] = b; taken[b] = a; fresh[a] = b }
                return known[a] == b
            }
            if (b !~ /[.]/) return 0
            places = a
            sub(/.*[.]/, "", places)
            sub(/e.*/, "", places)
            unit = 1
            for (i = 0; i < length(places); i++) unit /= 10
            if (a ~ /e/) unit = 0
            return size(a - b) <= 0.02 * size(a) + 1.01 * unit
        }
        function same(a, b, at_a, at_b, length_a) {
            for (;;) {
                at_a = match(a, number); length_a = RLENGTH
                at_b = match(b, number)
                if (!at_a || !at_b) return a == b
                if (substr(a, 1, at_a - 1) != substr(b, 1, at_b - 1)) return 0
                if (!alike(substr(a, at_a, length_a), substr(b, at_b, RLENGTH))) return 0
                a = substr(a, at_a + length_a)
                b = substr(b, at_b + RLENGTH)
            }
        }
        FILENAME == ARGV[1] { shown[++count] = $0; next }
        { line[++lines] = $0 }
        END {
            at = 1
            good = 1
            for (i = 1; good && i <= count; i++) {
                if (shown[i] != "...") {
                    if (skips) while (at <= lines && !same(shown[i], line[at])) at++
                    good = at <= lines && same(shown[i], line[at])
                    at++
                }
                skips = shown[i] == "..."
            }
            for (a in fresh) print a, fresh[a] >>hashes
            exit !(good && (skips || at > lines))
        }' masked.shown masked.printed
}

# is_part CODE FILE: succeeds if the lines of CODE are adjacent in FILE.
is_part() {
    awk 'FILENAME == ARGV[1] { part = part $0 "\n"; next } { text = text $0 "\n" } END { exit !(part != "" && index("\n" text, "\n" part) > 0) }' "$1" "$2"
}

# run_page PAGE: checks all commands and blocks of a page, and counts them in `commands` and `blocks`.
run_page() {
    page_folder=$folder/$(basename "$1" .md)
    mkdir -p "$page_folder/page" "$page_folder/work"
    cp "$root"/examples/tutorial/* "$page_folder/work"
    cd "$page_folder/page" || exit 1
    split_page "$root/$1"
    commands=0 blocks=0
    : >hashes
    for code in $(ls | grep '\.code$' | sort -n); do
        blocks=$((blocks + 1))
        file=$(cat "${code%code}file")
        if [ -f "$root/$file" ] && is_part "$code" "$root/$file"; then
            pass
        else
            fail "$1: code block ${code%.code} is not in \`$file\`:" "$(cat "$code")"
        fi
    done
    for command in $(ls | grep '\.command$' | sort -n); do
        commands=$((commands + 1))
        (cd ../work && . ../page/"$command") >printed 2>&1 </dev/null
        if agrees "${command%command}shown" printed hashes; then
            pass
        else
            fail "$1: $(cat "$command")" "printed:" "$(cat printed)" "instead of:" "$(cat "${command%command}shown")"
        fi
    done
    cd "$folder" || exit 1
}

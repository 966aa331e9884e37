#!/bin/sh
# Every public function with a bg_error * clears it in the first statement of its body, so that callers may pass one that
# is uninitialized or holds an older failure. The test reads the sources, so that it covers new functions.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1

# look HEADERS SOURCES (lists of words): prints errors.
look() {
    # shellcheck disable=SC2086
    awk '
        FNR == 1 { in_comment = 0; declaration = ""; name = ""; expected = "" }
        FILENAME ~ /\.h$/ {
            line = $0
            if (in_comment && !sub(/^.*\*\//, "", line)) next
            in_comment = 0
            gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
            if (sub(/\/\*.*$/, "", line)) in_comment = 1
            if (line ~ /^BG_API/) declaration = ""
            else if (declaration == "") next
            declaration = declaration " " line
            if (line !~ /;/) next
            if (declaration ~ /bg_error \*/ && match(declaration, /bg_[a-z0-9_]+ *\(/)) {
                name = substr(declaration, RSTART, RLENGTH); gsub(/[ (]/, "", name)
                # These functions work on the content of the error.
                if (name != "bg_error_set" && name != "bg_error_context" && name != "bg_error_clear") wanted[name] = 1
            }
            declaration = ""; name = ""
            next
        }
        expected != "" {
            # src/mpi does not link the library, and has a separate function for this.
            if ($0 != "    bg_error_clear(error);" && !(FILENAME ~ /^src\/mpi\// && $0 == "    clear(error);")) print expected " does not begin with bg_error_clear(error)"
            expected = ""
        }
        /^[a-z][A-Za-z0-9_ *]*bg_[a-z0-9_]+\(/ {
            match($0, /bg_[a-z0-9_]+\(/)
            name = substr($0, RSTART, RLENGTH - 1)
        }
        /;$/ { if ($0 !~ /^ /) name = "" }
        /^{$/ && name != "" { if (name in wanted) { expected = name; found[name] = 1 } name = "" }
        END {
            for (name in wanted) { count++; if (!(name in found)) print name " has no body" }
            if (count == 0) print "no function at all"
        }' $1 $2
}

begin_case library
# shellcheck disable=SC2046
findings=$(look "$(echo include/brigade/*.h)" "$(echo src/*/*.c src/*/*/*.c)")
check "every public function: $findings" test -z "$findings"

begin_case forgetful
cat >"$folder/toy.h" <<'END'
/* BG_API bg_status bg_in_a_comment(bg_error *error); */
BG_API bg_status bg_careful(int *out, bg_error *error); /* two
 * lines */
BG_API bg_status bg_forgetful(int *out,
                              bg_error *error);
BG_API bg_status bg_late(bg_error *error);
BG_API bg_status bg_absent(bg_error *error);
BG_API int bg_simple(int a);
END
cat >"$folder/toy.c" <<'END'
bg_status bg_forgetful(int *out, bg_error *error);

bg_status bg_careful(int *out, bg_error *error)
{
    bg_error_clear(error);
    return bg_late(error);
}

bg_status bg_forgetful(int *out,
                       bg_error *error)
{
    *out = 1;
    return BG_OK;
}

bg_status bg_late(bg_error *error)
{
    const bg_status status = bg_forgetful(&number, error);

    bg_error_clear(error);
    return status;
}

int bg_simple(int a)
{
    return a;
}
END
look "$folder/toy.h" "$folder/toy.c" | sort >"$folder/found"
cat >"$folder/expected" <<'END'
bg_absent has no body
bg_forgetful does not begin with bg_error_clear(error)
bg_late does not begin with bg_error_clear(error)
END
check "a function that forgets is found: $(cat "$folder/found")" cmp -s "$folder/found" "$folder/expected"
finish

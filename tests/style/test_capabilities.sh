#!/bin/sh
# Every row of docs/capabilities.md names tests that run: "tests/x/test_y.c:function", a function that the program
# registers with cmocka, or "tests/x/test_y.sh:case", a case that the script begins. tests/cli/support.sh ensures that
# such a case runs; words in comments or strings do not count as cases here.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0

# One process checks all rows and reads each file once.
counts=$(awk '
    function read_file(file, line, text) {
        if (file in known) return known[file]
        text = "\n"
        while ((getline line <file) > 0) text = text line "\n"
        close(file)
        return known[file] = text
    }
    function judge(file, name, text) {
        text = read_file(file)
        if (text == "\n") return file " does not exist"
        if (name == "") return file " without a function or a case of it"
        if (file ~ /\.sh$/) {
            if (text !~ "\n *begin_case " name "\n") return file " begins no case " name
            if (text !~ /\n\. [^\n]*support\.sh"\n/ || text !~ /\nfinish\n/) return file " does not run its cases by support.sh"
        } else if (text !~ "(cmocka_unit_test[a-z_]*|[A-Z_]*_TEST)[(]" name "[,)]") return file " registers no test " name
        return ""
    }
    /^\| *C[0-9][0-9][0-9]/ {
        id = $0
        sub(/^\| */, "", id)
        id = substr(id, 1, match(id, /[^C0-9]/) - 1)
        # The last cell has names, separated by a comma and a space.
        cell = $0
        sub(/ *\|$/, "", cell)
        sub(/.*\| /, "", cell)
        count = split(cell, tests, ", ")
        good = count > 0
        if (!good) print id " names no test" >"/dev/stderr"
        for (i = 1; i <= count; i++) {
            file = name = tests[i]
            if (name ~ /:/) { sub(/:.*/, "", file); sub(/^[^:]*:/, "", name) } else name = ""
            wrong = judge(file, name)
            if (wrong != "") { print id ": " wrong >"/dev/stderr"; good = 0 }
        }
        if (good) passes++
        else failures++
    }
    END { print passes + 0, failures + 0 }' docs/capabilities.md)
passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

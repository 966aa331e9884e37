#!/bin/sh
# Replaces the lines <!--STYLE--> and <!--SCRIPT--> of a page by its styles and script, so that the page is one file:
# pack_page.sh BASE OUT reads BASE.html, BASE.css and BASE.js.
awk -v css="$1.css" -v js="$1.js" '
    function copy(file, line) { while ((getline line < file) > 0) print line; close(file) }
    /^<!--STYLE-->$/ { print "<style>"; copy(css); print "</style>"; next }
    /^<!--SCRIPT-->$/ { print "<script>"; copy(js); print "</script>"; next }
    { print }' "$1.html" >"$2"

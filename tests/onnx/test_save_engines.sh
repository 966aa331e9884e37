#!/bin/sh
# Checks saved files with other programs: python3-onnx's checker with full shape inference, OpenCV's dnn, and
# onnxruntime-web under node. Results must equal the library's within 1e-5 of the largest number. Programs that are not
# installed are skipped with a reason. tools/onnxruntime_web.sh fetches onnxruntime-web, or BRIGADE_ONNXRUNTIME_WEB is
# its folder.
. "$(dirname "$0")/../cli/support.sh"

here=$root/tests/onnx
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3 # Debian's packages are for Debian's Python
engine=${BRIGADE_ONNXRUNTIME_WEB:-$build/onnxruntime-web/node_modules/onnxruntime-web}
mkdir "$folder/files"

begin_case written
"$build/tests/onnx/test_save" --write "$folder/files" >"$folder/written" 2>&1
check "files are written: $(tail -5 "$folder/written")" test $? -eq 0

begin_case checker
if "$python" -c 'import numpy, onnx' 2>/dev/null; then
    "$python" "$here/check_saved.py" check "$folder/files" >"$folder/checker" 2>&1
    check "every file keeps the format's rules: $(cat "$folder/checker")" test $? -eq 0
    check "all of them are looked at" grep -q '^check: [12][0-9][0-9] passed, 0 not possible there, 0 failed$' "$folder/checker"
else
    echo "skipped: python3-onnx is not installed"
    skipped=$((skipped + 1))
fi

begin_case opencv
if "$python" -c 'import cv2, numpy' 2>/dev/null; then
    "$python" "$here/check_saved.py" opencv "$folder/files" >"$folder/opencv" 2>&1
    check "files that it can load give the same: $(cat "$folder/opencv")" test $? -eq 0
else
    echo "skipped: python3-opencv is not installed"
    skipped=$((skipped + 1))
fi

begin_case onnxruntime_web
if command -v node >/dev/null && [ -d "$engine" ]; then
    node "$here/run_saved.js" "$engine" "$folder/files" >"$folder/web" 2>&1
    check "all files but those of bfloat16 give the same: $(cat "$folder/web")" test $? -eq 0
else
    echo "skipped: onnxruntime-web is not there: tools/onnxruntime_web.sh fetches it"
    skipped=$((skipped + 1))
fi

finish

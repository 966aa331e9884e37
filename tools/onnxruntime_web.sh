#!/bin/sh
# Fetches onnxruntime-web, with which tests and benchmarks run saved models, from npm's registry to BUILD/onnxruntime-web:
# tools/onnxruntime_web.sh [BUILD]. The script installs nothing elsewhere and runs no script of the package.
set -u
version=1.30.0
folder=${1:-build}/onnxruntime-web

command -v npm >/dev/null || { echo "onnxruntime_web.sh: npm is not installed" >&2; exit 1; }
mkdir -p "$folder" || exit 1
npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --silent "onnxruntime-web@$version" ||
    { echo "onnxruntime_web.sh: npm cannot download onnxruntime-web from its registry" >&2; exit 1; }
echo "$folder/node_modules/onnxruntime-web"

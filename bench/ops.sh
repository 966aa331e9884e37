#!/usr/bin/env bash
# Compares forward and backward of every op with PyTorch in a Markdown table. bench/ops.py describes it; its options may
# follow.
#
#   bench/ops.sh [BUILD] [OPTION...]    needs `make benches`; also: make bench-ops
#   bench/ops.sh build --only '^conv'   some of the cases
#   PYTHON=...                          a Python that has torch (default: the first python3 on the PATH that has it)
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=build
case ${1:-} in '' | -*) ;; *) build=$1 && shift ;; esac

die() {
    echo "ops.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch; on Debian: apt-get install python3-torch libopenblas0-pthread"
torch_describe
[ -x "$build/bench/ops" ] || die "$build/bench/ops is not there; run make benches"
processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $(nproc) cores. brigade $(cat VERSION); $torch_line. Load average before: $(cut -d ' ' -f 1 /proc/loadavg)."
echo "Forward and backward together; the best of 1 and $(nproc) threads, both."
echo
exec "$python" bench/ops.py "$build/bench/ops" --capabilities "${torch_capabilities// /,}" "$@"

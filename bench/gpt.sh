#!/usr/bin/env bash
# Compares training steps of GPT-2 by Brigade, llm.c and PyTorch, and oneDNN's matrix products, in a Markdown table:
# best and mean of all timed steps. The rows alternate, so that other load on the machine affects all of them.
#
#   bench/gpt.sh [BUILD]            needs `make benches`; also: make bench-gpt
#   CORES=2 ROUNDS=3 STEPS=2        each row: ROUNDS times a process that times STEPS steps
#   LAYERS=12 VOCABULARY=50257      size of the model; smaller numbers for a quick run
#   PYTHON=...                      a Python that has torch (default: the first python3 on the PATH that has it); without
#                                   one its rows are left out
#   LLMC=DIR                        a clone of github.com/karpathy/llm.c, whose CPU trainer is built with its own
#                                   flags and $CC; without one its row is left out
#   ROWS='PATTERN...'               only rows whose keys match one of these shell patterns; the keys are
#                                   float32 bfloat16 pipelined replicas tensor torch-float32 torch-bfloat16 llmc phased
#   TIMES=FILE                      appends every timed step to FILE, and makes the table from all steps in it: for
#                                   long measurements in several parts
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
cores=${CORES:-2} layers=${LAYERS:-12} vocabulary=${VOCABULARY:-50257} steps=${STEPS:-2}
llmc=
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
times=${TIMES:-$scratch/times}
export OMP_NUM_THREADS=$cores
batch=4 length=256 accumulation=8

die() {
    echo "gpt.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_line="no torch"
if torch_find; then torch_describe; else echo "gpt.sh: no python3 has torch, so its rows are left out" >&2; fi
[ -x "$build/bench/gpt" ] || die "$build/bench/gpt is not there; run make benches"
if [ -n "${LLMC:-}" ]; then
    llmc=$scratch/llmc
    "${CC:-cc}" -Ofast -march=native -fopenmp -DOMP -Wno-unused-result -I"$LLMC" -o "$llmc" bench/peers/gpt_llmc.c -lm || exit 1
else
    echo "gpt.sh: LLMC is not a clone of llm.c, so its row is left out" >&2
fi

# KEY: succeeds if ROWS selects this key.
wants() {
    local pattern
    set -f
    for pattern in ${ROWS:-*}; do
        # shellcheck disable=SC2254
        case $1 in $pattern) set +f; return 0 ;; esac
    done
    set +f
    return 1
}

# ROW TOKENS FIELD: reads lines `FIELD SECONDS` from standard input, the times of a row's steps of TOKENS tokens.
note() { awk -v row="$1" -v tokens="$2" -v field="$3 " 'index($0, field) == 1 { print row "\t" tokens "\t" substr($0, length(field) + 1) }' >>"$times"; }

# OPTION...: runs a process of Brigade, whose times are in $scratch/output.
brigade() {
    "$build/bench/gpt" --layers "$layers" --vocabulary "$vocabulary" --length $length --cores "$cores" --steps "$steps" --times "$@" \
        >"$scratch/output" || exit 1
}

# CAPABILITY [bfloat16]: prints a line `step SECONDS` for each of PyTorch's steps.
run_torch() {
    ATEN_CPU_CAPABILITY=$1 "$python" bench/gpt_torch.py "$cores" "$steps" "$layers" "$vocabulary" ${2:+"$2"}
}

# ROW STRATEGY SEQUENCES: notes the times of the last process of Brigade as those of ROW.
one() {
    local row=$1 strategy=$2 sequences=$3
    note "$row" $((sequences * length)) "time $strategy" <"$scratch/output"
}

round() {
    local tokens=$((batch * length))

    if wants float32; then
        brigade --batch $batch --dnnl && one "Brigade float32" single $batch
        one "oneDNN's matrix products alone" oneDNN $batch
    fi
    if wants llmc && [ -n "$llmc" ]; then
        note "llm.c float32" $tokens step < <("$llmc" "$layers" "$vocabulary" $batch $length "$steps")
    fi
    if wants bfloat16; then brigade --batch $batch --bfloat16 && one "Brigade bfloat16" single $batch; fi
    if [ -n "$python" ]; then
        local capability
        for capability in $torch_capabilities; do
            if wants torch-bfloat16; then
                note "PyTorch bfloat16 autocast, $capability" $tokens step < <(run_torch "$capability" bfloat16)
            fi
            if wants torch-float32; then note "PyTorch float32, $capability" $tokens step < <(run_torch "$capability"); fi
        done
    fi
    if wants pipelined; then
        brigade --batch $batch --accumulation 4 --strategy pipelined && one "Brigade float32, pipeline of 2 stages, 4 micro-batches" pipelined $batch
    fi
    if wants replicas; then
        brigade --batch $batch --strategy replicas && one "Brigade float32, 2 data-parallel replicas" replicas $batch
    fi
    if wants tensor; then
        brigade --batch $batch --strategy tensor && one "Brigade float32, 2 tensor-parallel replicas" tensor $batch
    fi
    if wants phased; then
        local sequences=$((batch * accumulation))
        brigade --batch $sequences --accumulation $accumulation --beside phased
        one "Brigade float32, accumulation $accumulation, resident" single $sequences
        one "Brigade float32, accumulation $accumulation, phased, all in remote buffers" phased $sequences
    fi
}

# ROW PREFIX TEXT: prints the speed of ROW, by best steps, divided by that of the fastest row whose name begins with
# PREFIX.
ratio() {
    awk -F '\t' -v a="$1" -v prefix="$2" -v text="$3" '
        { if (!($1 in best) || $3 / $2 < best[$1]) best[$1] = $3 / $2; sum[$1] += $3 / $2; count[$1]++ }
        END { for (row in best) if (index(row, prefix) == 1 && (b == "" || best[row] < best[b])) b = row
              if (a in best && b != "")
                  printf "- %s: %.2f (by the means: %.2f)\n", text, best[b] / best[a], sum[b] / count[b] / (sum[a] / count[a]) }' "$times"
}

load=$(cut -d ' ' -f 1 /proc/loadavg)
for _ in $(seq "${ROUNDS:-3}"); do round; done

processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $cores cores. $torch_line. Load average before: $load."
echo
echo "| GPT-2, $layers layers, $batch x $length tokens, $cores cores | tokens/s, best | mean | steps |"
echo "|---|---|---|---|"
awk -F '\t' '!($1 in best) { names[++n] = $1 } { rate = $2 / $3; sum[$1] += $3 / $2; count[$1]++; if (rate > best[$1]) best[$1] = rate }
    END { for (i = 1; i <= n; i++) printf "| %s | %.1f | %.1f | %d |\n", names[i], best[names[i]], count[names[i]] / sum[names[i]], count[names[i]] }' "$times"
echo
ratio "Brigade float32" "llm.c float32" "float32 beside llm.c"
ratio "Brigade float32" "oneDNN's matrix products alone" "float32, the whole step beside matrix products alone"
ratio "Brigade bfloat16" "PyTorch bfloat16 autocast" "bfloat16 beside PyTorch's autocast"
ratio "Brigade float32" "PyTorch float32" "float32 beside PyTorch"
ratio "Brigade float32, accumulation $accumulation, phased, all in remote buffers" "Brigade float32, accumulation $accumulation, resident" "phased beside resident"

#!/usr/bin/env python3
"""Compares forward and backward of every op with PyTorch, alternately, in a Markdown table. bench/ops.sh runs it.

Each case is measured in rounds. A round measures Brigade's op and PyTorch's, on one thread and on all. The best of all
rounds counts. `of the peak` is the share of the machine's peak, measured in the same rounds: arithmetic for products and
convolutions, otherwise a copy of the same number of bytes as the op's operands have.
"""
import argparse
import os
import re
import subprocess
import sys


class Server:
    def __init__(self, command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit(f"ops.py: no answer to `{line}` from {self.process.args}")
        return answer


DIMENSIONS = {op: 3 for op in ("prelu triangle slice concat stack tile roll flip broadcast scatter_add gather_elements "
                               "scatter_elements_add top_k").split()}
DIMENSIONS.update({"conv1d": 5, "conv3d": 5, "max_pool1d": 4, "max_pool3d": 4, "pad_constant": 5, "pad_replicate": 5,
                   "group_norm": 4, "einsum": 4, "attention_cached": 5, "ctc": 4, "pad": 5, "gather": 3, "rnn": 4})


def spell(op, dims):
    """Describes a case's shape."""
    if op in ("conv", "conv_bfloat16", "conv_transpose"):
        n, c, h, w, o, k, s, p, g = dims
        return f"{n} x {c} x {h} x {w}, {o} of {k} x {k}" + (f", stride {s}" if s > 1 else "") + (f", {g} groups" if g > 1 else "")
    if op.startswith("adaptive"):
        n, c, edge, out = dims[:4]
        return f"{n} x {c} x {edge} x {edge} to {out} x {out}"
    if op.endswith("_pool"):
        n, c, h, w, k, s, p = dims[:7]
        return f"{n} x {c} x {h} x {w}, {k} x {k}" + (f", stride {s}" if s != k else "") + (f", padding {p}" if p else "")
    if op == "interpolate":
        n, c, h, w, oh, ow, mode = dims[:7]
        return f"{n} x {c} x {h} x {w} to {oh} x {ow}, " + ("nearest", "linear", "cubic", "area")[mode]
    if op == "transpose":
        shown = [str(d) for d in dims[:3]] + ([str(dims[4])] if dims[4] > 1 else [])
        return " x ".join(d for d in shown if d != "1") + (", first two dims" if dims[3] == 0 else "")
    if op == "dot_product_attention":
        n, s, t, heads, key_heads, width, kind = dims[:7]
        seen = {1: ", padded", 2: ", bias", 3: ", causal", 4: ", window"}.get(kind, "")
        return f"{n} x {s} x {t}, {heads}" + (f" over {key_heads}" if heads != key_heads else "") + f" of {width}{seen}"
    count = {"rotary": 4, "lstm": 4, "gru": 4, "linear": 3, "embedding": 3, "matmul": 4, "attention": 4, "attention_bfloat16": 4, "batch_norm": 4, "sum": 3, "mean": 3, "max": 3}.get(op, DIMENSIONS.get(op, 2))
    while count > 1 and dims[count - 1] == 0:
        count -= 1
    return " x ".join(str(d) for d in dims[:count])


def variant(kernels):
    """Returns the instruction sets of the kernels, and which kernels are plain C."""
    plain = [k for k in kernels if "." not in k]
    return f"plain: {', '.join(plain)}" if plain else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="build/bench/ops")
    parser.add_argument("--capabilities", default="default", help="values of ATEN_CPU_CAPABILITY, comma-separated")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="comma-separated thread counts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=40, help="of each measurement")
    parser.add_argument("--only", default="", help="regular expression of the cases to measure: `op dim...`")
    parser.add_argument("--slower", action="store_true", help="exit with 1 when an op is slower than in PyTorch")
    options = parser.parse_args()
    threads = sorted({int(t) for t in options.threads.split(",")})
    ours = Server([options.program])
    peers = [Server([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "ops_torch.py")],
                    ATEN_CPU_CAPABILITY=c) for c in options.capabilities.split(",")]
    listed = subprocess.run([options.program, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    slower, ratios = [], []

    print("| op | shape | Brigade, us | PyTorch, us | x PyTorch | of the peak | |")
    print("|---|---|---:|---:|---:|---:|---|")
    for number, line in enumerate(listed):
        if not re.search(options.only, line):
            continue
        op, *dims = line.split()
        best, peer, copy, flops_peak = float("inf"), float("inf"), float("inf"), 0.0
        for _ in range(options.rounds):
            for t in threads:
                us, flops, size, *kernels = ours.ask(f"{number} {t} {options.milliseconds}")
                best, flops, size = min(best, float(us)), float(flops), float(size)
                for p in peers:
                    answer = p.ask(f"{t} {options.milliseconds} {line}")[0]
                    peer = min(peer, float("inf") if answer == "-" else float(answer))
                if flops > 0:
                    flops_peak = max(flops_peak, float(ours.ask(f"flops {t} {options.milliseconds / 4}")[0]))
                copy = min(copy, float(ours.ask(f"copy:{size:.0f} {t} {options.milliseconds / 4}")[0]))
        least = max(copy, flops / flops_peak * 1e-3 if flops_peak > 0 else 0.0)  # the limit that applies
        ratios.append(peer / best)
        if peer < best:
            slower.append(f"{op} {spell(op, [int(d) for d in dims])}")
        print(f"| {op} | {spell(op, [int(d) for d in dims])} | {best:.1f} | {peer:.1f} | {peer / best:.2f} | {100 * least / best:.0f}% | {variant(kernels)} |",
              flush=True)
    print()
    print(f"{len(ratios)} cases, {len(slower)} slower than PyTorch's." + (" Slower: " + "; ".join(slower) + "." if slower else ""))
    if options.slower and slower:
        sys.exit(1)


if __name__ == "__main__":
    main()

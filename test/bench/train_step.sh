#!/bin/sh
# Our training step against eager PyTorch's: both alternately, several times, one thread each, and the ratio of the medians.
# Both get the same OpenBLAS core: the one that fits the processor.
#
# usage: test/bench/train_step.sh [path of bench_train_step] [rounds] [seconds]
set -eu
here=$(dirname "$0")
bench=${1:-$here/../../build/release/bin/bench_train_step}
rounds=${2:-5}
seconds=${3:-1}
python=${PYTHON:-/usr/bin/python3}
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
[ -f "$bench" ] && [ -x "$bench" ] || { echo "train_step.sh: $bench is not there: build the preset 'release' first" >&2; exit 1; }
"$python" -c 'import torch' 2>/dev/null || {
    echo "train_step.sh: $python has no torch (Debian and Ubuntu: apt-get install python3-torch)" >&2
    exit 1
}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for _ in $(seq "$rounds"); do
    "$bench" "$seconds" | sed -n 's/^train_step_ms/ours/p' | tee -a "$results"
    "$python" "$here/torch_step.py" "$seconds" | sed -n 's/^train_step_ms/torch/p' | tee -a "$results"
done
awk '{ split($2, field, "="); value[$1, ++count[$1]] = field[2] + 0 }
     function median(name,   i, j, swap, n) {
         n = count[name]
         for (i = 1; i <= n; i++)
             for (j = i + 1; j <= n; j++)
                 if (value[name, j] < value[name, i]) {
                     swap = value[name, i]; value[name, i] = value[name, j]; value[name, j] = swap
                 }
         return n % 2 ? value[name, (n + 1) / 2] : (value[name, n / 2] + value[name, n / 2 + 1]) / 2
     }
     END {
         ours = median("ours"); torch = median("torch")
         printf "train_step ours_ms=%.4f torch_ms=%.4f ratio=%.3f\n", ours, torch, ours / torch
     }' "$results"

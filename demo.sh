#!/usr/bin/env bash
# Installs what is missing, builds, and trains one model on eight nodes that talk to each other; works from any directory.
# Arguments go to `p2pml run`: ./demo.sh --set average.ratio=1/100
set -euo pipefail
cd "$(dirname "$0")"

./setup.sh build
# Settings of the machine for OpenBLAS would slow the demonstration down.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

mkdir -p build
echo "== building (build/demo.log)"
if ! { cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release --target p2pml p2pml-node; } \
    >build/demo.log 2>&1; then
    tail -n 40 build/demo.log
    echo "demo.sh: the build failed; all of it is in build/demo.log" >&2
    exit 1
fi

echo "== eight nodes on a ring, each with other digits (configs/demo.yaml)"
[ $# -gt 0 ] || set -- --fresh # the result of the demonstration before
exec build/release/bin/p2pml run configs/demo.yaml "$@"

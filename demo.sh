#!/usr/bin/env bash
# Installs what is missing, builds, and trains one model on eight nodes that talk to each other; works from any directory.
# Arguments go to `p2pml run`: ./demo.sh --set average.ratio=1/100
set -euo pipefail
cd "$(dirname "$0")"

./setup.sh build
# Settings of the machine for OpenBLAS would slow the demonstration down.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

# Shows Ninja's "[12/240] ...": on a terminal as one line that is overwritten, elsewhere as a line for each tenth.
progress() {
    local line tenth last=-1
    while IFS= read -r line; do
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        if [ -t 1 ]; then
            printf '\r   %d of %d ' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
        elif [ $tenth != $last ]; then
            printf '   %d of %d\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
        fi
        last=$tenth
    done
    [ ! -t 1 ] || printf '\r%-30s\r' ''
}

mkdir -p build
echo "== building (build/demo.log)"
if ! { cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release --target p2pml p2pml-node p2pml_shared; } \
    2>&1 | tee build/demo.log | progress; then
    tail -n 40 build/demo.log
    echo "demo.sh: the build failed; the complete log is build/demo.log" >&2
    exit 1
fi

echo "== eight nodes on a ring, each with other digits (configs/demo.yaml)"
[ $# -gt 0 ] || set -- --fresh # replaces the result of an earlier demonstration
exec build/release/bin/p2pml run configs/demo.yaml "$@"

#!/usr/bin/env bash
# Sets up, builds and runs all tests: sanitizers, fuzzers, clang, and last the whole suite as it is released.
set -euo pipefail
cd "$(dirname "$0")"

# Sanitizers of these compilers lose their shadow memory where the kernel randomises addresses by more than 28 bits.
if [ -z "${P2PML_FIXED_ADDRESSES:-}" ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ] &&
    setarch "$(uname -m)" -R true 2>/dev/null; then
    P2PML_FIXED_ADDRESSES=yes exec setarch "$(uname -m)" -R ./test.sh
fi

./setup.sh test
# Settings of the machine for OpenBLAS would change which of its kernels are tested.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export PATH="$PWD/build/tools:$PATH" # promtool

build() { # build PRESET [TARGET...]; prints only what fails
    local preset=$1 log="build/$1.log" targets=()
    shift
    [ $# = 0 ] || targets=(--target "$@")
    echo "== build $preset"
    mkdir -p build
    if ! { cmake --preset "$preset" -DBUILD_TESTING=ON &&
        cmake --build --preset "$preset" -j2 "${targets[@]}"; } >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "test.sh: the build of preset $preset failed; all of it is in $log" >&2
        exit 1
    fi
}

run() { # run PRESET [CTEST OPTION...]
    local preset=$1
    shift
    echo "== test $preset $*"
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j2 "$@"
}

# What measures times, or lasts for minutes at the speed of sanitizers, runs once, as it is released.
timed='^e2e\.(chaos|kill_moments|compose|events)$'
build asan
run asan -E "$timed"
build tsan
run tsan -L '^(threads|e2e)$' -E "^e2e\.(training|strangers)$|$timed"
mapfile -t fuzzers < <(basename -s .c test/fuzz/fuzz_*.c)
build fuzz "${fuzzers[@]}"
run fuzz -L '^fuzz$'
build clang
build release
run release

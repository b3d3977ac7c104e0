#!/usr/bin/env bash
# Sets up, builds and runs all tests: sanitizers, fuzzers, clang, and at last the whole suite in the release build.
#
#     ./test.sh            everything
#     ./test.sh --quick    for daily work: unit tests, properties and the lint in the release build
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
"" | --quick) ;;
*)
    echo "test.sh: found '$1'; expected nothing or --quick" >&2
    exit 2
    ;;
esac

# The sanitizers of these compilers lose their shadow memory if the kernel randomises addresses by more than 28 bits.
if [ -z "${P2PML_FIXED_ADDRESSES:-}" ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ] &&
    setarch "$(uname -m)" -R true 2>/dev/null; then
    P2PML_FIXED_ADDRESSES=yes exec setarch "$(uname -m)" -R ./test.sh "$@"
fi

./setup.sh test
# Settings of the machine for OpenBLAS would change which of its kernels are tested.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export PATH="$PWD/build/tools:$PATH" # promtool

cores=$(nproc)
mkdir -p build
echo '{"version": {"major": 1, "minor": 0}, "local": [{"cores": [{"id": "0", "slots": '"$cores"'}]}]}' >build/cores.json

TIMEFORMAT='   took %0R s, %0U + %0S s of the processors' # %0S: in the kernel
build() { # build PRESET [TARGET...]; prints only what fails
    local preset=$1 log="build/$1.log" targets=()
    shift
    [ $# = 0 ] || targets=(--target "$@")
    echo "== build $preset $* ($SECONDS s)"
    if ! time { cmake --preset "$preset" -DBUILD_TESTING=ON &&
        cmake --build --preset "$preset" -j"$cores" "${targets[@]}"; } >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "test.sh: the build of preset $preset failed; the complete log is $log" >&2
        exit 1
    fi
}

failed=() # presets: one run reports all that fail
run() { # run PRESET [CTEST OPTION...]; as many busy tests as cores, besides those that mostly wait
    local preset=$1
    shift
    echo "== test $preset $* ($SECONDS s)"
    time ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j"$((cores * 4))" \
        --resource-spec-file "$PWD/build/cores.json" "$@" || failed+=("$preset")
}

finish() { # reports the result and ends
    if [ ${#failed[@]} != 0 ]; then
        echo "test.sh: tests failed ($SECONDS s), see above: ${failed[*]}" >&2
        exit 1
    fi
    echo "test.sh: all is well ($SECONDS s)"
    exit 0
}

if [ "${1:-}" = --quick ]; then
    build release
    run release -L '^(unit|property|lint)$'
    finish
fi

# Tests that measure times, or take minutes with sanitizers, run once, in the release build; so does the lint.
timed='^e2e\.(chaos|kill_moments|slow_links|compose|events)$'
# Our sanitizers find nothing in browsers and programs of others, and a sweep is many runs of one program.
outside='^e2e\.(report|page|sweep)$'
# CMake discards all other settings when the compiler of a build folder changes, so a folder of gcc is removed first.
grep -qs '^CMAKE_C_COMPILER:.*clang' build/asan/CMakeCache.txt || rm -rf build/asan
build fuzz tests_fuzz
build asan # everything, with clang, so that its warnings are checked, too
# Much of what follows waits: for other nodes, for deadlines, or to run alone because its limits are times. The fuzzers use the
# time that is left, one per core, each for a fixed wall-clock time and at a lower priority.
echo "== test fuzz, beside the following ($SECONDS s)"
nice -n 10 ctest --test-dir build/fuzz --output-on-failure --no-tests=error -j"$cores" -L '^fuzz$' >build/fuzz-test.log 2>&1 &
fuzzers=$!
trap 'kill $fuzzers 2>/dev/null' EXIT
run asan -E "^lint\.|$timed|$outside"
build tsan tests_threads
build clang tests_arithmetic
build release
# A node has the same threads whatever it trains: e2e.run covers them. The other excluded tests run programs with one thread.
run tsan -L '^(threads|e2e)$' -E "^e2e\.(training|strangers|methods|engines|data|model|text|deploy)$|$timed|$outside"
# Both compilers must give the same bits with full optimisation.
run clang -R '^(unit|property)\.(kernels|compress)_' -E kernels_cuda
run release
echo "== test fuzz: the rest, and the result ($SECONDS s)"
wait "$fuzzers" || failed+=(fuzz)
trap - EXIT
cat build/fuzz-test.log
finish

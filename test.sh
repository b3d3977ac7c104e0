#!/usr/bin/env bash
# Sets up, builds and runs all tests: sanitizers, fuzzers, clang, and at last the whole suite in the release build.
#
#     ./test.sh            all tests in the release build; each that a sanitizer can help with in one of the sanitized builds, too
#     ./test.sh --all      in each of them: once a week, and after a change of threads or memory
#     ./test.sh --quick    for daily work: unit tests, properties and the lint in the release build
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
"" | --all | --quick) ;;
*)
    echo "test.sh: found '$1'; expected nothing, --all or --quick" >&2
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
first=() # nice and its options, while something else goes first
build() { # build PRESET [TARGET...]; prints only what fails
    local preset=$1 log="build/$1.log" targets=()
    shift
    [ $# = 0 ] || targets=(--target "$@")
    echo "== build $preset $* ($SECONDS s)"
    if ! time { "${first[@]}" cmake --preset "$preset" -DBUILD_TESTING=ON &&
        "${first[@]}" cmake --build --preset "$preset" -j"$cores" "${targets[@]}"; } >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "test.sh: the build of preset $preset failed; the complete log is $log" >&2
        exit 1
    fi
}

failed=() # presets: one run reports all that fail
tests=()  # the command
tests_of() { # tests_of PRESET [CTEST OPTION...]; as many busy tests as cores, besides those that mostly wait
    tests=(ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j"$((cores * 3))"
        --resource-spec-file "$PWD/build/cores.json" "${@:2}")
}
run() { # run PRESET [CTEST OPTION...]
    echo "== test $* ($SECONDS s)"
    tests_of "$@"
    time "${tests[@]}" || failed+=("$1")
}

declare -A begun=() # processes, by the names of their logs
begin() { # begin NAME PRESET [CTEST OPTION...]; beside what follows, until `result NAME PRESET`
    echo "== test ${*:2}, beside the following ($SECONDS s)"
    tests_of "${@:2}"
    "${first[@]}" "${tests[@]}" >"build/$1-test.log" 2>&1 &
    begun[$1]=$!
}
result() { # result NAME PRESET
    echo "== test $2: the rest, and the result ($SECONDS s)"
    wait "${begun[$1]}" || failed+=("$2")
    unset "begun[$1]"
    cat "build/$1-test.log"
}
trap '[ ${#begun[@]} = 0 ] || kill "${begun[@]}" 2>/dev/null' EXIT

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

# Tests that must run alone, because their limits are times. They mostly wait.
alone='^e2e\.(chaos|kill_moments|slow_links)$'
# Tests that measure times, or take minutes with sanitizers, run once, in the release build; so does the lint.
timed="$alone|"'^e2e\.(compose|events)$'
# Our sanitizers find nothing in browsers and programs of others, and a sweep is many runs of one program.
outside='^e2e\.(report|page|sweep)$'
# CMake discards all other settings when the compiler of a build folder changes, so a folder of gcc is removed first.
grep -qs '^CMAKE_C_COMPILER:.*clang' build/asan/CMakeCache.txt || rm -rf build/asan
build release
begin alone release -R "$alone"
# The builds take the time that these leave. They and the fuzzers have a lower priority.
first=(nice -n 10)
build fuzz tests_fuzz
build asan # everything, with clang, so that its warnings are checked, too
build tsan tests_threads
build clang tests_arithmetic
result alone release
# Much of what follows waits, too: for other nodes and for deadlines. Each fuzzer runs for a fixed wall-clock time, one per core.
begin fuzz fuzz -j"$cores" -L '^fuzz$'
first=()
# A node has the same threads whatever it trains and whatever watches it, and the same memory whoever its peers are.
memory='^e2e\.(bans|corpus|data|deploy|doctor|engines|interop|methods|model|monitoring|refusal|removal|statistics|strangers|text|training|walk|wrong_data)$'
threads='^e2e\.(behind_nat|collect|embedding|families|fetch|meaning|membership|merge|names|paths|port_mapping|relay|rotation|run|set|signals|sparse|top|topology|trainer|upgrade|why)$'
[ "${1:-}" != --all ] || { memory='^e2e\.(data|deploy|engines|methods|model|strangers|text|training)$' threads='^$'; }
run asan -E "^lint\.|$threads|$timed|$outside"
run tsan -L '^(threads|e2e)$' -E "$memory|$timed|$outside"
# Both compilers must give the same bits with full optimisation.
run clang -R '^(unit|property)\.(kernels|compress)_' -E kernels_cuda
run release -E "$alone"
result fuzz fuzz
finish

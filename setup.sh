#!/usr/bin/env bash
# Installs what is missing on Debian (12, 13) and Ubuntu (22.04, 24.04), and nothing else.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD
PATH="$PATH:/usr/sbin:/sbin"

usage="usage: ./setup.sh [build|test]
  build  what is needed to build and run (the default)
  test   that, and what ./test.sh needs"

for_test=no
case "${1:-build}" in
build) ;;
test) for_test=yes ;;
-h | --help) echo "$usage" && exit 0 ;;
*) echo "setup.sh: unknown argument '$1'" >&2 && echo "$usage" >&2 && exit 2 ;;
esac

missing=()
need() { # need PACKAGE COMMAND...: the package is missing if the command fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
have() { command -v "$1"; }
known() { apt-cache show "$1" >/dev/null 2>&1; } # to apt-get
library() { pkg-config --exists "$1"; }

is_ubuntu() { grep -qs '^ID=ubuntu' /etc/os-release; } # whose chromium is a snap, not a package

has_header() { echo "#include <$1>" | cc -E -; }
c_headers() { echo '#include <stdio.h>' | cc -E -; }
msgpack() { library msgpack-c || library msgpack; }
# The package was renamed in Debian 13.
msgpack_package() { known libmsgpack-c-dev && echo libmsgpack-c-dev || echo libmsgpack-dev; }

cryptography() { python3 -c 'import cryptography' || /usr/bin/python3 -c 'import cryptography'; }

clang_runtime() { # libFuzzer and the sanitizers of clang
    echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9; }' |
        clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null -
}
clang_runtime_package() { # each release has it in another package
    local version
    version=$(clang -dumpversion 2>/dev/null || apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-//p')
    version=${version%%.*}
    local package
    for package in "libclang-rt-$version-dev" libclang-rt-dev; do
        known "$package" && echo "$package" && return
    done
    echo "libclang-common-$version-dev"
}

find_missing() {
    missing=()
    need gcc have gcc
    need libc6-dev c_headers
    need cmake have cmake
    need ninja-build have ninja
    need pkg-config have pkg-config
    need libcurl4-openssl-dev library libcurl
    need libevent-dev library libevent
    need libjansson-dev library jansson
    need libjpeg-dev library libjpeg
    need libminiupnpc-dev has_header miniupnpc/miniupnpc.h
    need libnatpmp-dev has_header natpmp.h
    need libopenblas-dev library openblas
    need libpng-dev library libpng
    need libsodium-dev library libsodium
    need libssl-dev library libcrypto
    need libyaml-dev library yaml-0.1
    need zlib1g-dev library zlib
    need msgpack msgpack
    if [ $for_test = yes ]; then
        need libcmocka-dev library cmocka
        need clang have clang
        need clang-runtime clang_runtime
        need clang-format have clang-format
        need lld have ld.lld # links the programs with sanitizers
        need llvm have llvm-symbolizer # names for the sanitizers of clang: what they ignore is a list of functions
        need iproute2 have tc
        need nftables have nft
        need python3 have python3
        need python3-cryptography cryptography # of the client in test/interop; without it e2e.interop is skipped
        is_ubuntu || need chromium have chromium # renders reports; without it e2e.report is skipped
        need gnuplot-nox have gnuplot
        need git have git # the lint asks it which files belong to the project
        need promtool has_promtool
    fi
}

# Debian 13 and later have a package for it. For older releases only the tool is unpacked from the package prometheus, which
# would otherwise start a server now and at each boot.
has_promtool() { have promtool || [ -x build/tools/promtool ]; }
fetch_promtool() (
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
    cd "$directory"
    [ "$(id -u)" != 0 ] || chown _apt . # as root, apt-get downloads as that user
    apt-get -qq download prometheus
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xf - ./usr/bin/promtool
    install -D -m 755 usr/bin/promtool "$root/build/tools/promtool"
)

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo >/dev/null; then
        sudo "$@"
    else
        echo "setup.sh: not root, and found no sudo. Run as root: $*" >&2
        return 1
    fi
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }

# Shows apt's progress ("pmstatus:gcc:42.1:Unpacking gcc"): on a terminal as one line that is overwritten, elsewhere as a line for
# each tenth.
progress() {
    local kind percent what tenth last=-1
    while IFS=: read -r kind _ percent what; do
        case $kind in dlstatus) what="fetching" ;; pmstatus) ;; *) continue ;; esac
        percent=${percent%%.*}
        tenth=$((percent / 10))
        if [ -t 1 ]; then
            printf '\r   %3d%%  %-60.60s' "$percent" "$what"
        elif [ $tenth != $last ]; then
            printf '   %3d%%  %s\n' "$percent" "$what"
        fi
        last=$tenth
    done
    [ ! -t 1 ] || printf '\r%-70s\r' ''
}

find_missing
[ ${#missing[@]} = 0 ] && exit 0
echo "setup.sh: missing: ${missing[*]}"
if ! have apt-get >/dev/null; then
    echo "setup.sh: found no apt-get; this script supports only Debian and Ubuntu: install the above by hand," \
        "with their development files, and run this again" >&2
    exit 1
fi
apt_get update || echo "setup.sh: some package lists could not be fetched; continuing with the others" >&2

packages=()
for item in "${missing[@]}"; do
    case $item in
    msgpack) packages+=("$(msgpack_package)") ;;
    clang-runtime) packages+=("$(clang_runtime_package)") ;;
    promtool) known promtool && packages+=(promtool) ;;
    *) packages+=("$item") ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then
    echo "setup.sh: installing: ${packages[*]}"
    if ! apt_get install -y --no-install-recommends -o APT::Status-Fd=1 "${packages[@]}" | progress; then
        ! is_ubuntu || echo "setup.sh: some of these are in Ubuntu's component universe: is it in apt's sources?" >&2
        exit 1
    fi
fi
if [ $for_test = yes ] && ! has_promtool >/dev/null; then
    fetch_promtool
fi

find_missing
if [ ${#missing[@]} != 0 ]; then
    echo "setup.sh: still missing after the installation: ${missing[*]}" >&2
    exit 1
fi

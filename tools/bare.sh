#!/bin/bash
# Runs the README's two commands on a bare machine: a fresh Debian from debootstrap with only `make`
# added, which these commands need. Started by hand, as root:
#
#   tools/bare.sh 12 [COMMAND...]     Debian 12 or 13; runs COMMAND instead of the README's two
#   BARE_TREE=DIR tools/bare.sh ...   uses that tree and keeps it; an existing tree is reused except for /root/vlmsh
#
# It uses the checked-out commit, and this machine's apt mirror, proxy and certificates; mounts stay
# within its own mount namespace.
set -eu
tree=${BARE_TREE:+$(realpath -m "$BARE_TREE")} # relative to the caller's folder
cd "$(dirname "$0")/.."

usage() {
    echo "usage: tools/bare.sh 12|13 [COMMAND...]" >&2
    exit 2
}
case ${1:-} in
12) suite=bookworm ;;
13) suite=trixie ;;
*) usage ;;
esac
shift
[ $# -gt 0 ] || set -- 'make run </dev/null' 'make test'
[ "$(id -u)" = 0 ] || { echo "tools/bare.sh needs root, for chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "tools/bare.sh needs debootstrap: apt-get install debootstrap" >&2; exit 1; }

[ "$tree" != / ] || usage
scratch=
trap 'rm -rf ${scratch:+"$scratch"}' EXIT
if [ -z "$tree" ]; then
    scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/vlmsh-bare-XXXXXX")
    tree=$scratch
fi

# This machine's mirror of Debian, if it has one.
mirror() {
    local found
    found=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/^Debian //p' | head -1)
    echo "${found:-http://deb.debian.org/debian}"
}

# copy FILE: copies it to the same path in the tree.
copy() {
    [ -e "$1" ] || return 0
    mkdir -p "$tree$(dirname "$1")"
    cp -rL "$1" "$tree$1"
}

if [ ! -e "$tree/etc/debian_version" ]; then
    # The output goes into a variable: a file beside the tree might overwrite one of the caller's.
    log=$(debootstrap --variant=minbase --include=make "$suite" "$tree" "$(mirror)" 2>&1) ||
        { tail -20 <<<"$log" >&2; exit 1; }
    mkdir -p "$tree/etc/apt/apt.conf.d"
    apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries)' >"$tree/etc/apt/apt.conf.d/99host" || true
    copy /etc/ssl/certs/ca-certificates.crt
    copy /usr/local/share/ca-certificates
    apt-config dump | sed -n 's/^Acquire::[^ ]*::CaInfo "\(.*\)";/\1/p' | while read -r file; do copy "$file"; done
fi
copy /etc/resolv.conf
copy /etc/hosts
rm -rf "$tree/root/vlmsh" # keeps only files of the commit
mkdir -p "$tree/root/vlmsh"
git archive HEAD | tar -x -C "$tree/root/vlmsh"

# inside: runs a command in separate namespaces, so that all mounts and processes end with it.
inside() {
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$1/dev/pts"
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
            chroot "$1" sh -c "cd /root/vlmsh && $2"' inside "$tree" "$1"
}
status=0
for command in "$@"; do
    echo "== Debian $suite: $command"
    inside "$command" || { status=$?; echo "== exit status $status"; break; }
done
exit $status

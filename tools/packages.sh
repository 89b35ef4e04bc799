#!/bin/sh
# Installs the missing ones of the named Debian/Ubuntu packages, after a message. Does nothing if all
# are installed; on other systems it lists them and continues.
missing=
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "vlmsh needs (Debian names): $*" >&2
    exit 0
fi
for p in "$@"; do
    # A command with the package's name (a compiler from elsewhere) replaces the package.
    command -v "$p" >/dev/null 2>&1 && continue
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
sudo=
if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null 2>&1 || { echo "please install as root: apt-get install$missing" >&2; exit 1; }
fi
echo "Installing missing packages with apt-get:$missing"
# shellcheck disable=SC2086
$sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null

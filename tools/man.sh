#!/bin/sh
# Updates the lists of commands and settings in vlmsh.1 from the program's own tables.
# usage: tools/man.sh [--check]   (from the root, after make; --check only compares)
set -eu
program=${VLMSH:-./vlmsh}
next=$(mktemp)
lists=$(mktemp)
trap 'rm -f "$next" "$lists"' EXIT

"$program" help --man >"$lists"
awk -v lists="$lists" '
    /^\.\\" END LISTS/ { inside = 0 }
    !inside { print }
    /^\.\\" BEGIN LISTS/ { inside = 1; while ((getline line < lists) > 0) print line }
' vlmsh.1 >"$next"
if [ "${1:-}" = --check ]; then
    cmp "$next" vlmsh.1 || { echo "vlmsh.1 is out of date: run tools/man.sh" >&2; exit 1; }
else
    cat "$next" >vlmsh.1
fi

#!/bin/sh
# Writes the lists of commands and settings in vlmsh.1 and README.md anew from the program's own tables.
# usage: tools/man.sh [--check]   (from the root, after make; --check only compares)
set -eu
program=${VLMSH:-./vlmsh}
next=$(mktemp)
lists=$(mktemp)
trap 'rm -f "$next" "$lists"' EXIT

# replace FILE: by what is in $next.
replace() {
    if [ "$check" ]; then
        cmp "$next" "$1" || { echo "$1 is out of date: run tools/man.sh" >&2; exit 1; }
    else
        cat "$next" >"$1"
    fi
}
check=
[ "${1:-}" = --check ] && check=yes

"$program" help --man >"$lists"
awk -v lists="$lists" '
    /^\.\\" END LISTS/ { inside = 0 }
    !inside { print }
    /^\.\\" BEGIN LISTS/ { inside = 1; while ((getline line < lists) > 0) print line }
' vlmsh.1 >"$next"
replace vlmsh.1

# Tables, known by their first lines.
"$program" help --markdown >"$lists"
awk -v lists="$lists" '
    BEGIN {
        while ((getline line < lists) > 0) {
            if (line == "") { head = ""; continue }
            if (head == "") head = line
            table[head] = table[head] line "\n"
        }
    }
    $0 == "" { inside = 0 }
    $0 in table { printf "%s", table[$0]; inside = 1 }
    !inside { print }
' README.md >"$next"
replace README.md

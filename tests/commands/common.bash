# common.bash -- what the scripts here share: a place to work, vlmsh, checks. Sourced from the root.
#
#   lines LINE...        runs the lines as a program does (standard input, --json); events on output
#   check NAME JQ WANT   the last events give WANT under this jq program (each result on a line)
#   finish               exits 1 if any check failed
set -u
: "${VLMSH:=./vlmsh}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state HOME=$work LC_ALL=C.UTF-8
llava=tests/goldens/llava-1.5
llama=tests/goldens/llama-3.2
scene=tests/goldens/pictures/scene.png
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

vlmsh() {
    "$VLMSH" --db "$work/vlmsh.db" "$@"
}

lines() {
    printf '%s\n' "$@" | vlmsh --json >"$work/events"
}

check() {
    local got
    got=$(jq -r "$2" "$work/events" 2>&1)
    [ "$got" = "$3" ] || fail "$1: got '$got', not '$3'"
}

# check_has NAME JQ PART: the result contains PART.
check_has() {
    local got
    got=$(jq -r "$2" "$work/events" 2>&1)
    case $got in
    *"$3"*) ;;
    *) fail "$1: '$got' does not contain '$3'" ;;
    esac
}

same() {
    [ "$2" = "$3" ] || fail "$1: got '$2', not '$3'"
}

finish() {
    exit $failed
}

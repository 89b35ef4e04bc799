# tmux.bash -- shared by the tests of the full screen: a separate terminal, keys, waiting. Sourced
# from the root; sets $work and needs $VLMSH.
#
#   shell_at COLUMNS LINES [TERM] [VAR=VALUE]   starts an interactive shell in that terminal
#   line TEXT; keys C-c Enter                   types
#   wait_for PATTERN; wait_gone PATTERN         waits until the screen shows PATTERN, or no longer does
command -v tmux >/dev/null || { echo "tmux is missing"; exit 1; }
work=$(mktemp -d)
server=vlmsh-test-$$
tmux() { command tmux -L "$server" -f /dev/null "$@"; }
# A job outlives its screen and may write into the folder while it is removed.
trap 'tmux kill-server 2>/dev/null || true; until rm -rf "$work" 2>/dev/null; do sleep 0.1; done' EXIT
model=tests/goldens/llava-1.5
pictures=tests/goldens/pictures

fail() { echo "failed: $1"; tmux capture-pane -p; exit 1; }
keys() { tmux send-keys "$@"; }
line() { typed="> $1 "; tmux send-keys -l "$1"; tmux send-keys Enter; }
shown() { tmux capture-pane -p | grep -q -e "$1"; }
wait_for() { # PATTERN [what]
    # The typed line is shown before its result, so a pattern that matches both waits for nothing.
    if grep -q -e "$1" <<<"${typed:-}"; then fail "'$1' matches the typed line too"; fi
    for _ in $(seq 900); do shown "$1" && return; sleep 0.1; done
    fail "${2:-nothing shows '$1'}"
}
wait_gone() {
    for _ in $(seq 900); do shown "$1" || return 0; sleep 0.1; done
    fail "'$1' does not disappear"
}
shell_at() {
    cat >"$work/start" <<END
export XDG_STATE_HOME=$work/state XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
export INPUTRC=/dev/null PS1='shell> ' LC_ALL=C.UTF-8 TERM=${3:-screen-256color}
unset COLORTERM NO_COLOR LINES COLUMNS
${4:+export $4}
END
    tmux kill-server 2>/dev/null || true
    server=$server+ # a server that is ending accepts no session
    tmux new-session -d -x "$1" -y "$2" "bash --rcfile '$work/start' -i"
    wait_for 'shell>'
}

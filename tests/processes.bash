# processes.bash -- lists processes from /proc: procps is not on every machine. Sourced from the root.
#
#   children_of PID    pids of the children of PID, one per line
#   running TEXT       pids of processes whose command line, words joined by spaces, contains TEXT
children_of() {
    grep -lx "PPid:[[:space:]]*$1" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3
}
running() { # starts no program per process: scripts poll with it
    local file words
    for file in /proc/[0-9]*/cmdline; do
        mapfile -d '' -t words 2>/dev/null <"$file" || continue
        [[ ${words[*]} == *"$1"* ]] && cut -d/ -f3 <<<"$file"
    done 2>/dev/null
    return 0
}

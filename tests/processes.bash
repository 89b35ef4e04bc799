# processes.bash -- lists processes from /proc: procps is not on every machine. Sourced from the root.
#
#   children_of PID    pids of the children of PID, one per line
#   running TEXT       pids of processes whose command line, words joined by spaces, contains TEXT
children_of() {
    grep -lx "PPid:[[:space:]]*$1" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3
}
running() {
    local file
    for file in /proc/[0-9]*/cmdline; do
        { tr '\0' ' ' <"$file" | grep -qF -e "$1"; } 2>/dev/null && cut -d/ -f3 <<<"$file"
    done
    return 0
}

# paths.sh -- files named by documents, comments and the program's own texts exist.
set -eu
folders="core kernels commands sessions tui tests tools"
wrong=$({ ls ./*.md demo/*.md Makefile vlmsh.1
          find $folders -path tests/goldens -prune -o -type f \
              -regex '.*\.\(c\|h\|cu\|cpp\|sh\|bash\|py\)' -print; } |
    xargs grep -HnoE "\b(${folders// /|}|demo)/[A-Za-z0-9_./*-]*\.(c|h|cu|cpp|sh|bash|py|md)\b" |
    awk -F: '!seen[$1 $3]++ { print $1 ":" $2, $3 }' |
    while read -r place path; do
        case $path in
        *NAME*) ;; # a placeholder
        *) compgen -G "$path" >/dev/null || echo "$place names $path" ;;
        esac
    done)
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }

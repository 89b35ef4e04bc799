#!/bin/bash
# tools/lines.sh -- counts lines of the program's sources by room: code (lines that are neither blank nor only a comment),
# comments, blank lines. `make lines` prints the table.
cd "$(dirname "$0")/.." || exit 1
find core kernels sessions commands tui -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' | sort |
    xargs awk '
    FNR == 1 { n = split(FILENAME, part, "/"); room = part[1] (part[1] == "core" && n > 2 ? "/" part[2] : ""); inside = 0 }
    {
        kind = "code"
        if (inside) kind = "comment"
        else if ($0 ~ /^[[:space:]]*$/) kind = "blank"
        else if ($0 ~ /^[[:space:]]*(\/\/|\/\*)/) kind = "comment"
        if ($0 ~ /^[[:space:]]*\/\*/) inside = 1
        if ($0 ~ /\*\//) inside = 0
        count[room, kind]++; sum[kind]++
        if (!(room in seen)) { seen[room] = 1; order[++rooms] = room }
    }
    END {
        printf "%-16s %7s %8s %6s\n", "room", "code", "comments", "blank"
        for (i = 1; i <= rooms; i++)
            printf "%-16s %7d %8d %6d\n", order[i], count[order[i], "code"], count[order[i], "comment"], count[order[i], "blank"]
        printf "%-16s %7d %8d %6d\n", "all", sum["code"], sum["comment"], sum["blank"]
    }'

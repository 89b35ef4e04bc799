#!/bin/bash
# tools/rooms.sh LIBRARY -- checks that folders and the rooms of core/ depend on each other in one direction: a room uses
# only rooms that precede it in this list, by its #includes and by the symbols of its objects; commands/ and tui/ see
# only public headers. `make lint` runs it after a full build.
rooms="base settings ranks picture tokenizer template graph ops files model stages methods metrics data sets talk positions probes
       interventions adapter engine scenes draw new jobs eval train checkup papers lists"

set -o pipefail
library=$1
cd "$(dirname "$0")/.." || exit 1

# The other folders: each includes only headers of those before it in this list.
below=
for folder in kernels core sessions commands tui; do
    below="$below|$folder"
    if grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"(kernels|core|sessions|commands|tui)/' \
        "$folder" --include='*.[ch]' --include='*.cu' --include='*.cuh' | grep -vE "\"(${below#|})/"; then
        echo "tools/rooms.sh: $folder/ includes ${below#|} only"
        exit 1
    fi
done

# Checks symbols, too: programs made of the core alone lack, for example, the rows of settings in
# commands/.
objects() { find "$@" -name '*.c' | sed "s|^|${library%/*}/|; s|c\$|o|" | xargs nm; }
if comm -12 <(objects core | awk '$1 == "U" { print $2 }' | sort -u) \
    <(objects sessions commands tui | awk '$2 ~ /^[TDRB]$/ { print $3 }' | sort -u) | grep .; then
    echo "tools/rooms.sh: core/ uses these, which are defined in sessions/, commands/ or tui/: define them in core/"
    exit 1
fi

# commands/ and tui/ see the core through these headers, with models, passes and conversations as opaque pointers; the
# dependency lists beside the objects show all headers that they include, even indirectly.
public="(base|settings|picture|draw|data|sets|scenes|new)/[a-z0-9_]*|lists|engine/(engine|device|presets)
    |adapter/(adapters?|model_(gguf|mmproj|write)|provenance)|checkup/checkup|eval/(ask|conditions|compare(_data|_results|_text)?|evaluate_job|grid|score_plan)|files/(checkpoint|content|whole_file)
    |jobs/(identity|job)|papers/paper|positions/positions|methods/(calibration|forecast|hide|method|phases|sinks|steer)|metrics/metric|probes/(directions|measure_data|probe|results|taps)
    |template/(jinja|message|template)|tokenizer/tokenizer|train/(data_check|forecast|roles|run_folder|select|sft_options|trained)"
if grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"(core|kernels)/' commands tui --include='*.[ch]' |
    grep -vE "\"core/(${public//[[:space:]]/})\.h\"" || grep -rn '#include "core/.*_parts\.h"' commands tui; then
    echo "tools/rooms.sh: commands/ and tui/ include public headers of the core only (list: tools/rooms.sh)"
    exit 1
fi
if find commands tui -name '*.c' | sed "s|^|${library%/*}/|; s|c\$|d|" |
    xargs grep -HoE '(core/(model|graph|ops|talk)|kernels)/[a-z0-9_/]*\.h' |
    grep -vE ':core/(model/parts|graph/(hooks|look))\.h$' | sort -u; then
    echo "tools/rooms.sh: the headers that these include must declare models, passes and conversations only"
    exit 1
fi

# core/scenes/ makes data for two commands and pictures for check-ups; nothing else includes it.
if grep -rn '#include "core/scenes/' core commands sessions tui --include='*.[ch]' |
    grep -vE '^(core/scenes/|core/checkup/pictures\.c:|commands/(scenes|pope)\.c:)'; then
    echo "tools/rooms.sh: commands/scenes.c, commands/pope.c and core/checkup/pictures.c alone include core/scenes/"
    exit 1
fi

# Only core/talk/ changes a conversation.
field='\<(c|conversation|stashed)(->|\.)(messages|pictures|waiting|(message|picture|waiting)_count|cached|kv)\>'
if grep -rnE "${field}[][a-z_0-9>.-]* *(=[^=]|[-+]=|\+\+|--)|(\+\+|--)[a-z_>.-]*$field" \
    core commands sessions tui tests --include='*.[ch]' | grep -v '^core/talk/'; then
    echo "tools/rooms.sh: conversations are changed by the functions of core/talk/conversation.h"
    exit 1
fi

{
    for room in $rooms; do echo "room $room"; done
    ls -d core/*/ core/*.[ch] | sed 's|^core/||; s|/$||; s|\..*||' | sort -u | sed 's/^/there /'
    grep -rHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<](core/|\.)[^">]*' core --include='*.[ch]' |
        sed -E 's|:[^"<]*["<](core/)?| |; s|^core/||; s/^/include /'
    # (Names of members in a library lack their folders; names of object files have them.)
    find core -name '*.c' | sed "s|^|${library%/*}/|; s|c\$|o|" | xargs nm -A | sed "s|^${library%/*}/core/||" |
        awk '$NF != "" && $(NF-1) ~ /^[UTDRBWVC]$/ { split($1, at, ":"); print "symbol", at[1], $(NF-1), $NF }'
} | awk '
    function room_of(path) { sub(/[\/.].*/, "", path); return path }
    function arrow(from, to, why) {
        if (from == to || !(to in order) || !(from in order) || order[to] < order[from]) return
        print "  " why; bad = 1
    }
    $1 == "room" { order[$2] = ++rooms }
    $1 == "there" && !($2 in order) { print "  core/" $2 " is not in the list of rooms"; bad = 1 }
    $1 == "include" && $3 ~ /^\./ { print "  core/" $2 " includes " $3 ": write core/ROOM/FILE"; bad = 1 }
    $1 == "include" { arrow(room_of($2), room_of($3), "core/" $2 " includes core/" $3) }
    $1 == "symbol" && $3 != "U" { home[$4] = $2 }
    $1 == "symbol" && $3 == "U" { uses[++n] = $2; used[n] = $4 }
    END {
        for (i = 1; i <= n; i++)
            if (used[i] in home)
                arrow(room_of(uses[i]), room_of(home[used[i]]),
                      uses[i] " uses " used[i] " of " home[used[i]])
        if (bad) print "tools/rooms.sh: these arrows run back (the order of rooms: tools/rooms.sh)"
        exit bad
    }'

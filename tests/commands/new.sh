# tests/commands/new.sh -- /new and /scenes in the shell: their files, --once, errors.
. tests/commands/common.bash

lines "/scenes 20 $work/world --seed 3 --objects 2 --kind lessons" \
    "/scenes 20 $work/world --seed 3 --objects 2 --kind lessons --once" \
    "/scenes 20 $work/world --kind yesno --once" \
    "/new --like demo $work/model --text $work/world/lessons.json" \
    "/new --like demo $work/model --once" \
    "/new --like demo $work/model" \
    "/new --like nosuch $work/x" \
    "/new --like demo $work/x --text $work/none.txt" \
    "/scenes 5 $work/x --objects 8" \
    "/load $work/model" \
    "/data check $work/world/lessons.json"
same "which lines fail" "$(jq -r 'select(.event == "done").ok' "$work/events" | tr '\n' ' ')" \
    "true true false true true false false false false true true "
same "files of the world" "$(cd "$work/world" && echo *)" "lessons.json objects.jsonl pictures"
same "most objects of a scene" "$(jq -s 'map(.objects | length) | max' "$work/world/objects.jsonl")" 2
same "progress reported" "$(jq -r 'select(.event == "progress" and .step == .steps).what' "$work/events" | sort -u | tr '\n' ' ')" \
    "drawing loading writing "
check "events name the folders" 'select(.event == "written") | "\(.what) \(.file)"' "data $work/world
model $work/model"
check_has "scenes with --once" 'select(.event == "notice").text' "$work/world already holds these scenes"
check_has "a model with --once" 'select(.event == "notice").text' "$work/model already holds a model"
check_has "all samples are usable" 'select(.event == "notice").text' "20 of 20 samples"
[ ! -e "$work/x" ] || fail "a failed line left a folder"

# `vlmsh new` and /new write the same bytes.
vlmsh new --like demo "$work/again" --text "$work/world/lessons.json" >/dev/null
diff -r "$work/model" "$work/again" >/dev/null || fail "vlmsh new and /new differ"

# The class token is named as in transformers' folders; the loader would accept other prefixes, too.
# (--zeros: a sparse file.)
vlmsh new --like internvl3-1b --zeros "$work/internvl" >/dev/null
same "no length of the tokenizer, since config.json has it" "$(jq .model_max_length "$work/internvl/tokenizer_config.json")" null
head -c 200000 "$work/internvl/model.safetensors" | grep -aq '"vision_tower.embeddings.cls_token"' ||
    fail "the class token of internvl3-1b has the wrong name"
# Texts around pictures have no token that means a picture.
vlmsh new --like minicpm-v-4.6 --zeros "$work/minicpm" >/dev/null
vlmsh "$work/minicpm" -c "/data check $work/world/lessons.json" >"$work/out" 2>&1 || fail "minicpm-v-4.6: $(cat "$work/out")"

# A mount point, which the finished folder could not replace, is refused before the work.
mkdir "$work/mounted"
if unshare -rm mount -t tmpfs none "$work/mounted" 2>/dev/null; then
    unshare -rm sh -c 'mount -t tmpfs none "$1" && "$2" --db "$3" -c "/scenes 1 $1"' sh "$work/mounted" "$VLMSH" \
        "$work/vlmsh.db" >"$work/out" 2>&1 && fail "a mount point was accepted"
    grep -q "'$work/mounted' is a mount point: choose a folder in it" "$work/out" || fail "a mount point: $(cat "$work/out")"
else
    echo "SKIPPED: mount points: this machine allows no mount"
fi

# The small default model replaces what a killed process left of it.
mkdir -p "$work/bin" "$work/cache/vlmsh/tiny.part-abc123"
cp "$VLMSH" "$work/bin/vlmsh" # has no demo model beside it
XDG_CACHE_HOME=$work/cache "$work/bin/vlmsh" --db "$work/vlmsh.db" -c '/set sample.max_tokens 1' -c Hello \
    >"$work/out" 2>&1 || fail "the default model: $(tail -1 "$work/out")"
same "what is left of the default model" "$(cd "$work/cache/vlmsh" && echo tiny*)" tiny
# Options without effect are refused.
for options in '--merge 2' '--scale 0.5' --linear '--zeros --seed 3'; do
    vlmsh new --like tiny "$work/refused" $options >"$work/out" 2>&1
    same "vlmsh new $options" "$? $(ls "$work/refused" 2>&1)" "2 ls: cannot access '$work/refused': No such file or directory"
done
finish

# preset.sh -- /preset, /capa, /align, /ira, /baseline: all or nothing, kept in the database.
. tests/commands/common.bash

setting() { # KEY: its values in the events
    jq -r --arg key "$1" 'select(.event=="setting" and .key==$key).value' "$work/events" | tr '\n' ' '
}

lines "/load $llava" '/preset load capa-transition' '/preset load fastv' '/set prune.seed 7' \
    '/preset save mine prune.*' '/preset save all' '/baseline' '/preset load mine' '/get prune.*' \
    '/preset show mine' '/preset save fastv' '/preset save "a b"' '/preset save x no.such' \
    '/preset load nothing' '/preset nonsense' '/preset load' '/preset delete fastv'
check "lines that fail" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' \
    "$(printf 'true %.0s' {1..9})true $(printf 'false %.0s' {1..6})false"
# The model's phases are not known: uses layers at 1/8, 3/8 and 5/8 of its 4, ties rounded to even.
check_has "reports guessed layers" 'select(.event=="notice").text' "1/8, 3/8 and 5/8"
check "layer of the transition" '[inputs, .] | map(select(.event=="setting" and .key=="prune.layer").value)[0]' 2
lines "/load $llava" '/preset load capa-stages' '/set' # the model has 4 layers
check_has "no room for three stages" 'select(.event=="error").message' "prune.layer cannot be '0,2,2'"
check "no setting of the preset is applied" 'select(.event=="text").text' 'all settings are at their defaults; /settings lists them'

# Another process still has the preset.
lines "/load $llava" '/preset load mine' '/preset list' '/preset delete mine' '/preset load mine'
same "settings of a loaded preset" "$(setting prune.score)$(setting prune.layer)$(setting prune.keep)$(setting prune.seed)" \
    "attention 2 0.5 7 "
check "presets listed" 'select(.event=="table" and .name=="presets").rows | map(.[0]) | map(select(.=="mine" or .=="capa")) | join(" ")' 'capa mine'
check "a deleted preset cannot be loaded" '[inputs, .] | map(select(.event=="done").ok) | last' false

# With an impossible value, no setting of the preset is applied.
lines "/load $llava" '/set prune.layer 3' '/set prune.keep 0.5' '/preset save bad prune.*' \
    '/preset load baseline' '/reset all' '/preset load capa' '/set' '/preset load ira' '/set'
check "which lines are refused" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' \
    'true true true true true true false true false true'
check_has "a calibration is missing" 'select(.event=="error").message' '/calibrate ffn DATA OUT'
check "nothing is set" 'select(.event=="text").text' \
    $'all settings are at their defaults; /settings lists them\nall settings are at their defaults; /settings lists them'

# Applying a recipe after any other equals applying it alone, including the folder's adapter and
# calibration. (tests/core/engine/presets.c compares settings of training, which recipes for the
# chat do not touch.)
shown() { # the output of every third command after the first: /set, all settings not at their default
    jq -rn 'foreach inputs as $e ({n: -1}; .was = .n | if $e.event == "done" then .n += 1 else . end;
        if .was >= 0 and .was % 3 == 2 then $e else empty end) |
        select((.key // .text // "") | test("^(train\\.|ira\\.(beta|warmup)|all settings)") | not) | tostring'
}
names=$(vlmsh --json -c '/preset list' | jq -r 'select(.name=="presets").rows[] | select(.[1] != "own")[0]')
each() { # COMMAND: runs it before each recipe
    for name in $names; do printf '%s\n' "$1" "/preset load $name" /set; done
}
{ echo '/load demo/model'; each '/reset all'; } >"$work/alone"
{ echo '/load demo/model'; for first in $names; do each "/preset load $first"; done; } >"$work/pairs"
vlmsh --json -f "$work/alone" | shown >"$work/one"
vlmsh --json -f "$work/pairs" | shown >"$work/two"
for first in $names; do cat "$work/one"; done >"$work/all"
cmp -s "$work/two" "$work/all" || fail "recipes leak: $(diff "$work/two" "$work/all" | head -5)"
grep -q '"adapter".*demo/model/methods/adapter' "$work/one" || fail "no recipe uses the folder's adapter"

# A recipe for the chat resets no settings of training; one for training resets those of the chat.
lines "/load $llava" '/set train.lr 0.25' '/set ira.beta 0.5' '/preset load fastv' '/get train.lr' '/get ira.beta' \
    '/preset load layernorm-2' '/get train.lr' '/get prune.score'
same "settings of training" "$(setting train.lr)$(setting ira.beta)$(setting prune.score)" \
    "0.25 0.25 auto auto 0.5 0.5 0.0001 attention off off "

# Recipes for training use no trained parameters; the user's adapter stays.
lines '/load demo/model' /align '/preset load norm-alignment-1' '/get adapter' '/preset load ira-train' '/get ira.on' \
    "/load $llava" "/adapter load $llava/adapters/lora" '/preset load norm-alignment-2' '/get adapter' '/adapter unload' \
    '/preset load ira-train'
check "no line fails" '[inputs, .] | map(select(.event=="done").ok) | all' true
same "adapters and IRA" "$(setting adapter | awk '{print $3, $(NF-1)}') $(setting ira.on)" "none $llava/adapters/lora off "
# A user's preset of all settings resets what recipes set; a preset for training uses no trained parameters
# either.
lines '/load demo/model' '/preset save plain' '/preset load norm-alignment-1' '/preset load plain' '/set' \
    '/set norm.align on' '/set train.lr 0.1' '/preset save rates norm.align' '/preset save rates norm.align train.lr' '/reset all' '/preset load rates' '/get adapter'
check "/set after the preset of all settings" 'select(.event=="text").text' 'all settings are at their defaults; /settings lists them'
same "no adapter for training" "$(setting adapter)" 'none '

check_has "a preset of the same name" 'select(.event == "notice").text' "preset 'rates' replaced: 2 settings"

# Values that depend on each other are set in one step.
lines "/load $llava" '/set prune.score contribution' '/set prune.layer 0,2' '/set prune.keep 0.5,0.25' \
    '/preset save two' '/reset all' '/preset load two' '/get prune.keep' '/get prune.layer'
same "dependent values" "$(setting prune.keep | awk '{print $NF}') $(setting prune.layer | awk '{print $NF}')" '0.5,0.25 0,2'

# Commands that switch whole methods.
lines "/load $llava" '/set prune.keep 0.9' '/capa' '/get prune.*' '/get ffn.approx' '/align on' '/capa off' \
    '/get prune.score' '/get norm.align' '/ira' '/get ira.on' '/baseline' '/get norm.align' '/align maybe'
same "/capa sets the default" "$(setting prune.keep)" "0.9 0.25 0.25 "
check_has "said without training" 'select(.event=="notice").text' 'norm.align is on without trained parameters'
check_has "said without a calibration" 'select(.event=="notice").text' "preset 'capa-auto' loaded, but with ffn.approx=off"
same "prune.score, on and off again" "$(setting prune.score)" "contribution contribution off off "
same "/capa off keeps norm alignment, /baseline ends it" "$(setting norm.align)" "on on off off "
check "IRA has no parameters" '[inputs, .] | map(select(.event=="done").ok) | map(tostring) | join(" ")' \
    'true true true true true true true true true false true true true false'
check_has "why IRA is refused" 'select(.event=="error").message' 'needs trained parameters'

# /align loads the preset norm-alignment.
lines "/load $llava" '/set norm.init default' '/align' '/set' '/align off' '/reset all' '/set norm.init default' \
    '/preset load norm-alignment' '/set'
check "the same settings" '[inputs, .] | map(select(.event=="setting") | .key + "=" + .value) | join(" ")' \
    'norm.init=default norm.align=on norm.init=text norm.align=on norm.align=off norm.init=default norm.align=on norm.init=text norm.align=on'

# In the middle of an answer: the tokens so far stay, and a script replays the change.
lines "/load $llava" '/set sample.max_tokens 10' '/set sample.ignore_eos on' "/image $scene" \
    '/later 4 prune.score=contribution prune.layer=0,2 prune.keep=0.5,0.25' '/later 6 norm.align=on' '/later 7 prune.keep=3' \
    'What is this?' '/get prune.keep' "/save $work/again.vlmsh" '/later 0 norm.align=on' '/later 3 norm.align' '/later 3 x=1' \
    '/baseline' '/regen'
check "answers agree up to the change, then differ" '[inputs, .] | map(select(.event=="answer").ids) | .[0][0:4] == .[1][0:4] and .[0] != .[1]' true
check "two changes are reported" '[inputs, .] | map(select(.event=="notice").text | select(test("the answer continues with"))) | length' 2
check_has "notice of a refused change" 'select(.event=="notice").text' 'not changed: prune.keep cannot be'
check "refused lines" '[inputs, .] | map(select(.event=="done").ok)[10:13] | map(tostring) | join(" ")' 'false false false'
grep -q '^/later 4 prune.score=contribution prune.layer=0,2 prune.keep=0.5,0.25$' "$work/again.vlmsh" ||
    fail "in the script: $(grep later "$work/again.vlmsh")"
answer=$(jq -c 'select(.event=="answer").ids' "$work/events" | head -1)
vlmsh --json -f "$work/again.vlmsh" >"$work/events" || fail "the script fails"
check "ids of the replayed answer" 'select(.event=="answer").ids | tostring' "$answer"

# Changes made in the middle of an answer apply to the whole regenerated answer.
lines "/load $llava" '/set sample.max_tokens 10' '/set sample.ignore_eos on' "/image $scene" \
    '/later 2 prune.score=contribution prune.layer=0' 'What is this?' '/regen' "/save $work/regen.vlmsh"
answer=$(jq -c 'select(.event=="answer").ids' "$work/events" | tail -1)
vlmsh --json -f "$work/regen.vlmsh" >"$work/events" || fail "the script of the regenerated answer fails"
check "given again and replayed" 'select(.event=="answer").ids | tostring' "$answer"
finish

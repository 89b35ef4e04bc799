# tests/commands/tokenize.sh -- /tokenizer, /tokenize, /detokenize give what the reference gives.
. tests/commands/common.bash

for model in build/goldens/*/golden.json; do
    folder=tests/${model#build/} folder=${folder%/golden.json}
    jq -e .tokenizer "$model" >/dev/null || continue # the model shares another folder's tokenizer
    # A line cannot hold a zero byte: unit tests cover those cases.
    jq -c '[.tokenizer.cases[] | select(.text | explode | index(0) | not)]' "$model" >"$work/cases"
    [ "$(jq length "$work/cases")" -gt 20 ] || fail "$folder: cases are missing"
    {
        echo "/tokenizer $folder/tokenizer.json"
        jq -r '.[].text | tojson | gsub("\\$"; "\\u0024")
               | "/tokenize " + ., "/tokenize --no-special " + .' "$work/cases"
    } | vlmsh --json >"$work/events"
    same "$folder ids" "$(jq -c 'select(.event == "ids").ids' "$work/events" | md5sum)" \
        "$(jq -c '.[] | .ids, .ids_no_special' "$work/cases" | md5sum)"
    check "$folder: no errors" 'select(.event == "error").message' ""
    jq -c '[.tokenizer.decode_cases[], (.tokenizer.cases[] | {ids: .ids_no_special, decoded})
            | select((.ids | length) > 0 and (.decoded | explode | index(0) | not))]' \
        "$model" >"$work/cases"
    {
        echo "/tokenizer $folder/tokenizer.json"
        jq -r '.[] | "/detokenize " + (.ids | map(tostring) | join(" "))' "$work/cases"
    } | vlmsh --json >"$work/events"
    same "$folder texts" "$(jq -c 'select(.event == "text").text' "$work/events" | md5sum)" \
        "$(jq -c '.[].decoded' "$work/cases" | md5sum)"
done

lines "/tokenizer $llama/tokenizer.json" '/tokenize Hello world' '/tokenize "Hello world"' \
    '/tokenize --no-special --table Hello' '/detokenize [1,2,3]' '/detokenize 1 2 3' \
    '/detokenize 999999' '/tokenize --nope "x"' '/tokenize' '/detokenize x' '/tokenize --table' '/tokenize "--table"'
same "quoted and plain" "$(jq -c 'select(.event == "ids").ids' "$work/events" | sed -n 1p)" \
    "$(jq -c 'select(.event == "ids").ids' "$work/events" | sed -n 2p)"
check "table of /tokenize" 'select(.event == "table") | .name, .columns[1], (.rows | length > 0)' $'tokens\nid\ntrue'
check "lists of ids" 'select(.event == "text").text | length > 0' $'true\ntrue'
check "which lines succeed" 'select(.event == "done").ok' \
    $'true\ntrue\ntrue\ntrue\ntrue\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\ntrue'
check_has "error of an id out of range" 'select(.event == "error").message' "token id 999999 is not in the vocabulary"

# A broken file leaves the current tokenizer in place.
head -c 300 $llama/tokenizer.json >"$work/tokenizer.json"
lines "/tokenizer $llama/tokenizer.json" "/tokenizer $work/tokenizer.json" '/tokenize Hello'
check_has "error of a broken tokenizer.json" 'select(.event == "error").message' "$work/tokenizer.json"
check "current tokenizer" 'select(.event == "ids") | .ids | length > 0' true
lines "/load $llama" '/unload' '/tokenize x'
check_has "no tokenizer" 'select(.event == "error").message' "/tokenizer FILE"
finish

# pope.sh -- /pope: questions about any annotated pictures by the paper's rules, and --set chair: CHAIR
# of a model's descriptions; both against a second implementation (tests/core/sets/hallucination.py).
. tests/commands/common.bash
export OMP_WAIT_POLICY=passive
second() { python3 tests/core/sets/hallucination.py "$@" || fail "hallucination.py $*"; }

vlmsh scenes 40 "$work/world" --seed 3 --kind captions >/dev/null 2>&1 || fail "vlmsh scenes fails"
second world "$work/instances.json"
vlmsh --json -c "/pope $work/world/objects.jsonl $work/scenes --each 2 --pictures 20" \
    -c "/pope $work/instances.json $work/coco" -c "/pope $work/instances.json $work/again --seed 42" \
    -c "/pope $work/instances.json $work/other --seed 7" >"$work/events"
check "questions are written" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue'
same "files of questions written" "$(jq -r 'select(.event=="written" and .what=="questions").file' "$work/events" | sort)" \
    "$(ls "$work"/{scenes,coco,again,other}/pope_*.json | sort)"
for world in scenes coco; do
    numbers=$(jq -r 'select(.event=="table" and .name=="pope") | .rows[0] | "\(.[2]) \(.[1])"' "$work/events" |
        sed -n "$([ $world = scenes ] && echo 1 || echo 2)p")
    annotations=$work/world/objects.jsonl each=2
    [ $world = scenes ] || annotations=$work/instances.json each=3
    same "$world: the paper's rules" "$(second pope "$annotations" "$work/$world" $each)" "$numbers"
done
for way in random popular adversarial; do
    cmp -s "$work/coco/pope_$way.json" "$work/again/pope_$way.json" || fail "the same seed gives a different draw"
    cmp -s "$work/coco/pope_$way.json" "$work/other/pope_$way.json" && fail "a different seed gives the same draw"
done

# The files have POPE's format.
"$VLMSH" new --like tiny "$work/tiny" >/dev/null 2>&1 || fail "vlmsh new fails"
vlmsh "$work/tiny" --json -c '/set sample.max_tokens 4' \
    -c "/eval $work/scenes/pope_popular.json --set pope --images $work/world --here --limit 4" >"$work/events"
check "samples scored as POPE" 'select(.event=="table" and .name=="evaluation") | .rows[] | select(.[0]=="n")[1]' 4

# CHAIR: sentences with known objects, which tests/core/metrics/metrics.c reads too, and the demo
# model's captions of pictures; the first has no objects, so every object mentioned is hallucinated.
[ "$(second sentences)" -gt 10 ] || fail "hallucination.py finds too few sentences"
python3 - "$work/world/objects.jsonl" <<'END' || fail "the objects of a picture cannot be removed"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
lines[0]["objects"] = []
open(sys.argv[1], "w").writelines(json.dumps(line) + "\n" for line in lines)
END
vlmsh demo/model --json -c '/set sample.max_tokens 40' -c '/set image.downsample 0.4' \
    -c "/eval $work/world/objects.jsonl --set chair --here --submit $work/answers.jsonl --limit 20" >"$work/events"
check "pictures are described" 'select(.event=="done").ok' $'true\ntrue\ntrue'
number() {
    jq -r --arg key "$1" 'select(.event=="table" and .name=="evaluation") | .rows[] | select(.[0]==$key)[1]' "$work/events" | cut -d' ' -f1
}
same "pictures described" "$(number n)" 20
same "nothing left out" "$(jq -r 'select(.event=="notice") | .text' "$work/events" | grep -c reference)" 0
want=$(second chair "$work/world/objects.jsonl" "$work/answers.jsonl")
python3 - "$want" "$(number CHAIRi) $(number CHAIRs) $(number 'objects per caption')" <<'END' || fail "CHAIR: $want, not $(number CHAIRi) $(number CHAIRs)"
import sys
a, b = ([float(x) for x in s.split()] for s in sys.argv[1:])
sys.exit(len(a) != 3 or len(b) != 3 or not 0 < a[0] < 1 or not 0 < a[1] < 1 or any(abs(x - y) > 1e-6 for x, y in zip(a, b)))
END

# CHAIR of 1200 random descriptions of COCO's kinds (crowds, plurals, synonyms), and of the demo world's
# pictures: each caption's score, and the totals to 1e-6.
second coco "$work/coco.json"
for annotations in "$work/coco.json" "$work/world/objects.jsonl"; do
    second captions "$annotations" "$work/said.jsonl"
    vlmsh demo/model --json -c "/eval $annotations --set chair --answers $work/said.jsonl --here" \
        -c "/eval show --csv $work/said.csv" >"$work/events"
    check "both evaluations succeed" 'select(.event=="done").ok' $'true\ntrue'
    python3 - "$(second chair "$annotations" "$work/said.jsonl" "$work/said.csv")" \
        "$(number CHAIRi) $(number CHAIRs) $(number 'objects per caption')" "$(number n)" <<'END' || fail "CHAIR of $annotations"
import sys
a, b = ([float(x) for x in s.split()] for s in sys.argv[1:3])
sys.exit(len(a) != 3 or len(b) != 3 or not 0 < a[0] < 1 or int(sys.argv[3]) < 40 or any(abs(x - y) > 1e-6 for x, y in zip(a, b)))
END
done
printf '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1}], "categories": [{"id": 1, "name": "cup"}]}' >"$work/none.json"
vlmsh demo/model --json -c "/eval $work/none.json --set chair --here" >"$work/events"
check_has "an object without a category" 'select(.event=="error").message' '"annotations" 0: its "category_id" is not in "categories"'

# Questions that list objects as well as an answer keep the answer.
printf '{"id":"%d","image":"%s","question":"Is there a circle?","answer":"yes","objects":[%s]}\n' \
    1 a.png '"circle"' 2 a.png '{"name":"circle"}' >"$work/asked.jsonl"
cp tests/goldens/pictures/scene.png "$work/a.png"
vlmsh "$work/tiny" --json -c '/set sample.max_tokens 4' -c "/eval $work/asked.jsonl --set pope --here" >"$work/events"
check "questions with objects" 'select(.event=="table" and .name=="answers").rows[][5]' $'yes\nyes'

echo '{"images": [], "annotations": [], "categories": []}' >"$work/empty.json"
echo '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 2, "category_id": 1}], "categories": [{"id": 1, "name": "cup"}]}' >"$work/wrong.json"
for line in "/pope $work/empty.json $work/x" "/pope $work/wrong.json $work/x" "/pope $work/nothing.json $work/x" \
    "/pope $work/instances.json" "/pope $work/instances.json $work/x --each 60"; do
    vlmsh --json -c "$line" >"$work/events" 2>/dev/null
    check "refused: $line" 'select(.event=="done").ok' false
    [ ! -e "$work/x" ] || fail "left behind: $line"
done
finish

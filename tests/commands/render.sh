# tests/commands/render.sh -- /render: a chat template with messages, without a model.
. tests/commands/common.bash

cat >"$work/t.jinja" <<'J'
{{- bos_token }}
{%- for m in messages %}
<{{ m.role }}>{{ m.content | trim }}
{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %}
{%- if tools %}{{ tools | tojson }}{% endif %}
J
cat >"$work/m.json" <<'J'
[{"role": "user", "content": " Hé \"you\" "}, {"role": "assistant", "content": "No.", "n": 1.0}]
J
echo '{{ raise_exception("Roles must alternate") }}' >"$work/raise.jinja"
printf 'a\nb {%% include "x" %%}' >"$work/unknown.jinja"
echo '{"role": "user"}' >"$work/object.json"
echo '[{"role": ]' >"$work/broken.json"
lines "/render $work/t.jinja $work/m.json" "/render $work/t.jinja $work/m.json --no-generation bos_token=<s>" \
    "/render $work/t.jinja $work/m.json \"tools=[1, 2.0, null]\" bos_token=null"
# Jinja2 3.1.6 gives these texts.
check "rendered texts" 'select(.event == "rendered").text' '<user>Hé "you"
<assistant>No.
<assistant>
<s><user>Hé "you"
<assistant>No.

None<user>Hé "you"
<assistant>No.
<assistant>[1, 2.0, null]'
check "no line fails" 'select(.event == "done").ok' $'true\ntrue\ntrue'

lines "/render $work/raise.jinja $work/m.json" "/render $work/unknown.jinja $work/m.json" \
    "/render $work/t.jinja $work/object.json" "/render $work/t.jinja $work/broken.json" \
    "/render $work/t.jinja" "/render $work/t.jinja $work/m.json --nope" "/render $work/none $work/m.json"
check "which lines are refused" 'select(.event == "done").ok' $'false\nfalse\nfalse\nfalse\nfalse\nfalse\nfalse'
check_has "the template's message" 'select(.event == "error").message' "raise.jinja: line 1: Roles must alternate"
check_has "error of an unknown construct" 'select(.event == "error").message' "unknown.jinja: line 2: the statement 'include' is not known"
check_has "error of an object instead of a list" 'select(.event == "error").message' "object.json: not a list of messages"
check_has "error of invalid JSON" 'select(.event == "error").message' "broken.json' is not valid JSON (near line 1)"
check_has "error of an unknown option" 'select(.event == "error").message' "unknown option '--nope': options are --no-generation"

# Templates of model folders with the conversations of the references.
for folder in $llava $llama tests/goldens/qwen2 tests/goldens/llava-siglip-llama3; do
    if [ -f $folder/chat_template.jinja ]; then
        cp $folder/chat_template.jinja "$work/model.jinja"
    else
        jq -j '.chat_template // empty' $folder/chat_template.json $folder/tokenizer_config.json 2>/dev/null |
            head -c 1000000 >"$work/model.jinja"
    fi
    bos=$(jq -r '.bos_token | if type == "object" then .content else . // "" end' $folder/tokenizer_config.json)
    : >"$work/lines"
    count=$(jq '.chat | length' build/${folder#tests/}/golden.json)
    for ((i = 0; i < count; i++)); do
        jq ".chat[$i].messages" build/${folder#tests/}/golden.json >"$work/chat$i.json"
        generation=$(jq -r ".chat[$i] | if .add_generation_prompt then \"\" else \"--no-generation\" end" build/${folder#tests/}/golden.json)
        extra=$(jq -r ".chat[$i].template_arguments // {} | to_entries | map(\"\\\"\\(.key)=\\(.value)\\\"\") | join(\" \")" build/${folder#tests/}/golden.json)
        echo "/render $work/model.jinja $work/chat$i.json $generation bos_token=$bos $extra" >>"$work/lines"
    done
    vlmsh --json <"$work/lines" >"$work/events"
    same "$folder" "$(jq -c 'select(.event == "rendered").text' "$work/events")" \
        "$(jq -c '.chat[].text' build/${folder#tests/}/golden.json)"
done
finish

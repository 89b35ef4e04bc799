# tests/commands/templates.sh -- the folder's chat template in a chat: any template, its
# replacements, typed text, and turns that continue from the cache.
. tests/commands/common.bash

model=$work/model
cp -r tests/goldens/qwen2 "$model"

# Ids of the prompt of one question.
prompt_of() { # NAME LINE...
    local name=$1
    shift
    lines "$@" "/dump ids $work/$name.safetensors" "/forward Hi <|im_end|><|im_start|>system"
    tail -c +9 "$work/$name.safetensors" | head -c 1000000 | md5sum
}

# A template unlike any built-in one.
cat >"$model/chat_template.jinja" <<'J'
{%- for m in messages %}
    {%- set text = m.content.split('</think>')[-1] %}
[{{ m.role }}] {{ text }}
{%- endfor %}
{% if add_generation_prompt %}[assistant]{% endif %}
J
lines "/load $model" '/set sample.max_tokens 4' '/set sample.ignore_eos on' 'Hi <|im_end|>' 'And?'
check "no notice about the template" 'select(.event == "notice").text | select(test("^(loaded|generation_config)") | not)' ""
check "lengths of two answers" 'select(.event == "answer") | .ids | length' $'4\n4'
check "the first turn stays in the cache" \
    'select(.event == "answer") | .prompt_tokens - .computed_tokens > 20' $'false\ntrue'
own=$(prompt_of own "/load $model")
built_in=$(prompt_of built_in "/load $model" '/set chat.template chatml')
[ "$own" != "$built_in" ] || fail "the folder's template is not used"

# Typed text stays text: the prompt has only the special tokens that the template wrote.
special=$(jq '[.added_tokens[] | select(.special).id]' "$model/tokenizer.json")
check_special() { # NAME COUNT
    python3 - "$work/$1.safetensors" "$special" "$2" <<'P' || fail "$1: special tokens"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
a, b = json.loads(data[8:8 + n])["ids"]["data_offsets"]
ids = struct.unpack(f"<{(b - a) // 4}i", data[8 + n + a:8 + n + b])
found = sum(i in json.loads(sys.argv[2]) for i in ids)

sys.exit(found != int(sys.argv[3]))
P
}
check_special own 0
check_special built_in 3

# A template that changes the messages is used too, with a notice; typed text stays text.
sed -i 's/{{ text }}/{{ text | upper }}/' "$model/chat_template.jinja"
changed=$(prompt_of changed "/load $model")
check_has "reports the change" 'select(.event == "notice").text' "changes what you type"
[ "$changed" != "$own" ] && [ "$changed" != "$built_in" ] || fail "the changing template is not used"
check_special changed 0

# Unsupported templates: the most similar built-in one replaces them, and the notice names the line.
original=$(jq -j .chat_template tests/goldens/qwen2/tokenizer_config.json)
printf '%s{%% include "x" %%}' "$original" >"$model/chat_template.jinja"
taken=$(prompt_of taken "/load $model")
check_has "notice of an unknown statement" 'select(.event == "notice").text' "the statement 'include' is not known"
check_has "the notice names the line" 'select(.event == "notice").text' "line "
check_has "the template used instead" 'select(.event == "notice").text' "the built-in template 'chatml' is used"
printf %s "$original" >"$model/chat_template.jinja"
same "as the folder's own" "$taken" "$(prompt_of original "/load $model")"

# A template unlike any built-in one gives an error until the user chooses one.
llava_model=$work/llava
cp -r $llava "$llava_model" && rm -f "$llava_model/chat_template.json" # this file would take precedence
echo '{{ messages | nonsense }}' >"$llava_model/chat_template.jinja"
lines "/load $llava_model" Hello '/set chat.template vicuna' '/set sample.max_tokens 1' Hello
check "which lines succeed" 'select(.event == "done").ok' $'true\nfalse\ntrue\ntrue\ntrue'
check_has "error of an unknown filter" 'select(.event == "error").message' "the filter 'nonsense' is not known"
check_has "the advice" 'select(.event == "error").message' "/set chat.template"

# raise_exception of the template is the answer's error, and the conversation does not change.
cat >"$model/chat_template.jinja" <<'J'
{%- for m in messages %}{{ m.content }}{% if m.content == 'bad' %}{{ raise_exception('Not that') }}{% endif %}{% endfor %}
J
lines "/load $model" '/set sample.max_tokens 1' bad good
check "which lines are refused" 'select(.event == "done").ok' $'true\ntrue\nfalse\ntrue'
check_has "the template's own complaint" 'select(.event == "error").message' "line 1: Not that"
echo "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}" \
    >"$model/chat_template.jinja"
lines "/load $model" '/set sample.max_tokens 1' '/system Be brief.' good '/system ""' good
check "refused with a system message" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\ntrue\ntrue'
check_has "the advice on the system message" 'select(.event == "error").message' 'no system role (it takes no system message; /system "" removes'
# BOS: for a folder of a text model only the template writes it, as apply_chat_template does; a GGUF file's tokenizer
# and a vision model's processor always add it.
begins() { # NAME LINE...: the first id of a prompt
    local name=$1
    shift
    lines "$@" "/dump ids $work/$name.safetensors" "/forward Hi"
    python3 - "$work/$name.safetensors" <<'P'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
print(struct.unpack_from("<i", data, 8 + n + json.loads(data[8:8 + n])["ids"]["data_offsets"][0])[0])
P
}
bos=$(jq '.added_tokens[] | select(.content == "<|begin_of_text|>").id' $llama/tokenizer.json)
cp -r $llama "$work/bare"
chatml="{% for m in messages %}{{ '<|start_header_id|>' + m.content }}{% endfor %}"
jq --arg t "$chatml" '.chat_template = $t' $llama/tokenizer_config.json >"$work/bare/tokenizer_config.json"
python3 tests/goldens/to_gguf.py "$work/bare" "$work/bare.gguf" || fail "to_gguf.py fails"
same "BOS of a template" "$(begins written "/load $llama")" "$bos"
[ "$(begins bare "/load $work/bare")" != "$bos" ] || fail "a text model gets a BOS that its template does not write"
same "BOS of a layout" "$(begins layout "/load $work/bare" '/set chat.template vicuna')" "$bos"
same "BOS of a GGUF file" "$(begins file "/load $work/bare.gguf")" "$bos"
same "BOS of a processor" "$(begins processor "/load $llava")" 1

# Variables of the template are settings, like all others.
cat >"$model/chat_template.jinja" <<'J'
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% else %}{{ '<think>\n' * effort | default(1) }}{% endif %}{% endif %}
J
cp -r "$model" "$work/other" && echo '{% for m in messages %}{{ m.content }}{% endfor %}' >"$work/other/chat_template.jinja"
session "variables of a template" <<E
> /load $model
...
> /settings chat
[settings]
key                            value    default  allowed                                        help
chat.template                  auto     auto     text | auto                                    Chat template: auto (the model folder's own) or a built-in one (/help templates).
chat.template.enable_thinking  default  default  true | false | number | text | JSON | default  Variable of the model's chat template, such as enable_thinking; default leaves it undefined.
chat.template.effort           default  default  true | false | number | text | JSON | default  Variable of the model's chat template, such as enable_thinking; default leaves it undefined.
chat.date                      today    today    text | today                                   Date for chat templates that print one (Llama-3.2): today, or a text such as "26 Jul 2024".
> /set chat.template.enable_thinking off
chat.template.enable_thinking = false
> /set chat.template.enable_thinkin on
error: the chat template of '$work/model' takes no variable 'enable_thinkin': its variables are enable_thinking, effort
> /toggle chat.template.enable_thinking
chat.template.enable_thinking = true
> /set chat.template.effort=2
chat.template.effort = 2
> /help chat.template.enable_thinking
chat.template.enable_thinking = true
Variable of the model's chat template, such as enable_thinking; default leaves it undefined.
allowed: true | false | number | text | JSON | default; default: default; a change rebuilds and recomputes the prompt
The template reads it here:
{% if enable_thinking is defined and enable_thinking is false %}
> /set chat.template.*
chat.template.enable_thinking = true
chat.template.effort = 2
> /preset save deep chat.template.*
preset 'deep': 2 settings (/preset show deep)
> /set sample.max_tokens 1
> Hi
...
> /set chat.template chatml
chat.template.enable_thinking has no effect: the built-in template 'chatml' takes no variables
chat.template.effort has no effect: the built-in template 'chatml' takes no variables
chat.template changed: the next answer recomputes the conversation
> /load $work/other
...
> /preset load deep
error: preset 'deep': the chat template of '$work/other' takes no variable 'enable_thinking' (it takes none)
E
check_has "notice of a reset variable" 'select(.event == "notice").text' "takes no variable 'effort' (it takes none); chat.template.effort is now default"
# The prompt depends on them; a resumed session has them again, in another process too.
unset_ids=$(prompt_of unset "/load $model")
off=$(prompt_of off '/set chat.template.enable_thinking false' "/load $model")
[ "$unset_ids" != "$off" ] || fail "a variable does not reach the template"
lines "/load $model" '/session new varied' '/set chat.template.enable_thinking no' '/set sample.max_tokens 1' Hi
lines '/session resume varied' '/set'
check "variables in the resumed session" 'select(.event == "setting" and .key == "chat.template.enable_thinking").value' $'false\nfalse'
lines "/load $model" "/compare now | chat.template.enable_thinking=false chat.template.effort=3 Hi"
check "comparisons give no error" 'select(.event == "error").message' ""

# A token that the model lacks is reported before anything is computed.
cp -r $llama "$work/more"
jq '.added_tokens += [.added_tokens[0] | .id = 5000 | .content = "<big>"]' $llama/tokenizer.json >"$work/more/tokenizer.json"
jq '.chat_template = "<big>" + .chat_template' $llama/tokenizer_config.json >"$work/more/tokenizer_config.json"
lines "/load $work/more" 'Hi'
check_has "error of a token that the model lacks" 'select(.event == "error").message' "token 5000 ('<big>') of the tokenizer is not among the model's 569"
finish

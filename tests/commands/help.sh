# tests/commands/help.sh -- /help, /version, /quit, the program's help; unknown names get
# suggestions.
. tests/commands/common.bash

lines '/help' '/help load' '/help /load' '/help exit' '/help sample.top_p' '/help lines' '/help taps' '/help templates' '/? quit'
check "no errors" 'select(.event == "error").message' ""
check_has "/help names /tokenize" 'select(.name == "groups").rows[][1]' "/tokenize"
check_has "a command" 'select(.event == "text").text' "/load MODEL"
check_has "an alias" 'select(.event == "text").text' "/quit"
check_has "a setting" 'select(.event == "text").text' "sample.top_p = 1"
check_has "/help names the layouts" 'select(.event == "text").text' "vicuna"
check_has "/help lists the taps" 'select(.name == "taps").rows[][0]' "layer.K.in"

# Every command is in one group, and a group lists its own.
lines '/help' '/help commands' '/help conversation'
groups=$(jq -r 'select(.name == "groups").rows[][1] | split(" ")[]' "$work/events")
same "the groups have all commands" "$groups" "$(jq -rs 'map(select(.name == "commands"))[0].rows[][0]' "$work/events")"
check_has "a group" 'select(.name == "commands").rows[][0]' "/image"
check "the first eight groups" 'select(.name == "groups").rows | map(.[0]) | .[:8] | join(" ")' \
    "model conversation settings sessions training inspection measuring interface"

# If a group has a command's name, help shows the command, then the group.
lines '/help settings' '/help sessions'
check_has "the command of a group's name" 'select(.event == "text").text' "/settings"
check "groups of these names" 'select(.name == "commands").rows | map(.[0]) | join(" ") | test("/set | /save ")' $'true\ntrue'

# Help on one form of a command shows its part of the details, or all of them.
lines '/help train plan' '/help adapter merge'
check_has "help on one form of a command" 'select(.event == "text").text' "plan [DATA]  counts"
check "other forms are left out" 'select(.event == "text").text | contains("/job N resume")' $'false\nfalse'
check_has "named by the usage" 'select(.event == "text").text' "/adapter load"
lines '/help train nothing' '/help sample.top_p x'
check "no such form" 'select(.event == "error").message | .[:28]' "no help on 'train nothing': 
usage: /help [COMMAND [WORD]"
for word in new quantize scenes job help; do
    vlmsh $word --help >"$work/out" 2>&1 || fail "$word --help: $(tail -1 "$work/out")"
    grep -q '^usage: vlmsh\|^/'$word "$work/out" || fail "$word --help: $(cat "$work/out")"
done
vlmsh help train plan | grep -q '^plan .DATA.  *counts' || fail "'vlmsh help train plan' does not describe plan"
vlmsh --help | grep -q -e 'OUT.gguf --type TYPE \[--encoder TYPE\] \[--text FILE | --no-compare\]' || fail "'vlmsh --help' does not show the options of quantize"

lines '/help causal' # a search term, as in Ctrl-P
check "commands by a term" 'select(.name == "found").rows | map(.[0]) | contains(["/knockout", "/ablate", "/patch"])' true
lines '/help laod' '/help nothing-like-it' '/hlep' '/imgae x' '/' '/home/me/cat.png what is this?' '/quit' '/version'
check_has "help on an unknown name" 'select(.event == "error").message' "did you mean 'load'?"
check_has "an unknown command" 'select(.event == "error").message' "did you mean '/help'?"
check_has "a picture's path" 'select(.event == "error").message' "/image FILE"
check "quit ends it" 'select(.event == "done").ok' $'false\nfalse\nfalse\nfalse\nfalse\nfalse\ntrue'
# Help of a setting says when a change takes effect: all training settings with the next run.
effect() { # SETTING WANT
    lines "/help $1"
    same "effect of $1" "$(jq -r 'select(.event == "text").text' "$work/events" | sed -n 's/.*default: [^;]*; //p')" "$2"
}
effect train.method "takes effect with the next training run (/train)"
effect train.score "takes effect with the next training run (/train)"
effect ira.beta "takes effect with the next training run (/train)"
effect job.nice "takes effect with the next job"
effect sinks.tau "takes effect with the next measurement"
effect screen.theme "takes effect at once"
effect sample.top_p "takes effect at the next token"
effect prune.keep "a change recomputes the conversation from its first picture on"
effect chat.date "a change rebuilds and recomputes the prompt"
lines '/settings train'
for key in $(jq -r 'select(.event == "table").rows[][0]' "$work/events"); do
    effect "$key" "takes effect with the next training run (/train)"
done
lines '/help train.method' '/help train.lora.rank'
check_has "weights that LoRA trains" 'select(.event == "text").text' "lora, qv, mlp, layernorm (each with the projector, embedding and head trained in full)"
check_has "LoRA alone" 'select(.event == "text").text' '"lora:*" trains LoRA only'
lines '/help metrics'
check "metrics that /help lists" 'select(.event == "table") | .rows | map(.[0]) | join(" ")' \
    "exact contains yesno letter loglik cider loss vqa pope-llava pope-lmms-eval mme-lmms-eval yesno-vlmevalkit vqa-official vqa-evalai vqa-lmms-eval vqa-vlmevalkit mcq-vlmevalkit mmmu-vlmevalkit mcq-exact seed-lmms-eval ai2d-lmms-eval scienceqa-llava scienceqa-lmms-eval mmstar-lmms-eval mmbench-lmms-eval mmmu-lmms-eval ocrbench-lmms-eval ocrbench-vlmevalkit cider-vlmevalkit chair relaxed anls gqa-lmms-eval gqa-vlmevalkit gqa-llava realworldqa-lmms-eval mmmu-pro mmmu-cot-vlmevalkit blink-lmms-eval cvbench-lmms-eval muirbench-lmms-eval mmerealworld-lmms-eval mmerealworld-vlmevalkit embspatial-vlmevalkit mvbench-lmms-eval blind-lmms-eval blind-vlmevalkit biased-lmms-eval box-lmms-eval box-vlmevalkit mmvet cvbench-official box-llava box-internvl box-qwen-vl relaxed-swapped"
# The names with underscores, which train.score used to have, still work.
lines '/set train.score pope-llava' '/set train.score pope_lmms_eval'
check "old and new name of a metric" 'select(.event == "setting").value' $'pope-llava\npope-lmms-eval'
for name in quit exit bye q; do
    lines "/$name" '/version'
    check "/$name" '.event' done
done
vlmsh -c '/version' </dev/null >"$work/out" || fail "/version fails"
vlmsh --threads 1 -c '/info' 2>&1 | grep -q 'cpu (.*, 1 thread)' || fail "--threads 1 does not use one thread"
grep -q '^vlmsh [0-9]' "$work/out" || fail "version: $(cat "$work/out")"
# The manual page describes every option of the command line.
sed -n '/^\.SH OPTIONS/,/^\.SH SCENES/{s/\\-/-/g;p}' vlmsh.1 >"$work/options"
for option in $(vlmsh --help | grep -o '^--\?[A-Za-z-]*'); do
    grep -qE -e "^\.BI?R? .*$option( |$)" "$work/options" || fail "vlmsh.1 lacks $option"
done
finish

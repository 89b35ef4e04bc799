# tests/commands/actions.sh -- commands with actions: the action may be anywhere, or first with or
# without the command's name; the default action; typing errors.
. tests/commands/common.bash

cat >"$work/data.json" <<'END'
[{"id": "a", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}]
END
job="no job 3 (/jobs lists them)"
lines '/job 3 pause' '/job pause 3' '/pause 3' '/pause job 3' '/pause /job 3' '/job log 3 5' '/job resume 3 --ranks 2' '/resume 3'
check "errors of /job actions" 'select(.event == "error").message' "$job
$job
$job
$job
$job
$job
$job
$job"
lines '/job pause' '/job 3 paus' '/delete x' '/delete session x' '/resume session x' '/save preset x'
check "the missing argument, or the intended command" 'select(.event == "error").message | .[:40]' \
    "'pause' needs something to act on: /job 
/job has no action 'paus': did you mean 
/delete is an action of several commands
no session 'x' (/session list)
no session 'x' (/session list)"
lines "/data $work/data.json" "/data check $work/data.json" "/data $work/data.json check" "/check $work/data.json --no-decode"
check "samples, however /data check is typed" 'select(.event == "table" and .name == "data").rows[0][1]' $'1\n1\n1\n1'
lines '/preset capa-auto' '/preset load capa-auto' '/load preset capa-auto' '/preset lst' '/calibration nofile'
check "which forms of /preset load succeed" 'select(.event == "done").ok' $'true\ntrue\ntrue\nfalse\nfalse'
mkdir "$work/folder"
lines "/adapter $work/folder" "/adapter load $work/folder" "/load adapter $work/folder"
same "the same error for each form of /adapter load" "$(jq -r 'select(.event == "error").message' "$work/events" | sort | uniq -c | sed 's/ *\([0-9]*\).*/\1/')" 3
lines '/load nomodel' '/adapter lod nofolder' '/adapter nofolder' '/calibration eat'
check "messages for mistyped names" 'select(.event == "error").message | .[:26]' "no folder 'nomodel': give 
/adapter has no action 'lo
'nofolder' is neither a fi
'eat' is neither a file no"

# FILE and NAME of /session export, in either order.
lines "/load $llama" '/set sample.max_tokens 2' hello '/session rename trip' "/session export $work/a.md trip" \
    "/session export trip $work/b.md" "/session trip export $work/c.md" "/export session $work/d.md" "/export $work/e.md"
check "all forms of /session export succeed" 'select(.event == "done").ok' $'true\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue'
for file in b c d e; do
    cmp "$work/a.md" "$work/$file.md" || fail "export $file"
done
lines '/list sessions' '/help pause' '/help delete'
check_has "sessions" 'select(.name == "sessions").rows[][0]' trip
check_has "help of an action" 'select(.event == "text").text' "pause  saves the state"
finish

# outputs.sh -- output files named by the user: data, models, databases and foreign files are not replaced.
. tests/commands/common.bash
printf 'index\timage\tquestion\tA\tB\tanswer\tcategory\n1\t%s\tWhich?\tp\tq\tA\tx\n' \
    "$(base64 -w0 demo/pictures/scene-0.png)" >"$work/mm.tsv"
cp "$work/mm.tsv" "$work/data.tsv"
eval="/eval $work/data.tsv --set mmbench"

# No evaluation replaces its data: neither in the shell nor as a job that writes to a link, even
# with --force.
ln -s data.tsv "$work/link.tsv"
lines "/load $llava" "/set sample.max_tokens 1" "$eval --here --submit $work/data.tsv"
check_has "the data" 'select(.event=="error").message' "is read by this command"
lines "/load $llava" "$eval --submit $work/link.tsv --force"
check_has "the data through a link" 'select(.event=="error").message' "is read by this command"
cmp -s "$work/mm.tsv" "$work/data.tsv" || fail "the data was replaced"

# A command replaces its own earlier output, other files only with --force. A job keeps --force.
echo mine >"$work/notes"
lines "/load $llava" "/set sample.max_tokens 1" "$eval --here --submit $work/answers.tsv" \
    "$eval --submit $work/answers.tsv" /wait "$eval --submit $work/notes"
check_has "a foreign file" 'select(.event=="error").message' "add --force to replace it"
same "the foreign file is unchanged" "$(cat "$work/notes")" mine
lines "/load $llava" "/set sample.max_tokens 1" "$eval --submit $work/notes --force" /wait
cmp -s "$work/notes" "$work/answers.tsv" || fail "a job with --force does not replace the file"

# Other commands that write named files follow this rule.
cp tests/goldens/llava-1.5/config.json "$work"
cp demo/model/model.safetensors "$work/w.csv"
lines "/eval show --csv $work/t.csv" "/eval show --csv $work/t.csv" "/plot $work/t.csv number score --figure $work/f.png" \
    "/plot $work/t.csv number score --figure $work/f.png"
check "own files are replaced" 'select(.event=="done").ok' "$(yes true | head -4)"
echo mine >"$work/mine.csv"
cp "$work/mine.csv" "$work/mine.png"
for line in "/eval show --csv $work/mine.csv" "/plot $work/t.csv number score --figure $work/mine.png" \
    "/data check $work/mm.tsv --out $work/mine.csv" "/collect $work/mine.csv a=1 x=@y : /memory" \
    "/report README.md $work/mine.csv" "/eval show --csv $work/config.json --force" \
    "/eval show --csv $work/vlmsh.db --force" "/eval show --csv $work/w.csv --force"; do
    lines "$line"
    check "$line" 'select(.event=="done").ok' false
    check_has "$line" 'select(.event=="error").message' "choose another name"
done
same "foreign files are kept" "$(cat "$work/mine.csv" "$work/mine.png" | paste -sd' ')" "mine mine"
lines "/eval show --csv $work/mine.csv --force" "/plot $work/t.csv number score --figure $work/mine.png --force"
check "with --force" 'select(.event=="done").ok' "$(yes true | head -2)"
cmp -s "$work/mine.csv" "$work/t.csv" || fail "--force does not replace the file"

# A picture of the conversation is not replaced, although it is in memory already; an empty name names no file.
cp demo/pictures/scene-1.png "$work/scene.png"
lines "/load $llava" "/set sample.max_tokens 1" "/image $work/scene.png" "Which?" \
    "/redundancy --csv $work/scene.png --force" '/norms --csv ""'
check "a picture, no name" 'select(.event=="done").ok' $'true\ntrue\ntrue\ntrue\nfalse\nfalse'
check_has "a picture" 'select(.event=="error").message' "is read by this command"
check_has "no name" 'select(.event=="error").message' "name of the CSV file is empty"
cmp -s demo/pictures/scene-1.png "$work/scene.png" || fail "the picture was replaced"
finish

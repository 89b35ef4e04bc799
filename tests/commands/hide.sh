# tests/commands/hide.sh -- /hide (commands/hide.c, core/methods/hide.c): names, numbers, toggling, sessions, refusals.
. tests/commands/common.bash

vlmsh scenes 1 "$work/world" --seed 2 --kind questions >/dev/null || fail "vlmsh scenes fails"
cd "$work" && ln -s "$root/demo" demo
session "tokens" demo/model <<E
> /set compute.matmul f32
> /image world/pictures/000000.png
attached world/pictures/000000.png: 96 x 96 pixels, 144 visual tokens; ...
> What is in the picture?
(an answer to 144 visual tokens)
> /hide
no token is hidden: /hide POSITIONS
> /hide object yellow circle --objects world/objects.jsonl
hide.tokens = 5-8,17-20,29-32,41-44,53-56
hide.tokens changed: the next answer recomputes the conversation
> /regen
(an answer to 144 visual tokens)
> /hide toggle 5-8
hide.tokens = 17-20,29-32,41-44,53-56
hide.tokens changed: the next answer recomputes part of the conversation
> /hide toggle 4-6,30
hide.tokens = 4-6,17-20,29-32,41-44,53-56
...
> /hide show picture
hide.tokens = 4
...
> /hide
hidden positions: 4, in layers 0%-100%
> /save s.vlmsh
...
> /hide off
hide.tokens = none
...
> /regen
(an answer to 144 visual tokens)
> /hide show
error: usage: /hide show POSITIONS
> /hide 7 --boxes
error: --boxes needs --objects FILE
> /hide nothing
error: 'nothing' is not a position: use picture, picture:I, picture[X,Y,W,H], object NAME, system, question, last, answer, text, sinks, all, N, N-M
> /hide 500
error: there is no position 500: the sequence has positions 0 to 165
> /set hide.tokens 20%-50%
error: hide.tokens takes positions such as 78,91-94, not shares: 20%-50%
E
check "texts of the answers" 'select(.event == "answer").text | ltrimstr(" ")' 'a yellow circle and a red star
a red star
a yellow circle and a red star'
grep -q '^/set hide.tokens 4$' s.vlmsh || fail "the script does not hide the tokens"
finish

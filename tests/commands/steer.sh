# tests/commands/steer.sh -- /steer (core/methods/steer.c): vectors from texts and pictures, live strengths, both file
# formats, llama.cpp's own bytes, sessions, refusals.
. tests/commands/common.bash

printf 'Where is the %s?\n' 'red circle' 'blue star' 'green ring' >"$work/where.txt"
printf 'What colour is the %s?\n' circle star ring >"$work/colour.txt"
cd "$work" && ln -s "$root/demo" demo
session "text" demo/model <<E
> /set compute.matmul f32
> /steer
no steering vector is in use: /steer NAME STRENGTH
> /steer make where --plus where.txt --minus colour.txt --layer 5,6
[steer.made]
layer  vector norm  state norm  separated
...
(written: steering vector where.safetensors)
'where.safetensors' written: 3 and 3 samples compared at the last position of the prompt; /steer where STRENGTH uses it
> /steer make where --plus where.txt --minus colour.txt --once
'where.safetensors' already exists: nothing to do
> /steer make where --plus where.txt --minus colour.txt
error: 'where.safetensors' already exists: choose another name
> /steer make none/x --plus where.txt --minus colour.txt
error: cannot write 'none/x.safetensors': No such file or directory
> /steer make "" --plus where.txt --minus colour.txt
error: the name of the steering vector is empty
> /steer make x.gguf --plus where.txt --minus colour.txt --layer 6 --method pca
[steer.made]
layer  vector norm  state norm  separated
...
'x.gguf' written: 3 and 3 samples compared at the last position of the prompt; /steer x.gguf STRENGTH uses it
> /steer show x
x.gguf: layers 6, width 192, pca of 3 and 3 samples at the last position of the prompt, weights ..., with ...compute.matmul=f32...
> /steer where 0.5
steer.vectors = where.safetensors=0.5
...
> /steer x -2
steer.vectors = where.safetensors=0.5,x.gguf=-2
...
> /steer
[steer]
name   strength ...
...
> /steer where 0
steer.vectors = x.gguf=-2
...
> /set steer.layers 0-5
steer.vectors has no effect: no file has a vector for a layer of steer.layers 0-5 (/steer lists their layers)
> /baseline
steer.vectors = none
...
> /steer where
error: usage: /steer NAME STRENGTH, such as /steer where 2.5
> /steer where much
error: the strength of 'where' must be a number, not 'much'
> /steer nobody 1
error: no steering vector 'nobody': there is no file 'nobody.safetensors' (/steer make writes one)
> /steer nobody 0
error: 'nobody' is not in use: /steer lists the vectors in use
> /steer make y --plus where.txt
error: /steer make y needs --plus FILE and --minus FILE
> /steer make y --plus where.txt --minus none.txt
error: cannot open 'none.txt': No such file or directory
> /steer make y --plus where.txt --minus colour.txt --method svd
error: --method takes mean or pca, not 'svd'
> /steer make y --plus where.txt --minus colour.txt --layer 8
error: --layer is 8, but the model's 8 layers are 0 to 7
> /steer make y=1 --plus where.txt --minus colour.txt
error: 'y=1.safetensors' cannot name a steering vector: the name must not contain , or =
> /steer convert where w.gguf
(written: steering vector w.gguf)
'w.gguf' written
E

# Vectors act on quantised weights and with an adapter, and leave both as they were.
lines '/set weights.dtype q8_0' '/load demo/model' '/adapter load demo/model/methods/adapter' '/image demo/pictures/scene-1.png' \
    'What colour is the background?' '/steer where 8' /regen '/steer where 0' /regen
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..9})"
same "vectors with quantised weights and an adapter" \
    "$(jq -r 'select(.event == "answer").text' "$work/events" | awk '{ a[NR] = $0 } END { print a[1] != a[2], a[1] == a[3] }')" "1 1"
cd "$root" || exit 1

# A control vector as llama.cpp's tools write it: signed count, no other key.
python3 - "$work/c.gguf" <<'P'
import struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
keys = text("general.architecture") + struct.pack("<I", 8) + text("controlvector") + \
    text("controlvector.model_hint") + struct.pack("<I", 8) + text("llama") + \
    text("controlvector.layer_count") + struct.pack("<Ii", 5, 2)
tensors = b"".join(text(f"direction.{n}") + struct.pack("<IQIQ", 1, 192, 0, 768 * i) for i, n in enumerate((1, 2)))
head = struct.pack("<4sIQQ", b"GGUF", 3, 2, 3) + keys + tensors
open(sys.argv[1], "wb").write(head + bytes(-len(head) % 32) + struct.pack("<384f", *(i % 7 - 3 for i in range(384))))
P
session "llama.cpp's file" demo/model <<E
> /steer show $work/c.gguf
$work/c.gguf: layers 1,2, width 192, origin unknown, weights unknown
> /steer $work/c.gguf 0.1
steer.vectors = $work/c.gguf=0.1
...
E

# Two files of one name, vectors that cancel, and a missing file.
mkdir "$work/a" "$work/b"
cp "$work/where.safetensors" "$work/a"
cp "$work/where.safetensors" "$work/b"
session "names" demo/model <<E
> /steer $work/a/where 1
steer.vectors = $work/a/where.safetensors=1
...
> /steer $work/b/where -1
steer.vectors = $work/a/where.safetensors=1,$work/b/where.safetensors=-1
steer.vectors has no effect: the vectors of the layers in steer.layers 0%-100% add up to zero
> /steer where 0
error: 'where' could be '$work/a/where.safetensors', '$work/b/where.safetensors': write the path of the file, such as ./where.safetensors
> /steer $work/a/where 0
steer.vectors = $work/b/where.safetensors=-1
...
> /steer where 2
steer.vectors = $work/b/where.safetensors=2
...
E
session "a file that is gone" <<E
> /set steer.vectors gone.safetensors=1
> /steer
[steer]
name  strength  layers  made as  file
gone  1         -       unreadable: cannot open 'gone.safetensors': No such file or directory  gone.safetensors
E

# With pictures, a vector changes the answer, and without the vector the answer is as before; a
# session keeps the file.
for side in plus minus; do
    [ $side = plus ] && q='Where is the red circle?' || q='What colour is the background?'
    echo "[{\"tools\": 1, \"image\": \"$root/demo/pictures/scene-1.png\", \"conversations\": [{\"from\": \"human\", \"value\": \"<image>\\n$q\"}]}]" >"$work/$side.json"
done
lines '/load demo/model' '/set compute.matmul f32' '/image demo/pictures/scene-1.png' 'What colour is the background?' \
    "/steer make $work/p --plus=$work/plus.json --minus $work/minus.json --layer 6" "/steer $work/p 1" /regen \
    "/steer $work/p 0" /regen "/steer $work/p 1" "/session rename s"
check "every line is done" 'select(.event == "done").ok' "$(printf 'true\n%.0s' {1..11})"
check_has "keys that nothing reads" 'select(.event == "notice").text' "'$work/plus.json': not used: \"tools\" (1 sample)"
check "the answer changes with the vector and returns without it" 'select(.event == "answer").text | ltrimstr(" ")' "grey
middle
grey"
lines "/session resume s" "/save $work/s.vlmsh" '/compare off | now What colour is the background?'
check "the session keeps the file" 'select(.event == "setting" and .key == "steer.vectors").value' "$work/p.safetensors=1"
check_has "distance of the answers with and without steering" 'select(.event == "table" and .name == "compare.distance") | .rows[1] | .[1]' "0."
grep -q "^/steer make $work/p.safetensors --plus $work/plus.json --minus $work/minus.json --layer 6 --once" "$work/s.vlmsh" ||
    fail "the script does not make it: $(grep steer "$work/s.vlmsh")"
grep -q "^/set steer.vectors $work/p.safetensors=1" "$work/s.vlmsh" || fail "the script does not set it"
finish

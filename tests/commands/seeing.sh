# seeing.sh -- demo/seeing/make.vlmsh at its smallest, on a language model with random weights: each part
# continues the one before; a second run changes nothing.
. tests/commands/common.bash
mkdir "$work/w"
make=(-f demo/seeing/make.vlmsh -D LANGUAGE=tests/goldens/qwen2 -D WORK="$work/w" -D SCENES=8 -D TEXTS=2 -D MIX=8 -D PLACES=2
    -D LISTS=2 -D LESSONS=2 -D BATCH=2)
vlmsh "${make[@]}" >"$work/log" 2>&1 || fail "$(tail -5 "$work/log" | cut -c1-300)"
same "adapters that the parts continue" "$(grep -ho 'adapter=[^\\]*' "$work"/w/part?/training.json | sed 's|.*/||' | paste -sd' ')" "adapter=none part1 part2"
sum=$(sha256sum "$work"/w/*/adapter_model.safetensors)
vlmsh "${make[@]}" >"$work/log" 2>&1 || fail "again: $(tail -5 "$work/log" | cut -c1-300)"
same "a second run changes nothing" "$(sha256sum "$work"/w/*/adapter_model.safetensors)" "$sum"
finish

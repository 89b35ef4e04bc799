# tests/commands/quantize.sh -- GGUF files that vlmsh writes: the numbers of the model, what smaller weights lose, and
# what is refused (commands/quantize.c, core/adapter/model_gguf.c).
. tests/commands/common.bash

# value ROW: the number of that row of the table.
value() {
    sed -n "s/^$1  *//p" "$work/out"
}

# --- the same numbers ------------------------------------------------------------------------------------------
# Tiny models are stored in bf16 or f32: the type that loses nothing. Llama's queries and keys change their order.
for name in llama-3.2 qwen2; do
    type=bf16
    vlmsh quantize tests/goldens/$name "$work/$name.gguf" --type $type >"$work/out" 2>&1 || fail "$name: $(tail -1 "$work/out")"
    [ "$(value 'KL divergence, largest')" = 0.000000 ] || fail "$name: KL divergence"
    [ "$(value 'same likeliest token')" = 100.00% ] || fail "$name: likeliest tokens"
    answer tests/goldens/$name "$work/a.safetensors"
    answer "$work/$name.gguf" "$work/b.safetensors"
    same_dump "$name" "$work/a.safetensors" "$work/b.safetensors"
done

# What was written is written again, from a model whose rows are in the other order.
vlmsh "$work/llama-3.2.gguf" -c "/quantize $work/again.gguf --type bf16" >"$work/out" 2>&1 || fail "again: $(tail -1 "$work/out")"
answer "$work/again.gguf" "$work/a.safetensors"
answer "$work/llama-3.2.gguf" "$work/b.safetensors"
same_dump "written again" "$work/a.safetensors" "$work/b.safetensors"

# --- smaller weights -------------------------------------------------------------------------------------------
# Rows of 64 numbers fit q8_0's blocks, not q4_k's.
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/q8.gguf --type q8_0" >"$work/out" 2>&1 || fail "q8_0: $(tail -1 "$work/out")"
awk -v kl="$(value 'KL divergence, mean')" 'BEGIN { exit !(kl > 0 && kl < 0.01) }' || fail "q8_0: KL divergence $(value 'KL divergence, mean')"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/q4.gguf --type q4_k" >"$work/out" 2>&1 || fail "q4_k: $(tail -1 "$work/out")"
grep -q 'matrices are in q8_0 or f16: their rows do not fit the blocks of q4_k' "$work/out" || fail "q4_k does not say what it did"

# A text of one's own.
printf 'One two three. %.0s' 1 2 3 4 5 >"$work/text"
vlmsh tests/goldens/llama-3.2 -c "/quantize $work/text.gguf --type q8_0 --text $work/text" >"$work/out" 2>&1 || fail "--text: $(tail -1 "$work/out")"
[ "$(value 'tokens of the text')" -lt 100 ] || fail "--text is not used"

# --- refused ---------------------------------------------------------------------------------------------------
refused() {
    local why=$1
    shift
    if vlmsh "$@" >"$work/out" 2>&1; then fail "$*: not refused"; fi
    grep -qF -- "$why" "$work/out" || fail "$*: $(tail -1 "$work/out")"
}
refused "exists" quantize tests/goldens/qwen2 "$work/qwen2.gguf" --type f16
refused "types: q8_0, q4_k, f16, bf16" quantize tests/goldens/qwen2 "$work/x.gguf" --type q5_k
refused "--type TYPE is missing" quantize tests/goldens/qwen2 "$work/x.gguf"
refused "must end in .gguf" quantize tests/goldens/qwen2 "$work/x" --type f16
refused "MODEL" quantize --type f16
refused "cannot be written as GGUF" quantize tests/goldens/kimi-text "$work/x.gguf" --type f16
refused "cannot create" quantize tests/goldens/qwen2 "$work/none/x.gguf" --type f16
[ ! -e "$work/x.gguf" ] || fail "a refused file is there"
finish

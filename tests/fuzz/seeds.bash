# tests/fuzz/seeds.bash -- writes the fuzzers' initial inputs, from tests/goldens and by hand:
#   make_seeds NAME FOLDER

# Writes one safetensors file: the header in $2, then $3 bytes.
safetensors_seed() {
    {
        printf "\\x$(printf %02x $((${#2} % 256)))\\x$(printf %02x $((${#2} / 256)))\\0\\0\\0\\0\\0\\0"
        printf %s "$2"
        head -c "$3" /dev/zero
    } >"$1"
}

make_seeds() { # NAME FOLDER
    case $1 in
    safetensors)
        safetensors_seed "$2/empty" '{}' 0
        safetensors_seed "$2/one" '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 24
        safetensors_seed "$2/two" '{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[],"data_offsets":[4,6]},"\u00e9":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}  ' 6
        safetensors_seed "$2/bits" '{"f":{"dtype":"F4","shape":[0,4],"data_offsets":[0,0]},"g":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}' 3
        python3 tests/fuzz/quantised_seeds.py "$2"
        ;;
    zipped)
        python3 -c 'import sys, zipfile
for name, how in ("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED), ("zip64", zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}", "w", how) as z:
        z.writestr("b/a.png", "picture " * 20)
        z.open("c.png", "w", force_zip64=name == "zip64").close()' "$2"
        ;;
    gguf)
        python3 tests/fuzz/gguf_seeds.py "$2"
        ;;
    adapter)
        safetensors_seed "$2/tensors" '{"base_model.model.model.language_model.layers.0.input_layernorm.ln_tuning_layers.weight":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}}' 256
        { printf '{"peft_type":"LN_TUNING","target_modules":".*layernorm"}\0'; cat "$2/tensors"; } >"$2/norm"
        safetensors_seed "$2/tensors" '{"base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight":{"dtype":"BF16","shape":[1,64],"data_offsets":[0,128]},"base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_B.weight":{"dtype":"BF16","shape":[64,1],"data_offsets":[128,256]},"base_model.model.lm_head.weight":{"dtype":"F16","shape":[552,0],"data_offsets":[256,256]}}' 256
        { printf '{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"modules_to_save":["lm_head"],"rank_pattern":{"layers.1.*":1},"alpha_pattern":{},"use_rslora":true}\0'; cat "$2/tensors"; } >"$2/lora"
        safetensors_seed "$2/tensors" '{"norm_align.weight":{"dtype":"F32","shape":[64],"data_offsets":[0,256]},"ira.3.head.bias":{"dtype":"F32","shape":[17],"data_offsets":[256,324]}}' 324
        { printf '\0'; cat "$2/tensors"; } >"$2/extra"
        safetensors_seed "$2/tensors" '{"base_model.model.model.language_model.layers.0.mlp.experts.lora_A.weight":{"dtype":"BF16","shape":[6,16],"data_offsets":[0,192]},"base_model.model.model.language_model.layers.0.mlp.experts.lora_B.weight":{"dtype":"BF16","shape":[12,6],"data_offsets":[192,336]}}' 0
        {
            printf '{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":[],"target_parameters":["mlp.experts.gate_up_proj"]}\0'
            cat "$2/tensors"
            head -c 336 /dev/zero | tr '\0' '?' # tensors of zeros would change nothing
        } >"$2/experts"
        ;;
    config)
        for d in tests/goldens/*/config.json; do
            d=${d%/config.json}
            for f in config preprocessor_config generation_config processor_config; do
                [ ! -e "$d/$f.json" ] || cat "$d/$f.json"
                printf '\0'
            done >"$2/${d##*/}"
        done
        ;;
    dataset)
        printf '[{"id": "a", "kind": "detail", "image": "x.png", "conversations": [{"from": "human", "value": "<image>\\n?"}, {"from": "gpt", "value": "\\"]"}]},\n {"id": 7, "question": "q", "answer": "r", "choices": ["r"], "metric": "letter"}]\n' >"$2/list"
        printf '{"messages": [{"role": "user", "content": "<image> q <image>"}], "images": ["x", "y"]}\n[{"role": "user", "content": [{"type": "image", "path": "z"}, {"type": "text", "text": "q"}]}]\n{broken\n' >"$2/lines"
        ;;
    masks)
        printf '{"image": "x/1.png", "objects": [{"name": "a dog", "mask": {"size": [2, 3], "counts": [1, 2, 3]}}, {"box": [1, 2, 3.5, 4]}, {"polygon": [1, 1, 5, 1, 5, 6]}]}\n' >"$2/lines"
        printf '[{"file_name": "COCO_train2014_000000581857_0.jpg", "answer": ["a dog"], "bbox": [0, 0, 2, 4], "segmentation": [0, 0, 1, 0, 1, 4]}, {"image": "y.jpg", "sent": "a", "bbox": [1, 1, 4, 3], "width": 6, "height": 4}]' >"$2/rows"
        printf '{"images": [{"id": 9, "file_name": "a.jpg", "width": 6, "height": 4}], "annotations": [{"image_id": 9, "category_id": 1, "bbox": [0, 0, 6, 2], "segmentation": [[0, 0, 2, 0, 2, 2], [5, 0, 6, 0, 6, 1]]}, {"image_id": 9, "category_id": 1, "segmentation": {"size": [4, 6], "counts": "52203ON0N00"}}], "categories": [{"id": 1, "name": "dog"}]}' >"$2/coco"
        ;;
    sets)
        python3 tests/core/sets/make.py "$2/made"
        for f in "pope/llava_pope_test.jsonl pope/coco_pope_random.json" \
            "textvqa/llava_textvqa_val_v051_ocr.jsonl textvqa/TextVQA_0.5.1_val.json" \
            "sqa/problems.json sqa/pid_splits.json" "sqa/llava_test_CQM-A.json sqa/problems.json" \
            "mmlu/test/abstract_algebra_test.csv mmlu/dev/abstract_algebra_dev.csv" \
            "vqa/v2_OpenEnded_mscoco_val2014_questions.json vqa/v2_mscoco_val2014_annotations.json"; do
            { cat "$2/made/${f% *}" && printf '\0' && cat "$2/made/${f#* }"; } >"$2/beside-${f##*/}"
        done
        find "$2/made" -size -64k \( -name '*.tsv' -o -name '*.json*' -o -name '*.csv' \) | while read -r f; do
            mv "$f" "$2/$(basename "$(dirname "$f")")-$(basename "$f")"
        done
        rm -r "$2/made"
        cp tests/core/sets/parquet/*.parquet tests/core/sets/parquet/mmlu/*.parquet "$2"
        cp tests/core/sets/parquet/testdev_balanced_instructions/*.parquet "$2/gqa"
        ;;
    parquet) # tests/core/sets/parquet.py writes the larger files
        cp tests/core/sets/parquet/*.parquet "$2"
        tar -C "$2" -xJf tests/fuzz/corpus/parquet_large.tar.xz
        ;;
    metrics)
        printf 'The answer is (B).\0\0Which?\nA. x\nB. y\0B\0x\0y' >"$2/letter"
        printf '<think>a dog</think> yes, a red dog\0\0Is there a dog?\0yes' >"$2/word"
        printf '[0.1, 0.2, 0.5, 0.9]\0\0\0[1, 2, 30, 40] of 100x50' >"$2/box"
        printf '<answer>C</answer> two dogs\0circled letter\0\0person\0dog\0person' >"$2/objects"
        printf '\\boxed{12%%} so 3.5e2\0HME100k\0\0350' >"$2/number"
        ;;
    steer)
        safetensors_seed "$2/two" '{"__metadata__":{"method":"mean","plus":"3"},"direction.1":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"direction.3":{"dtype":"BF16","shape":[3],"data_offsets":[12,18]}}' 18
        safetensors_seed "$2/empty" '{"direction.10":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"direction.2":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}' 6
        python3 tests/fuzz/gguf_seeds.py "$2"
        ;;
    set_index)
        python3 -c 'import struct, sys
def seed(name, rows, columns, keys, key_rows):
    texts = b"".join(text + b"\0" for text in columns + keys)
    counts = struct.pack("=4Q72s", len(rows), len(columns), len(keys), len(texts), b"ab" * 32)
    rows = b"".join(struct.pack("=4Q", *row) for row in rows) + struct.pack(f"={len(keys)}q", *key_rows)
    open(f"{sys.argv[1]}/{name}", "wb").write(counts + rows + texts)
seed("two", [(20, 30, 5, 10), (51, 7, 0, 0)], [b"index", b"image", b"x"], [b"1", b"2"], [0, 1])
seed("same", [(20, 8, 0, 0), (29, 8, 0, 0)], [b"index"], [b"7"], [-1])' "$2"
        ;;
    sessions | calibration | weight_cache) ;; # their corpora begin with files that vlmsh wrote
    job_folder)
        printf '{"id":7,"arguments":"[\\"a\\"]","settings":"{\\"sample.seed\\":\\"3\\"}","kind":"train","folder":"/tmp","model":"m","fingerprint":"f","device":"cpu","runs":1,"answering":"/dev/null"}' >"$2/order"
        printf '{"is":"metric","n":12,"t":1790000000,"r":[0.25],"s":["loss"]}\n{"is":"score","n":4,"t":1,"r":[0.5],"s":["id",null,"yes"]}\n{"is":"state","n":0,"t":1,"r":[0],"s":["failed","why","12"]}\n' >"$2/reports"
        printf '3 1.5 0.2 12 1 host   \n' >"$2/rank"
        side='{"numbers":[0,1,1,1,1,0.25,0.5,2,1],"cost":[1,1,1,1,1,1,1,1,1,1,1,1,1],"distances":[0.25,0.5],"metric":"exact","id":"a","kind":"k","prompt":"p","reference":"r","answer":"yes","ids":[1,2]}'
        printf '{"identity":{"data":"aa"}}\n{"done":1,"at":0,"pictures":"","sides":[[%s],[%s]]}\n{"done":2,"at":1,"sides":[[%s],[%s]]}\n' "$side" "$side" "$side" "$side" >"$2/compare"
        ;;
    answers)
        printf '{"question_id": "a", "prompt": "What?", "text": "x"}\n{"question_id": "a", "prompt": "Why?", "text": "<|box_start|>(10, 20), (30, 40)<|box_end|>"}\n{"id": 7, "answer": "y"}\n' >"$2/lines"
        printf '[{"question_id": "a", "answer": "[0.1, 0.2, 0.5, 0.9]"}, {"question_id": "a", "answer": "{\\"bbox_2d\\": [1, 2, 30, 40], \\"label\\": \\"dog\\"}"}]' >"$2/list"
        printf '{"id":"a","number":1,"question":"q","answer":"<loc0100><loc0200><loc0500><loc0600> dog","pictures":["00"],"provenance":{"vlmsh":"0.1.0"}}\n{"id":"a","number":2,"err' >"$2/output"
        printf '<ref>a dog</ref><box>[[10, 20, 300, 400]]</box> <point x="61.5" y="40.1" alt="cat">cat</point> (0.5, 0.25)' >"$2/marks"
        ;;
    records)
        printf '{"images": [{"id": 9, "file_name": "a.jpg"}], "annotations": [{"image_id": 9, "category_id": 1}, {"image_id": 9, "category_id": 2}], "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]}' >"$2/coco"
        printf '{"id": "w/1", "image": "w/1.png", "objects": [{"name": "red dog"}, {"name": "cat"}]}\n{"id": 2, "image": "2.png", "objects": []}\n' >"$2/world"
        printf '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "?"}]}, {"role": "assistant", "content": "x"}]' >"$2/messages"
        printf '{"format": "%s", "models": [{"name": "m", "checks": [{"name": "opens", "verdict": "works", "rows": [{"name": "tokens", "value": 12300, "text": "t", "verdict": "works"}]}]}], "verdict": "works"}' \
            "$(sed -n 's/^#define FORMAT "\(.*\)"/\1/p' core/checkup/checkup.c)" >"$2/checkup"
        ;;
    csv)
        printf '\xef\xbb\xbfstep,"a, b","c ""d"""\r\n1,2,3\r\n\r\n,"",x\n' >"$2/quoted"
        printf '"\xef\xbb\xbfone"\n""\nlast' >"$2/column"
        ;;
    score_plan)
        printf 'set yes-no: Makefile --limit 3\n# note\nrow a: off\nrow "b c": @fastv prune.seed={seed} model=x\nseeds 1 2\nmodel m: y\ncompare a, m | b c\n' >"$2/plan"
        ;;
    folder)
        safetensors_seed "$2/x" '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 8
        safetensors_seed "$2/y" '{"y":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"z":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}}' 4
        {
            cat "$2/x" && printf '\0----\0' && cat "$2/y"
            printf '\0----\0{"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"b.safetensors"}}'
            printf '\0----\0{"model_type":"llava","torch_dtype":"float32"}'
        } >"$2/shards"
        rm "$2/x" "$2/y"
        python3 tests/fuzz/gguf_seeds.py "$2"
        { cat "$2/split-0" && printf '\0----\0' && cat "$2/split-1"; } >"$2/split"
        ;;
    jinja | template)
        for f in tests/goldens/*/chat_template.jinja; do cp "$f" "$2/$(basename "$(dirname "$f")")"; done
        for f in tests/goldens/*/tokenizer_config.json; do
            python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("chat_template", ""))' "$f" \
                >"$2/config-$(basename "$(dirname "$f")")"
        done
        grep -o '^    { "[^"]*' tests/core/template/jinja.c | sed 's/^    { "//; s/\\n/\n/g' |
            split -l 1 - "$2/case-"
        ;;
    tokenizer_model)
        for f in tests/goldens/tokenizers/*/*.model; do
            { cat "${f%/*}/tokenizer_config.json" && printf '\0' && cat "$f"; } >"$2/$(basename "${f%/*}")"
        done
        {
            printf '{"json":' && cat tests/goldens/gemma4/tokenizer.json
            printf ',"map":{"eos_token":"<eos>"},"added":{"<x>":99},"model":{"model_type":"gemma4"}}\0'
        } >"$2/json"
        printf '{"tokenizer_class":"Qwen2Tokenizer","vocab":{"a":0,"b":1,"ab":2,"\xc4\xa0":3},"added_tokens_decoder":{"4":{"content":"<x>"}}}\0#version: 0.2\na b\n' >"$2/merges"
        ;;
    *tokenizer*)
        cp "tests/goldens/tokenizers/t5-json/tokenizer.json" "$2/t5"
        for d in tests/goldens/*/tokenizer.json; do cp "$d" "$2/$(basename "$(dirname "$d")")"; done
        ;;
    *image* | *picture*)
        find "tests/goldens/pictures" -size -64k \( -name '*.png' -o -name '*.jpg' -o -name '*.bmp' -o -name '*.ppm' \) \
            -exec cp {} "$2" \;
        for f in tests/core/picture/pictures/*; do cp "$f" "$2/small-${f##*/}"; done
        ;;
    *)
        find tests demo -name '*.vlmsh' -size -64k -exec cp {} "$2" \; 2>/dev/null
        printf '/set sample.seed 1\n# note\n/tokenize "a\\nb"\n"""\ntwo\nlines\n"""\n/get ${HOME}\n' >"$2/commands"
        ;;
    esac
}

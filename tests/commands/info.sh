# tests/commands/info.sh -- /info: parameters and bytes are those of the files.
. tests/commands/common.bash

for folder in tests/goldens/*/config.json; do
    folder=${folder%/config.json}
    lines "/load $folder" '/info'
    check "$folder: tables" 'select(.event == "table").name' $'model\nparameters\nmemory'
    check_has "$folder: folder" 'select(.name == "model").rows[] | select(.[0] == "folder")[1]' "${folder##*/}"
    check "$folder: fingerprint" \
        'select(.name == "model").rows[] | select(.[0] == "fingerprint")[1] | test("^[0-9a-f]{64}$")' true
    check "$folder: parts add up" \
        'select(.name == "parameters").rows | (map(select(.[0] != "total")[1]) | add) == (.[-1][1])' true
    # Every element in the files counts once (a tied head is not in them; position ids are buffers).
    want=$(python3 - "$folder" <<'P'
import glob, json, struct, sys
from math import prod
total = 0
for path in glob.glob(sys.argv[1] + "/model*.safetensors"):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    total += sum(prod(t["shape"]) for name, t in header.items()
                 if name != "__metadata__" and t["dtype"] in ("F32", "F16", "BF16"))
print(total)
P
)
    check "$folder: parameters" 'select(.name == "parameters").rows[-1][1]' "$want"
    check "$folder: resident memory" \
        'select(.name == "memory").rows[] | select(.[0] == "resident")[1] > 1000000' true
done
finish

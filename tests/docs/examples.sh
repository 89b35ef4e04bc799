# tests/docs/examples.sh -- the examples of the README and of docs/ print the text shown. UPDATE=1
# replaces it with the real output: review the difference.
set -eu
export VLMSH PYTHONPATH=tests/tui PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS=2 # as for the recorded outputs
if [ "${UPDATE:-}" = 1 ]; then exec python3 tests/docs/examples.py README.md docs/*.md demo/README.md; fi

# Checks the checker with wrong words, joined lines, wrong numbers, wrong output at the prompt, a
# failing command, and a fence without a type.
wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT
cat >"$wrong" <<'END'
```console
$ echo one word
two words
$ printf 'one\ntwo\n'
one two
$ echo 4 tokens
5 tokens
$ false
$ ./vlmsh
...
> /version
vlmsh 0
> /quit
```

```
$ echo unchecked
```
END
if found=$(python3 tests/docs/examples.py "$wrong"); then echo "wrong examples pass"; exit 1; fi
[ "$(echo "$found" | grep -c "^$wrong:")" = 6 ] || { echo "the checker must report 6 errors; it reported:"; echo "$found"; exit 1; }

documents="README.md docs/*.md demo/README.md"
case $VLMSH in
*/san/*) # they take ten minutes, and other tests train and measure under the sanitizers
    echo "SKIPPED: the examples of docs/training.md and docs/measuring.md"
    documents=$(echo $documents | tr ' ' '\n' | grep -v -e training -e measuring)
    ;;
esac
python3 tests/docs/examples.py $documents
# An example must not depend on a processor's rounding: different kernels print the same text.
VLMSH_ISA=base python3 tests/docs/examples.py README.md

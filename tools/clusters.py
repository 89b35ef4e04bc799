"""tools/clusters.py -- the table of steps in docs/clusters.md, from its formulas.

    python3 tools/clusters.py

Numbers trained are those of `/train plan --like llava-1.5-7b --all`.
"""
from math import log2

ROWS, BATCHES, SPEED = 832, 8, 400e12  # rows of a sample; samples per rank and step; FLOP/s of a GPU
INSIDE, BETWEEN, MESSAGE = 300e9, 40e9, 20e-6  # bytes/s within a machine and between machines; seconds per message
HEAD, DECODER = 131334144, 6476271616
PROJECTOR = 20979712 * 576 / ROWS  # the projector has only the picture's rows
THIN = 79953920  # LoRA of rank 32

# name, number of trained weights, weights whose gradient is a product over all rows. (The embedding's gradient
# is a sum of rows. A thin matrix is beside the frozen one in all four products.)
METHODS = [
    ("layernorm-simple", 262144, 0),
    ("connector", 20979712, PROJECTOR),
    ("layernorm", 283910144, PROJECTOR + HEAD),
    ("lora", 363601920, PROJECTOR + HEAD + 4 * THIN),
    ("qv", 1357389824, PROJECTOR + HEAD + 1073741824),
    ("mlp", 4612169728, PROJECTOR + HEAD + 4328521728),
    ("full", 6759919616, PROJECTOR + HEAD + DECODER),
    ("all", 7063425024, PROJECTOR + HEAD + DECODER),
]


def micro_batch(graded):
    return ROWS * 2 * (3 * (DECODER + HEAD) + graded) / SPEED


def sums(trained, ranks):
    return 8 * trained / (INSIDE if ranks == 8 else BETWEEN) + 2 * log2(ranks) * MESSAGE


def size(n):
    return f"{n / 1e9:.2g} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB"


print("| `train.method` | 4 P | C | 8 GPUs | 64 | 1024 |\n|---|---|---|---|---|---|")
for name, trained, graded in METHODS:
    c = BATCHES * micro_batch(graded)
    steps = [c + sums(trained, n) for n in (8, 64, 1024)]
    print(f"| `{name}` | {size(4 * trained)} | {1e3 * micro_batch(graded):.0f} ms |", " | ".join(f"{t:.2f}, {c / t:.0%}" for t in steps), "|")

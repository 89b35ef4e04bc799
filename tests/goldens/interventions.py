#!/usr/bin/env python3
"""Writes what plain PyTorch hooks give for the interventions of vlmsh: interventions.py tests/goldens/NAME...

    python tests/goldens/interventions.py tests/goldens/llava-1.5 tests/goldens/gemma3

Each folder gets interventions.safetensors.xz: tensors of float32 numbers from a float64 run on the prompt `single` and
the first ANSWER greedy tokens, and for each tensor NAME a number NAME.tol, ten times the largest difference between the
float32 and the float64 run. tests/core/interventions/hooks.c compares them. Needs torch, transformers and safetensors
of README.md; the tensors of the golden must be unpacked (make goldens)."""

import json
import sys
from pathlib import Path

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import save
from transformers import AutoModelForImageTextToText

import pack

ANSWER = 3
PATH = 64  # Gauss-Legendre points of integrated gradients; the path is smooth in these models


class Run:
    """A model with the prompt and answer of its golden, in one dtype."""

    def __init__(self, folder, dtype):
        golden = Path("build/goldens") / folder.name
        facts = json.loads((golden / "golden.json").read_text())
        single = next(c for c in facts["chat"] if c["name"] == "single")
        with safe_open(golden / "golden.safetensors", "pt") as f:
            self.pixels = f.get_tensor("pix.scene").to(dtype)
        self.pixels = self.pixels.reshape(1, *self.pixels.shape[-3:])
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
        for p in self.model.parameters():
            p.requires_grad_(False)
        self.dtype = dtype
        self.text = self.model.model.language_model
        self.layers, self.norm, self.head = self.text.layers, self.text.norm, self.model.lm_head
        self.ids = torch.tensor(single["input_ids"] + facts["forward"]["gen_ids"][:ANSWER])
        self.prompt = len(single["input_ids"])
        image = self.model.config.image_token_id
        self.visual = (self.ids == image).nonzero()[:, 0]
        self.more = {}
        if self.model.config.model_type == "gemma3":  # visual tokens of a picture see each other
            self.more["token_type_ids"] = (self.ids == image).long()[None]
        self.predict = torch.arange(self.prompt - 1, self.prompt - 1 + ANSWER)
        self.answer = torch.arange(self.prompt, self.prompt + ANSWER)
        self.N, self.L = len(self.ids), len(self.layers)
        self.H = self.text.config.num_attention_heads
        self.middle = self.L // 2 + (self.L // 2) % 2 if self.L % 2 else self.L // 2

    # Modules of a layer whose output is a part.
    def adds(self, l, what):
        layer = self.layers[l]
        if what == "ffn":
            return getattr(layer, "post_feedforward_layernorm", layer.mlp)
        return layer.post_attention_layernorm if hasattr(layer, "post_feedforward_layernorm") else layer.self_attn.o_proj

    def logits(self, hooks=()):
        """One pass with hooks: pairs of a function that registers one and its arguments."""
        handles = [register(*args) for register, args in hooks]
        try:
            return self.model(input_ids=self.ids[None], pixel_values=self.pixels, use_cache=False, **self.more).logits[0]
        finally:
            for h in handles:
                h.remove()

    def logp(self, hooks=()):
        return self.logits(hooks).log_softmax(-1)[self.predict, self.ids[self.prompt:]]

    # --- hooks -----------------------------------------------------------------------------------

    def input_of(self, l, change):
        """change(x [N,D]) gives the rows that layer l reads."""
        def hook(module, args, kwargs):
            x = args[0] if args else kwargs["hidden_states"]
            y = change(x[0])
            y = x if y is None else y[None]
            return ((y, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": y})
        return (lambda m: m.register_forward_pre_hook(hook, with_kwargs=True)), (self.layers[l],)

    def output_of(self, module, change):
        def hook(m, args, out):
            x = out[0] if isinstance(out, tuple) else out
            y = change(x[0])
            y = x if y is None else y[None]
            return (y, *out[1:]) if isinstance(out, tuple) else y
        return (lambda m: m.register_forward_hook(hook)), (module,)

    def heads_of(self, l, change):
        """change(x [N,H*d]) gives the heads' outputs before the output projection."""
        def hook(m, args):
            y = change(args[0][0])
            return None if y is None else (y[None],)
        return (lambda m: m.register_forward_pre_hook(hook)), (self.layers[l].self_attn.o_proj,)

    def cut(self, l, rows, keys, head=None):
        """Rows do not attend to keys in layer l."""
        def hook(m, args, kwargs):
            mask = kwargs["attention_mask"].expand(1, self.H, self.N, self.N).clone()
            which = slice(None) if head is None else slice(head, head + 1)
            for row in rows:
                for key in keys:
                    if row != key:
                        mask[:, which, row, key] = torch.finfo(mask.dtype).min
            return args, {**kwargs, "attention_mask": mask}
        return (lambda m: m.register_forward_pre_hook(hook, with_kwargs=True)), (self.layers[l].self_attn,)

    def part(self, l, what, change):
        if what == "residual":
            return self.output_of(self.layers[l], change)
        if what == "attention":
            return self.heads_of(l, change)
        if what == "value":
            return self.output_of(self.layers[l].self_attn.v_proj, change)
        return self.output_of(self.adds(l, what), change)

    def read(self, what, hooks=()):
        """The part of each layer in one pass: L tensors."""
        kept = [None] * self.L

        def keep(l):
            def change(x):
                kept[l] = x.clone()
            return change
        self.logits([*hooks, *(self.part(l, what, keep(l)) for l in range(self.L))])
        return kept

    def put(self, rows, values, columns=slice(None)):
        """A change that replaces these rows (and columns) by those of `values`."""
        def change(x):
            y = x.clone()
            y[rows, columns] = values[rows, columns] if torch.is_tensor(values) else values
            return y
        return change

    # --- measurements ----------------------------------------------------------------------------

    def lens(self):
        h = self.read("residual")
        last = [self.head(self.norm(x[self.prompt - 1])).log_softmax(-1) for x in h]
        yield "lens.target", torch.stack([p[self.ids[self.prompt]].exp() for p in last])
        yield "lens.entropy", torch.stack([-(p.exp() * p).sum() for p in last])
        yield "lens.picture", self.head(self.norm(h[self.middle][self.visual])).softmax(-1).max(-1).values

    def knockout(self):
        before, to = self.logp().sum(), torch.cat([self.predict[:1], self.answer])
        text = torch.arange(int(self.visual[-1]) + 1, self.prompt - 1)
        everywhere = [self.cut(l, to, self.visual) for l in range(self.L)]
        yield "knockout.answer", (self.logp(everywhere).sum() - before)[None]
        question = [self.cut(l, text, self.visual) for l in range(self.L)]
        yield "knockout.text", (self.logp(question).sum() - before)[None]
        yield "knockout.layers", torch.stack([self.logp([c]).sum() - before for c in everywhere])
        yield "knockout.heads", torch.stack([self.logp([self.cut(l, to, self.visual, h)]).sum() - before
                                             for l in range(self.L) for h in range(self.H)])

    def patch(self):
        """Run B has the mean of the visual tokens in their places."""
        def corrupt(x):
            y = x.clone()
            y[self.visual] = x[self.visual].mean(0)
            return y
        other = [self.input_of(0, corrupt)]
        a, b = self.logp().sum(), self.logp(other).sum()
        first = int(self.visual[0])
        groups = self.visual, self.predict[:1], self.answer, torch.arange(first, self.N)
        yield "patch.run", torch.stack([a, b])
        for what in ("residual", "attention", "ffn", "value"):
            of_a = self.read(what)
            yield "patch." + what, torch.stack([
                (self.logp([*other, self.part(l, what, self.put(rows, of_a[l]))]).sum() - b) / (a - b)
                for l in range(self.L) for rows in groups])
        of_a, wide = self.read("attention"), self.head_columns
        yield "patch.head", torch.stack([
            (self.logp([*other, self.heads_of(l, self.put(groups[-1], of_a[l], wide(h)))]).sum() - b) / (a - b)
            for l in range(self.L) for h in range(self.H)])
        of_a = self.read("residual")
        yield "patch.positions", torch.stack([
            (self.logp([*other, self.part(1, "residual", self.put([i], of_a[1]))]).sum() - b) / (a - b)
            for i in range(first, self.N)])

    def head_columns(self, h):
        width = self.layers[0].self_attn.o_proj.weight.shape[1] // self.H
        return slice(h * width, (h + 1) * width)

    def ablate(self):
        before, every = self.logp().sum(), torch.arange(self.N)
        is_visual = torch.zeros(self.N, dtype=bool)
        is_visual[self.visual] = True

        def mean(x):
            y = x.clone()
            for kind in (is_visual, ~is_visual):
                y[kind] = x[kind].mean(0)
            return y

        def layer_adds_nothing(l):
            kept = {}
            return [self.input_of(l, lambda x: kept.update(x=x)), self.part(l, "residual", lambda x: kept["x"])]
        effect = lambda hooks: self.logp(hooks).sum() - before
        yield "ablate.heads", torch.stack([effect([self.heads_of(l, self.put(every, 0, self.head_columns(h)))])
                                           for l in range(self.L) for h in range(self.H)])
        yield "ablate.ffn", torch.stack([effect([self.part(l, "ffn", torch.zeros_like)]) for l in range(self.L)])
        yield "ablate.ffn.mean", torch.stack([effect([self.part(l, "ffn", mean)]) for l in range(self.L)])
        yield "ablate.layers", torch.stack([effect(layer_adds_nothing(l)) for l in range(self.L)])
        yield "ablate.tokens", torch.stack([effect([self.cut(l, range(self.N), [i]) for l in range(self.L)])
                                            for i in self.visual])

    def gradient(self, layer, rows=None):
        """The rows that a layer reads, and the gradient of the answer's log-probability."""
        kept = {}

        def change(x):
            kept["x"] = (x if rows is None else rows).detach().clone().requires_grad_(True)
            return kept["x"]
        with torch.enable_grad():
            self.logp([self.input_of(layer, change)]).sum().backward()
        return kept["x"].detach(), kept["x"].grad

    def attribute(self):
        x, g = self.gradient(0)
        yield "attribute.gradient", (x * g).sum(-1)[self.visual]
        h, gh = self.gradient(self.middle)
        yield "attribute.gradcam", (h[self.visual] @ gh[self.visual].mean(0)).clamp(min=0)
        base = x.clone()
        base[self.visual] = x[self.visual].mean(0)
        points, weights = numpy.polynomial.legendre.leggauss(PATH)
        sums = torch.zeros_like(x)
        for point, weight in zip((points + 1) / 2, weights / 2):
            sums += weight * self.gradient(0, base + point * (x - base))[1]
        yield "attribute.integrated", ((x - base) * sums).sum(-1)[self.visual]
        whole = self.logp().sum()
        yield "attribute.occlusion", torch.stack([whole - self.logp([self.input_of(0, self.put([i], base))]).sum()
                                                  for i in self.visual])

    def follow(self):
        """Rollout, and direct logit attribution by layer, head and visual token."""
        A, V, heads = [None] * self.L, [None] * self.L, [None] * self.L
        stream = [None] * (self.L + 1)
        hooks = []
        for l, layer in enumerate(self.layers):
            def see(m, args, out, l=l):
                A[l] = out[1][0]
            hooks.append(((lambda m, see=see: m.register_forward_hook(see)), (layer.self_attn,)))
            hooks.append(self.output_of(layer.self_attn.v_proj, lambda x, l=l: V.__setitem__(l, x)))
            hooks.append(self.heads_of(l, lambda x, l=l: heads.__setitem__(l, x)))
            hooks.append(self.input_of(l, lambda x, l=l: stream.__setitem__(l, x)))
            hooks.append(self.output_of(layer, lambda x, l=l: stream.__setitem__(l + 1, x)))
        ffn = self.read("ffn", hooks)
        r = torch.zeros(self.N, dtype=self.dtype)
        r[self.predict] = 1 / ANSWER
        for l in reversed(range(self.L)):
            r = (r + r @ A[l].mean(0)) / 2
        yield "attribute.rollout", r[self.visual]
        yield "attribute.attention", sum(a.mean(0)[self.predict].mean(0) for a in A)[self.visual] / self.L

        gain = lambda norm: 1 + norm.weight if self.model.config.model_type == "gemma3" else norm.weight
        scale = lambda x, eps: 1 / (x.square().mean(-1) + eps).sqrt()
        eps = self.text.config.rms_norm_eps
        u = gain(self.norm) * self.head.weight[self.ids[self.prompt:]]  # [T,D]
        u = u * scale(stream[self.L][self.predict], eps)[:, None]
        yield "direct.embedding", (u * stream[0][self.predict]).sum()[None]
        parts, of_heads, of_keys = [], [], torch.zeros(self.N, dtype=self.dtype)
        for l in range(self.L):
            w = self.layers[l].self_attn.o_proj.weight
            part = ffn[l][self.predict]
            parts += [(u * (stream[l + 1] - stream[l])[self.predict]).sum() - (u * part).sum(), (u * part).sum()]
            back = u
            if hasattr(self.layers[l], "post_feedforward_layernorm"):
                after = self.layers[l].post_attention_layernorm
                back = back * gain(after) * scale(heads[l][self.predict] @ w.T, eps)[:, None]
            back = (back @ w).reshape(ANSWER, self.H, -1)  # [T,H,d]
            of_heads += [(back * heads[l][self.predict].reshape(ANSWER, self.H, -1)).sum((0, 2))]
            v = V[l].reshape(self.N, -1, back.shape[-1]).repeat_interleave(self.H // (V[l].shape[1] // back.shape[-1]), 1)
            of_keys += torch.einsum("htj,jhd,thd->j", A[l][:, self.predict], v, back)
        yield "direct.parts", torch.stack(parts)
        yield "direct.heads", torch.cat(of_heads)
        yield "attribute.direct", of_keys[self.visual]

    def steer(self):
        vector = self.direction()
        yield "steer", torch.stack([self.logp([self.part(1, "residual", lambda x: x + f * vector)]).sum() for f in (2, -1)])

    def direction(self):
        return (torch.arange(self.text.config.hidden_size) * 37 % 11 - 5).to(self.dtype) / 10

    def all(self):
        with torch.no_grad():
            for group in (self.lens, self.knockout, self.patch, self.ablate, self.attribute, self.follow, self.steer):
                for name, values in group():
                    yield name, values.double().numpy()


for folder in map(Path, sys.argv[1:]):
    torch.set_num_threads(1)
    exact = Run(folder, torch.float64)
    tensors = {}
    for (name, values), (_, rough) in zip(exact.all(), Run(folder, torch.float32).all()):
        tol = max(10 * abs(values - rough).max(), 4e-6 * abs(values).max())
        tensors[name], tensors[name + ".tol"] = values.astype(numpy.float32), numpy.array([tol], numpy.float32)
        print(f"{folder.name}: {name} {list(values.shape)}, largest {abs(values).max():.6g}, tol {tol:.3g}")
    tensors["ids"] = exact.ids[exact.prompt:].numpy().astype(numpy.int32)
    tensors["direction.1"] = exact.direction().numpy().astype(numpy.float32)
    pack.pack(str(folder / "interventions.safetensors"), save(tensors))

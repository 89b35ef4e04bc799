#!/usr/bin/env python3
"""Writes this folder: a tiny Gemma 4 of the 26B model's shape, and reference results of transformers.

    python tests/goldens/gemma4-moe/make.py      # torch, transformers, safetensors, Pillow of ../README.md

Layers without a window use one projection for keys and values; experts are beside the FFNs; the tokens of a picture see
each other in layers with a window; no layer has inputs of its own, and no linear layer has limits. ../gemma4/make.py
has the functions that this file does not define.
"""
import importlib.util
import json
import math
import shutil
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("small", HERE.parent / "gemma4" / "make.py")
small = importlib.util.module_from_spec(spec)
spec.loader.exec_module(small)
base, rms, gelu = small.base, small.rms, small.gelu
EXPERTS, CHOSEN = 4, 2
small.TYPES = TYPES = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]


def write_configs(ids):
    small.HERE = base.HERE = HERE
    config, processor = write_small(ids)
    config["text_config"].update({
        "attention_k_eq_v": True, "enable_moe_block": True, "hidden_size_per_layer_input": 0, "layer_types": TYPES,
        "moe_intermediate_size": 6, "num_attention_heads": 4, "num_experts": EXPERTS, "num_global_key_value_heads": 1,
        "num_hidden_layers": len(TYPES), "num_key_value_heads": 2, "num_kv_shared_layers": 0, "top_k_experts": CHOSEN,
        "use_bidirectional_attention": "vision", "use_double_wide_mlp": False})
    config["vision_config"].update({"num_hidden_layers": 2, "use_clipped_linears": False})
    base.write_json("config.json", config)
    return config, processor


def build(config):
    model = build_small(config)
    model.set_experts_implementation("eager")  # computes in float64 too
    return model


def draw(model, seed):
    draw_small(model, seed)
    g = torch.Generator().manual_seed(seed + 2000)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if name.endswith("router.proj.weight"):
                p.copy_((1.5 * noise).to(torch.bfloat16).float())
            elif name.endswith(("router.scale", "router.per_expert_scale")):
                p.copy_((1 + 0.3 * noise).to(torch.bfloat16).float())


class Decoder(small.Decoder):
    def attention(self, h, layer, positions, kept, seen):
        at, full = f"layers.{layer}.self_attn.", TYPES[layer] == "full_attention"
        x = rms(h, self.weight(f"layers.{layer}.input_layernorm"))
        d, H = self.c["global_head_dim" if full else "head_dim"], self.c["num_attention_heads"]
        K = self.c["num_global_key_value_heads" if full else "num_key_value_heads"]
        q = rms((x @ self.weight(at + "q_proj").T).view(len(x), H, d), self.weight(at + "q_norm"))
        plain = (x @ self.weight(at + "k_proj").T).view(len(x), K, d)
        v = rms(plain if full else (x @ self.weight(at + "v_proj").T).view(len(x), K, d))
        k = rms(plain, self.weight(at + "k_norm"))
        seen["plain_q"], seen["plain_k"] = q, k
        far, block = positions[:, None] - positions[None, :], self.block[positions]
        same = (block[:, None] == block[None, :]) & (block[:, None] >= 0)
        hidden = self.hidden(far, same, full)
        k, v = (t.repeat_interleave(H // K, 1) for t in (small.rotate(k, positions, full), v))
        p = torch.einsum("qhd,khd->hqk", small.rotate(q, positions, full), k).masked_fill(hidden, -math.inf).softmax(-1)
        seen["probs"], seen["v"] = p, v
        return torch.einsum("hqk,khd->qhd", p, v).reshape(len(h), H * d) @ self.weight(at + "o_proj").T

    def hidden(self, far, same, full):
        """The keys that rows do not see; `same`: rows of one picture."""
        return far < 0 if full else ((far < 0) & ~same) | (far >= self.c["sliding_window"])

    def after_ffn(self, x, y, at):
        y = rms(y, self.weight(at + "post_feedforward_layernorm_1"))
        return rms(y + self.experts(x, at), self.weight(at + "post_feedforward_layernorm"))

    def experts(self, x, at):
        scale = self.w[small.TEXT + at + "router.scale"]
        scores = rms(x) * scale * x.shape[1]**-0.5 @ self.weight(at + "router.proj").T
        close = scores.topk(CHOSEN + 1).values
        if (close[:, CHOSEN - 1] - close[:, CHOSEN]).min() < 2e-4:
            raise base.Close("an expert's choice is close")
        p = scores.softmax(-1)
        best = p.topk(CHOSEN)
        share = torch.zeros_like(p).scatter(1, best.indices, best.values)
        share = share / share.sum(-1, keepdim=True) * self.w[small.TEXT + at + "router.per_expert_scale"]
        y, out = rms(x, self.weight(at + "pre_feedforward_layernorm_2")), torch.zeros_like(x)
        for e in range(EXPERTS):
            gate, up = (y @ self.w[small.TEXT + at + "experts.gate_up_proj"][e].T).chunk(2, -1)
            out += share[:, e:e + 1] * (gelu(gate) * up @ self.w[small.TEXT + at + "experts.down_proj"][e].T)
        return rms(out, self.weight(at + "post_feedforward_layernorm_2"))

    def run(self, prompt, prune=None, kept=None):
        ids, h = prompt
        picture = ids == 0
        first = picture & ~torch.cat([picture[:1] & False, picture[:-1]])
        self.block = torch.where(picture, first.long().cumsum(0) - 1, -1)
        positions, stream, info = torch.arange(len(h)), [h], {}
        for l in range(self.layers):
            at, seen = f"layers.{l}.", {}
            x = h + rms(self.attention(h, l, positions, None, seen), self.weight(at + "post_attention_layernorm"))
            y = rms(x, self.weight(at + "pre_feedforward_layernorm"))
            y = gelu(y @ self.weight(at + "mlp.gate_proj").T) * (y @ self.weight(at + "mlp.up_proj").T)
            y = x + self.after_ffn(x, y @ self.weight(at + "mlp.down_proj").T, at)
            if l == base.LAYER:
                info["ffn_in"], info["ffn_out"] = x, y
            h = y * self.w[small.TEXT + at + "layer_scalar"]
            stream.append(h)
            if prune and l == base.LAYER:
                visual, kind = prune
                if kept is None:
                    info["score"] = self.score(kind, seen, l)[visual]
                    kept = base.best(info["score"], kind)
                dropped = set(visual.tolist()) - {int(visual[i]) for i in kept}
                rows = torch.tensor([i for i in range(len(h)) if i not in dropped])
                h, positions = h[rows], positions[rows]
                info["kept"], info["rows"] = kept, rows
        info["h"] = stream if not prune else [h]
        cap = self.c["final_logit_softcapping"]
        return torch.tanh(rms(h, self.weight("norm")) @ self.weight("embed_tokens").T / cap) * cap, info


def add_training(golden, ref, exact):
    """Losses and gradients of all weights but the encoder's and the router's factors; experts by their own names."""
    named = [(n, p, q) for (n, p), q in zip(ref.model.named_parameters(), exact.parameters())
             if "vision_tower" not in n and not n.endswith("scale")]
    norms = [n for n, _, _ in named if n.endswith(("input_layernorm.weight", "post_attention_layernorm.weight"))]
    apart = norms + [n for n, _, _ in named if "embed_vision" in n or n.endswith("embed_tokens.weight")]
    total, total64, labelled = {}, {}, {}
    for which in "ab":
        losses = []
        for model in (ref.model, exact):
            model.zero_grad()
            loss, ids, labels, start = small.sample_loss(model, ref, f"train_{which}")
            loss.backward()
            losses.append(loss)
        labelled[which] = start
        golden.add(f"train.{which}.input_ids", ids)
        golden.add(f"train.{which}.labels", labels)
        golden.add(f"train.{which}.loss", losses[0][None], losses[1][None])
        for n, p, q in named:
            if n in norms or "embed_vision" in n or "layernorm_2" in n:
                golden.add(f"train.{which}.grad.{n}", p.grad, q.grad)
            for into, grad in ((total, p.grad), (total64, q.grad)):
                for name, part in base.parts(n, grad):
                    into[name] = into.get(name, 0) + part / 2
    golden.add("train.full.grad_norms", torch.stack([t.norm() for t in total.values()]),
               torch.stack([t.norm() for t in total64.values()]))
    return labelled, {"samples": ["train_a", "train_b"], "full_grad_norm_names": list(total),
                      "layernorm-simple_trainable": norms, "layernorm_trainable": apart}


def write_golden(ref, golden, *rest):  # ../gemma4 proves the pixels of another picture
    del golden.tensors["pix.tall"], golden.facts["pix.tall"]
    written(ref, golden, *rest)


write_small, build_small, draw_small, train_small = small.write_configs, small.build, small.draw, small.add_training
written, base.write_golden = base.write_golden, write_golden
for where in (small, base):
    where.build, where.draw, where.add_training = build, draw, add_training
small.Decoder = Decoder

if __name__ == "__main__":
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(HERE.parent / "gemma4" / name, HERE / name)
    small.HERE = base.HERE = HERE
    ids = small.write_tokenizer()
    base.search(write_configs(ids), family="gemma4", kind=small.Reference)

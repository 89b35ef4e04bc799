#!/usr/bin/env python3
"""Asks a model the questions of answers.json: its tokens must equal those of transformers. ask.py VLMSH MODEL"""
import json, os, subprocess, sys, tempfile

vlmsh, model = sys.argv[1:3]
wanted = json.load(open(os.path.join(os.path.dirname(__file__), "answers.json")))
lines = ["/set compute.matmul f32", "/set sample.max_tokens 40"]
for w in wanted:
    lines += ["/clear", w["question"]]
with tempfile.TemporaryDirectory() as folder:
    run = subprocess.run([vlmsh, "--db", f"{folder}/real.db", "--json", model], input="\n".join(lines), capture_output=True,
                         text=True)
events = [json.loads(line) for line in run.stdout.splitlines()]
answers = [e for e in events if e["event"] == "answer"]
problems = [e["message"] for e in events if e["event"] == "error"]
if len(answers) != len(wanted):
    problems.append(f"{len(answers)} answers to {len(wanted)} questions {run.stderr}")
for w, a in zip(wanted, answers):
    if a["ids"] != w["answer"]:
        problems.append(f"{w['question']}\n  vlmsh        {a['ids']} {a['text']!r}\n  transformers {w['answer']}")
    if a["prompt_tokens"] != len(w["prompt"]):
        problems.append(f"{w['question']}: {a['prompt_tokens']} prompt tokens, transformers has {len(w['prompt'])}")
print("\n".join(problems) or f"{len(answers)} of {len(wanted)} answers equal, {sum(len(w['answer']) for w in wanted)} tokens")
sys.exit(bool(problems))

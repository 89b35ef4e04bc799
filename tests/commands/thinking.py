"""Makes a model that reasons: thinking.py FOLDER, a copy of demo/model.

The token "," becomes "</think>", so that the list of a scene's things is a reasoning and an answer. The chat template
drops the reasoning of earlier turns, and opens one if its variable `thinking` is true.
"""
import json, sys

folder = sys.argv[1]
with open(folder + "/tokenizer.json") as f:
    tokenizer = json.load(f)
tokenizer["added_tokens"].append({"id": tokenizer["model"]["vocab"][","], "content": "</think>", "special": False,
                                  "single_word": False, "lstrip": False, "rstrip": False, "normalized": False})
with open(folder + "/tokenizer.json", "w") as f:
    json.dump(tokenizer, f)
with open(folder + "/chat_template.jinja") as f:
    template = f.read()
was = ("message['content'] + ' '", "{{ 'ASSISTANT:' }}")
assert all(w in template for w in was)
template = template.replace(was[0], "message['content'].split('</think>')[-1] + ' '")
template = template.replace(was[1], "{{ 'ASSISTANT:' }}{% if thinking %}{{ ' <think>\\n' }}{% endif %}")
with open(folder + "/chat_template.jinja", "w") as f:
    f.write(template)

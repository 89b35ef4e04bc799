"""checkup.py BREAKAGE MODEL OUT -- copies a model folder with one breakage (odd_file: none), for tests/commands/checkup.sh."""
import json, os, random, shutil, struct, sys


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        return header, bytearray(f.read())


def write(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + bytes(data))


class Model:
    def __init__(self, folder):
        self.folder = folder
        self.header, self.data = read(folder + "/model.safetensors")
        self.config = json.load(open(folder + "/config.json"))
        self.pictures = json.load(open(folder + "/preprocessor_config.json"))
        self.index = {}  # tensor: its file

    def save(self):
        if self.index:
            os.remove(self.folder + "/model.safetensors")
            json.dump({"weight_map": self.index}, open(self.folder + "/model.safetensors.index.json", "w"))
        else:
            write(self.folder + "/model.safetensors", self.header, self.data)
        json.dump(self.config, open(self.folder + "/config.json", "w"))
        json.dump(self.pictures, open(self.folder + "/preprocessor_config.json", "w"))

    def names(self, *parts): return [n for n in self.header if all(p in n for p in parts)]

    def span(self, name): return slice(*self.header[name]["data_offsets"])

    def swap(self, a, b):
        x, y = self.span(a), self.span(b)
        self.data[x], self.data[y] = self.data[y], self.data[x]


def nan(m):
    at = m.span("language_model.model.layers.3.mlp.up_proj.weight").start + 10
    m.data[at:at + 2] = b"\xc0\x7f"


def projector(m):
    random.seed(1)
    for name in m.names("multi_modal_projector", ".weight"):
        at, scale = m.span(name), m.header[name]["shape"][1] ** -0.5
        m.data[at] = b"".join(struct.pack("<f", random.gauss(0, scale))[2:] for _ in range((at.stop - at.start) // 2))


def layers(m):
    for name in m.names("language_model", ".layers.2."): m.swap(name, name.replace(".layers.2.", ".layers.5."))


def encoder(m):
    for name in m.names("vision", ".layers.1.", "q_proj"): m.swap(name, name.replace("q_proj", "k_proj"))


def heads(m, layer=7):
    """One key and value head for each query head, which changes nothing; then q and k of a layer exchanged."""
    header, data = {}, bytearray()
    for name in sorted(m.names("weight") + m.names("bias")):
        entry, part = dict(m.header[name]), bytes(m.data[m.span(name)])
        if name.startswith("language_model") and ("k_proj" in name or "v_proj" in name):
            size, count = len(part) // 3, entry["shape"][0]
            part = b"".join(part[i * size:(i + 1) * size] * 2 for i in range(3))
            entry["shape"] = [2 * count, *entry["shape"][1:]]
        entry["data_offsets"] = [len(data), len(data) + len(part)]
        data += part
        header[name] = entry
    m.header, m.data = header, data
    m.config["text_config"]["num_key_value_heads"] = 6
    q = m.names(f".layers.{layer}.self_attn.q_proj.weight", "language_model")[0]
    m.swap(q, q.replace("q_proj", "k_proj"))


def infinite(m):
    at = m.span("multi_modal_projector.linear_1.bias").start
    m.data[at:at + 2] = b"\x80\x7f"


def parts(m, layers="4567"):
    """Two files of weights: those of some layers, and the others."""
    later = [n for l in layers for n in m.names("language_model", f".layers.{l}.")]
    for number, names in enumerate([[n for n in m.header if n not in later and n != "__metadata__"], later], 1):
        header, data = {}, bytearray()
        for name in names:
            part = m.data[m.span(name)]
            header[name] = dict(m.header[name], data_offsets=[len(data), len(data) + len(part)])
            data += part
            m.index[name] = f"model-0000{number}-of-00002.safetensors"
        write(f"{m.folder}/model-0000{number}-of-00002.safetensors", header, data)
    m.header = None


def odd_file(m): parts(m, "1357")  # no damage: the order of layers in files is free


def swapped_files(m):
    parts(m)
    one, two = (f"{m.folder}/model-0000{n}-of-00002.safetensors" for n in (1, 2))
    os.rename(one, one + "x"), os.rename(two, one), os.rename(one + "x", two)


def swapped_contents(m):
    """The layers of the second file have the numbers of the first one's, and the reverse."""
    for l in range(4):
        for name in m.names("language_model", f".layers.{l}."): m.swap(name, name.replace(f".layers.{l}.", f".layers.{l + 4}."))
    parts(m)


def rotary(m): m.config["text_config"]["rope_theta"] = 5000.0


def means(m): m.pictures["image_mean"] = [0.9, 0.1, 0.5]


def template(m):
    path = m.folder + "/chat_template.jinja"
    text = open(path).read().replace("message['role'].upper() + ': '", "'<|im_start|>' + message['role'] + ' '")
    open(path, "w").write(text.replace("ASSISTANT:", "<|im_start|>assistant"))


def plain_template(m):
    """Llama 2's template, which has no tokens that the model's tokenizer lacks."""
    open(m.folder + "/chat_template.jinja", "w").write(
        "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}{% endif %}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
        "{{ '<image>\n' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endif %}"
        "{{ ' [/INST] ' if message['role'] == 'user' else '</s>' }}{% endfor %}")


breakage, model, out = sys.argv[1:]
shutil.copytree(model, out, ignore=shutil.ignore_patterns("methods"))
for name in os.listdir(out): os.chmod(os.path.join(out, name), 0o644)
m = Model(out)
globals()[breakage](m)
m.save()

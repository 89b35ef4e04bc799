"""Jobs for a screen that must not vary: rows and curves in a database of vlmsh, as if a training and an
evaluation were running. This process holds their locks until standard input ends.

    job_rows.py FILE.db
"""
import fcntl, json, math, os, sqlite3, sys, time

path = sys.argv[1]
db = sqlite3.connect(path)
now, locks = int(time.time()), []


def job(kind, arguments, settings, state, step, steps, loss, eta):
    row = (kind, json.dumps(arguments), json.dumps(settings), state, step, steps, loss, eta, now, now)
    number = db.execute("INSERT INTO jobs(kind, arguments, settings, state, step, steps, loss, eta, asked, created, folder,"
                        " model, fingerprint, device, runs) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '/tmp', 'model', '', 'cpu', 1)", row).lastrowid
    if state == "running":
        os.makedirs("%s.jobs/%d" % (path, number))
        locks.append(open("%s.jobs/%d/lock" % (path, number), "w"))
        fcntl.lockf(locks[-1], fcntl.LOCK_EX)
    return number


def series(number, name, steps, value):
    place = db.execute("INSERT INTO job_series(job, name) VALUES(?, ?)", (number, name)).lastrowid
    db.executemany("INSERT INTO metrics VALUES(?, ?, ?)", [(place, s, round(value(s), 3)) for s in steps])


def training(settings, state, step, loss, eta, speed):
    number = job("train", ["data/dense.json", "runs/" + settings["train.method"]], settings, state, step, 300, loss, eta)
    series(number, "loss", range(0, step + 1, 5), lambda s: loss + 0.65 * math.exp(-s / speed))
    series(number, "validation_loss", range(0, step + 1, 50), lambda s: loss + 0.05 + 0.6 * math.exp(-s / speed))
    series(number, "lr", range(0, step + 1, 5), lambda s: 1e-2 * (1 + math.cos(math.pi * s / 300)))
    series(number, "grad_norm", range(0, step + 1, 5), lambda s: 0.6 + 2 * math.exp(-s / 20))
    series(number, "tokens_per_s", range(0, step + 1, 5), lambda s: 1530)


job("calibrate", ["ffn", "data/dense.json", "ffn.safetensors"], {}, "failed", 3, 12, None, None)
training({"train.method": "lora"}, "done", 300, 0.31, 0, 60)
training({"train.method": "layernorm"}, "paused", 150, 0.29, None, 50)
training({"train.method": "layernorm", "norm.align": "on"}, "running", 190, 0.27, 240, 40)
job("eval", ["data/pope.json"], {"prune.score": "contribution"}, "running", 40, 100, None, 30)
job("train", ["data/dense.json", "runs/all"], {"train.method": "all"}, "running", None, None, None, None)
db.commit()
print("ready", flush=True)
sys.stdin.read()

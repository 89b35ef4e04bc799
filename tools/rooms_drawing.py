#!/usr/bin/env python3
"""tools/rooms_drawing.py [--check] -- draws docs/rooms.svg: the folders of the program and the rooms of core/, each with
its lines of code, and an arrow to each room whose headers it includes. Arrows implied by others are omitted, so paths
show what a room may reach. --check fails if the drawing's arrows do not match the sources."""
import glob, re, sys

OUT = "docs/rooms.svg"
BOX, LANE, HIGH, GAP_X, GAP_Y, MARGIN = 92, 6, 38, 16, 30, 16


def room_of(path):
    part = path.split("/")
    if part[0] != "core": return part[0]
    return part[1] if len(part) > 2 else "lists"


def sources():
    for folder in ("core", "kernels", "sessions", "commands", "tui"):
        for path in glob.glob(folder + "/**/*", recursive=True):
            if re.search(r"\.(c|h|cu|cuh)$", path): yield path


def read():
    lines, arrows = {}, {}
    for path in sources():
        room, text = room_of(path), open(path, errors="replace").read()
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        lines[room] = lines.get(room, 0) + sum(1 for l in code.split("\n") if l.strip() and not l.strip().startswith("//"))
        for other in re.findall(r'^\s*#\s*include\s+"((?:core|kernels|sessions|commands|tui)/[^"]+)"', text, re.M):
            if room_of(other) != room: arrows.setdefault(room, set()).add(room_of(other))
    return lines, arrows


def reach(arrows, room, seen=None):
    seen = set() if seen is None else seen
    for other in arrows.get(room, ()):
        if other not in seen:
            seen.add(other)
            reach(arrows, other, seen)
    return seen


def reduced(arrows):
    return {a: {b for b in bs if not any(b in reach(arrows, c) for c in bs if c != b)} for a, bs in arrows.items()}


def levels(lines, arrows):
    depth = {}
    def of(room):
        if room not in depth: depth[room] = 1 + max((of(r) for r in arrows.get(room, ())), default=-1)
        return depth[room]
    rows = {}
    for room in lines: rows.setdefault(of(room), []).append(room)
    return [sorted(rows[d]) for d in sorted(rows, reverse=True)]


def routed(rows, arrows):
    """Gives arrows over several rows a point in each row between; returns the pieces and each arrow's points."""
    row_of = {room: i for i, row in enumerate(rows) for room in row}
    pieces, routes = [], {}
    for a in sorted(arrows):
        for b in sorted(arrows[a]):
            points = [a] + [(a, b, i) for i in range(row_of[a] + 1, row_of[b])] + [b]
            for i, point in enumerate(points[1:-1], row_of[a] + 1): rows[i].append(point)
            pieces += zip(points, points[1:])
            routes[a, b] = points
    return pieces, routes


def ordered(rows, pieces):
    """Sorts each row by where its neighbours are, downwards and upwards in turn."""
    up, down = {}, {}
    for a, b in pieces:
        down.setdefault(a, []).append(b)
        up.setdefault(b, []).append(a)
    for turn in range(40):
        for i in range(len(rows)) if turn % 2 == 0 else reversed(range(len(rows))):
            other = i - 1 if turn % 2 == 0 else i + 1
            if not 0 <= other < len(rows): continue
            at = {n: (k + 0.5) / len(rows[other]) for k, n in enumerate(rows[other])}
            near = up if turn % 2 == 0 else down
            rows[i].sort(key=lambda n: sum(at[m] for m in near.get(n, ())) / len(near[n]) if near.get(n) else 0.5)


def width(node):
    return LANE if isinstance(node, tuple) else BOX


def main():
    lines, arrows = read()
    arrows = reduced(arrows)
    rows = levels(lines, arrows)
    pieces, routes = routed(rows, arrows)
    ordered(rows, pieces)
    widths = [sum(width(n) + GAP_X for n in row) - GAP_X for row in rows]
    wide = max(widths) + 2 * MARGIN
    place, y = {}, MARGIN
    for row, row_width in zip(rows, widths):
        x = (wide - row_width) / 2
        for node in row:
            place[node] = (x, y)
            x += width(node) + GAP_X
        y += HIGH + GAP_Y
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">' % (wide, y - GAP_Y + MARGIN),
           '<title>The rooms of vlmsh: each uses those that its arrows reach</title>',
           '<rect width="100%" height="100%" fill="#fff"/>',
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
           '<path d="M0,0L8,4L0,8z" fill="#678"/></marker></defs>']
    for points in routes.values():
        x, y0 = place[points[0]]
        path = "M%g,%g" % (x + BOX / 2, y0 + HIGH)
        for node in points[1:]:
            bx, by = place[node]
            ax, ay = x + BOX / 2 if node == points[1] else x + LANE / 2, y0 + HIGH
            bx += width(node) / 2
            path += "C%g,%g %g,%g %g,%g" % (ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by)
            if isinstance(node, tuple): path += "V%g" % (by + HIGH)
            x, y0 = place[node]
        out.append('<path d="%s" fill="none" stroke="#678" marker-end="url(#tip)"/>' % path)
    for room in sorted(lines):
        x, y = place[room]
        core = room not in ("tui", "commands", "sessions", "kernels")
        out.append('<rect x="%g" y="%g" width="%d" height="%d" rx="5" fill="%s" stroke="#345"/>' % (x, y, BOX, HIGH, "#eef4fb" if core else "#fbf1de"))
        out.append('<text x="%g" y="%g" text-anchor="middle">%s</text>' % (x + BOX / 2, y + 16, room + ("" if core else "/")))
        out.append('<text x="%g" y="%g" text-anchor="middle" font-size="10" fill="#567">%.1f k lines</text>' % (x + BOX / 2, y + 31, lines[room] / 1000))
    out.append("<!-- %s -->\n</svg>" % " ".join("%s>%s" % p for p in sorted(routes)))
    text = "\n".join(out) + "\n"
    if "--check" not in sys.argv:
        open(OUT, "w").write(text)
        return 0
    kept = re.search(r"<!-- (.*) -->", open(OUT).read())
    if kept and kept.group(1) == " ".join("%s>%s" % p for p in sorted(routes)): return 0
    print("the arrows of %s differ from those of the sources: run tools/rooms_drawing.py" % OUT)
    return 1


sys.exit(main())

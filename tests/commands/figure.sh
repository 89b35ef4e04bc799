# tests/commands/figure.sh -- figures of /plot and of measurements: the same data in PNG, SVG and PDF;
# the files' names; a machine without fonts.
. tests/commands/common.bash

cat >"$work/t.csv" <<'CSV'
name,x,y,low,high
"one & <two>",1,2,1,3
"one & <two>",2,5,4,6
"one & <two>",4,3,3,3.5
"one & <two>",8,7,6,9
CSV
for kind in png svg pdf; do
    lines "/plot $work/t.csv x y --by name --interval low,high --title \"Title & more\" --y \"share of <all>\" --log x --figure $work/t.$kind"
    check "$kind is written" 'select(.event == "notice").text' "plot written to '$work/t.$kind'"
done
# The curve's corners in the PDF are those of the SVG, and the PNG has the curve's colour there. All
# texts are in the SVG, which is well-formed.
python3 - "$work/t" <<'END' || fail "PNG, SVG and PDF differ"
import re, struct, sys, zlib
import xml.etree.ElementTree as xml

blue = (0x2b, 0x66, 0xb0)
def near(a, b): return len(a) == len(b) and all(abs(p - q) < 0.02 for s, t in zip(a, b) for p, q in zip(s, t))

svg = xml.parse(sys.argv[1] + ".svg").getroot()
texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
for text in ("one & <two>", "share of <all>", "Title & more", "x", "1", "2", "5"):
    if text not in texts: sys.exit("no text '%s' in %r" % (text, texts))
def colour_of(path):
    style = path.get("style", "") + ";stroke:" + path.get("stroke", "")
    found = re.search(r"stroke:\s*rgb\(([^)]*)\)", style)
    return tuple(round(float(v.strip(" %")) * 2.55) for v in found.group(1).split(",")) if found else None
curves = [p.get("d") for p in svg.iter("{http://www.w3.org/2000/svg}path") if colour_of(p) == blue]
corners = [tuple(map(float, p)) for p in re.findall(r"[ML] ([\d.]+) ([\d.]+)", curves[1])]  # after the legend
if len(corners) != 4: sys.exit("corners: %r" % corners)
bars = re.findall(r"[ML] ([\d.]+) ([\d.]+)", curves[2])
if len(bars) != 4 * 6: sys.exit("error bars: %d strokes" % len(bars))

pdf = open(sys.argv[1] + ".pdf", "rb").read()
found = []
for m in re.finditer(rb"stream\r?\n(.*?)endstream", pdf, re.S):
    try: page = zlib.decompress(m.group(1)).decode("latin-1")
    except zlib.error: continue
    for path in re.findall(r"RG[^S]*?((?:[\d.]+ [\d.]+ [ml]\s+)+)S", page):
        found.append([tuple(map(float, p)) for p in re.findall(r"([\d.]+) ([\d.]+) [ml]", path)])
flipped = [(x, 300 - y) for x, y in corners]
if not any(near(f, corners) or near(f, flipped) for f in found): sys.exit("not in the PDF: %r of %r" % (corners, found))

png = open(sys.argv[1] + ".png", "rb").read()
width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
data, at = b"", 8
while at < len(png):
    size, name = struct.unpack(">I4s", png[at:at + 8])
    if name == b"IDAT": data += png[at + 8:at + 8 + size]
    at += size + 12
if (width, height, depth, kind) != (960, 600, 8, 2): sys.exit("PNG: %r" % ((width, height, depth, kind),))
raw, rows, before, wide = zlib.decompress(data), [], bytes(width * 3), width * 3
for y in range(height):
    how, line = raw[y * (wide + 1)], bytearray(raw[y * (wide + 1) + 1:(y + 1) * (wide + 1)])
    for i in range(wide):
        a, b, c = line[i - 3] if i >= 3 else 0, before[i], before[i - 3] if i >= 3 else 0
        paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[how]) & 255
    rows.append(line); before = line
for x, y in corners:
    got = tuple(rows[round(y * 2)][round(x * 2) * 3:round(x * 2) * 3 + 3])
    if got != blue: sys.exit("PNG at %r: %r" % ((x, y), got))
END

# A figure that cannot be drawn is refused before anything is measured.
ask=("/load $llava" '/set sample.max_tokens 4' "/image $scene" 'What is this?')
lines "${ask[@]}" "/norms --figure $work/n.jpg" "/plot $work/t.csv x y --figure $work/none" "/norms --png $work/old.png"
check "errors of file name endings" 'select(.event == "error").message' \
    "cannot draw '$work/n.jpg': a figure's name must end in .png, .svg or .pdf
cannot draw '$work/none': a figure's name must end in .png, .svg or .pdf"
[ -s "$work/old.png" ] || fail "--png, the old name of --figure, writes nothing"

# If one command writes several files, no word occurs twice in their names.
lines "${ask[@]}" "/norms --figure $work/norms.svg --csv $work/norms.csv" "/sinks --figure $work/deep_sinks.pdf" \
    "/attention --layer all --figure $work/attention.png" "/contribution --figure $work/c.svg"
same "names of the written figures" "$(cd "$work" && ls norms* deep* attention* c.* c-* | tr '\n' ' ')" \
    "attention-curves.png attention.png attention.rows.png c-contribution.svg c.svg deep_sinks.pdf deep_sinks.tokens.pdf norms.alignment.csv norms.alignment.svg norms.attention.csv norms.attention.svg norms.cosines.csv norms.cosines.svg norms.interface.csv norms.layers.csv norms.steps.csv norms.steps.svg norms.svg norms.theory.csv norms.turns.csv norms.turns.svg "
lines "${ask[@]}" "/sinks --figure $work/deep_sinks.svg"
for text in 'C (attention contribution)' 'phi (largest normalised value in the sink dimensions)' 'text tokens' 'visual tokens'; do
    grep -qF ">$text</text>" "$work/deep_sinks.tokens.svg" || fail "the points of /sinks have no '$text'"
done
for text in 'L2 norm, mean ± std' visual layer; do
    grep -qF ">$text</text>" "$work/norms.svg" || fail "norms.svg has no label '$text'"
done
vlmsh demo/model -c "/image demo/pictures/scene-1.png" -c "What is it?" -c "/dice --layer 1 --box 10,10,40,40 --figure $work/dice.svg" >/dev/null 2>&1
grep -qF '>share of attention</text>' "$work/dice.svg" || fail "the colour bar of /dice has no unit"
grep -qF '>attention contribution</text>' "$work/c.svg" || fail "the colour bar has no unit"
same "ends of the colour bar" "$(grep -o '>[^<]*</text>' "$work/c.svg" | grep -c -E '>[0-9.e+-]+<')" 2
# Two samples without a score give no points.
for i in 1 2; do
    echo '{"image": "'"$PWD/$scene"'", "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A star."}]}'
done >"$work/two.jsonl"
lines "/load $llava" "/curvature --data $work/two.jsonl --figure $work/two.svg"
same "samples without a score" "$(cd "$work" && ls two*.svg)" two.svg

# Figures that cannot be drawn are refused, and a notice counts points left out by a logarithmic axis.
printf 'x,y\n1,0\n2,3\n3,4\n' >"$work/zero.csv"
printf 'x,y\n1,nan\n2,\n' >"$work/none.csv"
printf 'x,y\n1,0\n2,-1\n' >"$work/below.csv"
lines "/plot $work/zero.csv x y --figure $work/all.png" "/plot $work/zero.csv x y --log y --figure $work/log.png" \
    "/plot $work/none.csv x y --figure $work/none.png" "/plot $work/below.csv x y --log y --figure $work/none.png"
check "which are drawn" 'select(.event == "done").ok' $'true\ntrue\nfalse\nfalse'
check "points left out" 'select(.event == "notice").text' "plot written to '$work/all.png'
1 point left out: a logarithmic axis shows only values above 0
plot written to '$work/log.png'"
check "why the others are not drawn" 'select(.event == "error").message' "nothing to draw: no point has finite numbers
nothing to draw: a logarithmic axis shows only values above 0, and all are 0 or below; plot without --log"
[ ! -e "$work/none.png" ] || fail "an empty figure was written"

# A font that is not installed is replaced by another, with one notice per missing font.
lines "/plot $work/t.csv x y --figure $work/font.png" '/set plot.font sans-serif' "/plot $work/t.csv x y --figure $work/font.png" \
    '/set plot.font Nosuch Grotesk' "/plot $work/t.csv x y --figure $work/font.png" "/plot $work/t.csv x y --figure $work/font.svg" \
    "/set plot.font $work/none.ttf" "/plot $work/t.csv x y --figure $work/font.png"
check "another font" 'select(.event == "notice").text | select(contains("font named")) | sub("use .*;"; "use X;")' \
    "no font named 'Nosuch Grotesk' is installed: figures use X; plot.font takes a name that fc-list : family shows
no font named '$work/none.ttf' is installed: figures use X; plot.font takes a name, not a file (fc-list : family shows them)"

# Without any font, text is drawn in strokes, with one notice.
printf '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig></fontconfig>\n' >"$work/fonts.conf"
FONTCONFIG_FILE=$work/fonts.conf lines "/plot $work/t.csv x y --figure $work/bare.png" "/plot $work/t.csv x y --figure $work/bare.pdf"
check "notices without fonts" 'select(.event == "notice").text' "plot written to '$work/bare.png'
this machine has no fonts: letters of PNG and PDF figures are plain strokes (Debian, Ubuntu: apt-get install fonts-dejavu-core)
plot written to '$work/bare.pdf'"
same "figures without fonts" "$(head -c 4 "$work/bare.png" | tail -c 3)$(head -c 4 "$work/bare.pdf")" PNG%PDF
finish

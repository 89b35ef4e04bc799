# demo/seeing/places.awk -- compares lists of the objects at each place, as /ask wrote them, with
# the scenes, and prints shares with 95% intervals (Wilson) as CSV rows. Colour, size and shape are
# counted at places where both the scene and the list have an object; a place that a list omits
# counts as empty. A character's identity ("letter K") is not counted, only that it is a letter.
#
#   awk -v run=see -f demo/seeing/places.awk /var/tmp/seeing/places-see.jsonl

function field(name,    from, text) {
    from = index($0, "\"" name "\":\"")
    if (!from)
        return ""
    text = substr($0, from + length(name) + 4)
    return substr(text, 1, index(text, "\"") - 1)
}

# Fills into[place] with the words after "place: ".
function read_list(text, into,    parts, count, i, colon) {
    delete into
    count = split(text, parts, "; *")
    for (i = 1; i <= count; i++)
        if (colon = index(parts[i], ": "))
            into[substr(parts[i], 1, colon - 1)] = substr(parts[i], colon + 2)
}

function row(what, right, n,    share, middle, half) {
    if (!n)
        return
    share = right / n
    middle = (share + 1.9208 / n) / (1 + 3.8416 / n)
    half = 1.96 * sqrt(share * (1 - share) / n + 0.9604 / (n * n)) / (1 + 3.8416 / n)
    printf "%s,%s,%.4g,%.4g,%.4g,%d\n", run, what, share, middle - half, middle + half, n
}

{
    read_list(field("reference"), scene)
    read_list(field("answer"), list)
    for (place in scene) {
        empty = scene[place] == "nothing"
        said = place in list && list[place] != "nothing"
        if (empty) {
            empties++
            left += !said
            continue
        }
        things++
        if (!said)
            continue
        found++
        split(scene[place], real, " ")
        split(list[place], told, " ")
        size += real[1] == told[1]
        colour += real[2] == told[2]
        shape += real[3] == told[3]
    }
}

END {
    row("things found", found, things)
    row("empty places left empty", left, empties)
    row("size", size, found)
    row("colour", colour, found)
    row("shape", shape, found)
}

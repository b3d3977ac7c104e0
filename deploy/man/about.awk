# A help text: lines of usage, "  --option VALUE  meaning" with meanings that continue below, paragraphs. A list of keys at the
# end is left out.
/^Keys of an experiment/ || /^[a-z][a-z_.]* = / { exit }
/^usage: / || (!started && /^p2pml /) { sub(/^usage: /, ""); usage = 1; started = 1; print ".nf\n.B " roff($0); next }
usage && /^ / { print ".B " roff($0); next }
usage { print ".fi"; usage = 0 }
/^$/ { gap = 1; next }
/^  [^ ]/ {
    text = substr($0, 3)
    at = match(text, /  +[^ ]/)
    if (!at) at = match(text, / [a-z]/) # one blank only, if the option is as long as the column
    term = at ? substr(text, 1, at - 1) : text
    rest = at ? substr(text, at) : ""
    sub(/^ +/, "", rest)
    print ".TP\n.B " roff(term)
    print rest == "" ? "\\&" : roff(rest)
    gap = 0
    tagged = 1
    next
}
/^   / { # continued; a table inside keeps its lines
    sub(/^ +/, "")
    if (/[^ ]  +[^ ]/) print ".br"
    print roff($0)
    next
}
{
    if (gap || tagged || /^Exit status:/) print ".PP"
    gap = tagged = 0
    print roff($0)
}
END { if (usage) print ".fi" }

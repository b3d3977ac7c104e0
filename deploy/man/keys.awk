# The keys of --help, without those of the first file.
/^[a-z][a-z_.]* = / {
    name = $1
    value = substr($0, length(name) + 4)
    shown = FILENAME != ARGV[1] && !(name in known)
    if (FILENAME == ARGV[1]) known[name]
    if (!shown) next
    section = name
    if (!sub(/\..*/, "", section)) section = name
    if (section != last) print ".SS " roff(section)
    last = section
    print ".TP\n.BR " roff(name) " \" = " (value == "\"\"" ? "\\(dq\\(dq" : roff(value)) "\""
    next
}
/^    / && shown { sub(/^ +/, ""); print roff($0); next }
{ shown = 0 }

# Reads the public header, and names each exported function whose comment lacks a fact: since when it is there, what it
# answers, what threads may do, whether it blocks, and who owns what it takes or gives. A comment has a fact if it says
# it; errors, blocking and ownership also if it says "as" another function that has them, or if its section's comment does.
# What threads may do is said for all functions at the head of the file too, and the unit of sizes only there.

function own(comment, prototype, section,    found)
{
    found = ""
    if (comment ~ /@since [0-9]+\.[0-9]+/)
        found = found " since"
    if (comment ~ /Threads: /)
        found = found " threads"
    if (comment ~ /@return/ || section ~ /They return|fail only/ || comment ~ /Never fails|ignored/ ||
        prototype ~ /^SYNCED_MEM_API void synced/)
        found = found " errors"
    if ((comment " " section) ~ /[Bb]lock|waits? (on the host|for)|Atomic/)
        found = found " blocking"
    if ((comment " " section) ~ /[Oo]wn|belong|[Bb]orrow|during the call|constant string|[Ff]ills/ ||
        prototype !~ /\*\*|void \*|char \*|handler|_stats \*|const synced_mem_(options|allocator|staging) \*/)
        found = found " ownership"
    return found
}

/^\/\* ---- / { section = ""; at_start = 1; next }
at_start && /^$/ { next }
at_start && /^\/\*( |$)/ { in_section = 1 }
{ at_start = 0 }
in_section { section = section " " $0; if (/\*\//) in_section = 0; next }

/^\/\*\*/ { comment = ""; in_comment = 1 }
in_comment {
    line = $0
    sub(/^ \* */, "", line)
    comment = comment " " line
    if (/\*\//)
        in_comment = 0
    if (comment ~ /@file/)
        head = comment
    next
}

/^SYNCED_MEM_API / { prototype = ""; in_prototype = 1 }
in_prototype { prototype = prototype " " $0 }
in_prototype && /;/ {
    in_prototype = 0
    sub(/^ /, "", prototype)
    name = prototype
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    facts[name] = own(comment, prototype, section)
    rest = comment
    while (match(rest, /([Aa]s|mirror of|ownership of|just like) synced_mem_[a-z_]+\(\)/)) {
        reference = substr(rest, RSTART, RLENGTH - 2)
        sub(/.* /, "", reference)
        as[name] = as[name] " " reference
        rest = substr(rest, RSTART + RLENGTH)
    }
    # "as X() ..., for Y()" is as both.
    while (match(rest, /for synced_mem_[a-z_]+\(\)/)) {
        as[name] = as[name] " " substr(rest, RSTART + 4, RLENGTH - 6)
        rest = substr(rest, RSTART + RLENGTH)
    }
    order[++count] = name
    comment = ""
}

function has(name, fact, depth,    list, n, i)
{
    if (index(facts[name], " " fact))
        return 1
    if (depth == 0 || fact == "since" || fact == "threads")
        return 0
    n = split(as[name], list, " ")
    for (i = 1; i <= n; i++)
        if (has(list[i], fact, depth - 1))
            return 1
    return 0
}

END {
    if (head !~ /Any thread may call any function/ || head !~ /Sizes and capacities are in bytes/) {
        print "the head of the file does not say what threads may call, and the unit of sizes"
        lacking = 1
    }
    wanting = split("since threads errors blocking ownership", wanted, " ")
    for (i = 1; i <= count; i++)
        for (j = 1; j <= wanting; j++)
            if (!has(order[i], wanted[j], 5)) {
                print order[i] "() lacks: " wanted[j]
                lacking = 1
            }
    print count " functions looked at"
    exit lacking || count == 0
}

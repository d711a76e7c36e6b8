# Reads the public headers, and names each exported function whose comment lacks a fact. Each comment has the effect,
# the first version, and the return unless the function returns a status or nothing: behind "@return ", or in an effect
# that begins with "Returns ". The head of the first header has the defaults of the other facts: blocking, ownership,
# threads, errors. A comment states only exceptions from them, each behind its word ("Blocking: ", "Ownership: ",
# "Threads: ", "Errors: "), once, in this order. Each function that a comment names must exist.

# Notes the facts of a function's comment.
function note(function_name, comment, prototype,    rest, label, fact)
{
    if (comment !~ /^ *[A-Za-z]/ || comment ~ /^ *(Blocking|Ownership|Threads|Errors): /)
        bad(function_name "() lacks: effect")
    if (comment !~ /@return [^ ]/ && comment !~ /^ *Returns [^ ]/ &&
        prototype !~ /^SYNCED_MEM_API (void|synced_mem_status) synced/)
        bad(function_name "() lacks: return")
    if (comment !~ /@since [0-9]+\.[0-9]+ *$/)
        bad(function_name "() lacks: since")
    rest = comment
    while (match(rest, /(^|[.;)] )(Blocking|Ownership|Threads|Errors): |@return /)) {
        label = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/^[.;)] /, "", label)
        if (rank[label] <= seen[function_name])
            bad(function_name "() is out of order: " label)
        seen[function_name] = rank[label]
        fact = rest
        sub(/[.] .*/, "", fact)
        if (label != "@return " && fact ~ /^(never|none|safe)$/)
            bad(function_name "() repeats a default: " label)
    }
}

function bad(text)
{
    print text
    lacking = 1
}

BEGIN {
    rank["@return "] = 1
    rank["Blocking: "] = 2
    rank["Ownership: "] = 3
    rank["Threads: "] = 4
    rank["Errors: "] = 5
}
{ all = all " " $0 }
/^\/\*\*/ { comment = ""; in_comment = 1 }
in_comment {
    line = $0
    sub(/^\/\*\* */, "", line)
    sub(/^ \*\/?( |$)/, "", line)
    ended = sub(/ *\*\/$/, "", line) || /\*\/$/
    # A word at the begin of a line ends the sentence before it.
    if (line ~ /^(Blocking|Ownership|Threads|Errors): / && comment !~ /[.;)] *$/)
        comment = comment "."
    comment = comment (comment == "" ? "" : " ") line
    if (ended)
        in_comment = 0
    if (comment ~ /@file/)
        head = head comment
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
    note(name, comment, prototype)
    count++
    declared[name] = 1
    comment = ""
}

END {
    if (head !~ /- Threads\. Any thread may call any function/ || head !~ /Sizes and capacities are in bytes/ ||
        head !~ /- Blocking\. / || head !~ /- Ownership\. / || head !~ /- Errors\. / || head !~ /- "GPU errors"/)
        bad("the head of the first file lacks a default: threads, blocking, ownership, errors, or the unit of sizes")
    while (match(all, /synced_mem_[a-z_]+\(\)/)) {
        name = substr(all, RSTART, RLENGTH - 2)
        if (!(name in declared))
            bad(name "() is named and not declared")
        all = substr(all, RSTART + RLENGTH)
    }
    print count " functions read"
    exit lacking || count == 0
}

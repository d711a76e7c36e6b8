# Reads the public headers, and names each exported function whose comment lacks a fact. The facts are effect, return,
# blocking, ownership, threads, errors, and the first version. They come in this order, each behind its word ("Blocking:
# ", "Ownership: ", "Threads: ", "Errors: "; "Blocking, ownership: " is both). A fact may refer to another function ("as
# NAME()"), if that function states it. Each function that a comment names must exist. Only the head of the first
# header explains the common words and the unit of sizes.

# Stores the facts of a function's comment in facts[function, fact], and their positions in place, for their order.
function note(function_name, comment, prototype,    rest, words, n, i, label, fact, at, offset)
{
    if (comment !~ /^ *[A-Za-z]/ || comment ~ /^ *(Blocking|Ownership|Threads|Errors)[:,] /)
        bad(function_name "() lacks: effect")
    if (match(comment, /@return [^ ]/)) {
        facts[function_name, "return"] = "stated"
        place[function_name, "return"] = RSTART
    } else if (prototype ~ /^SYNCED_MEM_API (void|synced_mem_status) synced/)
        facts[function_name, "return"] = "by its type" # a status is one of the errors
    if (match(comment, /@since [0-9]+\.[0-9]+/)) {
        facts[function_name, "since"] = "stated"
        place[function_name, "since"] = RSTART
    }
    rest = comment
    offset = 0
    while (match(rest, /(Blocking|Ownership|Threads|Errors)(, (ownership|threads|errors))*: /)) {
        at = offset + RSTART
        label = tolower(substr(rest, RSTART, RLENGTH - 2))
        offset += RSTART + RLENGTH - 1
        rest = substr(rest, RSTART + RLENGTH)
        fact = rest
        sub(/ *(Blocking|Ownership|Threads|Errors)(, (ownership|threads|errors))*: .*/, "", fact)
        sub(/ *@since.*/, "", fact)
        n = split(label, words, ", ")
        for (i = 1; i <= n; i++) {
            facts[function_name, words[i]] = fact
            place[function_name, words[i]] = at + i / 10
        }
    }
}

function bad(text)
{
    print text
    lacking = 1
}

# Returns whether the function states the fact, itself or by reference to others.
function states(function_name, fact, depth,    text, other)
{
    text = facts[function_name, fact]
    if (text == "" || depth == 0)
        return 0
    if (!match(text, /^as synced_mem_[a-z_]+\(\)/))
        return 1
    other = substr(text, RSTART + 3, RLENGTH - 5)
    return states(other, fact, depth - 1)
}

{ all = all " " $0 }
/^\/\*\*/ { comment = ""; in_comment = 1 }
in_comment {
    line = $0
    sub(/^\/\*\* */, "", line)
    sub(/^ \*\/?( |$)/, "", line)
    ended = sub(/ *\*\/$/, "", line) || /\*\/$/
    comment = comment " " line
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
    order[++count] = name
    declared[name] = 1
    comment = ""
}

END {
    if (head !~ /Any thread may call any function/ || head !~ /Sizes and capacities are in bytes/ ||
        head !~ /- Blocking\. / || head !~ /- Ownership\. / || head !~ /- Errors\. / || head !~ /- "GPU errors"/)
        bad("the head of the file does not explain the words, what threads may call, and the unit of sizes")
    wanting = split("return blocking ownership threads errors since", wanted, " ")
    for (i = 1; i <= count; i++) {
        before = 0
        for (j = 1; j <= wanting; j++) {
            if (!states(order[i], wanted[j], 5))
                bad(order[i] "() lacks: " wanted[j])
            at = place[order[i], wanted[j]]
            if (at && at < before)
                bad(order[i] "() is out of order: " wanted[j])
            before = at ? at : before
        }
    }
    while (match(all, /synced_mem_[a-z_]+\(\)/)) {
        name = substr(all, RSTART, RLENGTH - 2)
        if (!(name in declared))
            bad(name "() is named and not declared")
        all = substr(all, RSTART + RLENGTH)
    }
    print count " functions read"
    exit lacking || count == 0
}

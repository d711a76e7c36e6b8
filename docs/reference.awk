# Converts the public header to Doxygen's input:
# - a section ("/* ---- Title ---- */") becomes a group; a plain comment after it becomes the group's description;
# - the facts of a comment that begin with one of the words below become paragraphs with this title; those of a section
#   are repeated in the description of each of its functions that can fail, with a link to the section;
# - the list of statuses becomes one documented enumerator each;
# - the defaults of all functions get an anchor, and the member struct_size its description.

function end_group(    label)
{
    if (group != "")
        print "/** @} */"
    group = ""
    has_text = 0
    for (label in shared)
        delete shared[label]
}

/^#endif/ || /^#ifdef __cplusplus/ { end_group() }

/SYNCED_MEM_STATUS_MAP\(X\)/ {
    has_comment = 0 # it is not the status's
    in_map = 1
    next
}
in_map {
    in_map = /\\$/
    if (match($0, /"[^"]*"/))
        message = substr($0, RSTART + 1, RLENGTH - 2)
    split($0, field, /[(,] */)
    enumerators = enumerators "SYNCED_MEM_" field[3] " = " field[2] ", /**< " message " */\n"
    next
}
/STATUS_ENUM\)$/ { printf "%s", enumerators; next }
/STATUS_ENUM/ { next }

/^\/\* ---- .* ---- \*\/$/ {
    end_group()
    title = $0
    gsub(/^[^-]*---- | ----[^-]*$/, "", title)
    group = tolower(title)
    gsub(/[^a-z]+/, "_", group)
    print "/** @defgroup " group " " title
    at_start = 1
    next
}

# The comment of a section. Indented lines with columns are a table.
at_start && /^$/ { print; next }
at_start {
    in_plain = sub(/^\/\*( |$)/, " * ")
    if (!in_plain)
        print " * @{ */"
    at_start = 0
    fact = ""
}
in_plain {
    columns = /^ \*   .*[^ ]  +[^ ]/
    if (columns != in_table)
        print columns ? " * @verbatim" : "@endverbatim" # in it an asterisk would be shown
    in_table = columns
    if (in_table) {
        print substr($0, 3)
        next
    }
    has_text = 1
    ended = sub(/ *\*\/$/, "")
    note_shared_fact($0)
    if ($0 != "")
        paragraphs($0)
    if (ended) {
        print " * @{ */"
        in_plain = 0
    }
    next
}

# Notes a line of a fact that all functions of the section share.
function note_shared_fact(line)
{
    if (match(line, /^ \* (Blocking|Ownership|Threads|Errors): /)) {
        fact = substr(line, 4, RLENGTH - 5)
        shared[fact] = ""
    } else if (line ~ /^ ?\*? *$/)
        fact = ""
    if (fact != "") {
        sub(/^ \* ([A-Z][a-z]+: )?/, "", line)
        shared[fact] = shared[fact] " * " line "\n"
    }
}

# The facts of a function: several may be on a line.
function paragraphs(line,    label, at)
{
    label = "(Blocking|Ownership|Threads|Errors|Source): "
    sub(/:$/, ": ", line) # a word may end the line
    while (match(line, "[.;] " label) || match(line, "[^ *] @since ")) {
        at = RSTART # which paragraph() changes
        paragraph(substr(line, 1, at))
        line = " * " substr(line, at + 2)
    }
    paragraph(line)
}

function paragraph(line,    label)
{
    label = "(Blocking|Ownership|Threads|Errors|Source): "
    if (match(line, "^ \\* " label)) {
        print " * @par " substr(line, 4, RLENGTH - 5)
        if (length(line) > RLENGTH)
            print " * " substr(line, RLENGTH + 1)
    } else {
        if (line ~ /^ \* @since / && can_fail)
            print_shared_facts()
        if (line ~ /^ \* The defaults, /)
            print " * @anchor defaults"
        print line
    }
}

# The facts of the section, in the order of those of a function, and where the defaults are.
function print_shared_facts(    i, labels)
{
    split("Blocking Ownership Threads Errors", labels)
    for (i = 1; i <= 4; i++)
        if (labels[i] in shared)
            printf " * @par %s: all functions of this section\n%s", labels[i], shared[labels[i]]
    print " * @see " (has_text ? "@ref " group " \"the introduction of this section\", and " : "") \
        "@ref defaults \"the defaults of all functions\""
}

# A comment waits for the line after it, which tells what it describes.
/^\/\*\*/ {
    count = 0
    in_comment = 1
}
in_comment {
    line = $0
    ended = sub(/ *\*\/$/, "", line)
    sub(/^\/\*\*/, " *", line)
    comment[++count] = line
    if (ended) {
        in_comment = 0
        has_comment = 1
    }
    next
}
has_comment {
    has_comment = 0
    can_fail = /^SYNCED_MEM_API (synced_mem_status|(const )?void \*)/ && group != "" && group != "errors"
    print "/**"
    for (i = 1; i <= count; i++)
        paragraphs(comment[i])
    print " */"
}
/^    size_t struct_size;$/ { $0 = $0 " /**< the size of this struct */" }
{ print }
END { end_group() }

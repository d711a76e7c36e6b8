# Converts the public header to Doxygen's input:
# - a section ("/* ---- Title ---- */") becomes a group; a plain comment after it becomes the group's description;
# - the facts of a comment that begin with one of the words below become paragraphs with this title;
# - the list of statuses becomes one documented enumerator each.

function end_group()
{
    if (group != "")
        print "/** @} */"
    group = ""
}

/SYNCED_MEM_STATUS_MAP\(X\)/ { in_map = 1; next }
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
/^#endif/ || /^#ifdef __cplusplus/ { end_group() }

# The comment of a section. Indented lines with columns are a table.
at_start && /^$/ { print; next }
at_start {
    in_plain = /^\/\*( |$)/
    sub(/^\/\*( |$)/, " * ")
    if (!in_plain)
        print " * @{ */"
    at_start = 0
}
in_plain {
    columns = /^ \*   .*[^ ]  +[^ ]/
    if (columns != in_table)
        print columns ? " * @verbatim" : "@endverbatim" # in it an asterisk would be shown
    in_table = columns
    if (sub(/ *\*\/$/, "")) {
        in_plain = 0
        $0 = $0 "\n * @{ */"
    }
}
in_table { sub(/^ \*/, "") }

# The facts of a function: several may be on a line, and the last may end the comment.
function paragraphs(line,    label, at)
{
    label = "(Blocking|Ownership|Threads|Errors): "
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
    label = "(Blocking|Ownership|Threads|Errors|Source|Unified placement): "
    if (match(line, "^ \\* " label)) {
        print " * @par " substr(line, 4, RLENGTH - 5)
        if (length(line) > RLENGTH)
            print " * " substr(line, RLENGTH + 1)
    } else
        print line
}

/^ \* / { paragraphs($0); next }
{ print }
END { end_group() }

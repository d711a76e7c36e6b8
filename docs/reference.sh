#!/bin/sh
# reference.sh DOXYGEN DOXYFILE FOLDER: makes the reference in FOLDER/html. A warning is a failure.
set -eu
mkdir -p "$3"
{
    cat "$2"
    echo "OUTPUT_DIRECTORY = \"$3\""
} | "$1" -
test -s "$3/html/index.html"

# Doxygen prints the heading of a section's description also if there is none.
for page in "$3"/html/group__*.html; do
    awk '/^<a name="details".*<h2/ { heading = $0; next }
        heading != "" { if ($0 !~ /^<h2/) print heading; heading = "" }
        { print }' "$page" >"$3/page"
    mv "$3/page" "$page"
done

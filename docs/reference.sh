#!/bin/sh
# reference.sh DOXYGEN DOXYFILE FOLDER: makes the reference in FOLDER/html. A warning is a failure.
set -eu
mkdir -p "$3"
{
    cat "$2"
    echo "OUTPUT_DIRECTORY = \"$3\""
} | "$1" -
test -s "$3/html/index.html"

#!/bin/sh
# package.sh STAMP FILE...: puts the files of the package into a folder beside the stamp, as an installation does.
set -eu
stamp=$1
shift
folder=$(dirname "$stamp")/package/synced_mem
mkdir -p "$folder"
for file in "$@"; do
    cp "$file" "$folder/"
done
touch "$stamp"

# shellcheck shell=sh
# Sourced by the test scripts. Makes a temporary folder, $dir, which is removed when the script ends.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

logged() { # COMMAND...: prints the command's output only if it fails
    "$@" >"$dir/log" 2>&1 || {
        cat "$dir/log"
        echo "failed: $*"
        exit 1
    }
}

# A declaration is "SYNCED_MEM_API type name(", with the name at the first bracket.
declared() { # HEADER...: writes the names of their functions to $dir/declared; fails if there are none
    sed -n 's/^SYNCED_MEM_API [^(]*[ *]\(synced_mem_[a-z_]*\)(.*/\1/p' "$@" | sort -u >"$dir/declared"
    test -s "$dir/declared"
}

# shellcheck shell=sh
# Sourced by the scripts that are tests: a folder of the script's own, $dir, which goes when it ends.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

logged() { # COMMAND...: shows what it printed only if it fails
    "$@" >"$dir/log" 2>&1 || {
        cat "$dir/log"
        echo "failed: $*"
        exit 1
    }
}

# A declaration is "SYNCED_MEM_API type name(", with the name at the first bracket.
declared() { # HEADER: the names of its functions, of which there are some, to $dir/declared
    sed -n 's/^SYNCED_MEM_API [^(]*[ *]\(synced_mem_[a-z_]*\)(.*/\1/p' "$1" | sort -u >"$dir/declared"
    test -s "$dir/declared"
}

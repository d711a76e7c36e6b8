#!/bin/sh
# symbols.sh NM HEADER... -- LIBRARY...: checks that each library exports all functions of the headers, and no other
# symbols.
set -eu
nm=$1
shift
# shellcheck source=test/kit/kit.sh
. "$(dirname "$0")/../kit/kit.sh"

cat /dev/null >"$dir/headers"
while [ "$1" != -- ]; do
    cat "$1" >>"$dir/headers"
    shift
done
shift
declared "$dir/headers"
for library in "$@"; do
    case $library in
    *.a) options='-g --defined-only' ;;
    *) options='-D --defined-only' ;;
    esac
    # Ignores versions of symbols and the linker's own symbols.
    "$nm" $options "$library" | awk 'NF == 3 && $2 != "A" { print $3 }' | sed 's/@.*//' |
        grep -vxE '_init|_fini|_edata|_end|__bss_start|__(a|t|ub|l)san_.*|__odr_asan.*|__gcov_.*|__start_.*|__stop_.*' |
        sort -u >"$dir/defined"
    if ! diff "$dir/declared" "$dir/defined"; then
        echo "$library: '<' is declared and not exported, '>' is exported and not declared"
        exit 1
    fi
    echo "$library: $(wc -l <"$dir/defined") symbols, all declared"
done

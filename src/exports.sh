#!/bin/sh
# exports.sh HEADER...: prints the definition file of a DLL that has the functions of these headers. A declaration is
# "SYNCED_MEM_API type name(", with the name at the first bracket.
set -eu
echo EXPORTS
sed -n 's/^SYNCED_MEM_API [^(]*[ *]\(synced_mem_[a-z_0-9]*\)(.*/\1/p' "$@" | sort -u

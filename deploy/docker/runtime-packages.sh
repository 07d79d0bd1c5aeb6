#!/usr/bin/env bash
# Prints the Debian packages that own the shared libraries of the given programs, one a line.
set -euo pipefail
ldd "$@" | awk '$2 == "=>" { print $3 }' | sort -u | while read -r library; do
  # Since /lib became a link to /usr/lib, packages list either path.
  real=$(readlink -f "$library")
  owner=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}")
  echo "${owner%%:*}"
done | sort -u

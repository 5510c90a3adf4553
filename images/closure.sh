#!/bin/sh
# Copies programs and the libraries they load into an otherwise empty root: closure.sh ROOT PROGRAM…
set -eu
root=$1
shift
mkdir -p "$root/etc"
for top in bin sbin lib lib64; do
    mkdir -p "$root/usr/$top"
    ln -s "usr/$top" "$root/$top"
done
copy() {
    real=$(readlink -f "$1")
    mkdir -p "$root$(dirname "$real")" "$root$(dirname "$1")"
    cp -n "$real" "$root$real"
    [ -e "$root$1" ] || ln -sr "$root$real" "$root$1"
}
for program in "$@"; do
    file=$(command -v "$program")
    copy "$file"
    # A static program has no libraries, and ldd says so with an error.
    { ldd "$file" 2>/dev/null || true; } | grep -o '/[^ ]*' | sort -u | while read -r library; do
        copy "$library"
    done
done

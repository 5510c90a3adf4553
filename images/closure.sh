#!/bin/sh
# Copies programs and the libraries they load into an otherwise empty root: closure.sh ROOT PROGRAM|FOLDER…
# Of a folder it copies what the libraries in it load; the folder itself is there already.
set -eu
root=$1
shift
mkdir -p "$root/etc"
for top in bin sbin lib lib64; do
    mkdir -p "$root/usr/$top"
    [ -e "$root/$top" ] || ln -s "usr/$top" "$root/$top"
done
copy() {
    real=$(readlink -f "$1")
    mkdir -p "$root$(dirname "$real")" "$root$(dirname "$1")"
    cp -n "$real" "$root$real"
    [ -e "$root$1" ] || ln -sr "$root$real" "$root$1"
}
copy_libraries() {
    # A static program has no libraries, and ldd says so with an error.
    { ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | sort -u | while read -r library; do
        # What a wheel brings along lies beside what loads it.
        case $library in "$root"*) ;; *) copy "$library" ;; esac
    done
}
for wanted in "$@"; do
    if [ -d "$wanted" ]; then
        find "$wanted" -name '*.so*' -type f | while read -r module; do copy_libraries "$module"; done
    else
        file=$(command -v "$wanted")
        copy "$file"
        copy_libraries "$file"
    fi
done

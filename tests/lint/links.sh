#!/bin/sh
# Every file that a document links to is there. Prints each that is not.
#   tests/lint/links.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 2
code=0
for document in *.md docs/*.md runtimes/*/*.md; do
	[ -f "$document" ] || continue
	for link in $(grep -o '](\([^)#]*\)' "$document" | sed 's/^](//' | grep -v '^[a-z]*:'); do
		[ -e "$(dirname "$document")/$link" ] || { echo "$document: $link is not there"; code=1; }
	done
done
# And the files that the tour of the sources names.
for file in $(grep -oE '`(base|symbolizer|runtimes|profile|record|cli|bpf|tests)/[A-Za-z0-9_/.]*\.[a-z]+`' \
	ARCHITECTURE.md 2>/dev/null | tr -d '`'); do
	[ -e "$file" ] || { echo "ARCHITECTURE.md: $file is not there"; code=1; }
done
exit $code

#!/bin/sh
# Lines of at most 100 columns (tabs are 8), no blanks at their ends, no path of a developer's machine.
#   tests/lint/text.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 2

find Makefile .ci base symbolizer runtimes profile record cli bpf tests tools examples bench \
	\( -name '*.[ch]' -o -name '*.sh' -o -name '*.awk' -o -name '*.rb' -o -name run -o -name Makefile \
	-o -path 'tools/*' \) -type f 2>/dev/null | sort | xargs awk '
	function violation(what) {
		printf "%s:%d: %s\n", FILENAME, FNR, what
		bad = 1
	}
	{
		width = 0
		for (i = 1; i <= length($0); i++)
			width += substr($0, i, 1) == "\t" ? 8 - width % 8 : 1
		limit = FILENAME ~ /\.[ch]$/ ? 100 : FILENAME ~ /\.rb$/ || FILENAME ~ /run$/ ? 210 : 120
		if (width > limit)
			violation(width " columns")
		if (/[ \t]$/)
			violation("blanks at the end")
		if (/(^|[^A-Za-z0-9_.])\/(work|home|root)\/[a-z]/)
			violation("a path of one machine")
		# Such a test prints ok. See tests/unit/tap.h.
		if (FILENAME ~ /^tests\/unit\/.*\.c$/ && /printf\(.*[Ss][Kk][Ii][Pp]/)
			violation("a skip that the harness does not know of")
	}
	END { exit bad }
'
code=$?
# Texts have no limit of width, but the same rule on paths.
grep -nE '(^|[^A-Za-z0-9_.])/(work|root)/[a-z]' ./*.md docs/* 2>/dev/null && code=1
exit $code

#!/bin/sh
# Every option that `rprof CMD --help` names is in docs/rprof.1 below that command, and the other way round;
# every exit code of cli/cmd.h is in the manual.
#   tests/lint/manual.sh RPROF MANUAL CMD_H
set -u
rprof=${1:?} manual=${2:?} cmd_h=${3:?}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
code=0

# The words of a text that look like an option.
options() {
	tr -c 'A-Za-z0-9_.=-' '\n' | sed -n 's/^\(--*[A-Za-z][A-Za-z-]*\).*/\1/p' | sort -u
}

commands=$("$rprof" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || { echo "$rprof --help lists no command"; exit 1; }
for cmd in $commands; do
	"$rprof" "$cmd" --help >"$tmp/text" || { echo "rprof $cmd --help fails"; code=1; }
	options <"$tmp/text" | grep -vx -e --help -e -h >"$tmp/help"
	sed -n "/^\.SS rprof $cmd/,/^\.S[SH] /p" "$manual" | grep -v '^\.S[SH]' | grep '^\.[BIR]' |
		sed 's/\\-/-/g; s/\\f[BIRP]/ /g; s/"/ /g' | options >"$tmp/man"
	[ -s "$tmp/man" ] || { echo "$manual has no section 'rprof $cmd'"; code=1; }
	comm -23 "$tmp/help" "$tmp/man" | sed "s/.*/rprof $cmd: & is in --help and not in the manual/" >"$tmp/diff"
	comm -13 "$tmp/help" "$tmp/man" | sed "s/.*/rprof $cmd: & is in the manual and not in --help/" >>"$tmp/diff"
	[ -s "$tmp/diff" ] && { cat "$tmp/diff"; code=1; }
done

for number in $(sed -n 's/^[[:space:]]*EXIT_[A-Z_]* *= *\([0-9]*\),.*/\1/p' "$cmd_h"); do
	sed -n '/^\.SH EXIT STATUS/,/^\.SH /p' "$manual" | grep -qx "\.B $number" ||
		{ echo "exit code $number of $cmd_h is not in $manual"; code=1; }
done
exit $code

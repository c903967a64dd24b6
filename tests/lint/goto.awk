# A jump to `out` with rc still 0 reports success for a failure, and no compiler says a word. So it has two
# spellings: right behind a test of rc, or right behind an assignment to it; or rc is still the error that it began
# with (`int rc = -ENOMEM`). In cli/ the variable may be `code`, an exit code. Prints each other jump.
BEGIN { rc = "(^|[^A-Za-z0-9_])(rc|code)" }
FNR == 1 { pending = previous = ""; in_comment = begun_with_error = 0 }
{
	line = $0
	if (in_comment) {
		if (!match(line, /\*\//))
			next
		line = substr(line, RSTART + 2)
		in_comment = 0
	}
	gsub(/"([^"\\]|\\.)*"|'([^'\\]|\\.)'/, "\"\"", line)
	gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
	sub(/\/\/.*/, "", line)
	if (match(line, /\/\*/)) {
		line = substr(line, 1, RSTART - 1)
		in_comment = 1
	}
	while (match(line, /[;{}]/)) {
		statement = pending substr(line, 1, RSTART)
		line = substr(line, RSTART + 1)
		pending = ""
		if (statement ~ /goto[ \t]+out/) {
			if (statement ~ /if[ \t]*\(/)
				fine = statement ~ rc "[^A-Za-z0-9_]"
			else if (previous ~ /;$/)
				fine = previous ~ rc "[ \t]*=[^=]"
			else
				fine = previous ~ rc "[^A-Za-z0-9_]"
			if (!fine && !begun_with_error) {
				printf "%s:%d: `goto out` without a test of rc or rc = ... before it\n", FILENAME, FNR
				bad = 1
			}
		}
		if (statement ~ rc "[ \t]*=[^=]")
			begun_with_error = statement ~ rc "[ \t]*=[ \t]*-E[A-Z0-9]+[,;]"
		previous = statement
	}
	pending = pending line " "
}
END { exit bad }

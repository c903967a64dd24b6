# Completion of rprof for bash. Commands and options are asked of rprof itself, so that they cannot fall behind.
_rprof() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		words=$(rprof --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
	elif [ "${word#-}" != "$word" ]; then
		words=$(rprof "$command" --help 2>/dev/null | grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,')
	else
		case $command:$before in
		record:-p | record:--pid | info:*) words=$(pgrep -f ruby) ;;
		export:-f | export:--format) words='folded jsonl' ;;
		report:-f | report:--format) words='text json' ;;
		*:--view) words='default ruby all' ;;
		esac
	fi
	if [ -n "$words" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -F _rprof rprof

# Reads one program's TAP and its "exit status: N", for tests/run. Shows failures, skips and a line of summary;
# with strict=1 a skip is a failure. Appends "LABEL PASSED FAILED SKIPPED" to the tally.

function skip(what, why) {
	if (strict)
		return complain(what "is skipped: " why)
	skipped++
	printf "skipped %s: %s(%s)\n", label, what, why
}

function complain(what) {
	printf "not ok %s: %s\n", label, what
	failed++
}

# The explanation may stand before its "not ok" line or behind it.
function show_notes(  i) {
	for (i = nr_notes > 60 ? nr_notes - 60 : 0; i < nr_notes; i++)
		print "    " notes[i]
}

/^exit status: [0-9]+$/ {
	status = $3
	next
}

/^(not )?ok( |$)/ {
	explaining = 0
	what = $0
	sub(/^(not )?ok *[0-9]* *-? */, "", what)
	results++
	if ($1 == "not") {
		failed++
		printf "not ok %s: %s\n", label, what
		show_notes()
		explaining = 1
	} else if (match(what, /# *[Ss][Kk][Ii][Pp]/)) {
		why = substr(what, RSTART + RLENGTH)
		gsub(/^[:, ]+| +$/, "", why)
		what = substr(what, 1, RSTART - 1)
		if (why == "")
			complain(what "is skipped without a reason")
		else
			skip(what, why)
	} else {
		passed++
	}
	nr_notes = 0
	next
}

/^1\.\.[0-9]+/ {
	planned = 1
	plan = substr($1, 4) + 0
	if (plan == 0 && match($0, /# *[Ss][Kk][Ii][Pp]/)) {
		whole_skipped = 1
		# A suite without a test of the name that was asked for has skipped nothing.
		if (only == "" || $0 !~ / is called /) {
			why = substr($0, RSTART + RLENGTH)
			gsub(/^[:, ]+| +$/, "", why)
			skip("all of it ", why)
		}
	}
	next
}

{
	if (explaining)
		print "    " $0
	notes[nr_notes++] = $0
}

END {
	if (status == "") {
		complain("ended without an exit status")
	} else if (status == 124 || status == 137) {
		complain("ran longer than " limit " s")
	} else if (!planned) {
		complain("ended without a plan, with exit status " status)
		show_notes()
	} else if (plan != results) {
		complain("planned " plan " tests and ran " results)
		show_notes()
	} else if (status != 0 && failed == 0 && !(only != "" && results == 0)) {
		complain("exit status " status ", though no test failed")
		show_notes()
	} else if (results == 0 && !whole_skipped && only == "") {
		complain("ran no test")
	}
	if (passed + failed > 0)
		printf "%-6s %s: %d passed%s\n", failed ? "FAILED" : "ok", label, passed,
			failed ? ", " failed " failed; all it said is in " log_file : ""
	print label, passed + 0, failed + 0, skipped + 0 >> tally
}

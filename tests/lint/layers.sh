#!/bin/sh
# Includes point down, and an interpreter's names stay in its folder. Prints each violation; fails when there is one.
#   tests/lint/layers.sh [ROOT]
#
# base <- symbolizer <- runtimes <- profile <- record <- cli; bpf/ stands beside them and shares its ABI headers.
# Runtimes are named in two places outside of their folders: runtimes/list.h, and the includes of bpf/runtimes.bpf.h.
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 2

find base symbolizer runtimes profile record cli bpf -name '*.[ch]' 2>/dev/null | sort | xargs awk '
	function violation(what) {
		printf "%s:%d: %s\n", FILENAME, FNR, what
		bad = 1
	}

	BEGIN {
		# What the files of each folder may include, as a pattern of paths from the root.
		shared = "bpf/(abi|unwind_step|arch|arch/[a-z0-9_]+)\\.h"
		may["base"] = "^base/"
		may["symbolizer"] = "^(base/|symbolizer/|" shared "$)"
		# A runtime sees no other runtime: its own folder is added for each file.
		may["runtimes"] = "^(base/|symbolizer/|runtimes/[^/]*$|" shared "$)"
		may["profile"] = "^(base/|profile/|symbolizer/frame\\.h$)"
		may["record"] = "^(base/|symbolizer/|runtimes/[^/]*$|profile/|record/|" shared "$)"
		may["cli"] = "^(base/|symbolizer/|runtimes/[^/]*$|profile/|record/|cli/|" shared "$)"
		may["bpf"] = "^(bpf/|runtimes/list\\.h$)"
	}

	FNR == 1 {
		split(FILENAME, part, "/")
		layer = part[1]
		folder = layer == "runtimes" && part[3] != "" ? "runtimes/" part[2] : layer
		kernel_side = FILENAME ~ /\.bpf\.[ch]$/ || \
			layer == "bpf" && FILENAME !~ /^bpf\/(abi|unwind_step|arch|arch\/[a-z0-9_]+)\.h$/
		lists_walks = FILENAME == "bpf/runtimes.bpf.h"
		libbpf = FILENAME == "record/kernel.c"
		in_comment = 0
	}

	/^[ \t]*#[ \t]*include[ \t]*"/ {
		file = $0
		sub(/^[^"]*"/, "", file)
		sub(/".*/, "", file)
		if (kernel_side)
			allowed = file ~ may["bpf"] || \
				folder != layer && index(file, folder "/") == 1 && file ~ /(_abi|\.bpf)\.h$/ || \
				lists_walks && file ~ /^runtimes\/[^\/]*\/[^\/]*\.bpf\.h$/
		else if (file ~ /\.inc$/)
			allowed = index(file, folder "/") == 1
		else if (file ~ /\.skel\.h$/)
			allowed = libbpf
		else
			allowed = file ~ may[layer] || folder != layer && index(file, folder "/") == 1
		if (!allowed)
			violation(folder "/ must not include " file)
		next
	}

	/^[ \t]*#[ \t]*include[ \t]*<(bpf|linux\/bpf)/ {
		if (!kernel_side && !libbpf)
			violation("only record/kernel.c talks to libbpf")
		next
	}

	# The rest is for the names of an interpreter; comments and strings may explain with them.
	folder == "runtimes/ruby" { next }
	{
		code = $0
		if (in_comment) {
			if (!match(code, /\*\//))
				next
			code = substr(code, RSTART + 2)
			in_comment = 0
		}
		gsub(/"([^"\\]|\\.)*"/, "", code)
		gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", code)
		sub(/\/\/.*/, "", code)
		if (match(code, /\/\*/)) {
			code = substr(code, 1, RSTART - 1)
			in_comment = 1
		}
		while (match(code, /[A-Za-z_][A-Za-z_0-9]*/)) {
			word = substr(code, RSTART, RLENGTH)
			code = substr(code, RSTART + RLENGTH)
			if (word !~ /^(rb_|RB_|ruby_|RUBY_|VM_|vm_exec|iseq|cfp|imemo|RSTRING|RARRAY)/ &&
					word !~ /(_iseq|_cfp)$/ && !(kernel_side && tolower(word) ~ /ruby/))
				continue
			violation(word " is a name of Ruby, outside of runtimes/ruby/")
		}
	}

	END { exit bad }
'

#!/bin/sh
# Plants one violation at a time in an empty tree: each check must find it, and must accept the clean tree.
set -u
lint=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

# tree FILE TEXT: a tree with this file and a clean one in each folder.
tree() {
	rm -rf "$tmp/t"
	for d in base symbolizer runtimes/ruby runtimes/other profile cli bpf; do
		mkdir -p "$tmp/t/$d"
		printf "#include \"base/err.h\"\n/* rb_vm_exec: a comment may say it */\nint x;\n" >"$tmp/t/$d/fine.c"
	done
	printf '#include "bpf/abi.h"\n' >"$tmp/t/bpf/fine.c"
	printf '#include "runtimes/ruby/ruby_abi.h"\nint rb_x, iseq;\n' >"$tmp/t/runtimes/ruby/fine.c"
	mkdir -p "$(dirname "$tmp/t/$1")"
	printf "$2" >"$tmp/t/$1"
}

finds() {
	tree "$2" "$3"
	if $1 >/dev/null 2>&1; then
		echo "not found in $2: $3"
		bad=1
	fi
}

accepts() {
	tree "$2" "$3"
	if ! $1 >"$tmp/said" 2>&1; then
		echo "refused in $2: $3"
		cat "$tmp/said"
		bad=1
	fi
}

layers() { "$lint/layers.sh" "$tmp/t"; }
accepts layers base/a.c '#include "base/buf.h"\n'
accepts layers symbolizer/a.c '#include "bpf/unwind_step.h"\n'
accepts layers runtimes/ruby/a.bpf.h '#include "bpf/native_walk.bpf.h"\n'
accepts layers runtimes/ruby/a.bpf.h '#include "runtimes/ruby/ruby_abi.h"\nstruct ruby_proc *ruby(void);\n'
accepts layers bpf/runtimes.bpf.h '#include "runtimes/ruby/ruby_walk.bpf.h"\n#include "runtimes/list.h"\n'
accepts layers bpf/a.bpf.h '#include "runtimes/list.h"\n'
accepts layers symbolizer/a.c '#include "bpf/arch.h"\n'
accepts layers record/kernel.c '#include "bpf/rprof.skel.h"\n#include <bpf/libbpf.h>\n'
accepts layers cli/a.c 'const char *s = "rb_thread";\n'
finds layers base/a.c '#include "symbolizer/maps.h"\n'
finds layers symbolizer/a.c '#include "runtimes/runtime.h"\n'
finds layers symbolizer/a.c '#include "bpf/maps.bpf.h"\n'
finds layers runtimes/ruby/a.c '#include "profile/recording.h"\n'
finds layers runtimes/other/a.c '#include "runtimes/ruby/ruby_abi.h"\n'
finds layers profile/a.c '#include "cli/cmd.h"\n'
finds layers profile/a.c '#include "runtimes/runtime.h"\n'
finds layers profile/a.c '#include "record/process.h"\n'
finds layers record/a.c '#include "cli/cmd.h"\n'
finds layers record/a.c '#include "runtimes/ruby/ruby_abi.h"\n'
finds layers record/a.c '#include "bpf/rprof.skel.h"\n'
finds layers record/a.c '#include <bpf/libbpf.h>\n'
finds layers cli/a.c '#include "bpf/rprof.skel.h"\n'
finds layers bpf/a.c '#include "symbolizer/maps.h"\n'
finds layers symbolizer/a.c '#include <bpf/libbpf.h>\n'
finds layers runtimes/ruby/a.c '#include "bpf/rprof.skel.h"\n'
finds layers cli/a.c 'int rb_thread_current;\n'
finds layers symbolizer/a.c '/* ok */ int cfp_sz;\n'
finds layers bpf/a.c 'int iseq;\n'
finds layers bpf/a.bpf.h '#include "runtimes/ruby/ruby_walk.bpf.h"\n'
finds layers bpf/a.bpf.h '#include "runtimes/ruby/ruby_abi.h"\n'
finds layers bpf/runtimes.bpf.h '#include "runtimes/ruby/ruby_runtime.h"\n'
finds layers bpf/runtimes.bpf.h 'case 1: ruby_walk(s); break;\n'
finds layers bpf/a.bpf.h 'result = ruby_jit_step(s);\n'
finds layers bpf/a.bpf.h '__u32 has_ruby;\n'
finds layers runtimes/other/a.bpf.h '#include "runtimes/ruby/ruby_walk.bpf.h"\n'
finds layers runtimes/runtime.c 'extern const struct runtime_ops ruby_runtime;\n'
finds layers symbolizer/a.c '#include "bpf/arch.bpf.h"\n'

jumps() { awk -f "$lint/goto.awk" "$tmp/t/base/a.c"; }
accepts jumps base/a.c 'int f(void)\n{\n\trc = g();\n\tif (rc)\n\t\tgoto out;\nout:\n\treturn rc;\n}\n'
accepts jumps base/a.c 'int f(void)\n{\n\tif (x) {\n\t\trc = err_set(err,\n\t\t\t"y;");\n\t\tgoto out;\n\t}\n}\n'
accepts jumps base/a.c 'int f(void)\n{\n\tif ((rc = g()) < 0)\n\t\tgoto out_free;\n}\n'
accepts jumps base/a.c 'int f(void)\n{\n\tint rc = -ENOMEM;\n\tif (p == NULL)\n\t\tgoto out;\n\trc = 0;\n}\n'
finds jumps base/a.c 'int f(void)\n{\n\tint rc = -ENOMEM;\n\trc = g();\n\tif (p == NULL)\n\t\tgoto out;\n}\n'
finds jumps base/a.c 'int f(void)\n{\n\trc = g();\n\tif (p == NULL)\n\t\tgoto out;\n}\n'
finds jumps base/a.c 'int f(void)\n{\n\tif (x) {\n\t\terr_set(err, "rc = 1");\n\t\tgoto out;\n\t}\n}\n'

text() { "$lint/text.sh" "$tmp/t"; }
accepts text base/a.c 'int a; /* \t */\n'
finds text base/a.c 'int a; \n'
finds text tests/unit/test_a.c 'printf("# skipped: no root");\n'
finds text base/a.c "$(printf '%0101d' 0)\n"
home=/home
finds text base/a.c "const char *p = \"$home/me/x\";\n"

links() { "$lint/links.sh" "$tmp/t"; }
accepts links README.md 'see [this](base/fine.c) and [that](https://example.org)\n'
finds links README.md 'see [this](base/gone.c)\n'
finds links ARCHITECTURE.md 'see `base/gone.c`\n'

cat >"$tmp/rprof" <<'END'
#!/bin/sh
case $1 in
--help) printf 'Commands:\n  record       does it\n\n' ;;
record) printf 'Usage: rprof record -p PID\n\n  -p, --pid PID   the process\n  --json\n  -h, --help\n' ;;
esac
END
chmod +x "$tmp/rprof"
manual() { "$lint/manual.sh" "$tmp/rprof" "$tmp/t/m.1" "$tmp/t/cmd.h"; }
page() {
	tree m.1 ".SS rprof record\n.BR \\\\-p \", \" \\\\-\\\\-pid\n$1.SH EXIT STATUS\n.TP\n.B 0\n"
	echo '	EXIT_OK = 0,' >"$tmp/t/cmd.h"
}
page '.B \\-\\-json\n'
manual || { echo "a right manual was refused"; bad=1; }
page ''
manual >/dev/null && { echo "an option that the manual lacks was not found"; bad=1; }
page '.B \\\\-\\\\-json\n.B \\-x\n'
manual >/dev/null && { echo "an option that --help lacks was not found"; bad=1; }
page '.B \\-\\-json\n'
echo '	EXIT_USAGE = 2,' >>"$tmp/t/cmd.h"
manual >/dev/null && { echo "an exit code that the manual lacks was not found"; bad=1; }

# What tests/run makes of a program's output: says STRICT OUTPUT PASSED FAILED SKIPPED
says() {
	printf "$2" | awk -v label=x -v strict="$1" -v tally="$tmp/tally" -f "$lint/../tap.awk" >/dev/null
	[ "$(cat "$tmp/tally")" = "x $3 $4 $5" ] || { echo "'$2' is not $3 passed, $4 failed, $5 skipped"; bad=1; }
	rm -f "$tmp/tally"
}
says 0 'ok 1 - a\nnot ok 2 - b\n1..2\nexit status: 1\n' 1 1 0
says 0 'ok 1 - a\nok 2 - b # SKIP no c\n1..2\nexit status: 0\n' 1 0 1
says 1 'ok 1 - a\nok 2 - b # SKIP no c\n1..2\nexit status: 0\n' 1 1 0
says 0 'ok 1 - a # SKIP\n1..1\nexit status: 0\n' 0 1 0
says 0 '1..0 # SKIP needs root\nexit status: 0\n' 0 0 1
says 1 '1..0 # SKIP needs root\nexit status: 0\n' 0 1 0
says 0 'ok 1 - a\nexit status: 0\n' 1 1 0
says 0 'ok 1 - a\n1..2\nexit status: 0\n' 1 1 0
says 0 'ok 1 - a\n1..1\nexit status: 1\n' 1 1 0
says 0 '1..0\nexit status: 0\n' 0 1 0

exit $bad

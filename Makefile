# rprof. `make help` lists the targets.
CC      ?= cc
CLANG   ?= clang
BPFTOOL ?= $(firstword $(shell command -v bpftool) /usr/sbin/bpftool)
O       ?= build
SAN     ?=
V       ?= 0

ifneq ($(SAN),)
O       := $(O)-san
# Position independent: the tests link against one shared object of it all.
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all -fPIC
endif

# CHECK=1 builds, in its own directory, an rprof that makes each walk twice and compares.
ifneq ($(CHECK),)
O       := $(O)/check
CHECKFLAGS := -DRPROF_CHECK
endif

VERSION := $(shell cat VERSION)
LIBS    := -lbpf -lelf -ldw -lsqlite3 -lz -lzstd -llzma
CFLAGS  ?= -O2 -g
# tests/lint/run reads this line.
WARN    := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wvla -Werror -Wno-unused-parameter
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DRPROF_VERSION='"$(VERSION)"' -I. -I$(O) $(WARN) \
	$(CHECKFLAGS) $(SANFLAGS) $(CFLAGS)

# All that was built with other flags is built again.
ifneq ($(file <$(O)/.flags),$(ALL_CFLAGS))
$(shell mkdir -p $(O))$(file >$(O)/.flags,$(ALL_CFLAGS))
endif

# `make demo` and `make check` build on all processors unless told otherwise.
JOBS := $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

Q = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

lib_src := $(wildcard base/*.c symbolizer/*.c runtimes/*.c runtimes/*/*.c profile/*.c) \
	$(filter-out record/kernel.c,$(wildcard record/*.c))
# Needs the BPF object, which takes root to load: all else can be linked into a test.
cli_src := record/kernel.c $(wildcard cli/*.c)
lib_obj := $(lib_src:%.c=$(O)/%.o)
cli_obj := $(cli_src:%.c=$(O)/%.o)
unit    := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/test_*.c))
unit_wanted = $(patsubst %,$(O)/tests/unit/%,$(shell tests/unit/programs '$(T)'))

.PHONY: all lib rubies setup setup-check demo check check-unit check-tsan check-lint check-bpf check-walk check-e2e \
	check-names check-browser check-load mutate mutate-run bench bench-note install uninstall clean help format \
	tidy unit-programs compile_commands.json
.DELETE_ON_ERROR:
.SECONDARY:

all: $(O)/rprof ## build rprof

help: ## list the targets
	@grep -hE '^[a-z_.-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{printf "  make %-22s %s\n", $$1, $$2}'

lib: $(O)/librprof.a

$(O)/librprof.a: $(lib_obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/rprof: $(cli_obj) $(O)/librprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(O)/%.o: %.c $(O)/.flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# ---- BPF -----------------------------------------------------------------------------------
$(O)/bpf/rprof.bpf.o: $(wildcard bpf/*.c bpf/*.h bpf/*/*.h runtimes/*.h runtimes/*/*_abi.h runtimes/*/*.bpf.h)
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 $(CHECKFLAGS) -I. -I$(O) \
		-I/usr/include/$(shell uname -m)-linux-gnu -Wall -Wextra -Werror -Wno-unused-parameter \
		-c bpf/rprof.bpf.c -o $@

$(O)/bpf/rprof.skel.h: $(O)/bpf/rprof.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name rprof_bpf > $@

$(O)/record/kernel.o: | $(O)/bpf/rprof.skel.h

# The kernel's own list of system calls.
$(O)/record/syscalls.inc: Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && printf '#include <asm/unistd_64.h>\n' | $(CC) -E -dM - | \
		sed -nE 's/^#define __NR_([a-z0-9_]+) ([0-9]+)$$/[\2] = "\1",/p' | sort -V > $@
$(O)/record/syscalls.o: $(O)/record/syscalls.inc

# ---- files that are compiled in ---------------------------------------------------------------
# FILE becomes $(O)/FILE.inc: its bytes, to stand between the braces of an array.
$(O)/%.inc: %
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D) && od -An -v -tu1 $< | sed 's/[0-9]\+/&,/g' > $@

$(O)/profile/flamegraph.o: $(patsubst %,$(O)/%.inc,$(wildcard profile/html/*))
$(O)/profile/schema.o: $(O)/profile/schema.sql.inc
usages := $(patsubst cli/usage/%.txt,%,$(wildcard cli/usage/*.txt))
$(usages:%=$(O)/cli/cmd_%.o): $(O)/cli/cmd_%.o: $(O)/cli/usage/%.txt.inc

# ---- the example program ------------------------------------------------------------------------
RUBY ?= /usr/bin/ruby

setup: ## install the Debian packages that are missing (to build and run)
	$(Q)tools/setup

setup-check:
	$(Q)tools/setup check

RUBY_INCLUDES = $(shell $(RUBY) -rrbconfig -e \
	'puts RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir").map { |dir| "-I" + dir }')

build/demo/fastprice.so: examples/demo/fastprice.c
	$(call say,EXT,$<)
	$(Q)mkdir -p $(@D) && $(CC) -O2 -g -Wall -shared -fPIC -fvisibility=hidden $(RUBY_INCLUDES) -o $@ $<

demo: ## record an example program and write its flame graph, demo.html
	$(Q)tools/setup
	$(Q)$(MAKE) --no-print-directory $(JOBS) all build/demo/fastprice.so
	$(Q)RUBY=$(RUBY) tools/demo

# ---- tests --------------------------------------------------------------------------------------
# tests/run prints what fails and why, what is skipped and why, and "N passed, N failed" at the end.
rubies: ## unpack the Rubies of tests/rubies.list that are not installed, for the tests
	$(Q)tests/rubies.sh unpack

$(O)/tests/rubies.h: tests/rubies.list tests/rubies.sh
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D) && tests/rubies.sh header > $@

# One shared object, linked when a source has changed, so that its programs need not be: they are linked against what
# it was called by then, and copy nothing out of it (-fPIC).
# The recorder is not in it: it calls the kernel side, which its own test makes up.
$(O)/librprof-test.so: $(filter-out $(O)/record/recorder.o,$(lib_obj))
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ $(LIBS)

$(unit:=.o): | $(O)/tests/rubies.h

$(filter-out %/test_recorder,$(unit)): %: %.o | $(O)/librprof-test.so
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(O)/librprof-test.so -Wl,-z,now -Wl,-rpath,'$$ORIGIN/../..' $(LIBS)

# Its own runtime takes the place of runtimes/runtime.c's, and its own malloc() that of the library's calls.
$(O)/tests/unit/test_recorder: %: %.o $(O)/librprof.a
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS) \
		$(foreach f,malloc calloc realloc reallocarray strdup asprintf,-Wl,--wrap=$(f))

$(O)/tests/bpf/load: tests/bpf/load.c $(O)/bpf/rprof.skel.h
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $< $(LIBS)

unit-programs: $(unit_wanted) $(O)/librprof-test.so

check: ## all tests; installs what they need; a test that is skipped has failed (T=name for one)
	$(Q)tools/setup check
	$(Q)$(MAKE) --no-print-directory rubies
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(O)/tests/rubies.h $(O)/tests/bpf/load
	$(Q)$(MAKE) --no-print-directory $(JOBS) CHECK=1 all
	$(Q)$(MAKE) --no-print-directory $(JOBS) SAN=address,undefined unit-programs
	$(Q)$(MAKE) --no-print-directory $(JOBS) fuzz-programs
	$(Q)tests/run --strict lint unit tsan fuzz bpf walk e2e names browser -- '$(T)'

check-unit: rubies ## unit tests under ASan and UBSan, no root (T=name for one)
	$(Q)$(MAKE) --no-print-directory $(JOBS) SAN=address,undefined unit-programs
	$(Q)tests/run unit -- '$(T)'

check-lint: all $(O)/tests/rubies.h ## layers, format, both compilers, clang-tidy, manual against --help
	$(Q)tests/run lint -- '$(T)'

check-bpf: all $(O)/tests/bpf/load ## the BPF programs load within their budget (root)
	$(Q)tests/run bpf -- '$(T)'

check-walk: all rubies ## the fast walk against the plain one, and its budget of reads and bytes (root)
	$(Q)$(MAKE) --no-print-directory $(JOBS) CHECK=1 all
	$(Q)tests/run walk -- '$(T)'

check-e2e: all rubies ## recordings of programs that know their own stack (root)
	$(Q)$(MAKE) --no-print-directory $(JOBS) CHECK=1 all
	$(Q)tests/run e2e -- '$(T)'

check-names: all rubies ## names of code that is made, moved, redefined and freed all the time (root)
	$(Q)tests/run names -- '$(T)'

check-browser: all ## the flame graph in headless Chromium
	$(Q)tests/run browser -- '$(T)'

# Mutants are compiled as the unit tests are.
mutate: rubies ## put faults into the code, one at a time: the unit tests must see each (T=name for one)
	$(Q)$(MAKE) --no-print-directory $(JOBS) SAN=address,undefined T= unit-programs
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined mutate-run

mutate-run: export MUTATE_CC = $(CC) $(ALL_CFLAGS)
mutate-run: export MUTATE_LIBS = $(LIBS)
mutate-run: export MUTATE_OBJECTS = $(filter-out $(O)/record/recorder.o,$(lib_obj))
mutate-run:
	$(Q)tests/mutate/run $(T)

check-load: ## `make check` N times beside two busy loops (N=10, root; T=name for one)
	$(Q)tests/under_load $(or $(N),10) 2 '$(T)'

# ---- what it costs ---------------------------------------------------------------------------------
bench_programs := $(O)/bench/yardstick $(O)/bench/feed $(O)/bench/gap.so

$(O)/bench/yardstick.skel.h: bench/yardstick.bpf.c
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) -g -O2 -target bpf -mcpu=v3 -I/usr/include/$(shell uname -m)-linux-gnu \
		-Wall -Wextra -Werror -Wno-unused-parameter -c $< -o $(@D)/yardstick.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $(@D)/yardstick.bpf.o name yardstick_bpf > $@

$(O)/bench/yardstick: bench/yardstick.c $(O)/bench/yardstick.skel.h
	$(call say,BENCH,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(LIBS)

$(O)/bench/feed: bench/feed.c $(O)/librprof.a
	$(call say,BENCH,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $< $(O)/librprof.a $(LIBS)

$(O)/bench/gap.so: bench/ext/gap.c
	$(call say,BENCH,$@)
	$(Q)mkdir -p $(@D) && $(CC) -O2 -g -Wall -shared -fPIC -fvisibility=hidden $(RUBY_INCLUDES) -o $@ $<

bench: ## what it costs here: one table and build/bench.json (root; BENCHMARKS.md explains it)
	$(Q)tools/setup bench
	$(Q)$(MAKE) -s --no-print-directory $(JOBS) all $(bench_programs)
	$(Q)RUBY=$(RUBY) $(RUBY) bench/run

bench-note: ## put the figures of the last `make bench` into BENCHMARKS.md
	$(Q)$(RUBY) bench/run --note

# ---- the rest -----------------------------------------------------------------------------------
PREFIX ?= /usr/local

install: all ## install to $(PREFIX), or below $(DESTDIR)
	install -D -m 755 build/rprof $(DESTDIR)$(PREFIX)/bin/rprof
	install -D -m 644 docs/rprof.1 $(DESTDIR)$(PREFIX)/share/man/man1/rprof.1
	install -D -m 644 completions/rprof.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/rprof

uninstall: ## remove what `make install` installed
	rm -f $(DESTDIR)$(PREFIX)/bin/rprof $(DESTDIR)$(PREFIX)/share/man/man1/rprof.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/rprof

compile_commands.json: ## for clangd and clang-tidy
	$(Q)for f in $(lib_src) $(cli_src) $(wildcard tests/unit/*.c); do \
		printf '{"directory": "%s", "file": "%s", "command": "%s"},\n' "$(CURDIR)" "$$f" \
			"$(CC) $(subst ",\\\\\\\",$(subst ',,$(ALL_CFLAGS))) -c $$f"; \
	done | sed '1s/^/[/; $$s/,$$/]/' >$@

clean: ## remove what was built (not the unpacked Rubies)
	rm -rf build-san build/rprof build/librprof.a build/setup.log demo.html demo.rprof compile_commands.json \
		$(addprefix build/,base bpf check symbolizer runtimes profile record cli tests demo test-logs bench \
		mutate fuzz)

tidy: all ## clang-tidy with the analyzer: minutes (check-lint does the rest of .clang-tidy)
	$(Q)tests/lint/run analyzer

format: ## clang-format all sources
	clang-format -i $$(git ls-files '*.c' '*.h')

include tests/fuzz/fuzz.mk

-include $(lib_obj:.o=.d) $(cli_obj:.o=.d) $(unit:=.d)

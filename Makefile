# rprof. `make help` lists the targets.
CC      ?= cc
CLANG   ?= clang
BPFTOOL ?= $(firstword $(shell command -v bpftool) /usr/sbin/bpftool)
O       ?= build
SAN     ?=
V       ?= 0

ifneq ($(SAN),)
O       := $(O)-san
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif

VERSION := $(shell cat VERSION)
LIBS    := -lbpf -lelf -ldw -lsqlite3 -lz -lzstd -llzma
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Werror -Wno-unused-parameter
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DRPROF_VERSION='"$(VERSION)"' -I. -I$(O) $(WARN) $(SANFLAGS) $(CFLAGS)

Q = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

lib_src := $(wildcard base/*.c symbolizer/*.c runtimes/*.c runtimes/*/*.c profile/*.c)
cli_src := $(wildcard cli/*.c)
lib_obj := $(lib_src:%.c=$(O)/%.o)
cli_obj := $(cli_src:%.c=$(O)/%.o)
# What a user of the tables, the stitcher or the exporters links: everything but cli/.
unit    := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/test_*.c))

.PHONY: all lib setup demo check check-unit check-lint check-e2e bench install clean help format
.DELETE_ON_ERROR:
.SECONDARY:

all: $(O)/rprof ## build rprof

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

lib: $(O)/librprof.a

$(O)/librprof.a: $(lib_obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/rprof: $(cli_obj) $(O)/librprof.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(O)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# ---- BPF -----------------------------------------------------------------------------------
$(O)/bpf/rprof.bpf.o: $(wildcard bpf/*.c bpf/*.h runtimes/*/*_abi.h runtimes/*/*.bpf.h)
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -I. -I$(O) \
		-I/usr/include/$(shell uname -m)-linux-gnu -Wall -Wextra -Werror -Wno-unused-parameter \
		-c bpf/rprof.bpf.c -o $@

$(O)/bpf/rprof.skel.h: $(O)/bpf/rprof.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name rprof_bpf > $@

$(cli_obj): | $(O)/bpf/rprof.skel.h

# ---- files that are compiled in ---------------------------------------------------------------
# profile/html/* becomes $(O)/profile/html_*.h: `static const char NAME[]` by xxd-free od.
$(O)/profile/%.inc: profile/html/%
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D) && od -An -v -tu1 $< | sed 's/[0-9]\+/&,/g' > $@

html_inc := $(patsubst profile/html/%,$(O)/profile/%.inc,$(wildcard profile/html/*))
$(O)/profile/flamegraph.o: $(html_inc)

# ---- tests --------------------------------------------------------------------------------------
$(O)/tests/unit/%: tests/unit/%.c $(O)/librprof.a tests/unit/tap.h
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $< $(O)/librprof.a $(LIBS)

unit-programs: $(unit)

check-unit: ## unit tests under ASan and UBSan, no root (T=name for one)
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined unit-programs
	$(Q)tests/run --unit $(T)

clean: ## remove what was built (not the unpacked Rubies)
	rm -rf build-san build/rprof build/librprof.a build/base build/bpf build/symbolizer build/runtimes build/profile build/cli build/tests

format: ## clang-format all sources
	clang-format -i $$(git ls-files '*.c' '*.h')

-include $(lib_obj:.o=.d) $(cli_obj:.o=.d)

# Fuzz targets: libFuzzer programs over the whole library, with ASan and UBSan. CONTRIBUTING.md says how to use them.
fuzz_o     := build/fuzz
FUZZ_FLAGS := -std=gnu11 -D_GNU_SOURCE -DRPROF_VERSION='"$(VERSION)"' -I. -I$(O) $(WARN) -O1 -g \
	-fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz_bin   := $(patsubst tests/fuzz/fuzz_%.c,$(fuzz_o)/%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_lib   := $(lib_src:%.c=$(fuzz_o)/obj/%.o)
TIME       ?= 60

.PHONY: fuzz fuzz-programs check-fuzz

$(fuzz_o)/obj/%.o: %.c
	$(call say,FUZZ,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

# With it what is generated, which is the same here.
$(fuzz_lib): | $(O)/librprof.a

$(fuzz_o)/librprof.a: $(fuzz_lib)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(fuzz_bin): $(fuzz_o)/%: tests/fuzz/fuzz_%.c $(fuzz_o)/librprof.a
	$(call say,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer -MMD -MP -MF $@.d -o $@ $< $(fuzz_o)/librprof.a $(LIBS)

fuzz_tools := $(patsubst tests/fuzz/%.c,$(fuzz_o)/%,$(wildcard tests/fuzz/seed_*.c))

$(fuzz_tools): $(fuzz_o)/%: tests/fuzz/%.c $(O)/librprof.a
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $< $(O)/librprof.a $(LIBS)

fuzz-programs: $(fuzz_bin) $(fuzz_tools)

fuzz: ## fuzz each reader of what others wrote for TIME=60 seconds (T=name for one)
	$(Q)tools/setup check
	$(Q)$(MAKE) --no-print-directory rubies
	$(Q)$(MAKE) --no-print-directory $(JOBS) fuzz-programs
	$(Q)tests/fuzz/run --for $(TIME) $(T)

check-fuzz: rubies ## the same inputs for each of them each time, about a minute in all (no root)
	$(Q)$(MAKE) --no-print-directory $(JOBS) fuzz-programs
	$(Q)tests/run fuzz -- '$(T)'

-include $(fuzz_lib:.o=.d) $(fuzz_bin:=.d)

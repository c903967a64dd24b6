/* Machine code of a library that calls itself libruby: what is decoded from it lies in it. */
#include "tests/fuzz/fuzz.h"

#include "runtimes/ruby/ruby_runtime.h"

enum { MAX_SITES = 32 };

static void check_value(const struct ruby_value *v)
{
	MUST(v->nr_loads <= RUBY_MAX_LOADS && v->shift < 64 && v->base <= RUBY_BASE_TLS_GD);
}

static void check_run(const uint8_t *code, size_t n, uint64_t vaddr)
{
	struct ruby_run run;

	ruby_decode_run(code, n, vaddr, &run);
	MUST(run.nr_cmps <= RUBY_MAX_CMPS && run.nr_seen <= RUBY_MAX_SEEN);
	MUST(!(run.returned && run.jumped));
	check_value(&run.result);
	check_value(&run.shifted);
	for (size_t i = 0; i < run.nr_cmps; i++)
		check_value(&run.cmp[i].value);
}

static void check_facts(const uint8_t *code, size_t n, uint64_t vaddr)
{
	struct ruby_ec_code ec;
	struct ruby_gc_code gc;
	struct ruby_id_code id;
	uint64_t ids;
	int32_t field = 0;

	if (ruby_decode_ec(code, n, vaddr, &ec))
		MUST(ec.nr_fields <= 2 && ec.form >= RUBY_TLS_GD && ec.form <= RUBY_TLS_LE);
	if (ruby_decode_during_gc(code, n, vaddr, &gc))
		MUST(gc.objspace > 0 && gc.field > 0 && gc.bit < 64);
	if (ruby_decode_gc_count(code, n, vaddr, &gc))
		MUST(gc.objspace > 0 && gc.field > 0);
	if (ruby_decode_gvl(code, n, vaddr, &field))
		MUST(field > 0);
	if (ruby_decode_id2str(code, n, vaddr, &id))
		MUST(id.last_op_id > 127 && id.last_op_id < 1024);
	(void)ruby_decode_ids(code, n, vaddr, &ids);
}

static void check_sites(const uint8_t *code, size_t n, uint8_t flags_off)
{
	uint64_t sites[MAX_SITES];
	size_t nr = ruby_call_sites_decode(code, n, sites, MAX_SITES), at;

	MUST(nr <= MAX_SITES);
	for (size_t i = 0; i < nr; i++) {
		/* Behind `call *0x10(%reg)`. */
		MUST(sites[i] <= n && sites[i] >= 7 && code[sites[i] - 1] == 0x10);
		MUST(i == 0 || sites[i] > sites[i - 1]);
	}
	for (int set = 0; set < 2; set++) {
		for (at = 0; ruby_during_gc_decode(code, n, flags_off, set, at, &at); at++)
			MUST(at < n && code[at] == (set ? 0x20 : 0xdf));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t flags_off = feed_u8(&f);
	uint64_t vaddr = feed_u64(&f);
	size_t n;
	uint8_t *code = feed_bytes(&f, f.n, &n);

	check_run(code, n, vaddr);
	check_facts(code, n, vaddr);
	check_sites(code, n, flags_off);
	free(code);
	return 0;
}

/* /proc/kallsyms: names of modules are anybody's. */
#include "tests/fuzz/fuzz.h"

#include "symbolizer/kallsyms.h"

enum { MAX_PROBES = 64 };

static void check(struct kallsyms *k, uint64_t addr)
{
	const struct kallsym *sym = kallsyms_find(k, addr);
	struct kallsym found;

	if (sym == NULL)
		return;
	found = *sym;
	MUST(found.addr <= addr && addr - found.addr < 1 << 20);
	MUST(found.name[0] != '\0' && strchr(found.name, '\n') == NULL);
	/* The same one holds from its first byte on. */
	sym = kallsyms_find(k, found.addr);
	MUST(sym != NULL && sym->addr == found.addr && sym->name == found.name);
	MUST(sym->module == found.module);
	sym = kallsyms_find(k, found.addr + (addr - found.addr) / 2);
	MUST(sym != NULL && sym->addr == found.addr);
}

/* At each line's address, and beside it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kallsyms *k = NULL;
	struct err err = {0};
	size_t probes = 0;

	if (kallsyms_parse(&k, (const char *)data, size, &err) != 0) {
		MUST(err.msg[0] != '\0' && k == NULL);
		return 0;
	}
	for (size_t at = 0; at < size && probes < MAX_PROBES; probes++) {
		const uint8_t *eol = memchr(data + at, '\n', size - at);
		char addr[17] = "";

		memcpy(addr, data + at, MIN(size - at, sizeof(addr) - 1));
		uint64_t v = strtoull(addr, NULL, 16);

		check(k, v);
		check(k, v - 1);
		check(k, v + 1);
		check(k, v + 4096);
		at = eol != NULL ? (size_t)(eol - data) + 1 : size;
	}
	check(k, 0);
	check(k, UINT64_MAX);
	kallsyms_free(k);
	return 0;
}

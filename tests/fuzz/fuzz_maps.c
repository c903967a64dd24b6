/* /proc/PID/maps: the paths in it are anybody's. */
#include "tests/fuzz/fuzz.h"

#include "base/buf.h"
#include "symbolizer/maps.h"

/* As the kernel writes it (fs/proc/task_mmu.c, show_map_vma, v6.1). */
static void put_mapping(struct buf *b, const struct mapping *m)
{
	buf_printf(b, "%08lx-%08lx %c%c%cp %08lx %02lx:%02lx %lu ", m->start, m->end,
	        m->prot & MAPS_PROT_READ ? 'r' : '-', m->prot & MAPS_PROT_WRITE ? 'w' : '-',
	        m->prot & MAPS_PROT_EXEC ? 'x' : '-', m->file_off, m->dev >> 32,
	        m->dev & UINT32_MAX, m->ino);
	for (const char *p = m->path; *p != '\0'; p++) {
		if (*p == '\n')
			buf_puts(b, "\\012");
		else
			buf_append(b, p, 1);
	}
	buf_puts(b, m->deleted ? " (deleted)\n" : "\n");
}

static void check(const struct maps *maps)
{
	for (size_t i = 0; i < maps->nr; i++) {
		const struct mapping *m = &maps->v[i];

		MUST(m->start < m->end);
		MUST(i == 0 || m->start >= maps->v[i - 1].end);
		MUST(m->path != NULL && strlen(m->path) < 1 << 20);
		MUST(maps_find(maps, m->start) == m);
		MUST(maps_find(maps, m->end - 1) == m);
		MUST(maps_find(maps, m->end) ==
		        (i + 1 < maps->nr && m[1].start == m->end ? m + 1 : NULL));
	}
	MUST(maps_same_code(maps, maps));
}

/* What was read and is written again is read as the same. */
static void check_again(const struct maps *maps)
{
	struct maps again = {0};
	struct buf text;

	buf_init(&text, 64 << 20);
	for (size_t i = 0; i < maps->nr; i++)
		put_mapping(&text, &maps->v[i]);
	MUST(!text.failed && maps_parse(&again, text.data, text.len, NULL) == 0);
	MUST(again.nr == maps->nr && maps_same_code(maps, &again));
	for (size_t i = 0; i < maps->nr; i++) {
		MUST(maps->v[i].prot == again.v[i].prot &&
		        maps->v[i].deleted == again.v[i].deleted);
		MUST(strcmp(maps->v[i].path, again.v[i].path) == 0);
	}
	maps_release(&again);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct maps maps = {0};
	struct err err = {0};

	if (maps_parse(&maps, (const char *)data, size, &err) != 0) {
		MUST(err.msg[0] != '\0' && maps.v == NULL && maps.text == NULL);
		return 0;
	}
	check(&maps);
	check_again(&maps);
	maps_release(&maps);
	return 0;
}

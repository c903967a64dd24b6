/* Kernel symbols from /proc/kallsyms, modules included. */
#ifndef SYMBOLIZER_KALLSYMS_H
#define SYMBOLIZER_KALLSYMS_H

#include "base/err.h"

struct kallsyms;

struct kallsym {
	const char *name;   /* borrowed */
	const char *module; /* NULL: the kernel itself */
	uint64_t addr;
};

/* -EPERM when all addresses read as 0 (kernel.kptr_restrict); the sentence says so. */
int kallsyms_new(struct kallsyms **out, struct err *err);
/*
 * Nothing is read yet: kallsyms_find() does it when first called, or waits for
 * kallsyms_read_ahead(), which reads in a thread of its own. What cannot be read has no symbols.
 * -ENOMEM.
 */
int kallsyms_new_unread(struct kallsyms **out, struct err *err);
void kallsyms_read_ahead(struct kallsyms *k);
int kallsyms_parse(struct kallsyms **out, const char *text, size_t len, struct err *err);
void kallsyms_free(struct kallsyms *k);
/* The text symbol at or below addr, if addr lies between it and the next one; until the next call.
 * NULL: none. */
const struct kallsym *kallsyms_find(struct kallsyms *k, uint64_t addr);

#endif

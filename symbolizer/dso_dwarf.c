#include "symbolizer/dso_internal.h"

size_t dso_dwarf_resolve(struct dso *dso, uint64_t vaddr, struct frame *out, size_t max)
{
	return 0;
}

void dso_dwarf_free(struct dso_dwarf *dwarf)
{
}

bool dso_dwarf_member(struct dso *dso, const char *type, const char *member, uint64_t *offset)
{
	return false;
}

/* The mappings of a process, from /proc/PID/maps. */
#ifndef SYMBOLIZER_MAPS_H
#define SYMBOLIZER_MAPS_H

#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

enum { MAPS_PROT_READ = 1, MAPS_PROT_WRITE = 2, MAPS_PROT_EXEC = 4 };

struct mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t file_off;
	uint64_t dev, ino;
	uint32_t prot;    /* MAPS_PROT_* */
	bool deleted;     /* the file was unlinked ("(deleted)" is not part of path) */
	const char *path; /* owned by struct maps; "" for anonymous memory, "[vdso]", "[stack]",
	                     "[heap]", ... */
};

struct maps {
	struct mapping *v; /* owned, ascending by start */
	size_t nr;
	char *text; /* owned: the paths */
};

/* Replaces *maps only on success. -ESRCH, -EPERM, -ENOMEM, or -EINVAL for text that is no maps
 * file. */
int maps_read(struct maps *maps, pid_t pid, struct err *err);
int maps_parse(struct maps *maps, const char *text, size_t len, struct err *err);
void maps_release(struct maps *maps);
/* The mapping that holds addr, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t addr);
/* True when both describe the same executable mappings (start, end, file_off, dev, ino). */
bool maps_same_code(const struct maps *a, const struct maps *b);

#endif

/* The libruby that is here, to be mapped by a made-up process. */
#ifndef TESTS_FUZZ_LIBRARY_H
#define TESTS_FUZZ_LIBRARY_H

#include "tests/fuzz/fuzz.h"

#include "symbolizer/dso.h"

#include <glob.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct library {
	uint32_t release; /* RUBY_VERSION() >> 8 */
	char *path;
	struct mapping mapping; /* at 0 */
	struct dso *dso;
};

/* That of a release, which is installed or unpacked (tests/rubies.list). False: there is none. */
static inline bool library_open(struct library *lib, struct dso_cache *dsos, uint32_t release)
{
	struct mapping *m = &lib->mapping;
	unsigned int major_nr = release >> 16, minor_nr = release >> 8 & 255;
	char pattern[128];
	glob_t found;
	struct stat st;
	uint64_t size, off;

	snprintf(pattern, sizeof(pattern),
	        "{,build/rubies/%u.%u}/usr/lib/*/libruby-%u.%u.so.%u.%u.*", major_nr, minor_nr,
	        major_nr, minor_nr, major_nr, minor_nr);

	if (glob(pattern, GLOB_BRACE, NULL, &found) == 0 && stat(found.gl_pathv[0], &st) == 0) {
		lib->path = realpath(found.gl_pathv[0], NULL);
		MUST(dso_cache_get_path(dsos, lib->path, &lib->dso, NULL) == 0);
		MUST(dso_text_segment(lib->dso, 0, &m->start, &size));
		MUST(dso_offset_of_vaddr(lib->dso, m->start, &off));
		m->start &= ~4095ULL;
		m->end = m->start + ((size + 4095) & ~4095ULL);
		m->file_off = off & ~4095ULL;
		m->dev = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev);
		m->ino = st.st_ino;
		m->prot = MAPS_PROT_READ | MAPS_PROT_EXEC;
		m->path = lib->path;
	}
	globfree(&found);
	return lib->path != NULL;
}

#endif

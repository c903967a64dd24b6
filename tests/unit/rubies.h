/*
 * The Rubies of tests/rubies.list, for a test of each:
 *
 *	#define OF_RUBY(id, version) TEST(ruby_##id##_says_so) { check(version); }
 *	RUBIES(OF_RUBY)
 *
 * FIRST_RUBY is for what is the same on each. A Ruby that is neither installed nor unpacked (make
 *rubies) skips its test, with the reason.
 */
#ifndef TESTS_UNIT_RUBIES_H
#define TESTS_UNIT_RUBIES_H

#include "tests/rubies.h"
#include "tests/unit/tap.h"
#include <glob.h>
#include <unistd.h>

#define RUBY_LIB_DIR "usr/lib/x86_64-linux-gnu"

struct test_ruby {
	const char *version;
	char root[64];     /* with a slash at its end: "/", or where it is unpacked */
	char libruby[256]; /* the file itself, not its link */
	/* How to run it, without gems. Of an unpacked one through its own ld.so: /proc/PID/exe is
	 * no Ruby. */
	const char *argv[8];
	char rubylib[512]; /* for the environment; "": as it is */
	char text[4][128]; /* what argv points to */
};

/* False: it is not here, and the test is skipped. */
static inline bool test_ruby_find(const char *version, struct test_ruby *r)
{
	char pattern[256], why[256] = "make rubies unpacks it";
	glob_t g = {0};
	int n = 0;
	FILE *f;

	memset(r, 0, sizeof(*r));
	r->version = version;
	snprintf(r->text[0], sizeof(r->text[0]), "/usr/bin/ruby%s", version);
	strcpy(r->root, "/");
	if (access(r->text[0], X_OK) != 0)
		snprintf(r->root, sizeof(r->root), "build/rubies/%s/", version);
	snprintf(pattern, sizeof(pattern), "%s" RUBY_LIB_DIR "/libruby-%s.so.%s.*", r->root,
	        version, version);
	if (glob(pattern, 0, NULL, &g) == 0)
		snprintf(r->libruby, sizeof(r->libruby), "%s", g.gl_pathv[0]);
	globfree(&g);
	if (r->libruby[0] == '\0') {
		snprintf(pattern, sizeof(pattern), "build/rubies/%s.why", version);
		f = fopen(pattern, "re");
		if (f != NULL && fgets(why, sizeof(why), f) != NULL)
			why[strcspn(why, "\n")] = '\0';
		if (f != NULL)
			fclose(f);
		tap_skip("no Ruby %s: %s", version, why);
		return false;
	}
	if (r->root[1] != '\0') {
		snprintf(r->text[1], sizeof(r->text[1]), "%s" RUBY_LIB_DIR, r->root);
		snprintf(r->text[2], sizeof(r->text[2]), "%.100s/ld-linux-x86-64.so.2", r->text[1]);
		snprintf(r->text[0], sizeof(r->text[0]), "%susr/bin/ruby%s", r->root, version);
		snprintf(r->rubylib, sizeof(r->rubylib),
		        "%susr/lib/ruby/vendor_ruby:%susr/lib/ruby/%s.0:%s/ruby/%s.0", r->root,
		        r->root, version, r->text[1], version);
		r->argv[n++] = r->text[2];
		r->argv[n++] = "--library-path";
		r->argv[n++] = r->text[1];
	}
	r->argv[n++] = r->text[0];
	r->argv[n++] = "-W0";
	r->argv[n] = "--disable-gems";
	return true;
}

#endif

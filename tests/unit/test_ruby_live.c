/*
 * Attach, frames, labels, lines and generations on real Rubies: a program that knows its own stack
 * (data/ruby_labels.rb) says what it is at each of its stops, and waits there while it is read from
 * outside.
 */
#include "base/err.h"
#include "runtimes/ruby/ruby_runtime.h"
#include "tests/unit/rubies.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FRAMES = 2048, MAX_LOCS = 256 };

struct loc {
	unsigned int line;
	char path[256], label[256];
};

struct program {
	pid_t pid;
	FILE *in, *out;
	struct target target;
	struct maps maps;
	struct dso_cache *dsos;
	struct runtime *rt;
	/* the stop where it is */
	char expected[256];
	unsigned int above;
	struct loc loc[MAX_LOCS];
	size_t nr_locs;
};

/* rubylib: for the environment, "": as it is. */
static bool program_run(struct program *p, const char *const *command, const char *rubylib)
{
	int to[2], from[2];

	memset(p, 0, sizeof(*p));
	if (pipe(to) != 0 || pipe(from) != 0)
		return false;
	p->pid = fork();
	if (p->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		close(from[0]);
		if (rubylib[0] != '\0')
			setenv("RUBYLIB", rubylib, 1);
		execv(command[0], (char *const *)(uintptr_t)command);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->in = fdopen(to[1], "w");
	p->out = fdopen(from[0], "r");
	return true;
}

enum { WITHOUT_GEMS, WITH_GEMS };

/* The program of labels. False: the test is skipped, or has failed. */
static bool program_start(struct program *p, const char *version, int gems)
{
	struct test_ruby ruby;
	int n = 0;

	memset(p, 0, sizeof(*p));
	if (!test_ruby_find(version, &ruby))
		return false;
	while (ruby.argv[n] != NULL)
		n++;
	n -= gems;
	ruby.argv[n] = "tests/unit/data/ruby_labels.rb";
	ruby.argv[n + 1] = NULL;
	if (!program_run(p, ruby.argv, ruby.rubylib)) {
		TAP_FAIL("Ruby %s cannot be started", version);
		return false;
	}
	return true;
}

static int program_attach(struct program *p, struct err *err)
{
	int rc = target_open(&p->target, p->pid, err);

	if (rc == 0)
		rc = maps_read(&p->maps, p->pid, err);
	if (rc == 0)
		rc = dso_cache_new(&p->dsos);
	return rc == 0 ? ruby_runtime.attach(&p->target, &p->maps, p->dsos, &p->rt, err) : rc;
}

static void program_end(struct program *p)
{
	ruby_runtime.free(p->rt);
	dso_cache_free(p->dsos);
	maps_release(&p->maps);
	if (p->target.pid != 0)
		target_close(&p->target);
	if (p->in != NULL)
		fclose(p->in);
	if (p->out != NULL)
		fclose(p->out);
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
}

static bool read_line(struct program *p, char *out, size_t n)
{
	if (fgets(out, (int)n, p->out) == NULL)
		return false;
	out[strcspn(out, "\n")] = '\0';
	return true;
}

/* Lets the program go on to its next stop. False: it has ended. */
static bool program_next(struct program *p, bool go, const char *command)
{
	char line[1024], *tab;

	if (go) {
		fprintf(p->in, "%s\n", command);
		fflush(p->in);
	}
	p->nr_locs = 0;
	if (!read_line(p, line, sizeof(line)))
		return false;
	if (strncmp(line, "THREAD\t", 7) == 0) {
		snprintf(p->expected, sizeof(p->expected), "%.200s", line);
		return true;
	}
	if (strncmp(line, "HIT\t", 4) != 0 || (tab = strchr(line + 4, '\t')) == NULL)
		return false;
	p->above = (unsigned int)atoi(line + 4);
	snprintf(p->expected, sizeof(p->expected), "%.200s", tab + 1);
	while (read_line(p, line, sizeof(line)) && strcmp(line, "END") != 0) {
		struct loc *l = &p->loc[p->nr_locs];
		char *path, *label;

		if (p->nr_locs == MAX_LOCS || (path = strchr(line, '\t')) == NULL ||
		        (label = strchr(path + 1, '\t')) == NULL)
			return false;
		*label = '\0';
		l->line = (unsigned int)atoi(line); /* "" below a fiber's first C function */
		snprintf(l->path, sizeof(l->path), "%.255s", path + 1);
		snprintf(l->label, sizeof(l->label), "%.255s", label + 1);
		p->nr_locs++;
	}
	return true;
}

/* gets() writes END before it reads: the program may still run for a moment. It is read when it
 * sleeps in read(2). */
static void wait_until_asleep(struct program *p)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)p->pid);
	for (int i = 0; i < 1000000; i++) {
		FILE *f = fopen(path, "r");

		if (f == NULL)
			return;
		text[0] = '\0';
		if (fgets(text, sizeof(text), f) == NULL)
			text[0] = '\0';
		fclose(f);
		/* read(0), or ppoll on it; anything that starts with a number is a thread that
		 * sleeps. */
		if (strncmp(text, "0 0x0 ", 6) == 0 || strncmp(text, "271 ", 4) == 0 ||
		        strncmp(text, "7 ", 2) == 0)
			return;
	}
}

static int program_frames(struct program *p, struct interp_frame *f, uint64_t *gen)
{
	uint64_t ec;

	wait_until_asleep(p);
	if (ruby_gc_gen(p->rt, gen) != 0 || ruby_thread_ec(p->rt, p->rt->main_thread, &ec) != 0)
		return -1;
	return ruby_frames_read(p->rt, ec, f, MAX_FRAMES);
}

/* Ruby up to 3.3 prints labels without the owner: the same word with "Owner#" taken out. */
static void strip_owner(const struct frame *f, char *out, size_t n)
{
	const char *at = f->owner != NULL ? strstr(f->name, f->owner) : NULL;

	snprintf(out, n, "%s", f->name);
	if (at != NULL && (at[strlen(f->owner)] == '#' || at[strlen(f->owner)] == '.'))
		snprintf(out + (at - f->name), n - (size_t)(at - f->name), "%s",
		        at + strlen(f->owner) + 1);
}

static bool label_agrees(const struct interp_info *info, const char *label)
{
	char bare[512];

	strip_owner(&info->frame, bare, sizeof(bare));
	if (info->flags & INTERP_SKIP_NEXT) {
		if (strncmp(label, "rescue in ", 10) == 0 || strncmp(label, "ensure in ", 10) == 0)
			label += 10;
		else
			return false;
	}
	return strcmp(bare, label) == 0;
}

/* The whole stack at this stop, from the caller of hit() out: order, labels, paths and lines. */
static void check_stack(struct program *p)
{
	static struct interp_frame f[MAX_FRAMES];
	struct interp_info info;
	struct interp_desc desc;
	size_t loc = 0;
	uint64_t gen;
	bool in_hit = true;
	int n;

	n = program_frames(p, f, &gen);
	REQUIRE(n > 0);
	for (int i = 0; i < n; i++) {
		const struct loc *l = &p->loc[loc];

		ruby_runtime.frame_class(p->rt, &f[i], &desc);
		ruby_runtime.resolve(
		        p->rt, &f[i], i == 0, &(struct interp_moment){.gc_gen = gen}, &info);
		if (in_hit) {
			in_hit = strcmp(info.frame.name, "Object#hit") != 0;
			continue;
		}
		if (desc.class == STITCH_HIDDEN)
			continue;
		if (loc == p->nr_locs) {
			TAP_FAIL(
			        "%s: more frames than locations: %s", p->expected, info.frame.name);
			return;
		}
		if (!(info.flags & INTERP_RESOLVED))
			TAP_FAIL("%s: frame %zu (%s) is not resolved", p->expected, loc, l->label);
		if (loc == p->above)
			CHECK_STR(info.frame.name, p->expected);
		if (!label_agrees(&info, l->label))
			TAP_FAIL("%s: frame %zu is %s, not %s", p->expected, loc, info.frame.name,
			        l->label);
		if (desc.class == STITCH_CODE &&
		        (info.frame.line != l->line || info.frame.path == NULL ||
		                strcmp(info.frame.path, l->path) != 0))
			TAP_FAIL("%s: frame %zu (%s) is at %s:%u, not %s:%u", p->expected, loc,
			        l->label, info.frame.path ? info.frame.path : "-", info.frame.line,
			        l->path, l->line);
		if (desc.class == STITCH_C)
			CHECK(info.func_addr != 0 && info.frame.path == NULL);
		CHECK((desc.class == STITCH_C) == (info.frame.kind == FRAME_INTERP_C));
		loc++;
	}
	if (loc != p->nr_locs)
		TAP_FAIL("%s: %zu frames, not %zu", p->expected, loc, p->nr_locs);
}

static void check_all_labels(const char *version, int gems)
{
	struct err err = {0};
	struct program p;
	int nr = 0;

	if (!program_start(&p, version, gems))
		return;
	if (!program_next(&p, false, "") || program_attach(&p, &err) != 0) {
		TAP_FAIL("cannot attach: %s", err.msg);
		program_end(&p);
		return;
	}
	do {
		if (strncmp(p.expected, "THREAD", 6) == 0)
			continue;
		check_stack(&p);
		nr++;
	} while (program_next(&p, true, "go"));
	printf("# %d stops of %s\n", nr, p.rt->version);
	CHECK(nr > 140);
	program_end(&p);
}

/* A name that was read before a collection still holds after it; one that was not is not guessed.
 */
TEST(a_sample_from_before_a_collection_is_named_only_if_it_was_read_then)
{
	static struct interp_frame f[MAX_FRAMES];
	struct interp_info before, after;
	struct runtime *second = NULL;
	struct err err = {0};
	struct program p;
	uint64_t gen, now;
	int n, hit = -1;

	if (!program_start(&p, FIRST_RUBY, WITHOUT_GEMS))
		return;
	if (!program_next(&p, false, "") || program_attach(&p, &err) != 0 ||
	        ruby_runtime.attach(&p.target, &p.maps, p.dsos, &second, &err) != 0) {
		TAP_FAIL("cannot attach: %s", err.msg);
		program_end(&p);
		return;
	}
	n = program_frames(&p, f, &gen);
	for (int i = 0; i < n && hit < 0; i++) {
		ruby_runtime.resolve(
		        p.rt, &f[i], i == 0, &(struct interp_moment){.gc_gen = gen}, &before);
		if (strcmp(before.frame.name, "Object#hit") == 0)
			hit = i;
	}
	CHECK(hit >= 0);
	CHECK(program_next(&p, true, "gc"));
	wait_until_asleep(&p);
	CHECK(ruby_gc_gen(p.rt, &now) == 0 && now != gen);
	if (hit >= 0) {
		ruby_runtime.resolve(
		        p.rt, &f[hit], false, &(struct interp_moment){.gc_gen = gen}, &after);
		CHECK_EQ(after.flags, INTERP_RESOLVED);
		CHECK_STR(after.frame.name, "Object#hit");
		ruby_runtime.resolve(
		        second, &f[hit], false, &(struct interp_moment){.gc_gen = gen}, &after);
		CHECK_EQ(after.flags, INTERP_UNVERIFIED);
		CHECK_STR(after.frame.name, "(code freed before it was read)");
		/* A sample of now is as good as any. */
		ruby_runtime.resolve(
		        second, &f[hit], false, &(struct interp_moment){.gc_gen = now}, &after);
		CHECK_EQ(after.flags, INTERP_RESOLVED);
		CHECK_STR(after.frame.name, "Object#hit");
	}
	ruby_runtime.free(second);
	program_end(&p);
}

static int count_reads(const struct target *t, uint64_t addr, void *out, size_t n)
{
	struct program *p = t->ctx;

	p->above++;
	return p->target.read(&p->target, addr, out, n);
}

TEST(a_frame_that_is_known_is_named_without_a_read)
{
	static struct interp_frame f[MAX_FRAMES];
	struct interp_info info;
	struct err err = {0};
	struct program p;
	uint64_t gen;
	int n;

	if (!program_start(&p, FIRST_RUBY, WITHOUT_GEMS))
		return;
	if (!program_next(&p, false, "") || program_attach(&p, &err) != 0) {
		TAP_FAIL("cannot attach: %s", err.msg);
		program_end(&p);
		return;
	}
	n = program_frames(&p, f, &gen);
	CHECK(n > 2);
	for (int i = 0; i < n; i++)
		ruby_runtime.resolve(
		        p.rt, &f[i], i == 0, &(struct interp_moment){.gc_gen = gen}, &info);
	p.rt->target.read = count_reads;
	p.rt->target.ctx = &p;
	p.above = 0;
	for (int i = 0; i < n; i++)
		ruby_runtime.resolve(
		        p.rt, &f[i], i == 0, &(struct interp_moment){.gc_gen = gen}, &info);
	CHECK_EQ(p.above, 0);
	program_end(&p);
}

static void check_threads(const char *version)
{
	uint64_t th[16], ec;
	struct err err = {0};
	struct program p;
	char name[64];
	size_t nr, found = 0;

	if (!program_start(&p, version, WITHOUT_GEMS))
		return;
	if (!program_next(&p, false, "") || program_attach(&p, &err) != 0) {
		TAP_FAIL("cannot attach: %s", err.msg);
		program_end(&p);
		return;
	}
	while (strncmp(p.expected, "THREAD", 6) != 0 && program_next(&p, true, "go"))
		;
	nr = ruby_threads_read(p.rt, th, ARRAY_SIZE(th));
	CHECK_EQ(nr, 2);
	for (size_t i = 0; i < nr; i++) {
		CHECK_EQ(ruby_thread_ec(p.rt, th[i], &ec), 0);
		ruby_runtime.thread_name(p.rt, ec, name, sizeof(name));
		found += strcmp(name, "worker one") == 0;
	}
	CHECK_EQ(found, 1);
	program_end(&p);
}

/* The context's offset from the thread pointer, against another attach, and ranges that hold what
 * their names say. */
static void check_facts(const char *version)
{
	struct ruby_proc proc;
	struct err err = {0};
	struct program p;
	struct buf text;
	uint64_t sym;

	if (!program_start(&p, version, WITHOUT_GEMS))
		return;
	if (!program_next(&p, false, "") || program_attach(&p, &err) != 0) {
		TAP_FAIL("cannot attach: %s", err.msg);
		program_end(&p);
		return;
	}
	ruby_runtime.walker_config(p.rt, &proc);
	CHECK_EQ(proc.ec_source, RUBY_EC_TP_OFFSET);
	CHECK(proc.tp_off < 0);
	CHECK_EQ(ruby_runtime.native_role(p.rt, proc.vm_exec_lo), STITCH_ENTRY);
	CHECK_EQ(ruby_runtime.native_role(p.rt, proc.vm_core_lo), STITCH_LOOP);
	CHECK_EQ(ruby_runtime.native_role(p.rt, p.rt->bias), STITCH_PLAIN);
	/* 3.1 exports what was found without it. */
	if (dso_find_symbol(p.rt->dso, "rb_vm_exec") != NULL) {
		sym = dso_find_symbol(p.rt->dso, "rb_vm_exec")->vaddr;
		CHECK_EQ(proc.vm_exec_lo, sym + p.rt->bias);
	}
	CHECK(strstr(ruby_runtime.description(p.rt), p.rt->version) != NULL);
	for (int json = 0; json < 2; json++) {
		buf_init(&text, 1 << 16);
		ruby_runtime.describe(p.rt, &text, json);
		CHECK(text.len > 0 && strstr(text.data, "vm_exec_core") != NULL);
		buf_release(&text);
	}
	program_end(&p);
}

/* From the first instruction of ld.so on: not there, then not yet, then there. */
static void check_start(const char *version)
{
	struct err err = {0};
	struct program p;
	int rc;

	for (int round = 0; round < 5; round++) {
		if (!program_start(&p, version, WITHOUT_GEMS))
			return;
		do {
			rc = program_attach(&p, &err);
			if (rc != 0 && rc != -ENOENT && rc != -EAGAIN)
				TAP_FAIL("%d: %s", rc, err.msg);
			if (rc != 0) {
				dso_cache_free(p.dsos);
				maps_release(&p.maps);
				target_close(&p.target);
				p.dsos = NULL;
				p.target.pid = 0;
			}
		} while (rc == -ENOENT || rc == -EAGAIN);
		program_end(&p);
	}
}

#define OF_RUBY(id, version)                                                                       \
	TEST(every_construct_has_the_label_path_and_line_that_ruby_##id##_says)                    \
	{                                                                                          \
		check_all_labels(version, WITHOUT_GEMS);                                           \
	}                                                                                          \
	TEST(every_construct_has_the_label_path_and_line_that_ruby_##id##_with_gems_says)          \
	{                                                                                          \
		check_all_labels(version, WITH_GEMS);                                              \
	}                                                                                          \
	TEST(threads_have_the_names_that_the_program_gave_them_in_##id)                            \
	{                                                                                          \
		check_threads(version);                                                            \
	}                                                                                          \
	TEST(facts_of_an_attach_to_##id##_are_what_the_file_exports)                               \
	{                                                                                          \
		check_facts(version);                                                              \
	}                                                                                          \
	TEST(a_ruby_##id##_that_starts_is_not_there_then_not_ready_then_attached)                  \
	{                                                                                          \
		check_start(version);                                                              \
	}
RUBIES(OF_RUBY)

TEST(a_process_without_ruby_is_no_ruby)
{
	struct err err = {0};
	struct program p = {0};
	static const char *const cat[] = {"/bin/cat", "-", NULL};

	REQUIRE(program_run(&p, cat, ""));
	fprintf(p.in, "x\n");
	fflush(p.in);
	CHECK_EQ(fgetc(p.out), 'x'); /* it has come to its own code */
	CHECK_EQ(program_attach(&p, &err), -ENOENT);
	program_end(&p);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	return tap_run(argc, argv);
}

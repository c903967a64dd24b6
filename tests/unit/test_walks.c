/*
 * The two walks and the captures of the kernel side, over the memory of real Rubies: recorded while
 * a program waits (data/walk_stacks.rb) that knows its own stack. First as it was, then with words
 * and pages changed in thousands of ways.
 */
#define RPROF_CHECK /* as tests/unit/bpf_user.h; before the first include of bpf/abi.h */

#include "base/err.h"
#include "record/process.h"
#include "record/unwind_maps.h"
#include "runtimes/ruby/ruby_runtime.h"
#include "symbolizer/unwind.h"
#include "tests/unit/rubies.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/bpf_user.h"

/* With the sum that checks each record. Its struct kept_walk is user space's. */
#define kept_walk told_walk
#include "record/kept_walk.c"
#undef kept_walk

enum { MAX_LOCS = 4096, MAX_TRACE = 1 << 16, MAX_CHANGES = 64, NR_TORN = 1200, ROOM_SZ = 8 << 20 };

/* ---- the memory of a process --------------------------------------------------------------- */

struct region {
	uint64_t start, end;
	uint8_t *data;
	bool *gone; /* of each page */
};

struct read_at {
	uint64_t addr;
	size_t n;
};

struct memory {
	struct region *v;
	size_t nr;
	/* what was read, while it is noted */
	struct read_at *trace;
	size_t nr_trace;
	bool tracing;
	/* what was changed */
	struct {
		uint8_t *at;
		uint64_t was;
	} changed[MAX_CHANGES];
	bool *hidden[MAX_CHANGES];
	size_t nr_changed, nr_hidden;
};

static struct region *region_of(const struct memory *mem, uint64_t addr)
{
	size_t lo = 0, hi = mem->nr;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (addr >= mem->v[mid].end)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < mem->nr && addr >= mem->v[lo].start ? &mem->v[lo] : NULL;
}

static int memory_read(void *ctx, uint64_t addr, void *out, size_t n)
{
	struct memory *mem = ctx;
	uint8_t *to = out;

	if (mem->tracing && mem->nr_trace < MAX_TRACE)
		mem->trace[mem->nr_trace++] = (struct read_at){addr, n};
	while (n > 0) {
		struct region *r = region_of(mem, addr);
		size_t part = MIN(n, RPROF_PAGE_SZ - addr % RPROF_PAGE_SZ);

		if (r == NULL || r->gone[(addr - r->start) / RPROF_PAGE_SZ])
			return -EFAULT;
		memcpy(to, r->data + (addr - r->start), part);
		to += part;
		addr += part;
		n -= part;
	}
	return 0;
}

static int memory_read_word(void *ctx, uint64_t addr, uint64_t *value)
{
	return memory_read(ctx, addr, value, sizeof(*value));
}

/* A page of anonymous memory that was never written is zero, and not worth a read. */
static bool is_present(int pagemap, uint64_t addr)
{
	uint64_t entry = 0;

	return pread(pagemap, &entry, 8, (off_t)(addr / RPROF_PAGE_SZ * 8)) != 8 || entry >> 62;
}

static bool region_copy(
        struct region *r, const struct iovec *from, pid_t pid, int pagemap, bool anonymous)
{
	size_t sz = from->iov_len;

	r->data = mmap(NULL, sz, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->gone = calloc(sz / RPROF_PAGE_SZ, sizeof(*r->gone));
	if (r->data == MAP_FAILED || r->gone == NULL)
		return false;
	for (size_t off = 0; off < sz; off += RPROF_PAGE_SZ) {
		struct iovec to = {r->data + off, RPROF_PAGE_SZ};
		struct iovec page = {(char *)from->iov_base + off, RPROF_PAGE_SZ};

		if (anonymous && !is_present(pagemap, r->start + off))
			continue;
		if (process_vm_readv(pid, &to, 1, &page, 1, 0) != RPROF_PAGE_SZ)
			r->gone[off / RPROF_PAGE_SZ] = true;
	}
	return true;
}

/* All that can be read of the process, which is stopped. */
static bool memory_copy(struct memory *mem, pid_t pid, const struct maps *maps)
{
	char path[64];
	bool ok = true;
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	memset(mem, 0, sizeof(*mem));
	mem->v = calloc(maps->nr, sizeof(*mem->v));
	mem->trace = calloc(MAX_TRACE, sizeof(*mem->trace));
	if (mem->v == NULL || mem->trace == NULL || pagemap < 0)
		return false;
	for (size_t i = 0; ok && i < maps->nr; i++) {
		const struct mapping *m = &maps->v[i];
		const struct iovec from = {(void *)(uintptr_t)m->start, m->end - m->start};

		if (!(m->prot & MAPS_PROT_READ) || m->start >> 47 != 0)
			continue;
		mem->v[mem->nr] = (struct region){.start = m->start, .end = m->end};
		ok = region_copy(&mem->v[mem->nr++], &from, pid, pagemap, m->path[0] != '/');
	}
	close(pagemap);
	return ok;
}

static void memory_release(struct memory *mem)
{
	for (size_t i = 0; i < mem->nr; i++) {
		munmap(mem->v[i].data, mem->v[i].end - mem->v[i].start);
		free(mem->v[i].gone);
	}
	free(mem->v);
	free(mem->trace);
}

/* ---- the program --------------------------------------------------------------------------- */

struct loc {
	unsigned int line;
	char label[128];
};

struct program {
	pid_t pid;
	FILE *in, *out;
	struct dso_cache *dsos;
	struct process *process;
	struct table_store store;
	struct kept_walks *kept;
	struct sample_origin origin;
	struct memory mem;
	/* the stop where it is */
	char stop[64];
	struct loc loc[MAX_LOCS];
	size_t nr_locs;
};

/* False: the test is skipped, or has failed. */
static bool program_start(struct program *p, const char *version)
{
	struct test_ruby ruby;
	int to[2], from[2], n = 0;

	memset(p, 0, sizeof(*p));
	if (!test_ruby_find(version, &ruby))
		return false;
	while (ruby.argv[n] != NULL)
		n++;
	ruby.argv[n] = "tests/unit/data/walk_stacks.rb";
	ruby.argv[n + 1] = NULL;
	if (pipe(to) != 0 || pipe(from) != 0) {
		TAP_FAIL("no pipe");
		return false;
	}
	p->pid = fork();
	if (p->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		close(from[0]);
		if (ruby.rubylib[0] != '\0')
			setenv("RUBYLIB", ruby.rubylib, 1);
		execv(ruby.argv[0], (char *const *)(uintptr_t)ruby.argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->in = fdopen(to[1], "w");
	p->out = fdopen(from[0], "r");
	return p->pid > 0;
}

static bool read_line(struct program *p, char *out, size_t n)
{
	if (fgets(out, (int)n, p->out) == NULL)
		return false;
	out[strcspn(out, "\n")] = '\0';
	return true;
}

/* Goes on to its next stop; at the first one it arrives by itself. False: it has ended. */
static bool program_next(struct program *p, bool first)
{
	char line[1024], *tab;

	if (!first) {
		fputs("\n", p->in);
		fflush(p->in);
	}
	p->nr_locs = 0;
	if (!read_line(p, line, sizeof(line)) || strncmp(line, "STOP\t", 5) != 0)
		return false;
	snprintf(p->stop, sizeof(p->stop), "%.60s", line + 5);
	while (read_line(p, line, sizeof(line)) && strcmp(line, "END") != 0) {
		struct loc *l = &p->loc[p->nr_locs];

		tab = strchr(line, '\t');
		if (p->nr_locs == MAX_LOCS || tab == NULL)
			return false;
		l->line = (unsigned int)atoi(line);
		snprintf(l->label, sizeof(l->label), "%.120s", tab + 1);
		p->nr_locs++;
	}
	return true;
}

/* gets() writes END before it reads: the program may still run for a moment. */
static void wait_until_asleep(pid_t pid)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	for (;;) {
		FILE *f = fopen(path, "re");

		text[0] = '\0';
		if (f == NULL)
			return;
		if (fgets(text, sizeof(text), f) == NULL)
			text[0] = '\0';
		fclose(f);
		/* It has ended; or read(0), poll, ppoll. */
		if (text[0] == '\0' || strncmp(text, "0 0x0 ", 6) == 0 ||
		        strncmp(text, "271 ", 4) == 0 || strncmp(text, "7 ", 2) == 0)
			return;
	}
}

/* The tables of what is mapped, as a recording loads them. */
static bool program_tables(struct program *p)
{
	struct table_store *st = &p->store;
	enum { CHUNKS = 64, PAGES = 1 << 15, RULES = 1 << 14 };
	struct err err = {0};

	table_store_init(st, calloc(CHUNKS, UNWIND_CHUNK_ROWS * sizeof(uint32_t)), CHUNKS,
	        calloc(PAGES, sizeof(struct unwind_page)), PAGES,
	        calloc(RULES, sizeof(struct unwind_rule)), RULES);
	bpf_user.rows = st->rows;
	bpf_user.pages = st->pages;
	bpf_user.rules = st->rules;
	bpf_user.nr_chunks = CHUNKS;
	bpf_user.nr_pages = PAGES;
	bpf_user.nr_rules = RULES;
	if (st->rows == NULL || st->pages == NULL || st->rules == NULL)
		return false;
	if (table_store_map(st, p->process, &bpf_maps.mappings, &err) != 0) {
		printf("# %s\n", err.msg);
		return false;
	}
	return true;
}

/* What can't be read by a name that was not captured. */
static int nothing_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	return -EFAULT;
}

/* Stops it where it waits, copies its memory and registers, and makes the kernel side ready for it.
 */
static bool program_record(struct program *p)
{
	struct user_regs_struct regs;
	struct maps maps = {0};
	struct err err = {0};
	bool ok;

	wait_until_asleep(p->pid);
	memset(&bpf_maps, 0, sizeof(bpf_maps));
	if (p->dsos == NULL && (dso_cache_new(&p->dsos) != 0 ||
	                               process_new(p->pid, p->dsos, &p->process, &err) != 0)) {
		printf("# %s\n", err.msg);
		return false;
	}
	if (ptrace(PTRACE_SEIZE, p->pid, NULL, NULL) != 0 ||
	        ptrace(PTRACE_INTERRUPT, p->pid, NULL, NULL) != 0 ||
	        waitpid(p->pid, NULL, __WALL) != p->pid ||
	        ptrace(PTRACE_GETREGS, p->pid, NULL, &regs) != 0)
		return false;
	ok = maps_read(&maps, p->pid, &err) == 0 && memory_copy(&p->mem, p->pid, &maps);
	ptrace(PTRACE_DETACH, p->pid, NULL, NULL);
	maps_release(&maps);
	process_refresh_maps(p->process, &err);
	if (!ok || !program_tables(p) || kept_walks_new(1, &p->kept) != 0)
		return false;
	bpf_maps.mappings.generation = 1;
	bpf_maps.proc = (struct rprof_proc){.runtime = p->process->ops->id, .tag = 1};
	p->process->ops->walker_config(p->process->rt, bpf_maps.proc.config);
	ok = p->process->ops->capture_plan(p->process->rt, &bpf_maps.plan);
	bpf_user.read = memory_read;
	bpf_user.ctx = &p->mem;
	bpf_user.thread_pointer = regs.fs_base;
	bpf_user.ring_sz = ROOM_SZ;
	bpf_user.ring = malloc(ROOM_SZ);
	/* At the entry of a system call. */
	p->origin = (struct sample_origin){
	        .trigger = TRIGGER_CPU, .leaf = {.pc = regs.rip, .sp = regs.rsp, .fp = regs.rbp}};
	p->process->rt->target.read = nothing_read;
	return ok && bpf_user.ring != NULL;
}

static void program_forget(struct program *p)
{
	memory_release(&p->mem);
	kept_walks_free(p->kept);
	p->kept = NULL;
	free(p->store.rows);
	free(p->store.pages);
	free(p->store.rules);
	table_store_release(&p->store);
	memset(&p->store, 0, sizeof(p->store));
	free(bpf_user.ring);
	bpf_user.ring = NULL;
}

static void program_end(struct program *p)
{
	process_free(p->process);
	dso_cache_free(p->dsos);
	if (p->in != NULL)
		fclose(p->in);
	if (p->out != NULL)
		fclose(p->out);
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
	}
}

/* ---- one sample ---------------------------------------------------------------------------- */

/* Takes a sample. What was put into the ring is looked at by the caller. */
static void sample(const struct program *p)
{
	const struct bpf_pidns_info ids = {.pid = (uint32_t)p->pid, .tgid = (uint32_t)p->pid};

	bpf_user.ring_len = 0;
	bpf_user.nr_reads = 0;
	bpf_user.nr_turns = 0;
	bpf_user.clock_ns += 1000 * 1000;
	take_sample(NULL, SCRATCH_PERF, &p->origin, &bpf_maps.proc, &ids);
}

/* Are the pieces of a capture within it, to its last byte? */
static bool capture_is_whole(const struct rprof_capture *c)
{
	size_t at = sizeof(*c), size = c->record.size;
	struct capture_piece piece;

	while (at + sizeof(piece) <= size) {
		memcpy(&piece, (const char *)c + at, sizeof(piece));
		if (piece.size > CAPTURE_MAX_READ)
			return false;
		at += sizeof(piece) + (piece.size + 7) / 8 * 8;
	}
	return at == size;
}

/*
 * Reads the ring: captures go to the runtime, and the sample becomes whole. NULL: something is not
 * as it must be, and *wrong says what.
 */
static const struct rprof_sample *received(struct program *p, const char **wrong)
{
	const struct rprof_sample *whole = NULL;
	const uint64_t *words;
	uint64_t sum = 1;
	size_t whole_sz, nr;

	for (size_t at = 0; at < bpf_user.ring_len;) {
		const struct rprof_record *r = (const void *)(bpf_user.ring + at);
		size_t left = bpf_user.ring_len - at;

		if (left < sizeof(*r) || r->size > left || r->size < sizeof(*r) || r->size % 8) {
			*wrong = "a record does not fit into the ring";
			return NULL;
		}
		at += r->size;
		if (r->type == RECORD_CAPTURE && capture_is_whole((const void *)r)) {
			p->process->ops->captured(p->process->rt, (const void *)r, r->size);
			continue;
		}
		if (r->type != RECORD_SAMPLE || at != bpf_user.ring_len ||
		        !record_is_whole((const void *)r, r->size)) {
			*wrong = "a record is not whole";
			return NULL;
		}
		if (kept_walks_expand(p->kept, (const void *)r, r->size, &whole, &whole_sz) != 0) {
			*wrong = "the record does not build on the one before";
			return NULL;
		}
	}
	if (whole == NULL) {
		*wrong = "no sample was sent";
		return NULL;
	}
	words = record_native(whole);
	nr = whole->nr_native + whole->nr_interp * sizeof(struct interp_frame) / 8;
	for (size_t i = 0; i < nr; i++)
		sum = walk_sum(sum, words[i]);
	if (whole->check_sum != (sum != 0 ? sum : 1)) {
		*wrong = "the record is not what the plain walk found";
		return NULL;
	}
	return whole;
}

/* Differences between the walk and the plain one, since the start. */
static uint64_t nr_differences(void)
{
	return bpf_maps.counters[COUNTER_CHECK_NATIVE] + bpf_maps.counters[COUNTER_CHECK_INTERP];
}

/* ---- the truth ----------------------------------------------------------------------------- */

static bool find_table(void *ctx, uint64_t pc, enum mapping_kind *kind,
        const struct unwind_table **table, uint64_t *bias)
{
	struct process *p = ctx;
	const struct mapping *m = maps_find(&p->maps, pc);
	const struct mapping_info *info;

	if (m == NULL || !(m->prot & MAPS_PROT_EXEC))
		return false;
	info = process_mapping(p, m);
	*kind = (enum mapping_kind)info->kind;
	if (*kind != MAPPING_TABLE)
		return true;
	*table = dso_unwind_table(info->dso, NULL);
	return dso_load_bias(info->dso, m, bias);
}

struct plain_walk {
	struct program *p;
};

static int plain_read(void *ctx, uint64_t addr, uint64_t *value)
{
	struct plain_walk *plain = ctx;

	return memory_read_word(&plain->p->mem, addr, value);
}

static bool plain_table(void *ctx, uint64_t pc, enum mapping_kind *kind,
        const struct unwind_table **table, uint64_t *bias)
{
	struct plain_walk *plain = ctx;

	return find_table(plain->p->process, pc, kind, table, bias);
}

/* The native frames are those of user space's own walk (symbolizer/unwind.h), which ends at the
 * root of the thread. */
static void check_native(struct program *p, const struct rprof_sample *s)
{
	static struct native_frame frames[RPROF_MAX_NATIVE];
	struct plain_walk plain = {p};
	const struct unwind_source source = {
	        .ctx = &plain, .read = plain_read, .find_table = plain_table};
	const struct unwind_regs regs = {.pc = p->origin.leaf.pc,
	        .sp = p->origin.leaf.sp,
	        .fp = p->origin.leaf.fp,
	        .interrupted = p->origin.leaf.interrupted};
	struct unwind_walk walk;

	unwind_walk(&source, &regs, frames, RPROF_MAX_NATIVE, &walk);
	CHECK_EQ(s->native_outcome, walk.outcome);
	REQUIRE(s->nr_native == walk.nr);
	for (size_t i = 0; i < walk.nr; i++)
		if (NATIVE_PC(record_native(s)[i]) != frames[i].pc)
			TAP_FAIL("%s: native frame %zu is another", p->stop, i);
	/* A fiber's own stack has no root that its unwind information knows of. */
	if (strcmp(p->stop, "fiber") != 0)
		CHECK_EQ(walk.outcome, WALK_ROOT);
	CHECK(walk.nr > 10);
}

/* Up to 3.3 Ruby prints labels without the owner: the same word with "Owner#" taken out. */
static bool label_agrees(const struct frame *f, const char *label)
{
	const char *at = f->owner != NULL ? strstr(f->name, f->owner) : NULL;
	char bare[512];
	size_t len;

	if (f->name == NULL)
		return false;
	snprintf(bare, sizeof(bare), "%s", f->name);
	len = at != NULL ? strlen(f->owner) : 0;
	if (at != NULL && (at[len] == '#' || at[len] == '.'))
		snprintf(bare + (at - f->name), sizeof(bare) - (size_t)(at - f->name), "%s",
		        at + len + 1);
	return strcmp(bare, label) == 0;
}

/* The frames of the interpreter, from the caller of stop() out, are what Ruby itself says: in
 * number, order, names and lines, by what was captured alone. */
static void check_interp_frames(struct program *p, const struct rprof_sample *s)
{
	const struct interp_moment when = {.time_ns = s->time_ns, .gc_gen = s->gc_gen};
	bool in_stop = true;
	size_t at = 0;

	CHECK_EQ(s->interp_outcome, WALK_ROOT);
	for (size_t i = 0; i < s->nr_interp; i++) {
		const struct interp_frame *f = &record_interp(s)[i];
		struct interp_info info;
		struct interp_desc desc;

		p->process->ops->frame_class(p->process->rt, f, &desc);
		if (desc.class == STITCH_HIDDEN)
			continue;
		p->process->ops->resolve(p->process->rt, f, i == 0, &when, &info);
		if (in_stop) {
			in_stop = info.frame.name == NULL ||
			          strcmp(info.frame.name, "Object#stop") != 0;
			continue;
		}
		REQUIRE(at < p->nr_locs);
		if (!label_agrees(&info.frame, p->loc[at].label))
			TAP_FAIL("%s: frame %zu is %s, not %s", p->stop, at,
			        info.frame.name ? info.frame.name : "-", p->loc[at].label);
		if (desc.class == STITCH_CODE && info.frame.line != p->loc[at].line)
			TAP_FAIL("%s: frame %zu, %s, is at line %u, not %u", p->stop, at,
			        p->loc[at].label, info.frame.line, p->loc[at].line);
		at++;
	}
	CHECK_EQ(at, p->nr_locs);
}

/* ---- memory that lies ---------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* A word that was read by some sample of this stop. */
static uint64_t drawn_addr(const struct memory *mem)
{
	const struct read_at *r = &mem->trace[draw() % mem->nr_trace];
	size_t nr = MAX(r->n / 8, 1);

	/* The ends are read more often than what is between. */
	switch (draw() % 4) {
	case 0:
		nr = MIN(nr, 16);
		return r->addr + draw() % nr * 8;
	case 1:
		return r->addr + (nr - 1 - draw() % MIN(nr, 16)) * 8;
	default:
		return r->addr + draw() % nr * 8;
	}
}

static uint64_t drawn_value(const struct memory *mem, uint64_t addr, uint64_t was)
{
	uint64_t other = 0;

	switch (draw() % 12) {
	case 0:
		return 0;
	case 1:
		return ~0ULL;
	case 2:
		return addr; /* into itself */
	case 3:
		return addr + 8 * (draw() % 64) - 256;
	case 4:
		return was ^ 1ULL << draw() % 64;
	case 5:
		return was + 8 * (draw() % 33) - 128;
	case 6:
		return 1ULL << draw() % 64; /* a length */
	case 7:
		return drawn_addr(mem);
	case 8:
		return (drawn_addr(mem) | (RPROF_PAGE_SZ - 1)) - draw() % 16;
	case 9:
		memory_read_word((void *)(uintptr_t)mem, drawn_addr(mem), &other);
		return other;
	case 10:
		return mem->v[draw() % mem->nr].end - draw() % 64;
	default:
		return draw();
	}
}

/* Until memory_mend(). */
static void memory_change(struct memory *mem, uint64_t addr, uint64_t value)
{
	struct region *r = region_of(mem, addr);
	uint8_t *at;

	if (r == NULL || r->end - addr < 8 || mem->nr_changed == MAX_CHANGES)
		return;
	at = r->data + (addr - r->start);
	mem->changed[mem->nr_changed].at = at;
	memcpy(&mem->changed[mem->nr_changed++].was, at, 8);
	memcpy(at, &value, 8);
}

static void memory_hide(struct memory *mem, uint64_t addr)
{
	struct region *r = region_of(mem, addr);
	bool *gone = r != NULL ? &r->gone[(addr - r->start) / RPROF_PAGE_SZ] : NULL;

	if (gone == NULL || *gone || mem->nr_hidden == MAX_CHANGES)
		return;
	mem->hidden[mem->nr_hidden++] = gone;
	*gone = true;
}

static void memory_tear(struct memory *mem)
{
	size_t nr = 1 + draw() % (draw() % 8 == 0 ? MAX_CHANGES : 4);

	for (size_t i = 0; i < nr; i++) {
		uint64_t addr = drawn_addr(mem), was = 0;

		if (draw() % 16 == 0) {
			memory_hide(mem, addr);
		} else {
			memory_read_word(mem, addr, &was);
			memory_change(mem, addr, drawn_value(mem, addr, was));
		}
	}
}

static void memory_mend(struct memory *mem)
{
	for (size_t i = mem->nr_changed; i-- > 0;)
		memcpy(mem->changed[i].at, &mem->changed[i].was, 8);
	for (size_t i = 0; i < mem->nr_hidden; i++)
		*mem->hidden[i] = false;
	mem->nr_changed = mem->nr_hidden = 0;
}

/* The most that a run may do, whatever it finds; the plain walk is in it. */
enum { MOST_TURNS = 1 << 20, MOST_READS = 1 << 20 };

/* Mutation number i, and a sample. NULL: all is as it must be. */
static const char *torn(struct program *p, unsigned int i)
{
	uint64_t differences = nr_differences();
	const struct rprof_sample *s;
	const char *wrong = NULL;

	/* Each sample builds on the one before, whose memory was another; now and then on nothing,
	 * and now and then nothing has been captured. */
	seed = 0x9e3779b97f4a7c15 * (i + 1ULL);
	if (draw() % 4 == 0)
		bpf_maps.kept[0].nr_native = bpf_maps.kept[0].nr_interp = 0;
	if (draw() % 3 == 0)
		memset(&bpf_maps.slots, 0, sizeof(bpf_maps.slots));
	memory_tear(&p->mem);
	sample(p);
	s = received(p, &wrong);
	memory_mend(&p->mem);
	if (bpf_user.nr_turns > MOST_TURNS || bpf_user.nr_reads > MOST_READS)
		wrong = "the run was endless";
	if (nr_differences() != differences)
		wrong = "the walk is not the plain one";
	for (size_t f = 0; s != NULL && f < MIN(s->nr_interp, 8); f++) {
		const struct interp_moment when = {.time_ns = s->time_ns};
		struct interp_info info;

		p->process->ops->resolve(
		        p->process->rt, &record_interp(s)[f], f == 0, &when, &info);
	}
	return wrong;
}

/* ---- the tests ----------------------------------------------------------------------------- */

static void at_each_stop(const char *version, void (*check)(struct program *p))
{
	static struct program p;
	int nr = 0;

	if (!program_start(&p, version))
		return;
	while (!tap_failed && program_next(&p, nr == 0)) {
		if (!program_record(&p)) {
			TAP_FAIL("%s: the program cannot be recorded", p.stop);
		} else {
			check(&p);
			nr++;
		}
		program_forget(&p);
	}
	program_end(&p);
	CHECK_EQ(nr, 6);
}

/* Walked for the first time, and again with what was kept: the same frames. */
static void check_true(struct program *p)
{
	const struct rprof_sample *s;
	const char *wrong = "";
	uint64_t first = 0;

	for (int i = 0; i < 3; i++) {
		sample(p);
		s = received(p, &wrong);
		CHECK_STR(wrong, "");
		REQUIRE(s != NULL);
		check_native(p, s);
		check_interp_frames(p, s);
		CHECK_EQ(nr_differences(), 0);
		CHECK_EQ(bpf_maps.counters[COUNTER_CHECK_CAPTURE], 0);
		CHECK(i == 0 || s->reads < first);
		if (i == 0)
			first = s->reads;
	}
}

/* Notes what is read of it. */
static void trace_reads(struct program *p)
{
	const char *wrong;

	p->mem.tracing = true;
	for (int i = 0; i < 2; i++) {
		sample(p);
		received(p, &wrong);
	}
	p->mem.tracing = false;
}

/* The context names more frames than a record has room for, and than the VM stack has. */
static void check_lengths(struct program *p)
{
	const struct ruby_proc *ruby_says = &p->process->rt->proc;
	uint64_t ec, lo = 0, size = 0, most;
	const char *wrong = NULL;

	sample(p);
	REQUIRE(received(p, &wrong) != NULL);
	ec = bpf_maps.scratch.rec.head.context;
	memory_read_word(&p->mem, ec + ruby_says->ec_vm_stack, &lo);
	memory_read_word(&p->mem, ec + ruby_says->ec_vm_stack_size, &size);
	most = size * 8 / ruby_says->cfp_sz;
	REQUIRE(most > 1000);
	for (uint64_t nr = 0; nr <= most && wrong == NULL; nr += nr < 4 ? 1 : 509) {
		for (int again = 0; again < 2 && wrong == NULL; again++) {
			memory_change(&p->mem, ec + ruby_says->ec_cfp,
			        lo + size * 8 - nr * ruby_says->cfp_sz);
			sample(p);
			memory_mend(&p->mem);
			received(p, &wrong);
			CHECK(bpf_maps.scratch.nr_interp <= RPROF_MAX_INTERP);
		}
	}
	CHECK_STR(wrong != NULL ? wrong : "", "");
	CHECK_EQ(nr_differences(), 0);
}

static void check_hostile(struct program *p)
{
	check_lengths(p);
	trace_reads(p);
	for (unsigned int i = 0; i < NR_TORN && !tap_failed; i++) {
		const char *wrong = torn(p, i);

		if (wrong != NULL)
			TAP_FAIL("%s, mutation %u: %s", p->stop, i, wrong);
	}
}

/* A check of the fast walk is left out: by some mutation that is seen, of the first stop or a later
 * one. */
static bool seen_without[PLANTED_INTERP_FRAME + 1];

static void check_planted(struct program *p)
{
	trace_reads(p);
	for (uint32_t what = PLANTED_RETURN_ADDRESS; what <= PLANTED_INTERP_FRAME; what++) {
		rp_planted = what;
		for (unsigned int i = 0; i < NR_TORN && !seen_without[what]; i++)
			seen_without[what] = torn(p, i) != NULL;
	}
	rp_planted = 0;
}

#define OF_RUBY(id, version)                                                                       \
	TEST(ruby_##id##_is_walked_as_it_says_itself)                                              \
	{                                                                                          \
		at_each_stop(version, check_true);                                                 \
	}                                                                                          \
	TEST(memory_that_lies_does_no_harm_on_ruby_##id)                                           \
	{                                                                                          \
		at_each_stop(version, check_hostile);                                              \
	}
RUBIES(OF_RUBY)

TEST(a_check_of_the_fast_walk_that_is_left_out_is_seen)
{
	at_each_stop(FIRST_RUBY, check_planted);
	if (tap_skipped[0] != '\0')
		return;
	CHECK(seen_without[PLANTED_RETURN_ADDRESS]);
	CHECK(seen_without[PLANTED_FRAME_POINTER]);
	CHECK(seen_without[PLANTED_INTERP_FRAME]);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

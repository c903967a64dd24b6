/*
 * An extension that knows its own stack. A "place" is one of the functions truth_spin_0 ..
 * truth_spin_31: before it burns CPU it prints, once per distinct stack, what a profiler must see
 * there: the Ruby frames as Ruby itself tells them (lib/truth_case.rb), the native frames as
 * libgcc's unwinder finds them, and the anchors that fix the order between the two. Nothing in here
 * knows a layout of the interpreter.
 */
#include <ruby.h>
#include <ruby/debug.h>
#include <ruby/thread.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define KEPT __attribute__((noinline, noclone))
#define KEEP_FRAME                                                                                 \
	__asm__ volatile("" ::: "memory") /* after a call: it is not the last thing done */

enum { NR_PLACES = 32, NR_SITES = 64, NR_FRAMES = 16384 };

/* From libgcc: the FDE that covers pc. Its fields are {length, CIE, pc_begin, pc_range, ...}, four
 * bytes each in what gcc and ld make for x86-64. */
struct dwarf_eh_bases {
	void *tbase, *dbase, *func;
};
extern const void *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases);

struct native {
	uint64_t pc, cfa, func;
	uint32_t func_sz;
	int interrupted;
};

struct natives {
	size_t nr;
	struct native frame[NR_FRAMES];
};

struct place {
	uint64_t seen[64]; /* hashes of the stacks that were printed already */
	unsigned nr_seen;
};

static struct place places[NR_PLACES];
static uint64_t sites[NR_SITES];
static unsigned nr_sites;
static VALUE mod;
static volatile sig_atomic_t stop_wanted;
static unsigned long spin_rounds = 40000;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static int out_fd = 1;

/* ---- code of the JIT --------------------------------------------------------------------- */

/*
 * YJIT's code has no unwind information; libgcc's unwinder is given some. The entry pushes r13, r12
 * and rbx and leaves rbp alone (yjit_codegen.c, yjit_entry_prologue, v3_1_0; codegen.rs,
 * gen_entry_prologue, v3_3_0); a call may have pushed values of the language above those. So the
 * return address is the first word from the fourth on that points into the interpreter's code.
 */
static struct range {
	uint64_t lo, hi;
} jit, interpreter;

static int in_range(const struct range *r, uint64_t addr)
{
	return addr >= r->lo && addr < r->hi;
}

/* The executable part of the object that the address is in. */
static int find_code(struct dl_phdr_info *info, size_t size, void *addr)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		struct range r = {
		        info->dlpi_addr + ph->p_vaddr, info->dlpi_addr + ph->p_vaddr + ph->p_memsz};

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) &&
		        in_range(&r, *(uint64_t *)addr)) {
			interpreter = r;
			return 1;
		}
	}
	return 0;
}

/* Executable memory of no file, with what is reserved behind it. */
static void find_jit(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], prot[8];
	uint64_t lo, hi, inode;
	int name;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s %*x %*s %lu %n", &lo, &hi, prot, &inode, &name) != 4)
			continue;
		if (jit.hi && lo == jit.hi && inode == 0)
			jit.hi = hi;
		else if (!jit.hi && prot[2] == 'x' && inode == 0 &&
		         (line[name] == 0 || line[name] == '\n' ||
		                 strncmp(line + name, "[anon:Ruby", 10) == 0))
			jit = (struct range){lo, hi};
	}
	if (f)
		fclose(f);
}

extern void __register_frame(void *begin);

struct __attribute__((packed)) jit_fde {
	uint32_t cie_len, cie_id;
	uint8_t version, augmentation, code_align, data_align, ra_reg;
	uint8_t def_cfa_expression, expression_len;
	uint8_t start[2]; /* DW_OP_breg7 24: rsp + 24 */
	uint8_t load[2];  /* loop: DW_OP_dup, DW_OP_deref */
	uint8_t const8u;  /* DW_OP_const8u */
	uint64_t lo;
	uint8_t compare[4]; /* DW_OP_minus, DW_OP_dup, DW_OP_lit0, DW_OP_ge */
	uint8_t swap, const8s;
	uint64_t size;
	uint8_t below[2]; /* DW_OP_lt, DW_OP_and */
	uint8_t bra;      /* to done */
	int16_t bra_off;
	uint8_t next[2]; /* DW_OP_plus_uconst 8 */
	uint8_t skip;    /* to loop */
	int16_t skip_off;
	uint8_t done[2];   /* DW_OP_plus_uconst 8 */
	uint8_t saved[10]; /* DW_CFA_offset of rip, r13, r12, rbx */
	uint8_t cie_pad[4];
	uint32_t fde_len, cie_off;
	uint64_t pc_begin, pc_range;
	uint32_t end;
};

/* Once, before anything is told; code: an address in the interpreter. */
static void jit_cross(uint64_t code)
{
	static struct jit_fde d = {
	        .cie_len = offsetof(struct jit_fde, fde_len) - 4,
	        .version = 1,
	        .code_align = 1,
	        .data_align = 0x78, /* -8 */
	        .ra_reg = 16,
	        .def_cfa_expression = 0x0f,
	        .expression_len = offsetof(struct jit_fde, saved) - offsetof(struct jit_fde, start),
	        .start = {0x77, 24},
	        .load = {0x12, 0x06},
	        .const8u = 0x0e,
	        .compare = {0x1c, 0x12, 0x30, 0x2a},
	        .swap = 0x16,
	        .const8s = 0x0f,
	        .below = {0x2d, 0x1a},
	        .bra = 0x28,
	        .bra_off = offsetof(struct jit_fde, done) - offsetof(struct jit_fde, next),
	        .next = {0x23, 8},
	        .skip = 0x2f,
	        .skip_off =
	                -(int16_t)(offsetof(struct jit_fde, done) - offsetof(struct jit_fde, load)),
	        .done = {0x23, 8},
	        .saved = {0x80 | 16, 1, 0x80 | 13, 2, 0x80 | 12, 3, 0x80 | 3, 4},
	        .fde_len = offsetof(struct jit_fde, end) - offsetof(struct jit_fde, cie_off),
	        .cie_off = offsetof(struct jit_fde, cie_off),
	};

	find_jit();
	if (!jit.hi || interpreter.hi)
		return;
	dl_iterate_phdr(find_code, &code);
	d.lo = interpreter.lo;
	d.size = interpreter.hi - interpreter.lo;
	d.pc_begin = jit.lo;
	d.pc_range = jit.hi - jit.lo;
	__register_frame(&d);
}

/* ---- the native stack ------------------------------------------------------------------ */

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *ctx, void *arg)
{
	struct natives *n = arg;
	struct dwarf_eh_bases bases;
	struct native *f;
	const unsigned char *fde;
	int before = 0;

	if (n->nr == NR_FRAMES)
		return _URC_NORMAL_STOP;
	f = &n->frame[n->nr];
	f->pc = _Unwind_GetIPInfo(ctx, &before);
	if (f->pc == 0)
		return _URC_NORMAL_STOP;
	f->cfa = _Unwind_GetCFA(ctx);
	f->interrupted = before;
	f->func = 0;
	f->func_sz = 0;
	fde = _Unwind_Find_FDE((void *)(f->pc - !before), &bases);
	if (in_range(&jit, f->pc)) {
		f->func = jit.lo;
	} else if (fde) {
		f->func = (uint64_t)bases.func;
		memcpy(&f->func_sz, fde + 12, 4);
	}
	n->nr++;
	return _URC_NO_REASON;
}

/* Frames of the caller's callers, leaf first; [0] is the caller of this function. */
static KEPT struct natives *natives_new(void)
{
	struct natives *n =
	        mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (n == MAP_FAILED)
		abort();
	_Unwind_Backtrace(add_frame, n);
	n->nr--; /* this function */
	memmove(&n->frame[0], &n->frame[1], n->nr * sizeof(n->frame[0]));
	return n;
}

static void natives_free(struct natives *n)
{
	munmap(n, sizeof(*n));
}

/*
 * The stack at the collector's own event that says that it was entered, until the event that it was
 * left. What the two stacks have in common calls the collector or is its entry: the innermost
 * common activation is the function that entered it, whatever its name and on any build. NULL: it
 * does not run.
 */
static struct natives *gc_entered;

/* Which of n's frames entered the collector: it goes on elsewhere than where it raised the event,
 * while each frame outside of it still is in the same call. n->nr: none. */
static size_t gc_entry(const struct natives *n)
{
	const struct natives *e = gc_entered;

	for (size_t i = 1; e && i <= n->nr && i <= e->nr; i++) {
		const struct native *now = &n->frame[n->nr - i], *then = &e->frame[e->nr - i];

		if (now->cfa != then->cfa)
			break;
		if (now->pc != then->pc)
			return n->nr - i;
	}
	return n->nr;
}

static int is_site(uint64_t pc)
{
	for (unsigned i = 0; i < nr_sites; i++)
		if (sites[i] == pc)
			return 1;
	return 0;
}

/* ---- printing -------------------------------------------------------------------------- */

struct text {
	char *p;
	size_t len, cap;
};

static void text_add(struct text *t, const char *fmt, ...)
{
	va_list args;
	int len;

	for (;;) {
		va_start(args, fmt);
		len = vsnprintf(t->p + t->len, t->cap - t->len, fmt, args);
		va_end(args);
		if (t->len + len < t->cap)
			break;
		t->cap = (t->cap + len) * 2;
		t->p = realloc(t->p, t->cap);
		if (!t->p)
			abort();
	}
	t->len += len;
}

static void print_line(struct text *t)
{
	size_t done = 0;

	text_add(t, "\n");
	pthread_mutex_lock(&out_lock);
	while (done < t->len) {
		ssize_t n = write(out_fd, t->p + done, t->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			abort();
		done += n;
	}
	pthread_mutex_unlock(&out_lock);
	free(t->p);
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t len)
{
	const unsigned char *c = p;

	while (len--)
		h = (h ^ *c++) * 1099511628211ULL;
	return h;
}

/* Static functions, which dladdr doesn't know. */
struct static_name {
	const char *name;
	uint64_t addr;
};
static const struct static_name *static_names;

static const char *name_of(const struct native *f, const Dl_info *info)
{
	for (size_t i = 0; static_names[i].name; i++)
		if (static_names[i].addr == f->func)
			return static_names[i].name;
	return info->dli_sname && (uint64_t)info->dli_saddr == f->func ? info->dli_sname : NULL;
}

/* Prints the stack of this place unless it was printed before. ruby: the JSON of the Ruby part. */
static void place_print(int k, const struct natives *n, const char *ruby, const char *trigger)
{
	struct place *pl = &places[k];
	uint64_t h = hash_bytes(14695981039346656037ULL, ruby, strlen(ruby));
	struct text t = {0};
	long tid = syscall(SYS_gettid);
	size_t entry = gc_entry(n);

	for (size_t i = 1; i < n->nr; i++) /* [0] is the place itself: its pc moves */
		h = hash_bytes(h, &n->frame[i].pc, sizeof(n->frame[i].pc));
	h = hash_bytes(h, &tid, sizeof(tid));
	for (unsigned i = 0; i < pl->nr_seen; i++)
		if (pl->seen[i] == h)
			return;
	if (pl->nr_seen < 64)
		pl->seen[pl->nr_seen++] = h;
	text_add(&t, "{\"place\":%d,\"trigger\":\"%s\",\"tid\":%ld,\"ruby\":%s,\"native\":[", k,
	        trigger, tid, ruby);
	for (size_t i = n->nr; i-- > 0;) {
		const struct native *f = &n->frame[i];
		Dl_info info;
		int found = f->func && dladdr((void *)f->func, &info);
		const char *name = found ? name_of(f, &info) : NULL;

		text_add(&t,
		        "{\"pc\":%llu,\"cfa\":%llu,\"func\":%llu,\"size\":%u,\"signal\":%s,"
		        "\"mark\":\"%s\",",
		        (unsigned long long)f->pc, (unsigned long long)f->cfa,
		        (unsigned long long)f->func, f->func_sz, f->interrupted ? "true" : "false",
		        i == entry              ? "gc"
		        : in_range(&jit, f->pc) ? "jit"
		        : is_site(f->pc)        ? "site"
		                                : "");
		text_add(&t, "\"name\":%s%s%s,\"lib\":\"%s\"}%s", name ? "\"" : "",
		        name ? name : "null", name ? "\"" : "", found ? info.dli_fname : "",
		        i ? "," : "");
	}
	text_add(&t, "]}");
	print_line(&t);
}

/* ---- places ---------------------------------------------------------------------------- */

/* What a place is told by the function that leads to it. */
struct visit {
	char *ruby; /* the Ruby part, when it had to be asked for earlier; NULL: ask now */
	int rounds; /* 0: the usual number */
};

static char *describe(int k)
{
	VALUE s = rb_funcall(mod, rb_intern("describe"), 1, INT2NUM(k));
	char *copy = strdup(StringValueCStr(s));

	RB_GC_GUARD(s);
	return copy;
}

static KEPT void truth_leaf(volatile unsigned long *x)
{
	for (int i = 0; i < 256; i++)
		++*x;
}

static KEPT struct natives *capture(void)
{
	struct natives *n = natives_new();

	n->nr--; /* this function */
	memmove(&n->frame[0], &n->frame[1], n->nr * sizeof(n->frame[0]));
	return n;
}

#define SPIN(k)                                                                                    \
	KEPT void truth_spin_##k(struct visit *v)                                                  \
	{                                                                                          \
		struct natives *n = capture();                                                     \
		char *ruby = v->ruby ? v->ruby : describe(k);                                      \
		unsigned long x = 0, rounds = v->rounds ? (unsigned long)v->rounds : spin_rounds;  \
                                                                                                   \
		place_print(k, n, ruby, "cpu");                                                    \
		natives_free(n);                                                                   \
		free(ruby);                                                                        \
		v->ruby = NULL;                                                                    \
		for (unsigned long i = 0; i < rounds; i++)                                         \
			truth_leaf(&x);                                                            \
		KEEP_FRAME;                                                                        \
	}
/* clang-format off */
SPIN(0) SPIN(1) SPIN(2) SPIN(3) SPIN(4) SPIN(5) SPIN(6) SPIN(7)
SPIN(8) SPIN(9) SPIN(10) SPIN(11) SPIN(12) SPIN(13) SPIN(14) SPIN(15)
SPIN(16) SPIN(17) SPIN(18) SPIN(19) SPIN(20) SPIN(21) SPIN(22) SPIN(23)
SPIN(24) SPIN(25) SPIN(26) SPIN(27) SPIN(28) SPIN(29) SPIN(30) SPIN(31)

static void (*const spin[NR_PLACES])(struct visit *) = {
	truth_spin_0, truth_spin_1, truth_spin_2, truth_spin_3,
	truth_spin_4, truth_spin_5, truth_spin_6, truth_spin_7,
	truth_spin_8, truth_spin_9, truth_spin_10, truth_spin_11,
	truth_spin_12, truth_spin_13, truth_spin_14, truth_spin_15,
	truth_spin_16, truth_spin_17, truth_spin_18, truth_spin_19,
	truth_spin_20, truth_spin_21, truth_spin_22, truth_spin_23,
	truth_spin_24, truth_spin_25, truth_spin_26, truth_spin_27,
	truth_spin_28, truth_spin_29, truth_spin_30, truth_spin_31,
};
/* clang-format on */

static int place_number(VALUE k)
{
	int n = NUM2INT(k);

	if (n < 0 || n >= NR_PLACES)
		rb_raise(rb_eArgError, "place %d", n);
	return n;
}

static KEPT void truth_visit(int k, struct visit *v)
{
	spin[k](v);
	KEEP_FRAME;
}

/* ---- Truth.NAME: ways to get to a place -------------------------------------------------------
 */

/* Truth.burn(k): a leaf C function called from Ruby. */
KEPT VALUE truth_burn(VALUE self, VALUE k)
{
	struct visit v = {0};

	truth_visit(place_number(k), &v);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.burn_v(*args): the same with argc -1; Truth.burn_a with argc -2. */
KEPT VALUE truth_burn_v(int argc, VALUE *argv, VALUE self)
{
	struct visit v = {0};

	truth_visit(place_number(argv[0]), &v);
	KEEP_FRAME;
	return Qnil;
}

KEPT VALUE truth_burn_a(VALUE self, VALUE args)
{
	struct visit v = {0};

	truth_visit(place_number(RARRAY_AREF(args, 0)), &v);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.chain(k): static functions under each other, one of them inlined, one with a frame of 70
 * KB. */
static KEPT void chain_leaf(int k)
{
	struct visit v = {0};

	spin[k](&v);
	KEEP_FRAME;
}

static inline __attribute__((always_inline)) void chain_inlined(int k, volatile char *big)
{
	big[0] = big[69999] = 1;
	chain_leaf(k); /* line of the inlined call */
	KEEP_FRAME;
}

static KEPT void chain_big(int k)
{
	volatile char big[70000];

	chain_inlined(k, big);
	KEEP_FRAME;
}

static KEPT void chain_alloca(int k, size_t sz)
{
	volatile char *p = __builtin_alloca(sz); /* CFA by rbp */

	p[0] = p[sz - 1] = 1;
	chain_big(k);
	KEEP_FRAME;
}

static KEPT void chain_realigned(int k)
{
	volatile char v[256] __attribute__((aligned(128))); /* the stack is realigned */

	v[0] = 1;
	chain_alloca(k, 100 + v[0]);
	KEEP_FRAME;
}

static VALUE truth_chain(VALUE self, VALUE k)
{
	chain_realigned(place_number(k));
	KEEP_FRAME;
	return Qnil;
}

/* Truth.yield(*args) { } */
static VALUE truth_yield(int argc, VALUE *argv, VALUE self)
{
	VALUE r = rb_yield_values2(argc, argv);

	KEEP_FRAME;
	return r;
}

/* Truth.call(object, :method, *args) by rb_funcallv */
static VALUE truth_call(int argc, VALUE *argv, VALUE self)
{
	VALUE r = rb_funcallv(argv[0], rb_sym2id(argv[1]), argc - 2, argv + 2);

	KEEP_FRAME;
	return r;
}

/* Truth.c_block(object, :method, k): object.method with a block that is C and burns at k. */
static VALUE c_block_body(RB_BLOCK_CALL_FUNC_ARGLIST(item, data))
{
	struct visit v = {0};

	truth_visit(NUM2INT(data), &v);
	KEEP_FRAME;
	return Qnil;
}

static VALUE truth_c_block(VALUE self, VALUE obj, VALUE name, VALUE k)
{
	VALUE r = rb_block_call(
	        obj, rb_sym2id(name), 0, NULL, c_block_body, INT2NUM(place_number(k)));

	KEEP_FRAME;
	return r;
}

/* Truth.c_block_calls(object, :method, callable): a block in C that calls back into Ruby. */
static VALUE c_block_calls_body(RB_BLOCK_CALL_FUNC_ARGLIST(item, data))
{
	VALUE r = rb_funcall(data, rb_intern("call"), 1, item);

	KEEP_FRAME;
	return r;
}

static VALUE truth_c_block_calls(VALUE self, VALUE obj, VALUE name, VALUE callable)
{
	VALUE r = rb_block_call(obj, rb_sym2id(name), 0, NULL, c_block_calls_body, callable);

	KEEP_FRAME;
	return r;
}

/* Truth.protect { }, swallowing what is raised. */
static VALUE yield_body(VALUE arg)
{
	VALUE r = rb_yield(arg);

	KEEP_FRAME;
	return r;
}

static VALUE truth_protect(VALUE self)
{
	int state = 0;
	VALUE r = rb_protect(yield_body, Qnil, &state);

	if (state)
		rb_set_errinfo(Qnil);
	return r;
}

/* Truth.rescue(k) { raise }: the rescue function in C burns at k. */
static VALUE rescue_burn(VALUE k, VALUE exception)
{
	struct visit v = {0};

	truth_visit(NUM2INT(k), &v);
	KEEP_FRAME;
	return Qnil;
}

static VALUE truth_rescue(VALUE self, VALUE k)
{
	VALUE r = rb_rescue2(yield_body, Qnil, rescue_burn, INT2NUM(place_number(k)),
	        rb_eStandardError, (VALUE)0);

	KEEP_FRAME;
	return r;
}

/* Truth.ensure(k) { raise }: the ensure function in C burns at k while the exception goes on. */
static VALUE ensure_burn(VALUE k)
{
	struct visit v = {0};

	truth_visit(NUM2INT(k), &v);
	KEEP_FRAME;
	return Qnil;
}

static VALUE truth_ensure(VALUE self, VALUE k)
{
	VALUE r = rb_ensure(yield_body, Qnil, ensure_burn, INT2NUM(place_number(k)));

	KEEP_FRAME;
	return r;
}

/* Truth.nogvl(k): burns outside the GVL. */
struct nogvl {
	int k;
	struct visit v;
};

static void *nogvl_burn(void *arg)
{
	struct nogvl *ng = arg;

	truth_visit(ng->k, &ng->v);
	KEEP_FRAME;
	return NULL;
}

static VALUE truth_nogvl(VALUE self, VALUE k)
{
	struct nogvl ng = {.k = place_number(k)};

	ng.v.ruby = describe(ng.k);
	rb_thread_call_without_gvl(nogvl_burn, &ng, NULL, NULL);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.nogvl_gvl { }: leaves the GVL, takes it back inside, yields. */
static void *gvl_yield(void *arg)
{
	rb_yield(Qnil);
	KEEP_FRAME;
	return NULL;
}

static void *nogvl_gvl(void *arg)
{
	rb_thread_call_with_gvl(gvl_yield, NULL);
	KEEP_FRAME;
	return NULL;
}

static VALUE truth_nogvl_gvl(VALUE self)
{
	rb_thread_call_without_gvl(nogvl_gvl, NULL, NULL, NULL);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.signal(k, own_stack): burns in a handler, on a stack of its own if that is asked for. */
static struct visit *signal_visit;
static int signal_place;

static KEPT void on_signal(int sig)
{
	truth_visit(signal_place, signal_visit);
	KEEP_FRAME;
}

static VALUE truth_signal(VALUE self, VALUE k, VALUE own_stack)
{
	static __thread char *memory;
	enum { SIZE = 256 * 1024 };
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	struct visit v = {.ruby = describe(place_number(k))};
	stack_t stack = {.ss_size = SIZE}, before;

	if (!memory)
		memory = mmap(
		        NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	stack.ss_sp = memory;
	signal_place = NUM2INT(k);
	signal_visit = &v;
	if (!RTEST(own_stack))
		action.sa_flags = 0;
	sigaction(SIGRTMIN, &action, NULL);
	sigaltstack(&stack, &before);
	raise(SIGRTMIN);
	sigaltstack(&before, NULL);
	KEEP_FRAME;
	return Qnil;
}

/* ---- garbage collection: hooks in C
 * ----------------------------------------------------------------- */

/* Truth::Collected objects burn while they are marked or freed, if that was asked for. */
static struct {
	int mark_k, free_k;
	char *mark_ruby, *free_ruby;
} armed = {-1, -1, NULL, NULL};

static KEPT void burn_armed(int *k, char **ruby)
{
	struct visit v = {.ruby = *ruby};
	int place = *k;

	*k = -1;
	*ruby = NULL;
	truth_visit(place, &v);
	KEEP_FRAME;
}

KEPT void truth_mark(void *p)
{
	if (armed.mark_k >= 0)
		burn_armed(&armed.mark_k, &armed.mark_ruby);
	KEEP_FRAME;
}

KEPT void truth_free(void *p)
{
	if (armed.free_k >= 0)
		burn_armed(&armed.free_k, &armed.free_ruby);
	KEEP_FRAME;
}

static const rb_data_type_t collected_type = {
        .wrap_struct_name = "truth",
        .function = {.dmark = truth_mark, .dfree = truth_free},
        .flags = RUBY_TYPED_FREE_IMMEDIATELY, /* freed while sweeping */
};

static VALUE collected_alloc(VALUE klass)
{
	return rb_data_typed_object_wrap(klass, malloc(1), &collected_type);
}

static void gc_event(VALUE tp, void *data)
{
	int entered = rb_tracearg_event_flag(rb_tracearg_from_tracepoint(tp)) ==
	              RUBY_INTERNAL_EVENT_GC_ENTER;

	if (gc_entered)
		natives_free(gc_entered);
	gc_entered = entered && (armed.mark_k >= 0 || armed.free_k >= 0) ? natives_new() : NULL;
	KEEP_FRAME;
}

/* Truth.arm_mark(k), Truth.arm_free(k): on the line that will collect. What the collector is set
 * off by (a C function's frame, say) is added by describe_next in lib/truth_case.rb. */
static VALUE truth_arm(VALUE self, VALUE what, VALUE k, VALUE json)
{
	static VALUE events;

	if (!events) {
		events = rb_tracepoint_new(0,
		        RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_EXIT, gc_event, NULL);
		rb_gc_register_address(&events);
		rb_tracepoint_enable(events);
	}
	if (rb_sym2id(what) == rb_intern("mark")) {
		armed.mark_ruby = strdup(StringValueCStr(json));
		armed.mark_k = place_number(k);
	} else {
		armed.free_ruby = strdup(StringValueCStr(json));
		armed.free_k = place_number(k);
	}
	return Qtrue;
}

static int is_armed(void)
{
	return armed.mark_k >= 0 || armed.free_k >= 0;
}

static VALUE truth_armed_p(VALUE self)
{
	return is_armed() ? Qtrue : Qfalse;
}

/* Truth.collect(:how): an extension sets the collector off, by asking for what :how says until what
 * was armed has burned. */
static KEPT void collect_str(void)
{
	rb_str_new(NULL, 100);
	KEEP_FRAME;
}

/* What is freed again does not count. */
static void *taken[1024];
static size_t nr_taken;

static KEPT void collect_xmalloc(void)
{
	if (nr_taken == sizeof(taken) / sizeof(taken[0]))
		abort();
	taken[nr_taken++] = xmalloc(1 << 20);
	KEEP_FRAME;
}

static KEPT void collect_gc_start(void)
{
	rb_gc_start();
	KEEP_FRAME;
}

static KEPT void collect_gc(void)
{
	rb_gc();
	KEEP_FRAME;
}

static KEPT void collect_data(void)
{
	static const rb_data_type_t type = {.wrap_struct_name = "collected without a word"};

	rb_data_typed_object_zalloc(rb_cObject, 64, &type);
	KEEP_FRAME;
}

/* An allocation without the GVL: the collector takes it. */
static void *collect_unlocked(void *arg)
{
	collect_xmalloc();
	KEEP_FRAME;
	return NULL;
}

static KEPT void collect_nogvl(void)
{
	rb_thread_call_without_gvl(collect_unlocked, NULL, NULL, NULL);
	KEEP_FRAME;
}

static VALUE truth_collect(VALUE self, VALUE how)
{
	static const struct {
		const char *how;
		void (*f)(void);
	} hows[] = {
	        {"str", collect_str},
	        {"xmalloc", collect_xmalloc},
	        {"gc_start", collect_gc_start},
	        {"gc", collect_gc},
	        {"data", collect_data},
	        {"nogvl", collect_nogvl},
	};
	const char *name = rb_id2name(rb_sym2id(how));

	for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++)
		while (strcmp(hows[i].how, name) == 0 && is_armed())
			hows[i].f();
	while (nr_taken)
		xfree(taken[--nr_taken]);
	KEEP_FRAME;
	return Qnil;
}

/* ---- system calls
 * ------------------------------------------------------------------------------------ */

/* Truth.getppid(k, times): real system calls from a known place. */
#define SYSCALLER(k)                                                                               \
	KEPT void truth_sys_##k(struct visit *v, long nr, long a, long b, long c)                  \
	{                                                                                          \
		struct natives *n = capture();                                                     \
                                                                                                   \
		place_print(k, n, v->ruby, "syscall");                                             \
		natives_free(n);                                                                   \
		free(v->ruby);                                                                     \
		for (int i = 0; i < v->rounds; i++)                                                \
			syscall(nr, a, b, c);                                                      \
		KEEP_FRAME;                                                                        \
	}
/* clang-format off */
SYSCALLER(0) SYSCALLER(1) SYSCALLER(2) SYSCALLER(3)
SYSCALLER(4) SYSCALLER(5) SYSCALLER(6) SYSCALLER(7)

static void (*const syscaller[8])(struct visit *, long, long, long, long) = {
	truth_sys_0, truth_sys_1, truth_sys_2, truth_sys_3,
	truth_sys_4, truth_sys_5, truth_sys_6, truth_sys_7,
};
/* clang-format on */

static VALUE truth_getppid(VALUE self, VALUE k, VALUE times)
{
	struct visit v = {.rounds = NUM2INT(times), .ruby = describe(NUM2INT(k))};

	syscaller[NUM2INT(k) & 7](&v, SYS_getppid, 0, 0, 0);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.read(k, times, fd): reads one byte at a time outside the GVL; blocks when nothing is there.
 */
struct blocking {
	int k, fd;
	struct visit v;
};

static void *blocking_read(void *arg)
{
	struct blocking *b = arg;
	char byte;

	syscaller[b->k & 7](&b->v, SYS_read, b->fd, (long)&byte, 1);
	KEEP_FRAME;
	return NULL;
}

static VALUE truth_read(VALUE self, VALUE k, VALUE times, VALUE fd)
{
	struct blocking b = {.k = NUM2INT(k),
	        .fd = NUM2INT(fd),
	        .v.rounds = NUM2INT(times),
	        .v.ruby = describe(NUM2INT(k))};

	rb_thread_call_without_gvl(blocking_read, &b, RUBY_UBF_IO, NULL);
	KEEP_FRAME;
	return Qnil;
}

/* Truth.nanosleep(k, times, ns): with the GVL held. */
static VALUE truth_nanosleep(VALUE self, VALUE k, VALUE times, VALUE ns)
{
	struct timespec ts = {0, NUM2LONG(ns)};
	struct visit v = {.rounds = NUM2INT(times), .ruby = describe(NUM2INT(k))};

	syscaller[NUM2INT(k) & 7](&v, SYS_nanosleep, (long)&ts, 0, 0);
	KEEP_FRAME;
	return Qnil;
}

/* ---- anchors
 * ----------------------------------------------------------------------------------------- */

/*
 * Truth.loop: [CFA, start]. The start is that of the interpreter's loop, which is by far the
 * largest function that calls a method's function, whatever its name. The CFA is that of the frame
 * that called the loop, or the JIT's code, that runs the calling Ruby frame: it is the same as long
 * as the activation lasts.
 */
enum { LOOP_MIN_SZ = 12 * 1024 };
static uint64_t entry; /* the function that calls the loop */

static KEPT VALUE truth_loop(VALUE self)
{
	struct natives *n = natives_new();
	VALUE cfa = Qnil, func = Qnil;
	size_t i = 0, at;

	while (i < n->nr && n->frame[i].func_sz <= LOOP_MIN_SZ && !in_range(&jit, n->frame[i].pc))
		i++;
	/* The loop may have called the JIT's code, itself or by a function in between that does not
	 * begin an activation. */
	at = i;
	if (i + 2 < n->nr && in_range(&jit, n->frame[i].pc)) {
		if (n->frame[i + 1].func_sz > LOOP_MIN_SZ)
			at = i + 1;
		else if (n->frame[i + 2].func_sz > LOOP_MIN_SZ && n->frame[i + 1].func != entry)
			at = i + 2;
	}
	if (at + 1 < n->nr)
		cfa = ULL2NUM(n->frame[at + 1].cfa);
	for (; i < n->nr && func == Qnil; i++)
		if (n->frame[i].func_sz > LOOP_MIN_SZ)
			func = ULL2NUM(n->frame[i].func);
	natives_free(n);
	return rb_ary_new_from_args(2, cfa, func);
}

/* Truth.cross_jit: from now on native stacks go on behind code of the JIT. */
static KEPT VALUE truth_cross_jit(VALUE self)
{
	struct natives *n = natives_new();

	for (size_t i = 0; i + 1 < n->nr && !entry; i++)
		if (n->frame[i].func_sz > LOOP_MIN_SZ)
			entry = n->frame[i + 1].func;
	natives_free(n);
	jit_cross((uint64_t)rb_funcallv);
	return Qnil;
}

/* Truth.root: [start, size] of the outermost native function of this thread or fiber. */
static KEPT VALUE truth_root(VALUE self)
{
	struct natives *n = natives_new();
	struct native last = n->frame[n->nr - 1];

	natives_free(n);
	return rb_ary_new_from_args(2, ULL2NUM(last.func), UINT2NUM(last.func_sz));
}

/* Learn from where the interpreter calls C functions: the return addresses of functions that are
 * one. */
static KEPT void learn_site(void)
{
	struct natives *n = natives_new();
	uint64_t pc = n->frame[2].pc; /* [0] here, [1] the function, [2] its caller */

	natives_free(n);
	if (!is_site(pc) && !in_range(&jit, pc) && nr_sites < NR_SITES)
		sites[nr_sites++] = pc;
}
static KEPT VALUE learn_0(VALUE self)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}
static KEPT VALUE learn_1(VALUE self, VALUE a)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}
static KEPT VALUE learn_2(VALUE self, VALUE a, VALUE b)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}
static KEPT VALUE learn_3(VALUE self, VALUE a, VALUE b, VALUE c)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}
static KEPT VALUE learn_v(int argc, VALUE *argv, VALUE self)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}
static KEPT VALUE learn_a(VALUE self, VALUE args)
{
	learn_site();
	KEEP_FRAME;
	return Qnil;
}

static VALUE truth_nr_sites(VALUE self)
{
	return UINT2NUM(nr_sites);
}

/*
 * Truth.profile_frames: [[qualified method name or nil, is it a C function, base label, line],
 * ...], leaf first, by the interpreter's own interface for profilers. It qualifies names where
 * caller_locations of old Rubies doesn't.
 */
static VALUE truth_profile_frames(VALUE self)
{
	enum { MAX = 8192 };
	static VALUE frames[MAX];
	static int lines[MAX];
	int nr = rb_profile_frames(0, MAX, frames, lines);
	VALUE result = rb_ary_new();

	for (int i = 0; i < nr; i++) {
		VALUE path = rb_profile_frame_absolute_path(frames[i]);
		int is_c = lines[i] == 0 && RB_TYPE_P(path, T_STRING) &&
		           strcmp(StringValueCStr(path), "<cfunc>") == 0;

		rb_ary_push(result,
		        rb_ary_new_from_args(4, rb_profile_frame_qualified_method_name(frames[i]),
		                is_c ? Qtrue : Qfalse,
		                is_c ? Qnil : rb_profile_frame_base_label(frames[i]),
		                INT2NUM(lines[i])));
	}
	return result;
}

#define NAME(f)                                                                                    \
	{                                                                                          \
#f, (uint64_t)f                                                                    \
	}

static void tell_static_names(void)
{
	static struct static_name names[] = {
	        NAME(truth_visit),
	        NAME(chain_leaf),
	        NAME(chain_big),
	        NAME(chain_alloca),
	        NAME(chain_realigned),
	        NAME(truth_chain),
	        NAME(truth_yield),
	        NAME(truth_call),
	        NAME(c_block_body),
	        NAME(truth_c_block),
	        NAME(c_block_calls_body),
	        NAME(truth_c_block_calls),
	        NAME(yield_body),
	        NAME(truth_protect),
	        NAME(rescue_burn),
	        NAME(truth_rescue),
	        NAME(ensure_burn),
	        NAME(truth_ensure),
	        NAME(nogvl_burn),
	        NAME(truth_nogvl),
	        NAME(gvl_yield),
	        NAME(nogvl_gvl),
	        NAME(truth_nogvl_gvl),
	        NAME(on_signal),
	        NAME(truth_signal),
	        NAME(burn_armed),
	        NAME(collect_str),
	        NAME(collect_xmalloc),
	        NAME(collect_gc_start),
	        NAME(collect_gc),
	        NAME(collect_data),
	        NAME(collect_unlocked),
	        NAME(collect_nogvl),
	        NAME(truth_collect),
	        NAME(truth_getppid),
	        NAME(blocking_read),
	        NAME(truth_read),
	        NAME(truth_nanosleep),
	        {NULL, 0},
	};

	static_names = names;
}

/* ---- the rest
 * ------------------------------------------------------------------------------------------- */

static void on_stop(int sig)
{
	stop_wanted = 1;
}

static VALUE truth_stop_p(VALUE self)
{
	return stop_wanted ? Qtrue : Qfalse;
}

static VALUE truth_puts(VALUE self, VALUE s)
{
	struct text t = {0};

	text_add(&t, "%s", StringValueCStr(s));
	print_line(&t);
	return Qnil;
}

static VALUE truth_out_fd(VALUE self, VALUE fd)
{
	out_fd = NUM2INT(fd);
	return fd;
}

static VALUE truth_set_rounds(VALUE self, VALUE n)
{
	spin_rounds = NUM2ULONG(n);
	return n;
}

static VALUE truth_gettid(VALUE self)
{
	return LONG2NUM(syscall(SYS_gettid));
}

void Init_truth(void)
{
	VALUE collected;

	tell_static_names();
	mod = rb_define_module("Truth");
	rb_define_const(mod, "BURN_ADDR", ULL2NUM((uint64_t)truth_burn));
	rb_define_module_function(mod, "burn", truth_burn, 1);
	rb_define_singleton_method(mod, "burn_v", truth_burn_v, -1);
	rb_define_singleton_method(mod, "burn_a", truth_burn_a, -2);
	rb_define_singleton_method(mod, "chain", truth_chain, 1);
	rb_define_singleton_method(mod, "yield", truth_yield, -1);
	rb_define_singleton_method(mod, "call", truth_call, -1);
	rb_define_singleton_method(mod, "c_block", truth_c_block, 3);
	rb_define_singleton_method(mod, "c_block_calls", truth_c_block_calls, 3);
	rb_define_singleton_method(mod, "protect", truth_protect, 0);
	rb_define_singleton_method(mod, "rescue", truth_rescue, 1);
	rb_define_singleton_method(mod, "ensure", truth_ensure, 1);
	rb_define_singleton_method(mod, "nogvl", truth_nogvl, 1);
	rb_define_singleton_method(mod, "nogvl_gvl", truth_nogvl_gvl, 0);
	rb_define_singleton_method(mod, "signal", truth_signal, 2);
	rb_define_singleton_method(mod, "arm", truth_arm, 3);
	rb_define_singleton_method(mod, "armed?", truth_armed_p, 0);
	rb_define_singleton_method(mod, "collect", truth_collect, 1);
	rb_define_singleton_method(mod, "getppid", truth_getppid, 2);
	rb_define_singleton_method(mod, "read", truth_read, 3);
	rb_define_singleton_method(mod, "nanosleep", truth_nanosleep, 3);
	rb_define_singleton_method(mod, "cross_jit", truth_cross_jit, 0);
	rb_define_singleton_method(mod, "loop", truth_loop, 0);
	rb_define_singleton_method(mod, "root", truth_root, 0);
	rb_define_singleton_method(mod, "learn_0", learn_0, 0);
	rb_define_singleton_method(mod, "learn_1", learn_1, 1);
	rb_define_singleton_method(mod, "learn_2", learn_2, 2);
	rb_define_singleton_method(mod, "learn_3", learn_3, 3);
	rb_define_singleton_method(mod, "learn_v", learn_v, -1);
	rb_define_singleton_method(mod, "learn_a", learn_a, -2);
	rb_define_singleton_method(mod, "nr_sites", truth_nr_sites, 0);
	rb_define_singleton_method(mod, "profile_frames", truth_profile_frames, 0);
	rb_define_singleton_method(mod, "stop?", truth_stop_p, 0);
	rb_define_singleton_method(mod, "puts", truth_puts, 1);
	rb_define_singleton_method(mod, "out_fd=", truth_out_fd, 1);
	rb_define_singleton_method(mod, "rounds=", truth_set_rounds, 1);
	rb_define_singleton_method(mod, "gettid", truth_gettid, 0);
	collected = rb_define_class_under(mod, "Collected", rb_cObject);
	rb_define_alloc_func(collected, collected_alloc);
	signal(SIGUSR2, on_stop);
}

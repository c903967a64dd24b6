/*
 * The user-space walk over this program's own stack, against libgcc's walk of the same place;
 * and the step's edges on made-up memory.
 */
#include "symbolizer/unwind.h"
#include "tests/unit/tap.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unwind.h>

/* ---- this process as a source -----------------------------------------------------------------
 */

enum { MAX_OBJECTS = 64, MAX_DEPTH = 256 };

struct object {
	struct unwind_table table;
	uint64_t bias, text_lo, text_hi;
};

static struct object objects[MAX_OBJECTS];
static size_t nr_objects;

/* .eh_frame by way of .eh_frame_hdr; it ends with its terminator, which is looked for here. */
static int add_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *o = &objects[nr_objects];
	const uint8_t *hdr = NULL, *eh, *end;
	uint64_t image_end = 0;
	int32_t off;

	o->bias = info->dlpi_addr;
	o->text_lo = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_GNU_EH_FRAME)
			hdr = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);
		if (ph->p_type != PT_LOAD)
			continue;
		if ((ph->p_flags & PF_X) != 0) {
			o->text_lo = MIN(o->text_lo, ph->p_vaddr);
			o->text_hi = MAX(o->text_hi, ph->p_vaddr + ph->p_memsz);
		}
		image_end = MAX(image_end, ph->p_vaddr + ph->p_memsz);
	}
	if (hdr == NULL || nr_objects == MAX_OBJECTS || hdr[1] != 0x1b)
		return 0;
	memcpy(&off, hdr + 4, sizeof(off));
	eh = hdr + 4 + off;
	for (end = eh;;) {
		uint32_t len;

		memcpy(&len, end, sizeof(len));
		if (len == 0 || end + len > (const uint8_t *)(o->bias + image_end))
			break;
		end += 4 + len;
	}
	if (unwind_table_build(&o->table, eh, (size_t)(end - eh), (uint64_t)eh - o->bias,
	            o->text_lo, o->text_hi, NULL) == 0)
		nr_objects++;
	return 0;
}

static int read_self(void *ctx, uint64_t addr, uint64_t *value)
{
	memcpy(value, (const void *)addr, sizeof(*value));
	return 0;
}

static bool find_self(void *ctx, uint64_t pc, enum mapping_kind *kind,
        const struct unwind_table **table, uint64_t *bias)
{
	for (size_t i = 0; i < nr_objects; i++) {
		const struct object *o = &objects[i];

		if (pc - o->bias < o->text_lo || pc - o->bias >= o->text_hi)
			continue;
		*kind = MAPPING_TABLE;
		*table = &o->table;
		*bias = o->bias;
		return true;
	}
	return false;
}

static const struct unwind_source self = {.read = read_self, .find_table = find_self};

static struct native_frame frames[MAX_DEPTH];
static uint64_t truth[MAX_DEPTH];
static size_t nr_truth;
static struct unwind_walk walk;

static _Unwind_Reason_Code add_truth(struct _Unwind_Context *context, void *arg)
{
	uint64_t pc = _Unwind_GetIP(context);

	if (pc != 0 && nr_truth < MAX_DEPTH)
		truth[nr_truth++] = pc;
	return _URC_NO_REASON;
}

/* Not inlined, so that both stacks differ in this frame's pc alone. */
static __attribute__((noinline, no_sanitize("address", "undefined"))) void take_both(void)
{
	ucontext_t uc;
	struct unwind_regs regs;

	nr_truth = 0;
	_Unwind_Backtrace(add_truth, NULL);
	getcontext(&uc);
	regs = (struct unwind_regs){
	        .pc = (uint64_t)uc.uc_mcontext.gregs[REG_RIP],
	        .sp = (uint64_t)uc.uc_mcontext.gregs[REG_RSP],
	        .fp = (uint64_t)uc.uc_mcontext.gregs[REG_RBP],
	};
	unwind_walk(&self, &regs, frames, MAX_DEPTH, &walk);
	__asm__ volatile("" ::: "memory");
}

static void check_same(void)
{
	CHECK_EQ(walk.outcome, WALK_ROOT);
	CHECK_EQ(walk.nr, nr_truth);
	for (size_t i = 1; i < walk.nr && i < nr_truth; i++)
		CHECK_EQ(frames[i].pc, truth[i]);
}

TEST(a_plain_stack_is_libgccs)
{
	take_both();
	check_same();
	CHECK(walk.nr >= 4);
}

static int compare_and_take(const void *a, const void *b)
{
	if (nr_truth == 0)
		take_both();
	return *(const int *)a - *(const int *)b;
}

TEST(a_callback_of_libc_is_libgccs)
{
	int v[] = {3, 1, 2};

	nr_truth = 0;
	qsort(v, 3, sizeof(v[0]), compare_and_take);
	check_same();
}

/* A large variable frame and a realigned one: rbp and the DRAP carry the CFA. */
static __attribute__((noinline)) void take_realigned(size_t n)
{
	char *room = __builtin_alloca(n);
	char aligned[64] __attribute__((aligned(64)));

	__asm__ volatile("" ::"r"(room), "r"(aligned) : "memory");
	take_both();
	__asm__ volatile("" ::"r"(room), "r"(aligned) : "memory");
}

TEST(a_realigned_frame_of_variable_size_is_crossed)
{
	take_realigned(100000);
	check_same();
}

static void on_signal(int sig)
{
	take_both();
}

TEST(a_signal_frame_is_crossed)
{
	struct sigaction sa = {.sa_handler = on_signal}, old;
	size_t nr_interrupted = 0;

	sigaction(SIGUSR1, &sa, &old);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, NULL);
	check_same();
	for (size_t i = 0; i < walk.nr; i++)
		nr_interrupted += (frames[i].sp & NATIVE_SP_INTERRUPTED) != 0;
	CHECK_EQ(nr_interrupted, 1);
}

TEST(a_signal_on_its_own_stack_is_crossed)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, old;
	size_t sz = 1 << 20;
	stack_t ss = {.ss_sp = malloc(sz), .ss_size = sz}, old_ss;

	sigaltstack(&ss, &old_ss);
	sigaction(SIGUSR1, &sa, &old);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, NULL);
	sigaltstack(&old_ss, NULL);
	check_same();
	free(ss.ss_sp);
}

static void *in_thread(void *arg)
{
	take_both();
	return NULL;
}

TEST(a_thread_ends_at_its_start)
{
	pthread_t t;

	pthread_create(&t, NULL, in_thread, NULL);
	pthread_join(t, NULL);
	check_same();
}

/* ---- made-up memory ---------------------------------------------------------------------------
 */

enum { STACK = 0x10000, NR_WORDS = 64, TEXT = 0x400000 };

struct fake {
	uint64_t word[NR_WORDS];
	struct unwind_rule rule, rule_behind; /* below TEXT + 0x100, and from there on */
	struct unwind_table table;
	struct unwind_table_page page;
	struct unwind_rule rules[3];
	uint32_t row[2];
	enum mapping_kind kind;
};

static int read_fake(void *ctx, uint64_t addr, uint64_t *value)
{
	const struct fake *f = ctx;

	if (addr < STACK || (addr & 7) != 0 || addr - STACK >= sizeof(f->word))
		return -1;
	*value = f->word[(addr - STACK) / 8];
	return 0;
}

static bool find_fake(void *ctx, uint64_t pc, enum mapping_kind *kind,
        const struct unwind_table **table, uint64_t *bias)
{
	struct fake *f = ctx;

	f->rules[1] = f->rule;
	f->rules[2] = f->rule_behind;
	f->row[0] = UNWIND_ROW(0, 1);
	f->row[1] = UNWIND_ROW(0x100, 2);
	f->page = (struct unwind_table_page){.nr = 2};
	f->table = (struct unwind_table){
	        .rows = f->row,
	        .nr_rows = 2,
	        .pages = &f->page,
	        .nr_pages = 1,
	        .rules = f->rules,
	        .nr_rules = 3,
	};
	*kind = f->kind;
	*table = &f->table;
	*bias = TEXT;
	return pc >= TEXT && pc < TEXT + 0x10000;
}

static struct unwind_walk walk_fake(struct fake *f, uint64_t pc, uint64_t sp, uint64_t fp)
{
	struct unwind_source source = {.ctx = f, .read = read_fake, .find_table = find_fake};
	struct unwind_regs regs = {.pc = pc, .sp = sp, .fp = fp, .interrupted = true};
	struct unwind_walk w;

	unwind_walk(&source, &regs, frames, MAX_DEPTH, &w);
	return w;
}

#define RULE(...) ((struct unwind_rule){.ra_off = -8, __VA_ARGS__})

TEST(a_return_address_of_zero_is_the_root)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8)};

	f.word[0] = TEXT + 5;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).outcome, WALK_ROOT);
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).nr, 2);
	CHECK_EQ(frames[1].sp, STACK + 8);
}

TEST(a_full_buffer_is_said)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8)};
	struct unwind_source source = {.ctx = &f, .read = read_fake, .find_table = find_fake};
	struct unwind_regs regs = {.pc = TEXT, .sp = STACK, .interrupted = true};
	struct unwind_walk w;

	for (size_t i = 0; i < NR_WORDS; i++)
		f.word[i] = TEXT + 1 + i;
	unwind_walk(&source, &regs, frames, 5, &w);
	CHECK_EQ(w.outcome, WALK_LIMIT);
	CHECK_EQ(w.nr, 5);
	CHECK_EQ(w.cut_pc, TEXT + 5);
}

TEST(an_undefined_return_address_is_the_root)
{
	struct fake f = {.rule = RULE(.ra_kind = RA_END)};

	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).outcome, WALK_ROOT);
}

TEST(no_rule_cuts_the_walk_there)
{
	struct fake f = {0};
	struct unwind_walk w = walk_fake(&f, TEXT + 3, STACK, 0);

	CHECK_EQ(w.outcome, WALK_NO_CFI);
	CHECK_EQ(w.cut_pc, TEXT + 3);
}

TEST(a_frame_that_does_not_move_up_cuts_the_walk)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_FP, .cfa_off = 16)};

	f.word[0] = f.word[1] = TEXT;
	CHECK_EQ(walk_fake(&f, TEXT, STACK + 16, STACK).outcome, WALK_NO_PROGRESS);
	f.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 0);
	CHECK_EQ(walk_fake(&f, TEXT, STACK + 16, STACK).outcome, WALK_NO_PROGRESS);
}

TEST(an_unreadable_stack_cuts_the_walk)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8)};

	CHECK_EQ(walk_fake(&f, TEXT, 0x5000, 0).outcome, WALK_UNREADABLE);
	f.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8, .fp_kind = FP_AT_CFA, .fp_off = -8000);
	f.word[0] = TEXT;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).outcome, WALK_UNREADABLE);
}

TEST(a_plt_entry_has_pushed_behind_its_byte)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_PLT, .cfa_off = 9)};

	f.word[0] = 0x1111;
	f.word[1] = 0x2222;
	walk_fake(&f, TEXT + 0x28, STACK, 0);
	CHECK_EQ(frames[1].pc, 0x1111);
	CHECK_EQ(frames[1].sp, STACK + 8);
	walk_fake(&f, TEXT + 0x29, STACK, 0);
	CHECK_EQ(frames[1].pc, 0x2222);
	CHECK_EQ(frames[1].sp, STACK + 16);
}

TEST(a_cfa_in_memory_is_loaded)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_FP_DEREF, .cfa_off = -8, .fp_kind = FP_AT_FP,
	                         .fp_off = 0)};

	f.word[3] = STACK + 80; /* [rbp - 8] */
	f.word[4] = 0xf00;      /* [rbp] */
	f.word[9] = 0x1234;
	walk_fake(&f, TEXT, STACK, STACK + 32);
	CHECK_EQ(frames[1].pc, 0x1234);
	CHECK_EQ(frames[1].sp, STACK + 80);
	f.rule = RULE(.cfa_kind = CFA_SP_DEREF, .cfa_off = 24);
	walk_fake(&f, TEXT, STACK, 0);
	CHECK_EQ(frames[1].pc, 0x1234);
}

TEST(a_lost_frame_pointer_is_not_followed)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8, .fp_kind = FP_UNDEFINED),
	        .rule_behind = RULE(.cfa_kind = CFA_FP, .cfa_off = 16)};

	f.word[0] = TEXT + 0x120;
	f.word[5] = 0x1234;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, STACK + 32).outcome, WALK_NO_PROGRESS);
	f.rule.fp_kind = FP_SAME;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, STACK + 32).outcome, WALK_NO_MAPPING);
	CHECK_EQ(frames[2].pc, 0x1234);
}

TEST(a_return_address_behind_the_function_is_looked_up_inside_it)
{
	struct fake f = {.rule = RULE(.cfa_kind = CFA_SP, .cfa_off = 8),
	        .rule_behind = RULE(.ra_kind = RA_END)};

	f.word[0] = TEXT + 0x100; /* of a call that never returns */
	f.word[1] = 0x1234;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).nr, 3);
	CHECK_EQ(frames[2].pc, 0x1234);
	f.rule.flags = UNWIND_F_SIGNAL;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).nr, 2);
	/* Interrupted there, it is the other function. */
	CHECK_EQ(walk_fake(&f, TEXT + 0x100, STACK, 0).nr, 1);
}

TEST(registers_behind_a_signal_are_those_of_the_ucontext)
{
	struct fake f = {.rule = {.cfa_kind = CFA_SIGFRAME, .flags = UNWIND_F_SIGNAL},
	        .rule_behind = RULE(.cfa_kind = CFA_FP, .cfa_off = 16)};
	ucontext_t uc = {0};

	uc.uc_mcontext.gregs[REG_RIP] = TEXT + 0x100;
	uc.uc_mcontext.gregs[REG_RSP] = STACK + 8 * 40;
	uc.uc_mcontext.gregs[REG_RBP] = STACK + 8 * 50;
	memcpy(f.word, &uc, 8 * 30);
	f.word[51] = 0x1234;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).nr, 3);
	CHECK_EQ(frames[1].pc, TEXT + 0x100);
	CHECK_EQ(frames[1].sp, (STACK + 8 * 40) | NATIVE_SP_INTERRUPTED);
	CHECK_EQ(frames[2].pc, 0x1234);
	CHECK_EQ(frames[2].sp, STACK + 8 * 52);
}

TEST(frame_pointers_are_followed_where_there_is_no_table)
{
	struct fake f = {.kind = MAPPING_NO_TABLE};

	f.word[4] = STACK + 64;
	f.word[5] = TEXT + 7;
	f.word[8] = 1;
	f.word[9] = 0;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, STACK + 32).outcome, WALK_ROOT);
	CHECK_EQ(frames[1].pc, TEXT + 7);
	CHECK_EQ(frames[1].sp, STACK + 48);
}

TEST(a_frame_pointer_that_cannot_be_one_is_not_followed)
{
	struct fake f = {.kind = MAPPING_NO_TABLE};

	f.word[4] = f.word[5] = 1;
	CHECK_EQ(walk_fake(&f, TEXT, STACK, STACK + 33).outcome, WALK_NO_TABLE);
	CHECK_EQ(walk_fake(&f, TEXT, STACK + 40, STACK + 32).outcome, WALK_NO_TABLE);
	CHECK_EQ(walk_fake(&f, TEXT, STACK, STACK + (1 << 20) + 8).outcome, WALK_NO_TABLE);
}

TEST(jit_code_and_unmapped_code_are_told_apart)
{
	struct fake f = {.kind = MAPPING_JIT};

	CHECK_EQ(walk_fake(&f, TEXT, STACK, 0).outcome, WALK_JIT);
	CHECK_EQ(walk_fake(&f, 0x1000, STACK, 0).outcome, WALK_NO_MAPPING);
}

int main(int argc, char **argv)
{
	int rc;

	dl_iterate_phdr(add_object, NULL);
	rc = tap_run(argc, argv);
	for (size_t i = 0; i < nr_objects; i++)
		unwind_table_release(&objects[i].table);
	return rc;
}

#include "symbolizer/cfi.h"
#include "bpf/arch.h"
#include "symbolizer/arch.h"

#include <errno.h>

enum {
	REG_FP = ARCH_DWARF_FP,
	REG_SP = ARCH_DWARF_SP,
	REG_RA = ARCH_DWARF_RA,

	DW_CFA_advance_loc = 0x40,
	DW_CFA_offset = 0x80,
	DW_CFA_restore = 0xc0,
	DW_CFA_nop = 0x00,
	DW_CFA_set_loc = 0x01,
	DW_CFA_advance_loc1 = 0x02,
	DW_CFA_advance_loc2 = 0x03,
	DW_CFA_advance_loc4 = 0x04,
	DW_CFA_offset_extended = 0x05,
	DW_CFA_restore_extended = 0x06,
	DW_CFA_undefined = 0x07,
	DW_CFA_same_value = 0x08,
	DW_CFA_register = 0x09,
	DW_CFA_remember_state = 0x0a,
	DW_CFA_restore_state = 0x0b,
	DW_CFA_def_cfa = 0x0c,
	DW_CFA_def_cfa_register = 0x0d,
	DW_CFA_def_cfa_offset = 0x0e,
	DW_CFA_def_cfa_expression = 0x0f,
	DW_CFA_expression = 0x10,
	DW_CFA_offset_extended_sf = 0x11,
	DW_CFA_def_cfa_sf = 0x12,
	DW_CFA_def_cfa_offset_sf = 0x13,
	DW_CFA_val_offset = 0x14,
	DW_CFA_val_offset_sf = 0x15,
	DW_CFA_val_expression = 0x16,
	DW_CFA_GNU_args_size = 0x2e,
	DW_CFA_GNU_negative_offset_extended = 0x2f,

	DW_OP_deref = 0x06,
	DW_OP_breg_fp = 0x70 + REG_FP,
	DW_OP_breg_sp = 0x70 + REG_SP,

	MAX_REMEMBERED = 64, /* compilers nest one deep */
	UC_RSP_OFF = ARCH_UC_SP_OFF,
};

struct run {
	const struct eh_frame *eh;
	const struct eh_cie *cie;
	const struct cfi_state *initial; /* NULL while the CIE's own instructions run */
	struct eh_reader r;
	struct cfi_state state;
	struct cfi_state remembered[MAX_REMEMBERED];
	unsigned int nr_remembered;

	uint64_t start, sz; /* of the FDE */
	uint64_t off;       /* from start: the next row's */
	struct unwind_rule last;
	bool has_last;
	cfi_row_fn row;
	void *arg;
};

/* ---- state to rule ----------------------------------------------------------------------------
 */

static bool fits_i32(int64_t x)
{
	return x == (int32_t)x;
}

static enum unwind_cfa state_cfa(const struct cfi_state *s, int32_t *cfa_off)
{
	int64_t off = s->cfa_is_expr ? s->cfa_expr_off : s->cfa_off;

	*cfa_off = (int32_t)off;
	if (!fits_i32(off))
		return CFA_INVALID;
	if (s->cfa_is_expr)
		return s->cfa_expr;
	switch (s->cfa_reg) {
	case REG_SP:
		return CFA_SP;
	case REG_FP:
		return CFA_FP;
	default:
		return CFA_INVALID;
	}
}

/* *rule is all zero when the state cannot be expressed. */
static void state_to_rule(const struct cfi_state *s, bool is_signal, struct unwind_rule *rule)
{
	struct unwind_rule out = {0};

	*rule = (struct unwind_rule){0};
	out.cfa_kind = state_cfa(s, &out.cfa_off);
	/* The kernel's frame and no other thing that calls itself a signal frame. */
	if (is_signal && out.cfa_kind == CFA_SP_DEREF && out.cfa_off == UC_RSP_OFF) {
		rule->cfa_kind = CFA_SIGFRAME;
		rule->flags = UNWIND_F_SIGNAL;
		return;
	}
	/* The outermost frame is that whatever its CFA is. */
	if (s->ra.kind == CFI_UNDEFINED) {
		rule->ra_kind = RA_END;
		return;
	}
	/* The caller's rsp is the CFA, unless code says otherwise: that is not for us. */
	if (out.cfa_kind == CFA_INVALID || s->sp.kind != CFI_UNSPECIFIED)
		return;
	if (s->ra.kind != CFI_AT_CFA || !fits_i32(s->ra.off) || !fits_i32(s->fp.off))
		return;
	out.ra_off = (int32_t)s->ra.off;
	switch (s->fp.kind) {
	case CFI_UNSPECIFIED:
	case CFI_SAME:
		out.fp_kind = FP_SAME;
		break;
	case CFI_UNDEFINED:
		out.fp_kind = FP_UNDEFINED;
		break;
	case CFI_AT_CFA:
		out.fp_kind = FP_AT_CFA;
		out.fp_off = (int32_t)s->fp.off;
		break;
	case CFI_AT_FP:
		out.fp_kind = FP_AT_FP;
		out.fp_off = (int32_t)s->fp.off;
		break;
	case CFI_OTHER:
		return;
	}
	out.flags = is_signal ? UNWIND_F_SIGNAL : 0;
	*rule = out;
}

/* ---- expressions ------------------------------------------------------------------------------
 */

/* `DW_OP_bregN off` at the start, with nothing or a deref behind it. */
static bool parse_breg(const uint8_t *expr, uint64_t sz, uint8_t *op, int64_t *off, bool *deref)
{
	struct eh_reader r = {.p = expr, .end = expr + sz};

	*op = eh_read_u8(&r);
	if (*op != DW_OP_breg_fp && *op != DW_OP_breg_sp)
		return false;
	*off = eh_read_sleb(&r);
	*deref = r.p != r.end && eh_read_u8(&r) == DW_OP_deref;
	return !r.bad && r.p == r.end;
}

static void set_cfa_expr(struct cfi_state *s, const uint8_t *expr, uint64_t sz)
{
	uint8_t op;
	int64_t off;
	bool deref;

	s->cfa_is_expr = true;
	s->cfa_expr = CFA_INVALID;
	s->cfa_expr_off = 0;
	if (arch_is_plt_cfa(expr, sz, &off)) {
		s->cfa_expr = CFA_PLT;
		s->cfa_expr_off = off;
	} else if (parse_breg(expr, sz, &op, &off, &deref) && deref) {
		s->cfa_expr = op == DW_OP_breg_fp ? CFA_FP_DEREF : CFA_SP_DEREF;
		s->cfa_expr_off = off;
	}
}

static struct cfi_reg reg_of_expr(const uint8_t *expr, uint64_t sz)
{
	struct cfi_reg reg = {.kind = CFI_OTHER};
	uint8_t op;
	bool deref;
	int64_t off;

	if (parse_breg(expr, sz, &op, &off, &deref) && op == DW_OP_breg_fp && !deref)
		reg = (struct cfi_reg){.kind = CFI_AT_FP, .off = off};
	return reg;
}

/* ---- instructions -----------------------------------------------------------------------------
 */

static void set_reg(struct run *run, uint64_t reg, enum cfi_reg_kind kind, int64_t off)
{
	struct cfi_reg value = {.kind = kind, .off = off};

	if (reg == REG_FP)
		run->state.fp = value;
	else if (reg == REG_RA)
		run->state.ra = value;
	else if (reg == REG_SP)
		run->state.sp = value;
}

static int64_t scaled(struct run *run, int64_t off)
{
	int64_t value;

	if (__builtin_mul_overflow(off, run->cie->data_align, &value)) {
		run->r.bad = true;
		return 0;
	}
	return value;
}

static int64_t read_uleb_scaled(struct run *run)
{
	uint64_t off = eh_read_uleb(&run->r);

	if (off > INT64_MAX) {
		run->r.bad = true;
		return 0;
	}
	return scaled(run, (int64_t)off);
}

static int64_t read_sleb_scaled(struct run *run)
{
	return scaled(run, eh_read_sleb(&run->r));
}

static void restore_reg(struct run *run, uint64_t reg)
{
	if (run->initial == NULL)
		run->r.bad = true;
	else if (reg == REG_FP)
		run->state.fp = run->initial->fp;
	else if (reg == REG_RA)
		run->state.ra = run->initial->ra;
	else if (reg == REG_SP)
		run->state.sp = run->initial->sp;
}

static void set_cfa(struct run *run, uint64_t reg, int64_t off)
{
	run->state.cfa_is_expr = false;
	run->state.cfa_reg = reg;
	run->state.cfa_off = off;
}

static int64_t read_uleb_off(struct run *run)
{
	uint64_t off = eh_read_uleb(&run->r);

	if (off > INT64_MAX)
		run->r.bad = true;
	return (int64_t)off;
}

static void run_cfa_op(struct run *run, uint8_t op)
{
	struct eh_reader *r = &run->r;
	const uint8_t *expr;
	uint64_t n;

	/*
	 * libgcrypt's assembly sets an offset and then a register after an expression: the first
	 * is remembered, the second ends the expression (gcc 12, libgcc/unwind-dw2.c,
	 * execute_cfa_program).
	 */
	switch (op) {
	case DW_CFA_def_cfa:
		n = eh_read_uleb(r);
		set_cfa(run, n, read_uleb_off(run));
		break;
	case DW_CFA_def_cfa_sf:
		n = eh_read_uleb(r);
		set_cfa(run, n, read_sleb_scaled(run));
		break;
	case DW_CFA_def_cfa_register:
		run->state.cfa_is_expr = false;
		run->state.cfa_reg = eh_read_uleb(r);
		break;
	case DW_CFA_def_cfa_offset:
		run->state.cfa_off = read_uleb_off(run);
		break;
	case DW_CFA_def_cfa_offset_sf:
		run->state.cfa_off = read_sleb_scaled(run);
		break;
	case DW_CFA_def_cfa_expression:
		n = eh_read_uleb(r);
		expr = eh_read_bytes(r, n);
		if (expr != NULL)
			set_cfa_expr(&run->state, expr, n);
		break;
	}
}

static void run_reg_op(struct run *run, uint8_t op)
{
	struct eh_reader *r = &run->r;
	uint64_t reg = eh_read_uleb(r), n;
	const uint8_t *expr;
	struct cfi_reg value;

	switch (op) {
	case DW_CFA_offset_extended:
		set_reg(run, reg, CFI_AT_CFA, read_uleb_scaled(run));
		break;
	case DW_CFA_offset_extended_sf:
		set_reg(run, reg, CFI_AT_CFA, read_sleb_scaled(run));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		set_reg(run, reg, CFI_AT_CFA, -read_uleb_scaled(run));
		break;
	case DW_CFA_restore_extended:
		restore_reg(run, reg);
		break;
	case DW_CFA_undefined:
		set_reg(run, reg, CFI_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_reg(run, reg, CFI_SAME, 0);
		break;
	case DW_CFA_register:
	case DW_CFA_val_offset:
		eh_read_uleb(r);
		set_reg(run, reg, CFI_OTHER, 0);
		break;
	case DW_CFA_val_offset_sf:
		eh_read_sleb(r);
		set_reg(run, reg, CFI_OTHER, 0);
		break;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		n = eh_read_uleb(r);
		expr = eh_read_bytes(r, n);
		if (expr == NULL)
			break;
		value = op == DW_CFA_expression ? reg_of_expr(expr, n)
		                                : (struct cfi_reg){.kind = CFI_OTHER};
		set_reg(run, reg, value.kind, value.off);
		break;
	}
}

/* Hands out the rule that held up to here, when it is another one than before. */
static int end_row(struct run *run)
{
	struct unwind_rule rule;

	state_to_rule(&run->state, run->cie->is_signal, &rule);
	if (run->has_last && memcmp(&rule, &run->last, sizeof(rule)) == 0)
		return 0;
	run->last = rule;
	run->has_last = true;
	return run->row(run->arg, (uint32_t)run->off, &rule);
}

/* Moves to a later offset. 1: behind the FDE's end, nothing that follows matters. */
static int advance_to(struct run *run, uint64_t off)
{
	int rc;

	if (run->initial == NULL || off < run->off)
		return -EINVAL;
	if (off == run->off)
		return 0;
	rc = end_row(run);
	if (rc != 0)
		return rc;
	run->off = off;
	return off >= run->sz;
}

static int advance_by(struct run *run, uint64_t delta)
{
	uint64_t off;

	if (run->r.bad || __builtin_mul_overflow(delta, run->cie->code_align, &off) ||
	        __builtin_add_overflow(off, run->off, &off))
		return -EINVAL;
	return advance_to(run, off);
}

static int set_loc(struct run *run)
{
	uint64_t loc = eh_read_pointer(run->eh, &run->r, run->cie->pc_enc);

	if (run->r.bad || loc < run->start)
		return -EINVAL;
	return advance_to(run, loc - run->start);
}

static int run_extended_op(struct run *run, uint8_t op)
{
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_set_loc:
		return set_loc(run);
	case DW_CFA_advance_loc1:
		return advance_by(run, eh_read_u8(&run->r));
	case DW_CFA_advance_loc2:
		return advance_by(run, eh_read_u16(&run->r));
	case DW_CFA_advance_loc4:
		return advance_by(run, eh_read_u32(&run->r));
	case DW_CFA_remember_state:
		if (run->nr_remembered == MAX_REMEMBERED)
			return -EINVAL;
		run->remembered[run->nr_remembered++] = run->state;
		return 0;
	case DW_CFA_restore_state:
		if (run->nr_remembered == 0)
			return -EINVAL;
		run->state = run->remembered[--run->nr_remembered];
		return 0;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		run_cfa_op(run, op);
		return 0;
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		run_reg_op(run, op);
		return 0;
	case DW_CFA_GNU_args_size:
		eh_read_uleb(&run->r);
		return 0;
	default:
		return -EINVAL;
	}
}

static int run_insns(struct run *run, const uint8_t *insns, size_t sz)
{
	int rc;

	run->r = (struct eh_reader){.p = insns, .end = insns + sz};
	while (run->r.p != run->r.end) {
		uint8_t op = *run->r.p++, low = op & 0x3f;

		rc = 0;
		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			rc = advance_by(run, low);
			break;
		case DW_CFA_offset:
			set_reg(run, low, CFI_AT_CFA, read_uleb_scaled(run));
			break;
		case DW_CFA_restore:
			restore_reg(run, low);
			break;
		default:
			rc = run_extended_op(run, op);
		}
		if (rc != 0)
			return rc;
		if (run->r.bad)
			return -EINVAL;
	}
	return 0;
}

int cfi_init(const struct eh_frame *eh, const struct eh_cie *cie, struct cfi_state *initial)
{
	/* Without a rule of the CIE's the CFA is that of no register. */
	struct run run = {.eh = eh, .cie = cie, .state = {.cfa_reg = UINT64_MAX}};
	int rc = run_insns(&run, cie->insns, cie->insns_sz);

	if (rc == 0)
		*initial = run.state;
	return rc;
}

int cfi_run(const struct eh_frame *eh, const struct eh_cie *cie, const struct cfi_state *initial,
        const struct eh_fde *fde, cfi_row_fn row, void *arg)
{
	struct run run;
	int rc;

	/* Not all of it: the stack of remembered states is large, and FDEs are many. */
	run.eh = eh;
	run.cie = cie;
	run.initial = initial;
	run.state = *initial;
	run.nr_remembered = 0;
	run.start = fde->start;
	run.sz = fde->end - fde->start;
	run.off = 0;
	run.has_last = false;
	run.row = row;
	run.arg = arg;
	if (run.sz == 0 || run.sz > UINT32_MAX)
		return -EINVAL;
	rc = run_insns(&run, fde->insns, fde->insns_sz);
	if (rc == 1)
		return 0;
	return rc != 0 ? rc : end_row(&run);
}

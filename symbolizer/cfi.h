/*
 * The interpreter of call frame instructions (DWARF 5, 6.4), for what a walk needs: the CFA, the
 * frame pointer and the return address. Pure.
 */
#ifndef SYMBOLIZER_CFI_H
#define SYMBOLIZER_CFI_H

#include "bpf/abi.h"
#include "symbolizer/eh_frame.h"

/* How the caller's register is found. */
enum cfi_reg_kind {
	CFI_UNSPECIFIED, /* the frame pointer: the caller's; the stack pointer: the CFA; the return
	                    address: unknown */
	CFI_SAME,
	CFI_UNDEFINED,
	CFI_AT_CFA,
	CFI_AT_FP,
	CFI_OTHER, /* not expressible as a struct unwind_rule */
};

struct cfi_reg {
	enum cfi_reg_kind kind;
	int64_t off;
};

struct cfi_state {
	uint64_t cfa_reg; /* DWARF number */
	int64_t cfa_off;
	bool cfa_is_expr;         /* the expression is in force; reg and off stay what they were */
	enum unwind_cfa cfa_expr; /* what the expression is; CFA_INVALID: nothing known */
	int64_t cfa_expr_off;
	struct cfi_reg fp, sp, ra;
};

/*
 * Gets the rule that holds from fde->start + off on. Offsets ascend strictly from 0.
 * An inexpressible rule is all zero. Non-zero return ends the run.
 */
typedef int (*cfi_row_fn)(void *arg, uint32_t off, const struct unwind_rule *rule);

/* The state that the CIE's own instructions leave. 0 or -EINVAL. */
int cfi_init(const struct eh_frame *eh, const struct eh_cie *cie, struct cfi_state *initial);
/* Runs an FDE's instructions. 0, -EINVAL (malformed), or what row() returned. */
int cfi_run(const struct eh_frame *eh, const struct eh_cie *cie, const struct cfi_state *initial,
        const struct eh_fde *fde, cfi_row_fn row, void *arg);

#endif

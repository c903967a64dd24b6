#include "symbolizer/unwind.h"

static inline int read_word(void *ctx, uint64_t addr, uint64_t *value)
{
	const struct unwind_source *source = ctx;

	return source->read(source->ctx, addr, value);
}

#define UNWIND_READ(ctx, addr, value) read_word(ctx, addr, value)
#include "bpf/unwind_step.h"

/* One step. WALK_NONE: *state is the caller. */
static enum walk_outcome step(const struct unwind_source *source, struct unwind_state *state)
{
	uint64_t pc = unwind_lookup_pc(state), bias;
	const struct unwind_table *table;
	enum unwind_step_result result;
	enum mapping_kind kind;

	if (!source->find_table(source->ctx, pc, &kind, &table, &bias))
		return WALK_NO_MAPPING;
	if (kind == MAPPING_JIT)
		return WALK_JIT;
	if (kind == MAPPING_TABLE)
		result = unwind_step(state, unwind_table_find(table, pc - bias), (void *)source);
	else
		result = unwind_step_fp(state, (void *)source);
	switch (result) {
	case UNWIND_STEP_NEXT:
		return WALK_NONE;
	case UNWIND_STEP_END:
		return WALK_ROOT;
	case UNWIND_STEP_UNREADABLE:
		return WALK_UNREADABLE;
	case UNWIND_STEP_NO_CFI:
		return kind == MAPPING_TABLE ? WALK_NO_CFI : WALK_NO_TABLE;
	case UNWIND_STEP_NO_PROGRESS:
		break;
	}
	return WALK_NO_PROGRESS;
}

void unwind_walk(const struct unwind_source *source, const struct unwind_regs *regs,
        struct native_frame *frames, size_t max, struct unwind_walk *walk)
{
	struct unwind_state state = {
	        .pc = regs->pc,
	        .sp = regs->sp,
	        .fp = regs->fp,
	        .interrupted = regs->interrupted,
	};
	enum walk_outcome outcome = WALK_NONE;
	size_t nr = 0;

	while (outcome == WALK_NONE) {
		if (nr == max) {
			outcome = WALK_LIMIT;
			break;
		}
		frames[nr].pc = state.pc;
		frames[nr].sp = state.sp | (state.interrupted ? NATIVE_SP_INTERRUPTED : 0);
		nr++;
		outcome = step(source, &state);
	}
	*walk = (struct unwind_walk){
	        .nr = nr,
	        .outcome = outcome,
	        .cut_pc = outcome == WALK_ROOT ? 0 : state.pc,
	};
}

#include "symbolizer/stitch.h"

#include <string.h>

/*
 * Both lists come leaf first and are walked here from their ends: "outer" is towards the root, that
 * is towards higher indexes.
 */
struct stitcher {
	const struct stitch_input *in;
	struct stitch_sites *sites;
	struct stitch_item *out;
	size_t nr_out;
	bool learn_only;
	bool unplaced; /* a C frame's place is not certain */
	bool any_call; /* a call of a function that pushes C frames counts as a site, whatever it
	                  calls */
	size_t jit_callee; /* the native that the JIT's code called as a method, or SIZE_MAX */
};

static void emit(struct stitcher *st, bool interp, size_t index)
{
	if (st->learn_only)
		return;
	st->out[st->nr_out++] = (struct stitch_item){.index = (uint32_t)index, .interp = interp};
}

static bool site_is_known(const struct stitch_sites *sites, uint64_t pc)
{
	for (size_t i = 0; i < sites->nr; i++)
		if (sites->addr[i] == pc)
			return true;
	return false;
}

/* Does the function push C frames, wherever in it the pc is? */
static bool pushes_frames(const struct stitch_sites *sites, uint64_t func_addr)
{
	for (size_t i = 0; i < sites->nr; i++)
		if (sites->func_addr[i] == func_addr && func_addr != 0)
			return true;
	return false;
}

static void site_learn(struct stitch_sites *sites, const struct stitch_native *caller)
{
	if (site_is_known(sites, caller->pc) || sites->nr == STITCH_MAX_SITES)
		return;
	sites->addr[sites->nr] = caller->pc;
	sites->func_addr[sites->nr++] = caller->func_addr;
}

/* Is native i called from a site, that is: does a C frame stand below it? */
static bool called_from_site(const struct stitcher *st, size_t i)
{
	const struct stitch_native *caller;

	if (i == st->jit_callee)
		return true;
	if (i + 1 >= st->in->nr_natives)
		return false;
	caller = &st->in->natives[i + 1];
	if (site_is_known(st->sites, caller->pc))
		return true;
	/* From elsewhere it enters the interpreter to run code (vm_call0_body). */
	return st->any_call && st->in->natives[i].role != STITCH_ENTRY &&
	       pushes_frames(st->sites, caller->func_addr);
}

static size_t sites_count(const struct stitcher *st, size_t lo, size_t hi)
{
	size_t nr = 0;

	for (size_t i = lo; i < hi; i++)
		nr += called_from_site(st, i);
	return nr;
}

/*
 * A call site is learnt where it is certain: one native frame in the segment is the function, and
 * one C frame names it.
 */
static void sites_learn(struct stitcher *st, size_t lo, size_t hi, size_t c_lo, size_t c_hi)
{
	const struct stitch_native *natives = st->in->natives;
	const struct stitch_interp *interps = st->in->interps;

	for (size_t c = c_lo; c < c_hi; c++) {
		size_t at = SIZE_MAX, nr = 0;

		if (interps[c].class != STITCH_C || interps[c].func_addr == 0)
			continue;
		for (size_t i = lo; i < hi; i++) {
			if (natives[i].func_addr == interps[c].func_addr) {
				at = i;
				nr++;
			}
		}
		for (size_t other = c_lo; other < c_hi; other++)
			nr += other != c && interps[other].func_addr == interps[c].func_addr;
		if (nr == 1 && at != SIZE_MAX && at + 1 < st->in->nr_natives &&
		        natives[at + 1].runtime && natives[at + 1].role != STITCH_JIT)
			site_learn(st->sites, &natives[at + 1]);
	}
}

/*
 * A code frame that a C frame stands directly outside of was pushed from C, so it begins an
 * activation, even where its mark is set a moment after the push (vm_call0_body).
 */
static bool frame_ends_run(const struct stitch_input *in, size_t i)
{
	const struct stitch_interp *f = &in->interps[i];

	if (f->ends_run)
		return true;
	return f->class == STITCH_CODE && i + 1 < in->nr_interps &&
	       in->interps[i + 1].class != STITCH_CODE;
}

/* What is stitched at a time: one activation and its run, as ranges of both lists. */
struct segment {
	size_t native_lo,
	        native_hi; /* the outermost one (native_hi - 1) is the entry if has_entry */
	size_t interp_lo, interp_hi;
	bool has_entry;
};

/* The natives above a loop, and the C frames that stand among them, as ranges. */
struct placing {
	size_t lo, hi, c_lo, c_hi;
	size_t site_lo; /* a C function may have jumped into the next activation: then that stands
	                   at its site */
	size_t nr_c;
	size_t nr_sites;
	bool by_address; /* the functions' addresses tell where all frames stand */
	bool on_top;     /* the innermost frame stands above all natives */
	bool certain;
};

static bool is_method_of(const struct stitcher *st, size_t c, uint64_t func_addr)
{
	const struct stitch_interp *f = &st->in->interps[c];

	return f->class == STITCH_C && func_addr != 0 && f->func_addr == func_addr;
}

/* Is native i where a C frame may stand, by its address? */
static bool is_candidate(const struct stitcher *st, const struct placing *p, size_t i)
{
	return p->nr_sites <= p->nr_c || called_from_site(st, i);
}

/* Is the function of each C frame there as often as there are frames that it may be of? */
static bool addresses_tell(const struct stitcher *st, const struct placing *p)
{
	for (size_t c = p->c_lo; c < p->c_hi; c++) {
		uint64_t func_addr = st->in->interps[c].func_addr;
		size_t nr_natives = 0, nr_frames = 0;

		if (st->in->interps[c].class != STITCH_C)
			continue;
		for (size_t i = p->lo; i < p->hi; i++)
			nr_natives +=
			        st->in->natives[i].func_addr == func_addr && is_candidate(st, p, i);
		for (size_t other = p->c_lo; other < p->c_hi; other++)
			nr_frames += is_method_of(st, other, func_addr);
		if (func_addr == 0 || nr_natives != nr_frames)
			return false;
	}
	return true;
}

/* Is the function that of the outermost C frame? */
static bool is_outermost_c(const struct stitcher *st, const struct placing *p, uint64_t func_addr)
{
	size_t c = p->c_hi;

	while (c > p->c_lo && st->in->interps[c - 1].class != STITCH_C)
		c--;
	return c > p->c_lo && is_method_of(st, c - 1, func_addr);
}

/* As many sites as C frames, if calls that push C frames count wherever they are. */
static bool any_call_tells(struct stitcher *st, const struct placing *p)
{
	bool tells;

	st->any_call = true;
	tells = sites_count(st, p->site_lo, p->hi) == p->nr_c;
	st->any_call = false;
	return tells;
}

/*
 * Why there are fewer sites than C frames. If there are two reasons, or other sites may not be
 * known, it is not certain which.
 *
 * - While a function returns, the interpreter handles interrupts before it pops the frame
 *   (vm_pop_frame): what runs then is inside of the frame too.
 * - A JIT calls C functions and helpers of its own alike, and the address of the one that it called
 *   does not tell.
 * - The innermost frame is pushed and its function not yet called, or has returned: what is there
 *   belongs to the call.
 */
static bool missing_site_explained(
        struct stitcher *st, struct placing *p, bool jit, bool caller_seen)
{
	bool one = p->nr_c == p->nr_sites + 1, leaf = one && p->lo == 0 && caller_seen;
	bool returns = any_call_tells(st, p), certain;

	/* A loop that is there runs no code: it pushes nothing. */
	leaf = leaf &&
	       (p->hi == 0 || (st->in->natives[0].role == STITCH_PLAIN &&
	                              pushes_frames(st->sites, st->in->natives[0].func_addr)));
	certain = st->sites->complete && returns + (one && jit) + leaf == 1;
	if (returns) {
		st->any_call = true;
	} else if (one && jit) {
		st->jit_callee = p->hi - 1;
	} else {
		p->on_top = leaf || (p->lo == 0 && caller_seen && st->sites->nr != 0);
		return certain;
	}
	p->nr_sites = p->nr_c;
	return certain;
}

/*
 * Each C frame stands at one call site, so the next site is its place whatever function is there:
 * of a recursive function whose outer activations are hidden by tail calls, the address would find
 * the innermost. Where there are not as many sites as C frames, all the addresses together may
 * tell. Returns whether the places are certain.
 */
static bool sites_explained(struct stitcher *st, struct placing *p, bool caller_seen)
{
	bool jit;

	st->jit_callee = SIZE_MAX;
	st->any_call = false;
	p->nr_sites = sites_count(st, p->site_lo, p->hi);
	jit = p->hi > p->site_lo && p->hi < st->in->nr_natives &&
	      st->in->natives[p->hi].role == STITCH_JIT && !called_from_site(st, p->hi - 1);
	if (jit && is_outermost_c(st, p, st->in->natives[p->hi - 1].func_addr)) {
		st->jit_callee = p->hi - 1;
		p->nr_sites++;
		jit = false;
	}
	if (p->nr_sites == p->nr_c || p->nr_c == 0)
		return true;
	/* Where all sites are known, a function that is called from none is called as it is. */
	p->by_address = (p->nr_sites > p->nr_c || !st->sites->complete) && addresses_tell(st, p);
	if (p->by_address)
		return true;
	/* More sites than C frames: a frame was popped already (Kernel#raise). */
	return p->nr_sites < p->nr_c && missing_site_explained(st, p, jit, caller_seen);
}

/*
 * Where the C frame stands: below (towards the root) the native frame that is returned, which is
 * the C function, or what took its place in a tail call. Natives are searched from `from` towards
 * the leaf.
 */
static size_t c_function_find(
        const struct stitcher *st, const struct placing *p, size_t c, size_t from)
{
	size_t site = SIZE_MAX, match = SIZE_MAX;

	for (size_t i = from + 1; i-- > p->site_lo;) {
		bool same = is_method_of(st, c, st->in->natives[i].func_addr);
		bool is_site = called_from_site(st, i);

		if (same && (p->by_address || p->nr_sites > p->nr_c) && is_candidate(st, p, i))
			return i;
		if (is_site && !p->by_address && p->nr_sites <= p->nr_c)
			return i;
		if (is_site && site == SIZE_MAX)
			site = i;
		if (same && match == SIZE_MAX)
			match = i;
	}
	/* If all is explained, a function that is called from no site is called as it is. */
	return site != SIZE_MAX || p->certain ? site : match;
}

/* caller_seen: the loop or the root is there, so that no call site was cut off. */
static void place_c_frames(
        struct stitcher *st, size_t lo, size_t hi, size_t c_lo, size_t c_hi, bool caller_seen)
{
	struct placing p = {.lo = lo, .hi = hi, .c_lo = c_lo, .c_hi = c_hi};
	const struct stitch_interp *interps = st->in->interps;
	size_t next = hi; /* natives at and above this index are emitted */

	p.site_lo = lo > 0 ? lo - 1 : 0;
	if (!st->sites->complete)
		sites_learn(st, lo, hi, c_lo, c_hi);
	for (size_t c = c_lo; c < c_hi; c++)
		p.nr_c += interps[c].class == STITCH_C;
	p.certain = sites_explained(st, &p, caller_seen);
	if (!p.certain && hi > lo)
		st->unplaced = true;

	for (size_t c = c_hi; c-- > c_lo;) {
		size_t at = SIZE_MAX;

		if (interps[c].class != STITCH_C)
			continue;
		if (next > lo)
			at = c_function_find(st, &p, c, next - 1);
		if (at != SIZE_MAX)
			while (next > at + 1)
				emit(st, false, --next);
		else if (c == c_lo && p.on_top)
			while (next > lo)
				emit(st, false, --next);
		emit(st, true, c);
		/* The C function itself is taken: the next frame's lies above it. */
		if (at != SIZE_MAX && at >= lo)
			emit(st, false, --next);
	}
	while (next > lo)
		emit(st, false, --next);
}

/* One past the outermost frame of the run that begins (leaf side) at i. */
static size_t run_end(const struct stitch_input *in, size_t i)
{
	while (i < in->nr_interps)
		if (frame_ends_run(in, i++))
			break;
	return i;
}

static void emit_interps(struct stitcher *st, size_t lo, size_t hi)
{
	for (size_t i = hi; i-- > lo;)
		if (st->in->interps[i].class != STITCH_HIDDEN)
			emit(st, true, i);
}

/* Was the loop called by an entry? Its caller may be beyond a cut. */
static bool loop_runs(const struct stitch_input *in, size_t i)
{
	return i + 1 == in->nr_natives || in->natives[i + 1].role == STITCH_ENTRY;
}

static void stitch_segment(struct stitcher *st, const struct segment *seg)
{
	const struct stitch_native *natives = st->in->natives;
	size_t lo = seg->native_lo, hi = seg->native_hi;
	size_t body = seg->has_entry ? hi - 1 : hi, c_hi = seg->interp_lo, run_hi = seg->interp_hi;

	/* Up to the innermost frame of the loop or the JIT: all of this runs the run's code. An
	 * entry on the way belongs to an activation that is being left. A loop that no entry called
	 * runs nothing: the compiler asks it for the addresses of instructions (vm_exec_core(0,
	 * 0)). */
	for (size_t i = body; i-- > lo && natives[i].role != STITCH_ENTRY;)
		if (natives[i].role == STITCH_JIT ||
		        (natives[i].role == STITCH_LOOP && loop_runs(st->in, i)))
			body = i;
	/* Runs whose activations are beyond the cut stand outside of all native frames. */
	if (!seg->has_entry) {
		run_hi = run_end(st->in, seg->interp_lo);
		emit_interps(st, run_hi, seg->interp_hi);
	}
	for (size_t i = hi; i-- > body;)
		emit(st, false, i);

	/* C frames are the inner ones of a run; what is outside of the innermost code frame is in
	 * program order. */
	while (c_hi < run_hi && st->in->interps[c_hi].class != STITCH_CODE)
		c_hi++;
	emit_interps(st, c_hi, run_hi);
	place_c_frames(st, lo, body, seg->interp_lo, c_hi, body < hi || st->in->native_root);
}

/* Index of the next entry at or outside of i, or nr_natives. */
static size_t entry_next(const struct stitch_input *in, size_t i)
{
	while (i < in->nr_natives && in->natives[i].role != STITCH_ENTRY)
		i++;
	return i;
}

/* The next segment towards the root. skip_entries: activations without a run; skip_run: a run
 * without an activation. */
static bool next_segment(
        const struct stitch_input *in, struct segment *seg, size_t skip_entries, bool skip_run)
{
	size_t entry;

	seg->native_lo = seg->native_hi;
	seg->interp_lo = seg->interp_hi;
	if (seg->native_lo >= in->nr_natives && seg->interp_lo >= in->nr_interps)
		return false;
	if (skip_run) {
		seg->has_entry = false;
		seg->interp_hi = run_end(in, seg->interp_lo);
		return true;
	}
	entry = entry_next(in, seg->native_lo);
	while (skip_entries-- > 0 && entry < in->nr_natives)
		entry = entry_next(in, entry + 1);
	seg->has_entry = entry < in->nr_natives;
	seg->native_hi = seg->has_entry ? entry + 1 : in->nr_natives;
	/* Without an entry left, the rest of the interpreter frames has no activation that we see.
	 */
	seg->interp_hi = seg->has_entry ? run_end(in, seg->interp_lo) : in->nr_interps;
	return true;
}

static void emit_all(struct stitcher *st, size_t skip_entries, bool skip_run)
{
	const struct stitch_input *in = st->in;
	struct segment seg = {0};
	size_t total = 0, at = 0;
	struct stitch_item *end;

	/*
	 * Activations pair from the leaf, once it is known what to leave out there; a segment is
	 * emitted root first. Turning each segment round, and then the whole, puts the segments in
	 * order without another list.
	 */
	while (next_segment(in, &seg, at == 0 ? skip_entries : 0, at == 0 && skip_run)) {
		size_t before = st->nr_out;

		stitch_segment(st, &seg);
		for (size_t i = before, j = st->nr_out; i + 1 < j; i++) {
			struct stitch_item tmp = st->out[i];

			st->out[i] = st->out[--j];
			st->out[j] = tmp;
		}
		at++;
	}
	total = st->nr_out;
	if (total < 2)
		return;
	end = st->out + total;
	for (struct stitch_item *i = st->out; i + 1 < end; i++) {
		struct stitch_item tmp = *i;

		*i = *--end;
		*end = tmp;
	}
}

/* Two stacks in one sample: the interpreter's is whole, and of the native one the leaf says where
 * the thread is. */
static void emit_unpaired(struct stitcher *st)
{
	for (size_t i = st->in->nr_interps; i-- > 0;)
		if (st->in->interps[i].class != STITCH_HIDDEN)
			emit(st, true, i);
	if (st->in->nr_natives > 0)
		emit(st, false, 0);
}

static enum stitch_result stitch_run(struct stitcher *st)
{
	const struct stitch_input *in = st->in;
	size_t nr_entries = 0, nr_runs = 0;

	for (size_t i = 0; i < in->nr_natives; i++)
		nr_entries += in->natives[i].role == STITCH_ENTRY;
	for (size_t i = 0; i < in->nr_interps; i++)
		nr_runs += frame_ends_run(in, i);

	if (in->nr_interps > 0 && in->off_stack) {
		emit_unpaired(st);
		return STITCH_OFF_STACK;
	}
	if (!in->native_root || !in->interp_root) {
		emit_all(st, 0, false);
		return STITCH_PARTIAL;
	}
	if (nr_entries == nr_runs) {
		emit_all(st, 0, false);
		return st->unplaced ? STITCH_UNPLACED : STITCH_EXACT;
	}
	if (nr_runs == nr_entries + 1) {
		emit_all(st, 0, true);
		return STITCH_PUSHING;
	}
	if (nr_entries == nr_runs + 1) {
		emit_all(st, 1, false);
		return STITCH_POPPING;
	}
	emit_unpaired(st);
	return STITCH_MISPAIRED;
}

enum stitch_result stitch(const struct stitch_input *in, struct stitch_sites *sites,
        struct stitch_item *out, size_t *nr_out)
{
	struct stitcher st = {.in = in, .sites = sites, .out = out, .jit_callee = SIZE_MAX};
	enum stitch_result result = stitch_run(&st);

	*nr_out = st.nr_out;
	return result;
}

void stitch_learn(const struct stitch_input *in, struct stitch_sites *sites)
{
	struct stitcher st = {.in = in, .sites = sites, .learn_only = true, .jit_callee = SIZE_MAX};

	stitch_run(&st);
}

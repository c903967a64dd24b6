/*
 * Puts the native frames and the interpreter frames of one sample into one stack, in their true
 * order. A pure function over flat lists; it knows no interpreter by name.
 *
 * What it rests on (CRuby, all releases): an interpreter loop is entered through one native
 * function (vm_exec, STITCH_ENTRY here), and each activation of it runs exactly one run of
 * interpreter frames, whose outermost frame is marked (VM_FRAME_FLAG_FINISH, ends_run here). So the
 * n-th activation from the root owns the n-th run from the root, whatever stands between. Within a
 * run all frames of the language are outside of the C functions that they called: the native frames
 * above the loop belong to those. Root first:
 *
 *	native  main, vm_exec (an entry), vm_exec_core (the loop)
 *	interp  <main>, Foo#bar          a run, its outermost frame first
 *	native  vm_call_cfunc            calls C functions: a site
 *	interp  Array#each               a C frame of the same run
 *	native  rb_ary_each, rb_yield, vm_exec, vm_exec_core
 *	interp  block in Foo#bar         the next run
 *
 * Within a run the n-th call site from the loop has the n-th C frame. Where there are not as many
 * sites as C frames, because a frame is being pushed or was popped, the JIT called the function, or
 * a site is not known, the frames are placed if one reason explains it, and the stack is marked
 * (STITCH_UNPLACED) if none does, or two do. Two of these things in one run may cancel each other
 * out: that is not seen.
 */
#ifndef SYMBOLIZER_STITCH_H
#define SYMBOLIZER_STITCH_H

#include "base/base.h"
#include <stdbool.h>

/* What a native frame is. */
enum stitch_native_role {
	STITCH_PLAIN = 0,
	STITCH_ENTRY, /* the function whose every activation runs the interpreter once (vm_exec) */
	STITCH_LOOP,  /* the interpreter's loop below it (vm_exec_core) */
	STITCH_JIT,   /* code of the JIT */
};

struct stitch_native {
	uint64_t pc;        /* as found: a return address but for the leaf */
	uint64_t func_addr; /* start of its function in the process; 0: unknown */
	uint8_t role;       /* enum stitch_native_role */
	bool runtime;       /* code of the interpreter's own library */
	bool enters_gc;     /* the function sets the garbage collector going: see gc_place.h */
};

/* What an interpreter frame is. */
enum stitch_interp_class {
	STITCH_CODE = 0, /* a method or block in the interpreter's language */
	STITCH_C,        /* a C function called as a method */
	STITCH_HIDDEN,   /* a frame that the interpreter pushes for itself and does not show */
};

struct stitch_interp {
	uint64_t func_addr; /* class C: the C function; 0: unknown */
	uint8_t class;      /* enum stitch_interp_class */
	bool ends_run;
};

/*
 * Return addresses in the interpreter from which it calls C functions. A C frame stands at one of
 * them, whatever a tail call has put in its function's place. Where the interpreter's code does not
 * tell them they are learnt, from stacks where a C frame's function is visible. One for each
 * process; zero it to start with.
 */
enum { STITCH_MAX_SITES = 32 };
struct stitch_sites {
	uint64_t addr[STITCH_MAX_SITES];
	uint64_t func_addr[STITCH_MAX_SITES]; /* the function that each is in: it pushes the C frame
	                                       */
	size_t nr;
	bool complete; /* all are known from the interpreter's code: nothing is learnt */
};

struct stitch_input {
	const struct stitch_native *natives; /* leaf first */
	size_t nr_natives;
	bool native_root;                    /* the outermost native frame is there */
	const struct stitch_interp *interps; /* leaf first */
	size_t nr_interps;
	bool interp_root;
	bool off_stack; /* the stack pointer is not on the stack of the execution context */
};

enum stitch_result {
	STITCH_EXACT = 0,
	STITCH_PUSHING,   /* the innermost run's frame is pushed, its activation not yet begun */
	STITCH_POPPING,   /* the innermost activation's frame is popped already */
	STITCH_OFF_STACK, /* native and interpreter frames are of two stacks: only the leaf is
	                     native */
	STITCH_MISPAIRED, /* counts differ by more than a push or pop explains: likewise */
	STITCH_UNPLACED,  /* paired, but it is not certain which call is that of a C function: its
	                     frame may stand too far out */
	STITCH_PARTIAL,   /* one of the lists is cut: paired from the leaf */
};

struct stitch_item {
	uint32_t index; /* in natives or interps */
	bool interp;
};

/*
 * Fills out[] (room for nr_natives + nr_interps), root first; *nr_out is how many. Hidden frames
 * are left out. May add to sites.
 */
enum stitch_result stitch(const struct stitch_input *in, struct stitch_sites *sites,
        struct stitch_item *out, size_t *nr_out);

/* Only learns call sites: for a first pass over stacks that are stitched afterwards. */
void stitch_learn(const struct stitch_input *in, struct stitch_sites *sites);

#endif

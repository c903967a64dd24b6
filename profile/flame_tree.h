/*
 * The stacks of a recording as one tree of (function, line) for a flame graph. Each node says by
 * which rule of the default view (profile/view.h) it would be folded there: the rule needs the
 * whole stack, so it is applied here, once, and a viewer only has to obey. Therefore a frame can be
 * two nodes: one in stacks that fold it, one in stacks that do not.
 */
#ifndef PROFILE_FLAME_TREE_H
#define PROFILE_FLAME_TREE_H

#include "base/hash.h"
#include "profile/label.h"
#include "profile/reader.h"

/* How a viewer colours and switches frames; the numbers are those of KINDS in
 * profile/html/model.js. */
enum flame_kind {
	FLAME_RUBY,
	FLAME_JIT,
	FLAME_CFUNC,
	FLAME_EXT,
	FLAME_VM,
	FLAME_NATIVE,
	FLAME_KERNEL,
	FLAME_GC,
	FLAME_MARK, /* no frame: says that the stack is not exact, and why */
};

enum flame_fold {
	FOLD_NONE,
	FOLD_VM,      /* the interpreter's own frames rootward of a frame of the program */
	FOLD_STARTUP, /* frames before the first frame of the program */
};

struct flame_function {
	enum flame_kind kind;
	uint32_t name, path, library; /* indices of strings; 0: the empty string. name is the
	                                 label, with the place where functions share it */
	uint32_t language;            /* likewise; 0: Ruby's, or none */
};

struct flame_frame {
	uint32_t function, line;
	uint32_t flags; /* FRAME_F_* */
};

struct flame_node {
	uint32_t parent, first_child, next_sibling; /* 0: none (node 0 is the root) */
	uint32_t frame;
	uint32_t fold;     /* enum flame_fold */
	uint32_t preorder; /* its number when the tree is walked in preorder; the root's is 0 */
	uint32_t up; /* how many levels up from the node before it in preorder to its parent */
};

struct flame_weight {
	uint32_t trigger, thread; /* indices into the reader's arrays */
	uint32_t node;            /* preorder number */
	uint8_t outcome, reason;
	uint64_t weight, nr_samples;
};

struct flame_tree {
	const char **strings; /* borrowed from the reader or from made */
	struct flame_function *functions;
	struct flame_frame *frames;
	struct flame_node *nodes;
	struct flame_weight
	        *weights; /* by trigger, thread, node; unlike in one of these, outcome or reason */
	uint32_t *order;  /* nodes in preorder without the root: nr_nodes - 1 */
	size_t nr_strings, nr_functions, nr_frames, nr_nodes, nr_weights, nr_stacks;

	/* Private. */
	size_t cap_strings, cap_functions, cap_frames, cap_nodes, cap_weights, cap_made, nr_made;
	char **made; /* owned: names of marks, and names that are more than the reader's */
	struct labels labels;
	struct hash64 string_ids, function_ids, frame_ids, node_ids, mark_ids, stack_ids;
	const struct reader *reader;
};

/* Reads all stacks. 0, -ENOMEM or what the reader says. Strings are borrowed from the reader. */
int flame_tree_init(struct flame_tree *tree, struct reader *reader, struct err *err);
void flame_tree_release(struct flame_tree *tree);

#endif

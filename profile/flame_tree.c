#include "profile/flame_tree.h"
#include "base/array.h"

#include "profile/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the coding of a node in the page leaves for frame numbers (profile/html/model.js). */
enum { MAX_FRAMES = 1 << 28, LINE_BITS = 30 };
/* Of anything else: its number is written in JSON and read as a signed 32-bit one. */
enum { NR_MAX = INT32_MAX };
/* A node with more children has them in a table too. */
enum { FEW_CHILDREN = 8 };

static int string_intern(struct flame_tree *t, const char *s, uint32_t *id)
{
	uint64_t hash, *known;
	int rc;

	if (s == NULL)
		s = "";
	hash = hash_bytes(s, strlen(s), 0);
	known = hash64_find(&t->string_ids, hash);
	if (known != NULL && strcmp(t->strings[*known], s) == 0) {
		*id = (uint32_t)*known;
		return 0;
	}
	rc = ARRAY_RESERVE(t->strings, t->cap_strings, t->nr_strings + 1, NR_MAX);
	/* Another string with the same hash keeps its entry: this one is stored again each time. */
	if (rc == 0 && known == NULL)
		rc = hash64_put(&t->string_ids, hash, t->nr_strings);
	if (rc != 0)
		return rc;
	t->strings[t->nr_strings] = s;
	*id = (uint32_t)t->nr_strings++;
	return 0;
}

static enum flame_kind kind_of(const struct frame *f)
{
	switch (f->kind) {
	case FRAME_INTERP:
		return FLAME_RUBY;
	case FRAME_INTERP_JIT:
		return FLAME_JIT;
	case FRAME_INTERP_C:
		return FLAME_CFUNC;
	case FRAME_KERNEL:
		return FLAME_KERNEL;
	case FRAME_GC:
		return FLAME_GC;
	default:
		return f->role == ROLE_EXT  ? FLAME_EXT
		       : f->role == ROLE_VM ? FLAME_VM
		                            : FLAME_NATIVE;
	}
}

/* name: what the box is called; the frame has the rest. */
static int function_add(struct flame_tree *t, enum flame_kind kind, const char *name,
        const struct frame *frame, uint32_t *id)
{
	struct flame_function f = {.kind = kind};
	int rc = string_intern(t, name, &f.name);

	if (rc == 0)
		rc = string_intern(t, frame->path, &f.path);
	if (rc == 0)
		rc = string_intern(t, frame->library, &f.library);
	if (rc == 0)
		rc = string_intern(t, frame_other_language(frame), &f.language);
	if (rc == 0)
		rc = ARRAY_RESERVE(t->functions, t->cap_functions, t->nr_functions + 1, NR_MAX);
	if (rc != 0)
		return rc;
	t->functions[t->nr_functions] = f;
	*id = (uint32_t)t->nr_functions++;
	return 0;
}

/* The name is freed with the tree, or at once when there is no memory. */
static int own(struct flame_tree *t, char *name)
{
	int rc = ARRAY_RESERVE(t->made, t->cap_made, t->nr_made + 1, NR_MAX);

	if (rc == 0)
		t->made[t->nr_made++] = name;
	else
		free(name);
	return rc;
}

/* What a box is called: the frame's name, or one that is made here when that is not enough. */
static int function_name(
        struct flame_tree *t, const struct frame *f, uint32_t function, const char **out)
{
	struct buf b;
	int rc;

	*out = f->name;
	if (f->method == NULL && !labels_has_place(&t->labels, function))
		return 0;
	buf_init(&b, SIZE_MAX / 2);
	label_put_name(&b, f);
	if (labels_has_place(&t->labels, function)) {
		buf_puts(&b, " ");
		labels_put_place(&t->labels, function, &b);
	}
	if (b.failed) {
		buf_release(&b);
		return -ENOMEM;
	}
	rc = own(t, b.data);
	if (rc == 0)
		*out = b.data;
	return rc;
}

static int function_intern(
        struct flame_tree *t, const struct frame *f, uint32_t function, uint32_t *id)
{
	uint64_t *known = hash64_find(&t->function_ids, function);
	const char *name;
	int rc;

	if (known != NULL) {
		*id = (uint32_t)*known;
		return 0;
	}
	rc = function_name(t, f, function, &name);
	if (rc == 0)
		rc = function_add(t, kind_of(f), name, f, id);
	return rc != 0 ? rc : hash64_put(&t->function_ids, function, *id);
}

static int frame_intern(struct flame_tree *t, struct flame_frame f, uint32_t *id)
{
	uint64_t key, *known;
	int rc;

	f.line &= (1u << LINE_BITS) - 1;
	f.flags &= FRAME_F_INLINED | FRAME_F_APPROX;
	key = (uint64_t)f.function << 32 | f.line << 2 | f.flags;
	known = hash64_find(&t->frame_ids, key);
	if (known != NULL) {
		*id = (uint32_t)*known;
		return 0;
	}
	if (t->nr_frames >= MAX_FRAMES)
		return -E2BIG;
	rc = ARRAY_RESERVE(t->frames, t->cap_frames, t->nr_frames + 1, NR_MAX);
	if (rc == 0)
		rc = hash64_put(&t->frame_ids, key, t->nr_frames);
	if (rc != 0)
		return rc;
	t->frames[t->nr_frames] = f;
	*id = (uint32_t)t->nr_frames++;
	return 0;
}

static uint64_t node_key(uint32_t parent, uint32_t frame, enum flame_fold fold)
{
	return (uint64_t)parent << 32 | frame << 2 | fold;
}

/* 0: there is none. *nr_seen: how many children were looked at, one by one; more than FEW_CHILDREN:
 * all are in the table. */
static uint32_t child_find(const struct flame_tree *t, uint32_t parent, uint32_t frame,
        enum flame_fold fold, size_t *nr_seen)
{
	uint32_t child = t->nodes[parent].first_child;
	const uint64_t *known;

	*nr_seen = 0;
	for (; child != 0; child = t->nodes[child].next_sibling) {
		if (++*nr_seen > FEW_CHILDREN) {
			known = hash64_find(&t->node_ids, node_key(parent, frame, fold));
			return known != NULL ? (uint32_t)*known : 0;
		}
		if (t->nodes[child].frame == frame && t->nodes[child].fold == fold)
			return child;
	}
	return 0;
}

static int child_index(struct flame_tree *t, uint32_t child)
{
	const struct flame_node *n = &t->nodes[child];

	return hash64_put(&t->node_ids, node_key(n->parent, n->frame, n->fold), child);
}

/* The child of *node with this frame; *node becomes it. */
static int node_enter(struct flame_tree *t, uint32_t *node, uint32_t frame, enum flame_fold fold)
{
	size_t nr_seen;
	uint32_t child = child_find(t, *node, frame, fold, &nr_seen);
	int rc;

	if (child != 0) {
		*node = child;
		return 0;
	}
	rc = ARRAY_RESERVE(t->nodes, t->cap_nodes, t->nr_nodes + 1, NR_MAX);
	if (rc != 0)
		return rc;
	child = (uint32_t)t->nr_nodes++;
	t->nodes[child] = (struct flame_node){
	        .parent = *node,
	        .next_sibling = t->nodes[*node].first_child,
	        .frame = frame,
	        .fold = fold,
	};
	t->nodes[*node].first_child = child;
	if (nr_seen > FEW_CHILDREN) {
		rc = child_index(t, child);
	} else if (nr_seen == FEW_CHILDREN) {
		for (uint32_t i = child; rc == 0 && i != 0; i = t->nodes[i].next_sibling)
			rc = child_index(t, i);
	}
	*node = child;
	return rc;
}

/* ---- marks ------------------------------------------------------------------------------------
 */

/*
 * The walks go from leaf to root. When the walk of the interpreter's frames stopped, or that of the
 * native frames of a stack which has no others, the root is not the root: the mark stands there,
 * and the stack joins no other at its root. Everything else that is not exact left the callers
 * whole: the mark is the innermost frame.
 */
static bool mark_is_root(const struct reader_stack *s, bool has_interp)
{
	if (s->outcome != STACK_TRUNCATED)
		return false;
	return s->reason == REASON_INTERP_LIMIT || (!has_interp && s->reason != REASON_BAD_CONTEXT);
}

static int mark_frame(struct flame_tree *t, uint8_t outcome, uint8_t reason, uint32_t *frame)
{
	uint64_t key = (uint64_t)outcome << 8 | reason, *known = hash64_find(&t->mark_ids, key);
	const char *why = stack_reason_name(reason);
	const struct frame none = {0};
	struct flame_frame f = {0};
	char *name;
	int rc;

	if (known != NULL) {
		*frame = (uint32_t)*known;
		return 0;
	}
	if (asprintf(&name, "(%s%s%s)", stack_outcome_name(outcome), why == NULL ? "" : ": ",
	            why == NULL                  ? ""
	            : reason == REASON_NO_CFI    ? "no CFI"
	            : reason == REASON_LATE_NAME ? "name came late"
	                                         : why) < 0)
		return -ENOMEM;
	for (char *p = name; *p != '\0'; p++)
		if (*p == '-')
			*p = ' ';
	rc = own(t, name);
	if (rc == 0)
		rc = function_add(t, FLAME_MARK, name, &none, &f.function);
	if (rc == 0)
		rc = frame_intern(t, f, frame);
	return rc != 0 ? rc : hash64_put(&t->mark_ids, key, *frame);
}

/* ---- stacks -----------------------------------------------------------------------------------
 */

/* The step to one of the recording's stacks from its parent. */
struct step {
	uint32_t from, to; /* nodes; to 0: not known yet */
	enum flame_fold fold;
};

struct collect {
	struct flame_tree *tree;
	uint32_t *shown; /* of view_apply */
	size_t cap_shown;
	/* By stack: stacks share their outer frames, of which all was found out with the first. */
	struct step *steps;
	size_t nr_steps;
};

static int reserve_steps(struct collect *c, uint32_t stack)
{
	size_t known = c->nr_steps;
	int rc = ARRAY_RESERVE(c->steps, c->nr_steps, (size_t)stack + 1, UINT32_MAX);

	if (rc == 0 && c->nr_steps > known)
		memset(c->steps + known, 0, (c->nr_steps - known) * sizeof(*c->steps));
	return rc;
}

/* From *node by frame i of the stack. */
static int enter_frame(struct collect *c, const struct reader_stack *s, size_t i, uint32_t *node,
        enum flame_fold fold)
{
	const struct frame *f = &s->frames[i];
	struct flame_frame frame = {.line = f->line, .flags = f->flags};
	struct step *step = &c->steps[s->stacks[i]];
	uint32_t id, to = *node;
	int rc;

	if (step->to != 0 && step->from == *node && step->fold == fold) {
		*node = step->to;
		return 0;
	}
	rc = function_intern(c->tree, f, s->functions[i], &frame.function);
	if (rc == 0)
		rc = frame_intern(c->tree, frame, &id);
	if (rc == 0)
		rc = node_enter(c->tree, &to, id, fold);
	if (rc != 0)
		return rc;
	*step = (struct step){.from = *node, .to = to, .fold = fold};
	*node = to;
	return 0;
}

static int enter_frames(struct collect *c, const struct reader_stack *s, uint32_t *node)
{
	const struct view view = {.mode = VIEW_DEFAULT};
	size_t nr_shown, next = 0;
	bool in_program = false;
	int rc = ARRAY_RESERVE(c->shown, c->cap_shown, s->nr_frames, SIZE_MAX);

	if (rc != 0)
		return rc;
	nr_shown = view_apply(&view, s->frames, s->nr_frames, c->shown);
	for (size_t i = 0; i < s->nr_frames; i++) {
		bool shown = next < nr_shown && c->shown[next] == i;

		next += shown;
		in_program |= frame_is_interp(&s->frames[i]);
		rc = enter_frame(c, s, i, node,
		        shown        ? FOLD_NONE
		        : in_program ? FOLD_VM
		                     : FOLD_STARTUP);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int add_stack(const struct reader_stack *s, void *ctx)
{
	struct collect *c = ctx;
	struct flame_tree *t = c->tree;
	/* All frames of a stack with an inexact line are right: the frame's own flag is the mark.
	 */
	bool marked = s->outcome != STACK_EXACT && s->outcome != STACK_NO_CONTEXT &&
	              s->reason != REASON_LINE;
	bool has_interp = false, at_root;
	uint32_t mark = 0, node = 0;
	size_t nr;
	int rc = 0;

	for (size_t i = 0; i < s->nr_frames; i++)
		has_interp |= frame_is_interp(&s->frames[i]);
	at_root = mark_is_root(s, has_interp);
	if (marked)
		rc = mark_frame(t, s->outcome, s->reason, &mark);
	if (rc == 0 && marked && at_root)
		rc = node_enter(t, &node, mark, FOLD_NONE);
	if (rc == 0)
		rc = reserve_steps(c, s->id);
	if (rc == 0)
		rc = enter_frames(c, s, &node);
	if (rc == 0 && marked && !at_root)
		rc = node_enter(t, &node, mark, FOLD_NONE);
	if (rc == 0)
		rc = hash64_put(&t->stack_ids, s->id, 1);
	if (rc == 0)
		rc = ARRAY_RESERVE(t->weights, t->cap_weights, t->nr_weights + 1, NR_MAX);
	if (rc != 0)
		return rc;
	t->weights[t->nr_weights++] = (struct flame_weight){
	        .trigger = (uint32_t)(s->trigger - reader_triggers(t->reader, &nr)),
	        .thread = (uint32_t)(s->thread - reader_threads(t->reader, &nr)),
	        .node = node,
	        .outcome = s->outcome,
	        .reason = s->reason,
	        .weight = s->weight,
	        .nr_samples = s->nr_samples,
	};
	return 0;
}

/* ---- order ------------------------------------------------------------------------------------
 */

static int number_nodes(struct flame_tree *t)
{
	uint32_t node = 0, nr = 0, up = 0;

	t->order = calloc(t->nr_nodes, sizeof(*t->order));
	if (t->order == NULL)
		return -ENOMEM;
	for (;;) {
		if (t->nodes[node].first_child != 0) {
			node = t->nodes[node].first_child;
		} else {
			while (node != 0 && t->nodes[node].next_sibling == 0) {
				node = t->nodes[node].parent;
				up++;
			}
			if (node == 0)
				return 0;
			node = t->nodes[node].next_sibling;
			up++;
		}
		t->order[nr++] = node;
		t->nodes[node].preorder = nr;
		t->nodes[node].up = up;
		up = 0;
	}
}

static int compare_places(const void *left, const void *right)
{
	const struct flame_weight *a = left, *b = right;
	const uint32_t of_a[] = {a->trigger, a->thread, a->node, a->outcome, a->reason};
	const uint32_t of_b[] = {b->trigger, b->thread, b->node, b->outcome, b->reason};

	for (size_t i = 0; i < ARRAY_SIZE(of_a); i++)
		if (of_a[i] != of_b[i])
			return of_a[i] < of_b[i] ? -1 : 1;
	return 0;
}

/* Stacks that differ in addresses alone are one here. */
static void merge_weights(struct flame_tree *t)
{
	size_t nr = 0;

	for (size_t i = 0; i < t->nr_weights; i++)
		t->weights[i].node = t->nodes[t->weights[i].node].preorder;
	if (t->nr_weights > 1)
		qsort(t->weights, t->nr_weights, sizeof(*t->weights), compare_places);
	for (size_t i = 0; i < t->nr_weights; i++) {
		if (nr > 0 && compare_places(&t->weights[nr - 1], &t->weights[i]) == 0) {
			t->weights[nr - 1].weight += t->weights[i].weight;
			t->weights[nr - 1].nr_samples += t->weights[i].nr_samples;
		} else {
			t->weights[nr++] = t->weights[i];
		}
	}
	t->nr_weights = nr;
}

int flame_tree_init(struct flame_tree *t, struct reader *reader, struct err *err)
{
	struct collect c = {.tree = t};
	uint32_t empty;
	int rc;

	memset(t, 0, sizeof(*t));
	t->reader = reader;
	hash64_init(&t->string_ids);
	hash64_init(&t->function_ids);
	hash64_init(&t->frame_ids);
	hash64_init(&t->node_ids);
	hash64_init(&t->mark_ids);
	hash64_init(&t->stack_ids);
	if (err != NULL)
		err->msg[0] = '\0';
	rc = labels_init(&t->labels, reader);
	if (rc == 0)
		rc = string_intern(t, "", &empty);
	if (rc == 0)
		rc = ARRAY_RESERVE(t->nodes, t->cap_nodes, 0 + 1, NR_MAX);
	if (rc == 0) {
		t->nodes[0] = (struct flame_node){0};
		t->nr_nodes = 1;
		rc = reader_each_stack(reader, NULL, add_stack, &c, err);
	}
	if (rc == 0)
		rc = number_nodes(t);
	if (rc == 0) {
		t->nr_stacks = t->stack_ids.nr;
		merge_weights(t);
	} else {
		if (err == NULL || err->msg[0] == '\0')
			err_set(err, rc, "the stacks cannot be put into a tree: %s", strerror(-rc));
		flame_tree_release(t);
	}
	free(c.shown);
	free(c.steps);
	return rc;
}

void flame_tree_release(struct flame_tree *t)
{
	for (size_t i = 0; i < t->nr_made; i++)
		free(t->made[i]);
	free(t->made);
	labels_release(&t->labels);
	free(t->strings);
	free(t->functions);
	free(t->frames);
	free(t->nodes);
	free(t->weights);
	free(t->order);
	hash64_release(&t->string_ids);
	hash64_release(&t->function_ids);
	hash64_release(&t->frame_ids);
	hash64_release(&t->node_ids);
	hash64_release(&t->mark_ids);
	hash64_release(&t->stack_ids);
	memset(t, 0, sizeof(*t));
}

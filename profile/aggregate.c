#include "profile/aggregate.h"
#include "base/array.h"
#include "profile/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A stack as the view shows it: a path in a tree of functions, so that a million stacks share their
 * roots. */
struct node_key {
	uint32_t parent, function; /* node 0: the empty stack */
};

struct node_sum {
	uint64_t weight, nr_samples; /* of stacks that end here */
};

/* Sums of one trigger while stacks come in. */
struct sums {
	struct trigger_sum out;
	struct hot_frame *functions; /* by id; 0 is unused */
	uint32_t *seen;              /* by function id: the number of the last stack that had it */
	struct intern nodes;
	struct node_sum *node_sums; /* by node id - 1 */
	size_t node_cap;
	struct thread_sum *threads; /* by id; 0 is unused */
};

struct build {
	struct reader *r;
	const struct view *view;
	struct sums *sums; /* by trigger id - 1 */
	size_t nr_sums;
	size_t nr_threads;
	uint32_t nr_stacks;
	uint32_t *shown;
	size_t shown_cap;
};

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

static int sums_prepare(struct build *b, struct sums *s, const struct reader_trigger *trigger)
{
	if (s->out.trigger != NULL)
		return 0;
	s->functions = calloc((size_t)reader_nr_functions(b->r) + 1, sizeof(*s->functions));
	s->seen = calloc((size_t)reader_nr_functions(b->r) + 1, sizeof(*s->seen));
	s->threads = calloc(b->nr_threads + 1, sizeof(*s->threads));
	if (s->functions == NULL || s->seen == NULL || s->threads == NULL) {
		free(s->functions);
		free(s->seen);
		free(s->threads);
		s->functions = NULL;
		s->seen = NULL;
		s->threads = NULL;
		return -ENOMEM;
	}
	intern_init(&s->nodes);
	s->out.trigger = trigger;
	return 0;
}

static int add_node(struct sums *s, uint32_t parent, uint32_t function, uint32_t *node)
{
	struct node_key key = {.parent = parent, .function = function};
	int rc, is_new;

	rc = intern_put(&s->nodes, &key, sizeof(key), node, &is_new);
	if (rc == 0)
		rc = ARRAY_RESERVE(s->node_sums, s->node_cap, *node, UINT32_MAX);
	if (rc == 0 && is_new)
		s->node_sums[*node - 1] = (struct node_sum){0};
	return rc;
}

static int add_frames(struct build *b, struct sums *s, const struct reader_stack *stack)
{
	size_t nr = view_apply(b->view, stack->frames, stack->nr_frames, b->shown);
	uint32_t node = 0, function = 0;
	int rc;

	b->nr_stacks++;
	for (size_t i = 0; i < nr; i++) {
		struct hot_frame *hot;

		function = stack->functions[b->shown[i]];
		hot = &s->functions[function];
		rc = add_node(s, node, function, &node);
		if (rc != 0)
			return rc;
		if (s->seen[function] == b->nr_stacks)
			continue; /* recursion */
		s->seen[function] = b->nr_stacks;
		add(&hot->total, stack->weight);
		add(&hot->total_samples, stack->nr_samples);
	}
	if (nr == 0) {
		add(&s->out.unseen, stack->weight);
		return 0;
	}
	add(&s->functions[function].self, stack->weight);
	add(&s->functions[function].self_samples, stack->nr_samples);
	add(&s->node_sums[node - 1].weight, stack->weight);
	add(&s->node_sums[node - 1].nr_samples, stack->nr_samples);
	return 0;
}

/* The frame that a native walk ended at is the outermost one that is there. */
static void add_cut(struct sums *s, const struct reader_stack *stack)
{
	if (stack->outcome != STACK_TRUNCATED || stack->reason >= STACK_NR_REASONS)
		return;
	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		if (stack->frames[i].kind != FRAME_NATIVE)
			continue;
		stack_cuts_add(
		        &s->out.cuts[stack->reason], stack->frames[i].library, stack->nr_samples);
		return;
	}
}

static int add_stack(const struct reader_stack *stack, void *ctx)
{
	struct build *b = ctx;
	struct sums *s = &b->sums[stack->trigger->id - 1];
	struct thread_sum *thread;
	int rc;

	rc = sums_prepare(b, s, stack->trigger);
	if (rc != 0)
		return rc;
	rc = ARRAY_RESERVE(b->shown, b->shown_cap, stack->nr_frames, SIZE_MAX);
	if (rc != 0)
		return rc;
	add(&s->out.weight, stack->weight);
	add(&s->out.nr_samples, stack->nr_samples);
	add(&s->out.outcomes[stack->outcome < STACK_NR_OUTCOMES ? stack->outcome : 0],
	        stack->nr_samples);
	add(&s->out.reasons[stack->reason < STACK_NR_REASONS ? stack->reason : 0],
	        stack->nr_samples);
	add_cut(s, stack);
	thread = &s->threads[stack->thread->id];
	thread->thread = stack->thread;
	add(&thread->weight, stack->weight);
	add(&thread->nr_samples, stack->nr_samples);
	return add_frames(b, s, stack);
}

/* Descending; what is equal stays in the order of ids, so that the same recording gives the same
 * report. */
static int by_self(const void *a, const void *b)
{
	const struct hot_frame *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int by_thread_weight(const void *a, const void *b)
{
	const struct thread_sum *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->thread->id < y->thread->id ? -1 : x->thread->id > y->thread->id;
}

struct leaf {
	uint64_t weight;
	uint32_t node;
};

static int by_leaf_weight(const void *a, const void *b)
{
	const struct leaf *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static struct node_key node_at(const struct sums *s, uint32_t node)
{
	struct node_key key;

	memcpy(&key, intern_key(&s->nodes, node, NULL), sizeof(key));
	return key;
}

static int finish_stacks(struct sums *s, size_t top)
{
	size_t nr = 0, nr_kept;
	struct leaf *leaves = calloc((size_t)s->nodes.nr + 1, sizeof(*leaves));
	int rc = 0;

	if (leaves == NULL)
		return -ENOMEM;
	for (uint32_t node = 1; node <= s->nodes.nr; node++)
		if (s->node_sums[node - 1].nr_samples != 0)
			leaves[nr++] = (struct leaf){
			        .weight = s->node_sums[node - 1].weight, .node = node};
	qsort(leaves, nr, sizeof(*leaves), by_leaf_weight);
	s->out.nr_distinct_stacks = nr;
	nr_kept = MIN(nr, top);
	s->out.stacks = calloc(nr_kept + 1, sizeof(*s->out.stacks));
	if (s->out.stacks == NULL)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < nr_kept; i++) {
		struct hot_stack *hot = &s->out.stacks[i];
		uint32_t *functions;
		size_t depth = 0;

		for (uint32_t node = leaves[i].node; node != 0; node = node_at(s, node).parent)
			depth++;
		functions = calloc(depth, sizeof(*functions));
		if (functions == NULL) {
			rc = -ENOMEM;
			break;
		}
		*hot = (struct hot_stack){.weight = leaves[i].weight,
		        .nr_samples = s->node_sums[leaves[i].node - 1].nr_samples,
		        .nr_functions = depth,
		        .functions = functions};
		s->out.nr_stacks++;
		for (uint32_t node = leaves[i].node; node != 0; node = node_at(s, node).parent)
			functions[--depth] = node_at(s, node).function;
	}
	free(leaves);
	return rc;
}

static int sums_finish(struct build *b, struct sums *s, size_t top)
{
	uint32_t nr_functions = reader_nr_functions(b->r);
	size_t nr = 0;

	for (uint32_t id = 1; id <= nr_functions; id++) {
		if (s->functions[id].total_samples == 0)
			continue;
		s->functions[id].function = id;
		s->functions[nr++] = s->functions[id];
	}
	qsort(s->functions, nr, sizeof(*s->functions), by_self);
	s->out.frames = s->functions;
	s->out.nr_frames = nr;
	s->functions = NULL;
	nr = 0;
	for (size_t id = 1; id <= b->nr_threads; id++)
		if (s->threads[id].thread != NULL)
			s->threads[nr++] = s->threads[id];
	qsort(s->threads, nr, sizeof(*s->threads), by_thread_weight);
	s->out.threads = s->threads;
	s->out.nr_threads = nr;
	s->threads = NULL;
	return finish_stacks(s, top);
}

static void trigger_sum_release(struct trigger_sum *t)
{
	for (size_t i = 0; i < t->nr_stacks; i++)
		free(t->stacks[i].functions);
	free(t->stacks);
	free(t->frames);
	free(t->threads);
}

int aggregate_init(struct aggregate *a, struct reader *r, const struct reader_filter *filter,
        const struct view *view, size_t top, struct err *err)
{
	struct build b = {.r = r, .view = view};
	struct labels labels = {0};
	struct trigger_sum *triggers;
	size_t nr = 0;
	int rc = 0;

	reader_triggers(r, &b.nr_sums);
	reader_threads(r, &b.nr_threads);
	b.sums = calloc(b.nr_sums + 1, sizeof(*b.sums));
	triggers = calloc(b.nr_sums + 1, sizeof(*triggers));
	if (b.sums == NULL || triggers == NULL || labels_init(&labels, r) != 0)
		rc = -ENOMEM;
	else
		rc = reader_each_stack(r, filter, add_stack, &b, err);
	for (size_t i = 0; i < b.nr_sums && b.sums != NULL; i++) {
		struct sums *s = &b.sums[i];

		if (rc == 0 && s->out.trigger != NULL)
			rc = sums_finish(&b, s, top);
		if (rc == 0 && s->out.trigger != NULL)
			triggers[nr++] = s->out;
		else
			trigger_sum_release(&s->out);
		free(s->functions);
		free(s->seen);
		free(s->threads);
		free(s->node_sums);
		intern_release(&s->nodes);
	}
	free(b.sums);
	free(b.shown);
	if (rc == -ENOMEM)
		err_set(err, rc, "out of memory while summing up");
	if (rc != 0) {
		for (size_t i = 0; i < nr; i++)
			trigger_sum_release(&triggers[i]);
		free(triggers);
		labels_release(&labels);
		return rc;
	}
	*a = (struct aggregate){.triggers = triggers, .nr_triggers = nr, .labels = labels};
	return 0;
}

void aggregate_release(struct aggregate *a)
{
	for (size_t i = 0; i < a->nr_triggers; i++)
		trigger_sum_release(&a->triggers[i]);
	free(a->triggers);
	labels_release(&a->labels);
	*a = (struct aggregate){0};
}

#include "profile/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOCATION_MAX = 48 };

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

void report_weight(char *out, size_t out_sz, uint64_t weight, const char *unit)
{
	double v = (double)weight;

	if (strcmp(unit, "ns") != 0) {
		/* "1 calls" reads badly: the unit is a plural. */
		size_t len = strlen(unit);

		if (weight == 1 && len > 1 && unit[len - 1] == 's')
			len--;
		snprintf(out, out_sz, "%" PRIu64 " %.*s", weight, (int)MIN(len, (size_t)32), unit);
	} else if (weight >= 1000000000) {
		snprintf(out, out_sz, "%.2f s", v / 1e9);
	} else if (weight >= 1000000) {
		snprintf(out, out_sz, "%.1f ms", v / 1e6);
	} else {
		snprintf(out, out_sz, "%.1f us", v / 1e3);
	}
}

/* Text of the target on a terminal: no control character survives, C1 controls included. */
static void put_name(struct buf *b, const char *s)
{
	if (s == NULL || s[0] == '\0')
		s = "[unknown]";
	for (const unsigned char *p = (const unsigned char *)s; *p != '\0'; p++) {
		if (*p < 0x20 || *p == 0x7f)
			buf_puts(b, "?");
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			buf_puts(b, "?"), p++;
		else
			buf_append(b, p, 1);
	}
}

/* A method made of a block has both names. */
static void put_label(struct buf *b, const struct frame *f)
{
	put_name(b, f->name);
	if (f->method != NULL) {
		buf_puts(b, " (");
		put_name(b, f->method);
		buf_puts(b, ")");
	}
}

/* Where a function is, short: the end of its path, or its library. */
static void put_file(struct buf *b, const struct frame *f)
{
	const char *where = f->path != NULL ? f->path : f->library;
	const char *slash;
	size_t len;

	if (where == NULL)
		return;
	if (f->path == NULL) {
		slash = strrchr(where, '/');
		where = slash != NULL && slash[1] != '\0' ? slash + 1 : where;
		len = strlen(where);
		/* "libfoo.so+0x1230" says it already. */
		if (f->name == NULL || strncmp(f->name, where, len) != 0 || f->name[len] != '+')
			put_name(b, where);
		return;
	}
	len = strlen(where);
	if (len <= LOCATION_MAX) {
		put_name(b, where);
		return;
	}
	slash = strchr(where + len - LOCATION_MAX, '/');
	buf_puts(b, "...");
	put_name(b, slash != NULL && slash[1] != '\0' ? slash : where + len - LOCATION_MAX);
}

static void put_location(
        struct buf *b, const struct labels *l, const struct frame *f, uint32_t function)
{
	put_file(b, f);
	if (labels_has_place(l, function))
		buf_printf(b, ":%" PRIu32, f->first_line);
}

static void put_process(struct buf *b, const struct reader_process *p)
{
	buf_printf(b, "Process %d  ", p->pid);
	put_name(b, p->command_line != NULL ? p->command_line : p->comm);
	if (p->runtime_description != NULL) {
		buf_puts(b, "\n             ");
		put_name(b, p->runtime_description);
	}
	buf_puts(b, "\n");
}

static void put_outcomes(struct buf *b, const struct trigger_sum *t)
{
	bool any = false;

	buf_puts(b, "Stacks:   ");
	for (int i = 1; i <= STACK_NR_OUTCOMES; i++) {
		uint64_t nr = t->outcomes[i % STACK_NR_OUTCOMES];

		if (nr == 0)
			continue;
		buf_printf(b, "%s%.1f %% %s", any ? ", " : "", share(nr, t->nr_samples),
		        stack_outcome_name((enum stack_outcome)(i % STACK_NR_OUTCOMES)));
		any = true;
	}
	buf_puts(b, "\n");
	for (int i = 1; i < STACK_NR_REASONS; i++) {
		if (t->reasons[i] == 0)
			continue;
		buf_printf(b, "          %5.1f %%  %s: ", share(t->reasons[i], t->nr_samples),
		        stack_reason_name((enum stack_reason)i));
		if (share(t->reasons[i], t->nr_samples) > STACK_MEANING_MIN_SHARE)
			stack_meaning(b, STACK_TRUNCATED, (enum stack_reason)i, &t->cuts[i]);
		else
			buf_puts(b, stack_reason_text((enum stack_reason)i));
		buf_puts(b, "\n");
	}
	if (share(t->outcomes[STACK_NO_CONTEXT], t->nr_samples) > STACK_MEANING_MIN_SHARE) {
		buf_printf(b, "          %5.1f %%  %s: ",
		        share(t->outcomes[STACK_NO_CONTEXT], t->nr_samples),
		        stack_outcome_name(STACK_NO_CONTEXT));
		stack_meaning(b, STACK_NO_CONTEXT, REASON_NONE, NULL);
		buf_puts(b, "\n");
	}
}

static void put_frames(
        struct buf *b, const struct labels *l, const struct trigger_sum *t, size_t top)
{
	char self[64], total[64];

	buf_printf(b, "\nHottest frames, by self\n\n  %21s  %21s  %-6s  FRAME\n", "SELF", "TOTAL",
	        "KIND");
	for (size_t i = 0; i < MIN(t->nr_frames, top); i++) {
		const struct hot_frame *h = &t->frames[i];
		struct frame f = reader_function(l->reader, h->function);

		report_weight(self, sizeof(self), h->self, t->trigger->unit);
		report_weight(total, sizeof(total), h->total, t->trigger->unit);
		buf_printf(b, "  %5.1f %%  %12s  %5.1f %%  %12s  %-6s  ", share(h->self, t->weight),
		        self, share(h->total, t->weight), total, frame_shown_kind(&f));
		put_label(b, &f);
		if (f.path != NULL || f.library != NULL) {
			buf_puts(b, "  ");
			put_location(b, l, &f, h->function);
		}
		buf_puts(b, "\n");
	}
	if (t->nr_frames > top)
		buf_printf(b, "  ... %zu more frames: --top shows more\n", t->nr_frames - top);
	if (t->unseen != 0)
		buf_printf(b, "  %5.1f %%  in stacks of which this view shows no frame\n",
		        share(t->unseen, t->weight));
}

/* Leaf first, repeated frames once: a stack of 1001 `rec` is a few lines. */
static void put_stack(struct buf *b, const struct labels *l, const struct trigger_sum *t,
        const struct hot_stack *s)
{
	char weight[64];
	size_t nr_lines = 0;

	report_weight(weight, sizeof(weight), s->weight, t->trigger->unit);
	buf_printf(b, "\n  %5.1f %%  %s, %" PRIu64 " sample%s\n", share(s->weight, t->weight),
	        weight, s->nr_samples, s->nr_samples == 1 ? "" : "s");
	for (size_t i = s->nr_functions; i > 0;) {
		uint32_t function = s->functions[i - 1];
		struct frame f = reader_function(l->reader, function);
		size_t nr = 0;

		if (nr_lines++ == REPORT_STACK_LINES) {
			buf_printf(b, "           ... %zu more frames to the root\n", i);
			break;
		}
		while (i > 0 && s->functions[i - 1] == function) {
			nr++;
			i--;
		}
		buf_printf(b, "           %-6s  ", frame_shown_kind(&f));
		put_label(b, &f);
		if (nr > 1)
			buf_printf(b, "  (%zu times)", nr);
		buf_puts(b, "  ");
		put_location(b, l, &f, function);
		buf_puts(b, "\n");
	}
}

static void put_threads(struct buf *b, const struct trigger_sum *t, size_t top)
{
	char weight[64];

	buf_puts(b, "\nThreads\n\n");
	for (size_t i = 0; i < MIN(t->nr_threads, top); i++) {
		const struct thread_sum *s = &t->threads[i];

		report_weight(weight, sizeof(weight), s->weight, t->trigger->unit);
		buf_printf(b, "  %5.1f %%  %12s  %7d  ", share(s->weight, t->weight), weight,
		        s->thread->tid);
		put_name(b, s->thread->comm);
		if (s->thread->runtime_name != NULL && s->thread->runtime_name[0] != '\0') {
			buf_puts(b, "  ");
			put_name(b, s->thread->runtime_name);
		}
		buf_puts(b, "\n");
	}
	if (t->nr_threads > top)
		buf_printf(b, "  ... %zu more threads\n", t->nr_threads - top);
}

void report_text(struct buf *b, const struct reader *r, const struct aggregate *a,
        const struct report_options *o)
{
	const struct reader_process *processes;
	const struct reader_loss *losses;
	char weight[64];
	size_t nr;

	processes = reader_processes(r, &nr);
	for (size_t i = 0; i < nr; i++)
		put_process(b, &processes[i]);
	for (size_t i = 0; i < a->nr_triggers; i++) {
		const struct trigger_sum *t = &a->triggers[i];

		report_weight(weight, sizeof(weight), t->weight, t->trigger->unit);
		buf_puts(b, "\n==== ");
		put_name(b, t->trigger->name);
		buf_printf(b,
		        ": %" PRIu64 " sample%s, %s, %zu thread%s, %zu distinct stack%s ====\n",
		        t->nr_samples, t->nr_samples == 1 ? "" : "s", weight, t->nr_threads,
		        t->nr_threads == 1 ? "" : "s", t->nr_distinct_stacks,
		        t->nr_distinct_stacks == 1 ? "" : "s");
		put_outcomes(b, t);
		put_frames(b, &a->labels, t, o->top);
		if (o->stacks != 0 && t->nr_stacks != 0)
			buf_puts(b, "\nHottest stacks, leaf first\n");
		for (size_t k = 0; k < MIN(t->nr_stacks, o->stacks); k++)
			put_stack(b, &a->labels, t, &t->stacks[k]);
		put_threads(b, t, o->top);
	}
	losses = reader_losses(r, &nr);
	for (size_t i = 0, said = 0; i < nr; i++) {
		if (losses[i].count == 0)
			continue;
		if (said++ == 0)
			buf_puts(b, "\nLost while recording\n\n");
		buf_printf(b, "  %12" PRIu64 "  ", losses[i].count);
		put_name(b, losses[i].what);
		buf_puts(b, "\n");
	}
}

/* ---- JSON ----------------------------------------------------------------------------- */

static void json_str(struct buf *b, const char *before, const char *s)
{
	buf_puts(b, before);
	buf_json_str(b, s);
}

static void json_function(struct buf *b, const struct reader *r, uint32_t function)
{
	struct frame f = reader_function(r, function);

	json_str(b, "\"kind\":", frame_shown_kind(&f));
	json_str(b, ",\"role\":", frame_role_name((enum frame_role)f.role));
	json_str(b, ",\"name\":", f.name);
	json_str(b, ",\"owner\":", f.owner);
	json_str(b, ",\"method\":", f.method);
	json_str(b, ",\"path\":", f.path);
	if (f.first_line != 0)
		buf_printf(b, ",\"first_line\":%" PRIu32, f.first_line);
	else
		buf_puts(b, ",\"first_line\":null");
	json_str(b, ",\"library\":", f.library);
	if (frame_other_language(&f) != NULL)
		json_str(b, ",\"language\":", f.language);
}

static void json_trigger(struct buf *b, const struct reader *r, const struct trigger_sum *t,
        const struct report_options *o)
{
	const char *comma = "";

	json_str(b, "{\"trigger\":", t->trigger->name);
	json_str(b, ",\"unit\":", t->trigger->unit);
	buf_printf(b,
	        ",\"samples\":%" PRIu64 ",\"weight\":%" PRIu64 ",\"hidden_weight\":%" PRIu64
	        ",\"distinct_stacks\":%zu,\"outcomes\":{",
	        t->nr_samples, t->weight, t->unseen, t->nr_distinct_stacks);
	for (int i = STACK_EXACT; i <= STACK_NO_CONTEXT; i++)
		buf_printf(b, "%s\"%s\":%" PRIu64, i == STACK_EXACT ? "" : ",",
		        stack_outcome_name((enum stack_outcome)i), t->outcomes[i]);
	buf_puts(b, "},\"reasons\":{");
	for (int i = 1; i < STACK_NR_REASONS; i++) {
		const char *name = stack_reason_name((enum stack_reason)i);

		if (t->reasons[i] == 0)
			continue;
		/* Numbers of a newer version keep apart. */
		if (strcmp(name, "unknown") == 0)
			buf_printf(b, "%s\"unknown-%d\":%" PRIu64, comma, i, t->reasons[i]);
		else
			buf_printf(b, "%s\"%s\":%" PRIu64, comma, name, t->reasons[i]);
		comma = ",";
	}
	buf_puts(b, "},\"frames\":[");
	for (size_t i = 0; i < MIN(t->nr_frames, o->top); i++) {
		const struct hot_frame *h = &t->frames[i];

		buf_puts(b, i == 0 ? "{" : ",{");
		json_function(b, r, h->function);
		buf_printf(b,
		        ",\"self\":%" PRIu64 ",\"total\":%" PRIu64 ",\"self_samples\":%" PRIu64
		        ",\"total_samples\":%" PRIu64 "}",
		        h->self, h->total, h->self_samples, h->total_samples);
	}
	buf_puts(b, "],\"stacks\":[");
	for (size_t i = 0; i < MIN(t->nr_stacks, o->stacks); i++) {
		const struct hot_stack *s = &t->stacks[i];

		buf_printf(b, "%s{\"weight\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"frames\":[",
		        i == 0 ? "" : ",", s->weight, s->nr_samples);
		for (size_t k = 0; k < s->nr_functions; k++) {
			buf_puts(b, k == 0 ? "{" : ",{");
			json_function(b, r, s->functions[k]);
			buf_puts(b, "}");
		}
		buf_puts(b, "]}");
	}
	buf_puts(b, "],\"threads\":[");
	for (size_t i = 0; i < t->nr_threads; i++) {
		const struct thread_sum *s = &t->threads[i];

		buf_printf(b, "%s{\"pid\":%d,\"tid\":%d", i == 0 ? "" : ",",
		        s->thread->process->pid, s->thread->tid);
		json_str(b, ",\"comm\":", s->thread->comm);
		json_str(b, ",\"name\":", s->thread->runtime_name);
		buf_printf(b, ",\"weight\":%" PRIu64 ",\"samples\":%" PRIu64 "}", s->weight,
		        s->nr_samples);
	}
	buf_puts(b, "]}");
}

void report_json(struct buf *b, const struct reader *r, const struct aggregate *a,
        const struct report_options *o)
{
	const struct reader_process *processes;
	const struct reader_loss *losses;
	const struct reader_meta *metas;
	size_t nr;

	metas = reader_metas(r, &nr);
	buf_puts(b, "{\"meta\":{");
	for (size_t i = 0; i < nr; i++) {
		json_str(b, i == 0 ? "" : ",", metas[i].key);
		json_str(b, ":", metas[i].value);
	}
	processes = reader_processes(r, &nr);
	buf_puts(b, "},\"processes\":[");
	for (size_t i = 0; i < nr; i++) {
		buf_printf(b, "%s{\"pid\":%d,\"start_time\":%" PRIu64, i == 0 ? "" : ",",
		        processes[i].pid, processes[i].start_time);
		json_str(b, ",\"comm\":", processes[i].comm);
		json_str(b, ",\"command_line\":", processes[i].command_line);
		json_str(b, ",\"runtime\":", processes[i].runtime);
		json_str(b, ",\"runtime_description\":", processes[i].runtime_description);
		buf_puts(b, "}");
	}
	buf_puts(b, "],\"triggers\":[");
	for (size_t i = 0; i < a->nr_triggers; i++) {
		if (i != 0)
			buf_puts(b, ",");
		json_trigger(b, r, &a->triggers[i], o);
	}
	losses = reader_losses(r, &nr);
	buf_puts(b, "],\"losses\":{");
	for (size_t i = 0; i < nr; i++) {
		json_str(b, i == 0 ? "" : ",", losses[i].what);
		buf_printf(b, ":%" PRIu64, losses[i].count);
	}
	buf_puts(b, "}}\n");
}

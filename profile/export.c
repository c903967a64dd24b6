#include "profile/export.h"
#include "base/array.h"
#include "base/buf.h"
#include "profile/intern.h"
#include "profile/label.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_SZ = 256 << 20 }; /* one line; what the recorder writes stays far below */

struct export
{
	export_write_fn *write;
	void *ctx;
	const struct view *view;
	struct buf line;
	bool samples; /* each call is one sample, not a sum */
	bool threads; /* folded: process and thread come first */
	/* folded */
	struct labels labels;
	struct buf place;
	uint32_t *shown;
	size_t shown_cap;
	struct intern lines;
	uint64_t *counts; /* by id - 1 */
	size_t counts_cap;
};

const char *export_default_trigger(const struct reader *r)
{
	size_t nr;
	const struct reader_trigger *t = reader_triggers(r, &nr);

	for (size_t i = 0; i < nr; i++)
		if (strcmp(t[i].name, "cpu") == 0)
			return "cpu";
	return nr != 0 ? t[0].name : NULL;
}

static int flush_line(struct export *e)
{
	if (e->line.failed)
		return -ENOMEM;
	return e->write(e->line.data, e->line.len, e->ctx);
}

/* ---- folded -------------------------------------------------------------------------- */

/* A name that is empty or all control characters must not leave an empty frame. */
static void fold_name(struct buf *b, const char *name)
{
	size_t len = name != NULL ? strlen(name) : 0;

	if (len == 0)
		buf_puts(b, "[unknown]");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		buf_append(b, c == ';' ? ":" : c < 0x20 || c == 0x7f ? " " : &name[i], 1);
	}
}

/* A method made of a block has both names; where they are not enough, the place follows. */
static void fold_frame(struct export *e, const struct frame *f, uint32_t function)
{
	struct buf *b = &e->line;

	fold_name(b, f->name);
	if (f->method != NULL) {
		buf_puts(b, " (");
		fold_name(b, f->method);
		buf_puts(b, ")");
	}
	if (labels_has_place(&e->labels, function)) {
		buf_reset(&e->place);
		labels_put_place(&e->labels, function, &e->place);
		b->failed |= e->place.failed;
		buf_puts(b, " [");
		fold_name(b, e->place.data);
		buf_puts(b, "]");
	}
}

static const char *fold_suffix(const struct frame *f)
{
	if (f->kind == FRAME_KERNEL)
		return "_[k]";
	if (f->kind == FRAME_INTERP_JIT || f->role == ROLE_JIT)
		return "_[j]";
	return f->flags & FRAME_F_INLINED ? "_[i]" : "";
}

static void fold_line(struct export *e, const struct reader_stack *s)
{
	const struct reader_thread *t = s->thread;
	struct buf *b = &e->line;
	size_t nr_shown = view_apply(e->view, s->frames, s->nr_frames, e->shown), digits = 0;

	buf_reset(b);
	if (e->threads) {
		fold_name(b, t->process->comm);
		buf_puts(b, ";");
		fold_name(b, t->runtime_name != NULL && t->runtime_name[0] != '\0' ? t->runtime_name
		                                                                   : t->comm);
	}
	for (size_t i = 0; i < nr_shown; i++) {
		const struct frame *f = &s->frames[e->shown[i]];

		if (b->len != 0)
			buf_puts(b, ";");
		fold_frame(e, f, s->functions[e->shown[i]]);
		buf_puts(b, fold_suffix(f));
	}
	if (b->len == 0)
		buf_puts(b, "[no frames]");
	while (digits < b->len && strchr("0123456789.", b->data[b->len - 1 - digits]) != NULL)
		digits++;
	if (digits != 0 && digits < b->len && b->data[b->len - 1 - digits] == ' ')
		b->data[b->len - 1 - digits] = '_';
}

static int fold_stack(const struct reader_stack *s, void *ctx)
{
	struct export *e = ctx;
	uint32_t id;
	int rc, is_new;

	rc = ARRAY_RESERVE(e->shown, e->shown_cap, s->nr_frames, SIZE_MAX);
	if (rc != 0)
		return rc;
	fold_line(e, s);
	if (e->line.failed)
		return -ENOMEM;
	rc = intern_put(&e->lines, e->line.data, e->line.len, &id, &is_new);
	if (rc != 0)
		return rc;
	rc = ARRAY_RESERVE(e->counts, e->counts_cap, id, UINT32_MAX);
	if (rc != 0)
		return rc;
	e->counts[id - 1] = (is_new ? 0 : e->counts[id - 1]) + s->nr_samples;
	return 0;
}

int export_folded(struct reader *r, const struct reader_filter *filter, const struct view *view,
        bool threads, export_write_fn *write, void *ctx, struct err *err)
{
	struct export e = {.write = write, .ctx = ctx, .view = view, .threads = threads};
	int rc;

	if (filter == NULL || filter->trigger == NULL)
		return err_set(err, -EINVAL, "folded stacks are of one trigger: name it");
	buf_init(&e.line, LINE_MAX_SZ);
	buf_init(&e.place, LINE_MAX_SZ);
	intern_init(&e.lines);
	rc = labels_init(&e.labels, r);
	if (rc == 0)
		rc = reader_each_stack(r, filter, fold_stack, &e, err);
	if (rc == -ENOMEM)
		err_set(err, rc, "out of memory while folding stacks");
	for (uint32_t id = 1; rc == 0 && id <= e.lines.nr; id++) {
		const char *line;
		size_t len;

		line = intern_key(&e.lines, id, &len);
		buf_reset(&e.line);
		buf_append(&e.line, line, len);
		buf_printf(&e.line, " %" PRIu64 "\n", e.counts[id - 1]);
		rc = flush_line(&e);
		if (rc != 0)
			err_set(err, rc, "the output could not be written: %s", strerror(-rc));
	}
	intern_release(&e.lines);
	free(e.counts);
	free(e.shown);
	labels_release(&e.labels);
	buf_release(&e.place);
	buf_release(&e.line);
	return rc;
}

/* ---- JSON Lines ------------------------------------------------------------------------- */

static void json_field(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, ",\"%s\":", name);
	buf_json_str(b, value);
}

/* Numbers above 2^53 do not survive many readers of JSON, and addresses are read in hexadecimal
 * anyway. */
static void json_address(struct buf *b, const char *name, uint64_t addr)
{
	if (addr != 0)
		buf_printf(b, ",\"%s\":\"0x%" PRIx64 "\"", name, addr);
	else
		buf_printf(b, ",\"%s\":null", name);
}

static void json_number_or_null(struct buf *b, const char *name, uint64_t v)
{
	if (v != 0)
		buf_printf(b, ",\"%s\":%" PRIu64, name, v);
	else
		buf_printf(b, ",\"%s\":null", name);
}

void export_frame_json(struct buf *b, const struct frame *f)
{
	buf_printf(b, "{\"kind\":\"%s\"", frame_shown_kind(f));
	json_field(b, "role", frame_role_name((enum frame_role)f->role));
	json_field(b, "name", f->name);
	json_field(b, "owner", f->owner);
	json_field(b, "method", f->method);
	json_field(b, "path", f->path);
	json_number_or_null(b, "first_line", f->first_line);
	json_number_or_null(b, "line", f->line);
	json_field(b, "library", f->library);
	json_field(b, "build_id", f->build_id);
	json_number_or_null(b, "file_offset", f->file_off);
	json_address(b, "address", f->addr);
	json_address(b, "function_address", f->func_addr);
	buf_printf(b, ",\"inlined\":%s,\"approximate\":%s",
	        f->flags & FRAME_F_INLINED ? "true" : "false",
	        f->flags & FRAME_F_APPROX ? "true" : "false");
	if (frame_other_language(f) != NULL)
		json_field(b, "language", f->language);
	buf_puts(b, "}");
}

static void json_process_key(struct buf *b, const struct reader_process *p)
{
	buf_printf(
	        b, ",\"process\":{\"pid\":%d,\"start_time\":%" PRIu64 "}", p->pid, p->start_time);
}

static int json_stack(const struct reader_stack *s, void *ctx)
{
	struct export *e = ctx;
	struct buf *b = &e->line;

	buf_reset(b);
	buf_printf(b, "{\"type\":\"%s\"", e->samples ? "sample" : "stack");
	if (e->samples)
		buf_printf(b, ",\"time_ns\":%" PRIu64, s->time_ns);
	json_field(b, "trigger", s->trigger->name);
	json_field(b, "unit", s->trigger->unit);
	json_process_key(b, s->thread->process);
	buf_printf(b, ",\"thread\":{\"tid\":%d", s->thread->tid);
	json_field(b, "comm", s->thread->comm);
	json_field(b, "name", s->thread->runtime_name);
	buf_printf(b, "},\"samples\":%" PRIu64 ",\"weight\":%" PRIu64 ",\"outcome\":\"%s\"",
	        s->nr_samples, s->weight, stack_outcome_name((enum stack_outcome)s->outcome));
	json_field(b, "reason", stack_reason_name((enum stack_reason)s->reason));
	buf_puts(b, ",\"frames\":[");
	for (size_t i = 0; i < s->nr_frames; i++) {
		if (i != 0)
			buf_puts(b, ",");
		export_frame_json(b, &s->frames[i]);
	}
	buf_puts(b, "]}\n");
	return flush_line(e);
}

static int json_facts(struct reader *r, struct export *e)
{
	struct buf *b = &e->line;
	size_t nr;

	buf_reset(b);
	for (const struct reader_meta *m = reader_metas(r, &nr), *end = m + nr; m < end; m++) {
		buf_puts(b, "{\"type\":\"meta\"");
		json_field(b, "key", m->key);
		json_field(b, "value", m->value);
		buf_puts(b, "}\n");
	}
	for (const struct reader_process *p = reader_processes(r, &nr), *end = p + nr; p < end;
	        p++) {
		buf_printf(b, "{\"type\":\"process\",\"pid\":%d,\"start_time\":%" PRIu64, p->pid,
		        p->start_time);
		json_field(b, "comm", p->comm);
		json_field(b, "command_line", p->command_line);
		json_field(b, "runtime", p->runtime);
		json_field(b, "runtime_description", p->runtime_description);
		buf_puts(b, "}\n");
	}
	for (const struct reader_thread *t = reader_threads(r, &nr), *end = t + nr; t < end; t++) {
		buf_puts(b, "{\"type\":\"thread\"");
		json_process_key(b, t->process);
		buf_printf(b, ",\"tid\":%d", t->tid);
		json_field(b, "comm", t->comm);
		json_field(b, "name", t->runtime_name);
		buf_puts(b, "}\n");
	}
	for (const struct reader_trigger *t = reader_triggers(r, &nr), *end = t + nr; t < end;
	        t++) {
		buf_puts(b, "{\"type\":\"trigger\"");
		json_field(b, "name", t->name);
		json_field(b, "unit", t->unit);
		buf_puts(b, "}\n");
	}
	for (const struct reader_loss *l = reader_losses(r, &nr), *end = l + nr; l < end; l++) {
		buf_puts(b, "{\"type\":\"loss\"");
		json_field(b, "what", l->what);
		buf_printf(b, ",\"count\":%" PRIu64 "}\n", l->count);
	}
	if (b->len == 0 && !b->failed)
		return 0;
	return flush_line(e);
}

int export_jsonl(struct reader *r, const struct reader_filter *filter, bool samples,
        export_write_fn *write, void *ctx, struct err *err)
{
	struct export e = {.write = write, .ctx = ctx};
	struct err read = {0};
	int rc;

	buf_init(&e.line, LINE_MAX_SZ);
	rc = json_facts(r, &e);
	if (rc == 0)
		rc = reader_each_stack(r, filter, json_stack, &e, &read);
	if (rc == 0 && samples) {
		e.samples = true;
		rc = reader_each_sample(r, filter, json_stack, &e, &read);
	}
	/* The sentence is the reader's, or the trouble was in our own callback. */
	if (rc != 0 && read.code == rc && err != NULL)
		*err = read;
	else if (rc != 0)
		err_set(err, rc, "the output could not be written: %s", strerror(-rc));
	buf_release(&e.line);
	return rc;
}

#include "profile/flamegraph.h"

#include "base/buf.h"
#include "profile/flame_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const unsigned char page_html[] = {
#include "profile/html/flamegraph.html.inc"
        0};
static const unsigned char page_css[] = {
#include "profile/html/flamegraph.css.inc"
        0};
static const unsigned char model_js[] = {
#include "profile/html/model.js.inc"
        0};
static const unsigned char graph_js[] = {
#include "profile/html/graph.js.inc"
        0};
static const unsigned char page_js[] = {
#include "profile/html/page.js.inc"
        0};

struct flamegraph {
	struct reader *reader;
	struct flame_tree tree;
	char *title;
	size_t trigger; /* index of the one shown first */
	ssize_t thread; /* -1: all */
	char nonce[33];
};

/* ---- JSON -------------------------------------------------------------------------------------
 */

/* In a script element `</script>` and `<!--` mean something even inside a JSON string: no '<' is
 * written as it is. */
static void write_json_str(FILE *out, const char *s)
{
	struct buf json;

	buf_init(&json, SIZE_MAX / 2);
	buf_json_str(&json, s);
	if (json.failed) {
		fputs("\"\"", out);
		errno = ENOMEM;
	}
	for (size_t i = 0; i < json.len; i++) {
		if (json.data[i] == '<')
			fputs("\\u003c", out);
		else
			putc(json.data[i], out);
	}
	buf_release(&json);
}

static void write_member(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\"%s\":", key);
	write_json_str(out, value == NULL ? "" : value);
}

static void write_recording(const struct flamegraph *fg, FILE *out)
{
	const struct reader *r = fg->reader;
	const struct reader_process *processes;
	size_t nr, nr_processes;

	const struct reader_meta *metas = reader_metas(r, &nr);
	fputs("\"meta\":{", out);
	for (size_t i = 0; i < nr; i++) {
		fputs(i > 0 ? "," : "", out);
		write_json_str(out, metas[i].key);
		putc(':', out);
		write_json_str(out, metas[i].value == NULL ? "" : metas[i].value);
	}
	fputs("},\n\"processes\":[", out);
	processes = reader_processes(r, &nr_processes);
	for (size_t i = 0; i < nr_processes; i++) {
		fprintf(out, "%s{\"pid\":%d,", i > 0 ? "," : "", processes[i].pid);
		write_member(out, "comm", processes[i].comm);
		putc(',', out);
		write_member(out, "command", processes[i].command_line);
		putc(',', out);
		write_member(out, "runtime", processes[i].runtime_description);
		putc('}', out);
	}
	const struct reader_thread *threads = reader_threads(r, &nr);
	fputs("],\n\"threads\":[", out);
	for (size_t i = 0; i < nr; i++) {
		fprintf(out, "%s{\"process\":%zu,\"tid\":%d,", i > 0 ? "," : "",
		        (size_t)(threads[i].process - processes), threads[i].tid);
		write_member(out, "name", threads[i].runtime_name);
		putc(',', out);
		write_member(out, "comm", threads[i].comm);
		putc('}', out);
	}
	const struct reader_trigger *triggers = reader_triggers(r, &nr);
	fputs("],\n\"triggers\":[", out);
	for (size_t i = 0; i < nr; i++) {
		putc(i > 0 ? ',' : ' ', out);
		putc('{', out);
		write_member(out, "name", triggers[i].name);
		putc(',', out);
		write_member(out, "unit", triggers[i].unit);
		putc('}', out);
	}
	const struct reader_loss *losses = reader_losses(r, &nr);
	fputs("],\n\"losses\":[", out);
	for (size_t i = 0; i < nr; i++) {
		fprintf(out, "%s{\"count\":%" PRIu64 ",", i > 0 ? "," : "", losses[i].count);
		write_member(out, "what", losses[i].what);
		putc('}', out);
	}
	fputs("],\n\"reasons\":{", out);
	for (unsigned int reason = 1, first = 1; reason <= UINT8_MAX; reason++) {
		if (strcmp(stack_reason_name(reason), "unknown") == 0)
			continue;
		fprintf(out, "%s\"%u\":", first ? "" : ",", reason);
		write_json_str(out, stack_reason_name(reason));
		first = 0;
	}
	fputs("}", out);
}

#define WRITE_ARRAY(out, name, nr, format, value)                                                  \
	do {                                                                                       \
		fprintf(out, "\"%s\":[", name);                                                    \
		for (size_t i = 0; i < (nr); i++)                                                  \
			fprintf(out, i > 0 ? "," format : format, value);                          \
		fputs("]", out);                                                                   \
	} while (0)

/* Only if there is another language than Ruby. */
static void write_languages(const struct flame_tree *t, FILE *out)
{
	bool any = false;

	for (size_t i = 0; i < t->nr_functions; i++)
		any |= t->functions[i].language != 0;
	if (!any)
		return;
	fputs(",\n", out);
	WRITE_ARRAY(out, "language", t->nr_functions, "%" PRIu32, t->functions[i].language);
}

static void write_tree(const struct flame_tree *t, FILE *out)
{
	fputs("\"strings\":[", out);
	for (size_t i = 0; i < t->nr_strings; i++) {
		fputs(i > 0 ? ",\n" : "", out);
		write_json_str(out, t->strings[i]);
	}
	fputs("],\n\"functions\":{", out);
	WRITE_ARRAY(out, "kind", t->nr_functions, "%d", (int)t->functions[i].kind);
	fputs(",\n", out);
	WRITE_ARRAY(out, "name", t->nr_functions, "%" PRIu32, t->functions[i].name);
	fputs(",\n", out);
	WRITE_ARRAY(out, "path", t->nr_functions, "%" PRIu32, t->functions[i].path);
	fputs(",\n", out);
	WRITE_ARRAY(out, "library", t->nr_functions, "%" PRIu32, t->functions[i].library);
	write_languages(t, out);
	fputs("},\n\"frames\":{", out);
	WRITE_ARRAY(out, "function", t->nr_frames, "%" PRIu32, t->frames[i].function);
	fputs(",\n", out);
	WRITE_ARRAY(out, "line", t->nr_frames, "%" PRIu32, t->frames[i].line);
	fputs(",\n", out);
	WRITE_ARRAY(out, "flags", t->nr_frames, "%" PRIu32, t->frames[i].flags);
	fputs("},\n\"nodes\":{", out);
	WRITE_ARRAY(out, "up", t->nr_nodes - 1, "%" PRIu32, t->nodes[t->order[i]].up);
	fputs(",\n", out);
	WRITE_ARRAY(out, "frame", t->nr_nodes - 1, "%" PRIu32,
	        t->nodes[t->order[i]].frame << 2 | t->nodes[t->order[i]].fold);
	fputs("}", out);
}

/* One object for each trigger and thread; its nodes ascend and are written as differences. */
static void write_weights(const struct flame_tree *t, FILE *out)
{
	fputs("\"weights\":[", out);
	for (size_t from = 0, to; from < t->nr_weights; from = to) {
		const struct flame_weight *w = &t->weights[from];
		size_t nr;

		for (to = from; to < t->nr_weights && t->weights[to].trigger == w->trigger &&
		                t->weights[to].thread == w->thread;
		        to++)
			;
		nr = to - from;
		fprintf(out, "%s{\"trigger\":%" PRIu32 ",\"thread\":%" PRIu32 ",\n",
		        from > 0 ? "," : "", w->trigger, w->thread);
		WRITE_ARRAY(out, "node", nr, "%" PRIu32, w[i].node - (i > 0 ? w[i - 1].node : 0));
		fputs(",\n", out);
		WRITE_ARRAY(out, "outcome", nr, "%d", w[i].outcome << 8 | w[i].reason);
		fputs(",\n", out);
		WRITE_ARRAY(out, "weight", nr, "%" PRIu64, w[i].weight);
		fputs(",\n", out);
		WRITE_ARRAY(out, "count", nr, "%" PRIu64, w[i].nr_samples);
		fputs("}\n", out);
	}
	fputs("]", out);
}

static void write_data(const struct flamegraph *fg, FILE *out)
{
	fputs("{\"format\":1,\n", out);
	write_member(out, "title", fg->title);
	fprintf(out,
	        ",\n\"stacks\":%zu,\n\"select\":{\"trigger\":%zu,\"thread\":", fg->tree.nr_stacks,
	        fg->trigger);
	if (fg->thread < 0)
		fputs("\"all\"},\n", out);
	else
		fprintf(out, "\"t%zd\"},\n", fg->thread);
	write_recording(fg, out);
	fputs(",\n", out);
	write_tree(&fg->tree, out);
	fputs(",\n", out);
	write_weights(&fg->tree, out);
	fputs("}", out);
}

/* ---- page -------------------------------------------------------------------------------------
 */

static void write_html_text(FILE *out, const char *s)
{
	for (; *s != '\0'; s++) {
		if (strchr("<>&\"'", *s) != NULL)
			fprintf(out, "&#%d;", *s);
		else
			putc((unsigned char)*s < 0x20 ? ' ' : *s, out);
	}
}

static void write_part(const struct flamegraph *fg, FILE *out, const char *name, size_t len)
{
	static const struct {
		const char *name;
		const unsigned char *text;
	} parts[] = {{"css", page_css}, {"js", model_js}, {"js", graph_js}, {"js", page_js}};

	if (len == 5 && memcmp(name, "title", len) == 0)
		write_html_text(out, fg->title);
	else if (len == 5 && memcmp(name, "nonce", len) == 0)
		fputs(fg->nonce, out);
	else if (len == 4 && memcmp(name, "data", len) == 0)
		write_data(fg, out);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strlen(parts[i].name) == len && memcmp(parts[i].name, name, len) == 0)
			fputs((const char *)parts[i].text, out);
}

int flamegraph_write(struct flamegraph *fg, FILE *out, struct err *err)
{
	const char *rest = (const char *)page_html, *open, *close;

	errno = 0;
	while ((open = strstr(rest, "{{")) != NULL && (close = strstr(open, "}}")) != NULL) {
		fwrite(rest, 1, (size_t)(open - rest), out);
		write_part(fg, out, open + 2, (size_t)(close - open - 2));
		rest = close + 2;
	}
	fputs(rest, out);
	if (fflush(out) != 0 || ferror(out)) {
		int rc = errno != 0 ? -errno : -EIO;

		return err_set(err, rc, "the flame graph could not be written: %s", strerror(-rc));
	}
	return 0;
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

/* A number that no recording can know: only the page's own script and style run. */
static int make_nonce(struct flamegraph *fg, struct err *err)
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, -EIO, "the kernel gave no random number");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(fg->nonce + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int make_title(struct flamegraph *fg, const char *title)
{
	size_t nr;
	const struct reader_process *p = reader_processes(fg->reader, &nr);

	if (title == NULL && nr > 0)
		title = p[0].command_line != NULL && p[0].command_line[0] != '\0'
		                ? p[0].command_line
		                : p[0].comm;
	fg->title = strdup(title != NULL ? title : "rprof");
	return fg->title == NULL ? -ENOMEM : 0;
}

static int select_first(
        struct flamegraph *fg, const struct flamegraph_options *options, struct err *err)
{
	size_t nr_triggers, nr_threads, i;
	const struct reader_trigger *triggers = reader_triggers(fg->reader, &nr_triggers);
	const struct reader_thread *threads = reader_threads(fg->reader, &nr_threads);

	fg->trigger = fg->tree.weights[0].trigger;
	if (options->trigger != NULL) {
		for (i = 0; i < nr_triggers && strcmp(triggers[i].name, options->trigger) != 0; i++)
			;
		if (i == nr_triggers)
			return err_set(err, -EINVAL,
			        "the recording has no trigger '%s'; it has '%s'%s",
			        options->trigger, triggers[0].name,
			        nr_triggers > 1 ? " and others" : "");
		fg->trigger = i;
	}
	fg->thread = -1;
	if (options->tid != 0) {
		for (i = 0; i < nr_threads && threads[i].tid != options->tid; i++)
			;
		if (i == nr_threads)
			return err_set(
			        err, -EINVAL, "the recording has no thread %d", options->tid);
		fg->thread = (ssize_t)i;
	}
	return 0;
}

int flamegraph_new(struct reader *reader, const struct flamegraph_options *options,
        struct flamegraph **out, struct err *err)
{
	struct flamegraph *fg = calloc(1, sizeof(*fg));
	int rc;

	if (fg == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	fg->reader = reader;
	rc = flame_tree_init(&fg->tree, reader, err);
	if (rc == 0 && fg->tree.nr_weights == 0)
		rc = err_set(err, -ENODATA, "the recording holds no samples");
	if (rc == 0)
		rc = select_first(fg, options, err);
	if (rc == 0)
		rc = make_nonce(fg, err);
	if (rc == 0 && make_title(fg, options->title) != 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc != 0) {
		flamegraph_free(fg);
		return rc;
	}
	*out = fg;
	return 0;
}

void flamegraph_free(struct flamegraph *fg)
{
	if (fg == NULL)
		return;
	flame_tree_release(&fg->tree);
	free(fg->title);
	free(fg);
}

size_t flamegraph_nr_stacks(const struct flamegraph *fg)
{
	return fg->tree.nr_stacks;
}

#include "profile/reader.h"
#include "base/array.h"
#include "profile/intern.h"
#include "profile/open.h"
#include "profile/schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEPTH_MAX = 65536, /* far above what a recorder writes; bounds the work that a made-up file
	                      asks for */
	STRINGS_CHUNK = 65536,
};

/* Strings that live as long as the reader. */
struct strings {
	struct strings *next;
	size_t used, cap;
	char bytes[];
};

struct stack_node {
	uint32_t parent, frame, depth;
};

struct frame_row {
	uint32_t function, line;
	uint16_t flags;
	uint64_t file_off, addr, func_addr;
};

/* What makes two samples one distinct stack. */
struct group_key {
	uint32_t stack, thread, trigger, outcome, reason;
};

struct group {
	uint64_t nr_samples, weight, time_ns;
};

struct reader {
	sqlite3 *db;
	char *path;
	struct strings *strings;
	struct reader_meta *metas;
	struct reader_process *processes;
	struct reader_thread *threads;
	struct reader_trigger *triggers;
	struct reader_loss *losses;
	struct frame *functions;   /* by id - 1 */
	struct frame_row *frames;  /* by id - 1 */
	struct stack_node *stacks; /* by id - 1 */
	size_t nr_metas, nr_processes, nr_threads, nr_triggers, nr_losses, nr_functions, nr_frames,
	        nr_stacks;
	size_t depth_max;
	/* Scratch for one stack, depth_max each. */
	struct frame *out_frames;
	uint32_t *out_functions, *out_stacks;
	size_t nr_out; /* frames of the stack that they hold */
};

static int damaged(const struct reader *r, struct err *err, const char *what, int64_t id)
{
	return err_set(err, -EBADMSG, "%s is damaged: %s %lld is out of place", r->path, what,
	        (long long)id);
}

static const char *strings_add(struct reader *r, const char *s, size_t len)
{
	struct strings *chunk = r->strings;
	char *copy;

	if (chunk == NULL || chunk->cap - chunk->used <= len) {
		size_t cap = MAX(len + 1, (size_t)STRINGS_CHUNK);

		chunk = malloc(sizeof(*chunk) + cap);
		if (chunk == NULL)
			return NULL;
		*chunk = (struct strings){.next = r->strings, .cap = cap};
		r->strings = chunk;
	}
	copy = chunk->bytes + chunk->used;
	memcpy(copy, s, len);
	copy[len] = '\0';
	chunk->used += len + 1;
	return copy;
}

/* 0 or -ENOMEM; NULL stays NULL. */
static int column_str(struct reader *r, sqlite3_stmt *stmt, int column, const char **out)
{
	const char *s, *copy;

	if (sqlite3_column_type(stmt, column) == SQLITE_NULL) {
		*out = NULL;
		return 0;
	}
	s = (const char *)sqlite3_column_text(stmt, column);
	if (s == NULL)
		return -ENOMEM;
	copy = strings_add(r, s, strlen(s));
	if (copy == NULL)
		return -ENOMEM;
	*out = copy;
	return 0;
}

/* An id that refers to one of nr rows; 0 for NULL. -EBADMSG: neither. */
static int column_ref(sqlite3_stmt *stmt, int column, size_t nr, uint32_t *out)
{
	int64_t v = sqlite3_column_int64(stmt, column);

	if (v < 0 || (uint64_t)v > nr)
		return -EBADMSG;
	*out = (uint32_t)v;
	return 0;
}

static int load_meta(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct reader_meta *m = row;
	int rc = column_str(r, stmt, 0, &m->key);

	if (rc == 0)
		rc = column_str(r, stmt, 1, &m->value);
	return rc != 0 ? rc : m->key == NULL || m->value == NULL ? -EBADMSG : 0;
}

static int load_loss(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct reader_loss *l = row;
	int64_t count = sqlite3_column_int64(stmt, 1);

	l->count = (uint64_t)MAX(count, 0);
	return column_str(r, stmt, 0, &l->what) != 0 ? -ENOMEM : l->what == NULL ? -EBADMSG : 0;
}

static int load_process(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct reader_process *p = row;

	p->pid = sqlite3_column_int(stmt, 1);
	p->start_time = (uint64_t)sqlite3_column_int64(stmt, 2);
	if (column_str(r, stmt, 3, &p->comm) != 0 ||
	        column_str(r, stmt, 4, &p->command_line) != 0 ||
	        column_str(r, stmt, 5, &p->runtime) != 0 ||
	        column_str(r, stmt, 6, &p->runtime_description) != 0)
		return -ENOMEM;
	return 0;
}

static int load_thread(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct reader_thread *t = row;
	uint32_t process;

	if (column_ref(stmt, 1, r->nr_processes, &process) != 0 || process == 0)
		return -EBADMSG;
	t->id = (uint32_t)i + 1;
	t->process = &r->processes[process - 1];
	t->tid = sqlite3_column_int(stmt, 2);
	if (column_str(r, stmt, 3, &t->comm) != 0 || column_str(r, stmt, 4, &t->runtime_name) != 0)
		return -ENOMEM;
	return 0;
}

static int load_trigger(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct reader_trigger *t = row;

	t->id = (uint32_t)i + 1;
	if (column_str(r, stmt, 1, &t->name) != 0 || column_str(r, stmt, 2, &t->unit) != 0)
		return -ENOMEM;
	return t->name == NULL || t->unit == NULL ? -EBADMSG : 0;
}

static int load_function(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct frame *f = row;
	int64_t kind = sqlite3_column_int64(stmt, 1), role = sqlite3_column_int64(stmt, 2);
	int64_t first_line = sqlite3_column_int64(stmt, 8);

	if (kind <= 0 || kind > UINT8_MAX || role < 0 || role > UINT8_MAX || first_line < 0 ||
	        first_line > UINT32_MAX)
		return -EBADMSG;
	f->first_line = (uint32_t)first_line;
	f->kind = (uint8_t)kind;
	f->role = (uint8_t)role;
	if (column_str(r, stmt, 3, &f->name) != 0 || column_str(r, stmt, 4, &f->owner) != 0 ||
	        column_str(r, stmt, 5, &f->path) != 0 || column_str(r, stmt, 6, &f->library) != 0 ||
	        column_str(r, stmt, 7, &f->build_id) != 0 ||
	        column_str(r, stmt, 9, &f->method) != 0 ||
	        column_str(r, stmt, 10, &f->language) != 0)
		return -ENOMEM;
	return f->language != NULL && !frame_language_is_valid(f->language) ? -EBADMSG : 0;
}

static bool has_column(sqlite3 *db, const char *table, const char *column)
{
	/* Whatever else is wrong, reading it will say. */
	return sqlite3_table_column_metadata(
	               db, "main", table, column, NULL, NULL, NULL, NULL, NULL) != SQLITE_ERROR;
}

/* Recordings of before functions had first lines, and those of before they had languages, have the
 * same schema version: columns were added. */
static const char *function_query(sqlite3 *db)
{
	if (!has_column(db, "function", "first_line"))
		return "SELECT id, kind, role, name, owner, path, library, build_id, NULL, NULL, "
		       "NULL"
		       " FROM function ORDER BY id";
	if (!has_column(db, "function", "language"))
		return "SELECT id, kind, role, name, owner, path, library, build_id, first_line, "
		       "method, NULL"
		       " FROM function ORDER BY id";
	return "SELECT id, kind, role, name, owner, path, library, build_id, first_line, method, "
	       "language"
	       " FROM function ORDER BY id";
}

static int load_frame(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct frame_row *f = row;
	int64_t line = sqlite3_column_int64(stmt, 2), flags = sqlite3_column_int64(stmt, 3);

	if (column_ref(stmt, 1, r->nr_functions, &f->function) != 0 || f->function == 0)
		return -EBADMSG;
	if (line < 0 || line > UINT32_MAX || flags < 0 || flags > UINT16_MAX)
		return -EBADMSG;
	f->line = (uint32_t)line;
	f->flags = (uint16_t)flags;
	f->file_off = (uint64_t)sqlite3_column_int64(stmt, 4);
	f->addr = (uint64_t)sqlite3_column_int64(stmt, 5);
	f->func_addr = (uint64_t)sqlite3_column_int64(stmt, 6);
	return 0;
}

static int load_stack(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i)
{
	struct stack_node *s = row;

	/* A parent always has a lower id: no loops. */
	if (column_ref(stmt, 1, i, &s->parent) != 0 ||
	        column_ref(stmt, 2, r->nr_frames, &s->frame) != 0 || s->frame == 0)
		return -EBADMSG;
	/* The array may just have moved: the parent is found from the row, not from r->stacks. */
	s->depth = s->parent == 0 ? 1 : (s - i)[s->parent - 1].depth + 1;
	if (s->depth > DEPTH_MAX)
		return -EBADMSG;
	r->depth_max = MAX(r->depth_max, (size_t)s->depth);
	return 0;
}

struct table {
	const char *name, *query;
	bool has_ids; /* column 0 counts 1, 2, 3, ... */
	size_t row_sz;
	int (*load)(struct reader *r, sqlite3_stmt *stmt, void *row, size_t i);
};

/* Reads a table into an array. -errno with a sentence. */
static int reader_load(
        struct reader *r, const struct table *table, void *array, size_t *nr_out, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	size_t nr = 0, cap = 0;
	char *rows = NULL;
	int rc, code = 0;

	rc = sqlite3_prepare_v2(r->db, table->query, -1, &stmt, NULL);
	while (rc == SQLITE_OK && code == 0) {
		int step = sqlite3_step(stmt);

		if (step == SQLITE_DONE)
			break;
		if (step != SQLITE_ROW) {
			rc = step;
			break;
		}
		code = array_reserve(&rows, &cap, nr + 1, UINT32_MAX, table->row_sz);
		if (code != 0)
			break;
		memset(rows + nr * table->row_sz, 0, table->row_sz);
		if (nr == UINT32_MAX - 1 ||
		        (table->has_ids && sqlite3_column_int64(stmt, 0) != (int64_t)nr + 1))
			code = -EBADMSG;
		else
			code = table->load(r, stmt, rows + nr * table->row_sz, nr);
		nr++;
	}
	/* An empty table is an array, too: whoever goes through it adds to the pointer. */
	if (rc == SQLITE_OK && code == 0 && rows == NULL) {
		rows = calloc(1, table->row_sz);
		code = rows == NULL ? -ENOMEM : 0;
	}
	if (code == -ENOMEM)
		err_set(err, code, "out of memory while reading %s", r->path);
	else if (code != 0)
		damaged(r, err, table->name, (int64_t)nr);
	else if (rc != SQLITE_OK)
		code = recording_read_error(r->path, r->db, rc, err);
	sqlite3_finalize(stmt);
	if (code != 0) {
		free(rows);
		return code;
	}
	*(void **)array = rows;
	*nr_out = nr;
	return 0;
}

static int reader_load_all(struct reader *r, struct err *err)
{
	const struct {
		struct table table;
		void *array;
		size_t *nr;
	} tables[] = {
	        {{"meta", "SELECT key, value FROM meta ORDER BY key", false, sizeof(*r->metas),
	                 load_meta},
	                &r->metas, &r->nr_metas},
	        {{"loss", "SELECT what, count FROM loss ORDER BY what", false, sizeof(*r->losses),
	                 load_loss},
	                &r->losses, &r->nr_losses},
	        {{"process",
	                 "SELECT id, pid, start_time, comm, command_line, runtime, "
	                 "runtime_description"
	                 " FROM process ORDER BY id",
	                 true, sizeof(*r->processes), load_process},
	                &r->processes, &r->nr_processes},
	        {{"thread", "SELECT id, process, tid, comm, runtime_name FROM thread ORDER BY id",
	                 true, sizeof(*r->threads), load_thread},
	                &r->threads, &r->nr_threads},
	        {{"trigger", "SELECT id, name, unit FROM trigger ORDER BY id", true,
	                 sizeof(*r->triggers), load_trigger},
	                &r->triggers, &r->nr_triggers},
	        {{"function", function_query(r->db), true, sizeof(*r->functions), load_function},
	                &r->functions, &r->nr_functions},
	        {{"frame",
	                 "SELECT id, function, line, flags, file_off, addr, func_addr FROM frame "
	                 "ORDER BY id",
	                 true, sizeof(*r->frames), load_frame},
	                &r->frames, &r->nr_frames},
	        {{"stack", "SELECT id, parent, frame FROM stack ORDER BY id", true,
	                 sizeof(*r->stacks), load_stack},
	                &r->stacks, &r->nr_stacks},
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(tables); i++)
		rc = reader_load(r, &tables[i].table, tables[i].array, tables[i].nr, err);
	if (rc != 0)
		return rc;
	r->out_frames = calloc(r->depth_max + 1, sizeof(*r->out_frames));
	r->out_functions = calloc(r->depth_max + 1, sizeof(*r->out_functions));
	r->out_stacks = calloc(r->depth_max + 1, sizeof(*r->out_stacks));
	if (r->out_frames == NULL || r->out_functions == NULL || r->out_stacks == NULL)
		return err_set(err, -ENOMEM, "out of memory while reading %s", r->path);
	return 0;
}

int reader_open(const char *path, struct reader **out, struct err *err)
{
	struct reader *r = calloc(1, sizeof(*r));
	int rc;

	if (r == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	r->path = strdup(path);
	rc = r->path == NULL ? err_set(err, -ENOMEM, "out of memory")
	                     : recording_open_file(path, &r->db, err);
	if (rc == 0)
		rc = reader_load_all(r, err);
	if (rc != 0)
		reader_free(r);
	else
		*out = r;
	return rc;
}

void reader_free(struct reader *r)
{
	struct strings *next;

	if (r == NULL)
		return;
	sqlite3_close(r->db);
	for (struct strings *s = r->strings; s != NULL; s = next) {
		next = s->next;
		free(s);
	}
	free(r->metas);
	free(r->processes);
	free(r->threads);
	free(r->triggers);
	free(r->losses);
	free(r->functions);
	free(r->frames);
	free(r->stacks);
	free(r->out_frames);
	free(r->out_functions);
	free(r->out_stacks);
	free(r->path);
	free(r);
}

const struct reader_meta *reader_metas(const struct reader *r, size_t *nr)
{
	*nr = r->nr_metas;
	return r->metas;
}

const struct reader_process *reader_processes(const struct reader *r, size_t *nr)
{
	*nr = r->nr_processes;
	return r->processes;
}

const struct reader_thread *reader_threads(const struct reader *r, size_t *nr)
{
	*nr = r->nr_threads;
	return r->threads;
}

const struct reader_trigger *reader_triggers(const struct reader *r, size_t *nr)
{
	*nr = r->nr_triggers;
	return r->triggers;
}

const struct reader_loss *reader_losses(const struct reader *r, size_t *nr)
{
	*nr = r->nr_losses;
	return r->losses;
}

uint32_t reader_nr_functions(const struct reader *r)
{
	return (uint32_t)r->nr_functions;
}

struct frame reader_function(const struct reader *r, uint32_t function)
{
	return r->functions[function - 1];
}

static bool filter_takes(
        const struct reader *r, const struct reader_filter *f, const struct group_key *key)
{
	const struct reader_thread *thread = &r->threads[key->thread - 1];

	if (f == NULL)
		return true;
	if (f->pid != 0 && thread->process->pid != f->pid)
		return false;
	if (f->tid != 0 && thread->tid != f->tid)
		return false;
	return f->trigger == NULL || strcmp(r->triggers[key->trigger - 1].name, f->trigger) == 0;
}

static int emit(struct reader *r, const struct group_key *key, const struct group *group,
        reader_stack_fn *fn, void *ctx)
{
	size_t nr = key->stack != 0 ? r->stacks[key->stack - 1].depth : 0;
	struct reader_stack out = {
	        .thread = &r->threads[key->thread - 1],
	        .trigger = &r->triggers[key->trigger - 1],
	        .outcome = (uint8_t)key->outcome,
	        .reason = (uint8_t)key->reason,
	        .nr_samples = group->nr_samples,
	        .weight = group->weight,
	        .time_ns = group->time_ns,
	        .id = key->stack,
	        .nr_frames = nr,
	        .frames = r->out_frames,
	        .functions = r->out_functions,
	        .stacks = r->out_stacks,
	};

	for (uint32_t id = key->stack; id != 0; id = r->stacks[id - 1].parent) {
		uint32_t frame = r->stacks[id - 1].frame;
		const struct frame_row *row = &r->frames[frame - 1];

		nr--;
		/* Of the stack before: the frames up from here stand there already. */
		if (nr < r->nr_out && r->out_stacks[nr] == id)
			break;
		r->out_stacks[nr] = id;
		r->out_functions[nr] = row->function;
		r->out_frames[nr] = r->functions[row->function - 1];
		r->out_frames[nr].line = row->line;
		r->out_frames[nr].flags = row->flags;
		r->out_frames[nr].file_off = row->file_off;
		r->out_frames[nr].addr = row->addr;
		r->out_frames[nr].func_addr = row->func_addr;
	}
	r->nr_out = out.nr_frames;
	return fn(&out, ctx);
}

/* One row of sample. -EBADMSG when it refers to nothing. */
static int read_sample(
        struct reader *r, sqlite3_stmt *stmt, struct group_key *key, struct group *group)
{
	int64_t time_ns = sqlite3_column_int64(stmt, 1), weight = sqlite3_column_int64(stmt, 5);

	if (column_ref(stmt, 2, r->nr_threads, &key->thread) != 0 || key->thread == 0 ||
	        column_ref(stmt, 3, r->nr_stacks, &key->stack) != 0 ||
	        column_ref(stmt, 4, r->nr_triggers, &key->trigger) != 0 || key->trigger == 0 ||
	        column_ref(stmt, 6, UINT8_MAX, &key->outcome) != 0 ||
	        column_ref(stmt, 7, UINT8_MAX, &key->reason) != 0 || time_ns < 0 || weight < 0)
		return -EBADMSG;
	*group = (struct group){
	        .nr_samples = 1, .weight = (uint64_t)weight, .time_ns = (uint64_t)time_ns};
	return 0;
}

typedef int sample_fn(
        struct reader *r, const struct group_key *key, const struct group *group, void *ctx);

static int each_row(struct reader *r, const struct reader_filter *filter, sample_fn *fn, void *ctx,
        struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc, code = 0;

	rc = sqlite3_prepare_v2(r->db,
	        "SELECT id, time_ns, thread, stack, trigger, weight, outcome, reason FROM sample "
	        "ORDER BY id",
	        -1, &stmt, NULL);
	while (rc == SQLITE_OK && code == 0) {
		int step = sqlite3_step(stmt);
		struct group_key key;
		struct group group;

		if (step == SQLITE_DONE)
			break;
		if (step != SQLITE_ROW)
			rc = step;
		else if (read_sample(r, stmt, &key, &group) != 0)
			code = damaged(r, err, "sample", sqlite3_column_int64(stmt, 0));
		else if (filter_takes(r, filter, &key))
			code = fn(r, &key, &group, ctx);
	}
	if (rc != SQLITE_OK)
		code = recording_read_error(r->path, r->db, rc, err);
	sqlite3_finalize(stmt);
	return code;
}

struct user_fn {
	reader_stack_fn *fn;
	void *ctx;
};

static int pass_on(
        struct reader *r, const struct group_key *key, const struct group *group, void *ctx)
{
	struct user_fn *user = ctx;

	return emit(r, key, group, user->fn, user->ctx);
}

int reader_each_sample(struct reader *r, const struct reader_filter *filter, reader_stack_fn *fn,
        void *ctx, struct err *err)
{
	struct user_fn user = {.fn = fn, .ctx = ctx};

	return each_row(r, filter, pass_on, &user, err);
}

struct groups {
	struct intern keys;
	struct group *sums; /* by id - 1 */
	size_t cap;
};

static int add_to_group(
        struct reader *r, const struct group_key *key, const struct group *sample, void *ctx)
{
	struct groups *g = ctx;
	struct group *sum;
	int is_new, rc;
	uint32_t id;

	rc = intern_put(&g->keys, key, sizeof(*key), &id, &is_new);
	if (rc != 0)
		return rc;
	rc = ARRAY_RESERVE(g->sums, g->cap, id, UINT32_MAX);
	if (rc != 0)
		return rc;
	sum = &g->sums[id - 1];
	if (is_new) {
		*sum = *sample;
		return 0;
	}
	sum->nr_samples++;
	if (__builtin_add_overflow(sum->weight, sample->weight, &sum->weight))
		sum->weight = UINT64_MAX;
	return 0;
}

int reader_each_stack(struct reader *r, const struct reader_filter *filter, reader_stack_fn *fn,
        void *ctx, struct err *err)
{
	struct groups groups = {0};
	int rc;

	intern_init(&groups.keys);
	rc = each_row(r, filter, add_to_group, &groups, err);
	if (rc == -ENOMEM)
		err_set(err, rc, "out of memory while reading %s", r->path);
	for (uint32_t id = 1; rc == 0 && id <= groups.keys.nr; id++) {
		struct group_key key;

		memcpy(&key, intern_key(&groups.keys, id, NULL), sizeof(key));
		rc = emit(r, &key, &groups.sums[id - 1], fn, ctx);
	}
	intern_release(&groups.keys);
	free(groups.sums);
	return rc;
}

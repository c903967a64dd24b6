/*
 * The writer. Order of trust: a row is written once, in the transaction that is open, before
 * anything refers to it; so whatever commit was the last, the file is whole. Memory grows with
 * distinct frames and stacks, never with samples.
 */
#include "profile/recording.h"
#include "base/buf.h"
#include "profile/create.h"
#include "profile/intern.h"
#include "profile/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	STRING_MAX = 16384, /* longer names are cut: they come from the target */
	KEY_MAX = 8 * STRING_MAX,
};

enum statement {
	SQL_META,
	SQL_PROCESS,
	SQL_THREAD,
	SQL_TRIGGER,
	SQL_FUNCTION,
	SQL_FRAME,
	SQL_STACK,
	SQL_SAMPLE,
	SQL_LOSS,
	NR_STATEMENTS,
};

static const char *const sql[NR_STATEMENTS] = {
        [SQL_META] = "INSERT OR REPLACE INTO meta VALUES(?1, ?2)",
        [SQL_PROCESS] = "INSERT OR REPLACE INTO process VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [SQL_THREAD] = "INSERT OR REPLACE INTO thread VALUES(?1, ?2, ?3, ?4, ?5)",
        [SQL_TRIGGER] = "INSERT OR REPLACE INTO trigger VALUES(?1, ?2, ?3)",
        [SQL_FUNCTION] = "INSERT INTO function VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [SQL_FRAME] = "INSERT INTO frame VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [SQL_STACK] = "INSERT INTO stack VALUES(?1, ?2, ?3)",
        [SQL_SAMPLE] = "INSERT INTO sample VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [SQL_LOSS] = "INSERT OR REPLACE INTO loss VALUES(?1, ?2)",
};

struct frame_key {
	uint32_t function, line;
	uint64_t file_off, addr, func_addr;
	uint64_t flags;
};

struct recording {
	sqlite3 *db;
	char *path;
	int lock_fd; /* keeps a second recorder off the file; -1 */
	sqlite3_stmt *stmts[NR_STATEMENTS];
	bool in_transaction;
	int failed;              /* the first error, kept */
	struct err err;          /* its sentence */
	struct buf key;          /* scratch */
	struct intern processes; /* {pid, start_time} */
	struct intern threads;   /* {process, tid} */
	struct intern triggers;  /* name */
	struct intern functions; /* kind, role, first line, strings */
	struct intern frames;    /* struct frame_key */
	struct intern stacks;    /* {parent, frame} */
};

/* Keeps the first error: what comes after it is a consequence. */
static int recording_fail(struct recording *rec, int code, const char *what)
{
	if (rec->failed != 0)
		return rec->failed;
	rec->failed = code;
	if (code == -ENOSPC)
		err_set(&rec->err, code,
		        "no space is left for %s (the disk, a quota or a limit on file sizes is "
		        "full): it "
		        "holds what was recorded until the last commit; free some space or choose "
		        "another place with -o",
		        rec->path);
	else if (code == -ENOMEM)
		err_set(&rec->err, code, "out of memory while recording to %s", rec->path);
	else
		err_set(&rec->err, code, "%s could not be written: %s", rec->path, what);
	return code;
}

static int recording_fail_sqlite(struct recording *rec, int sqlite_rc)
{
	int code = schema_errno(rec->db, sqlite_rc);

	return recording_fail(rec, code != 0 ? code : -EIO, sqlite3_errmsg(rec->db));
}

static int recording_put(struct recording *rec, struct intern *t, const void *key, size_t key_sz,
        uint32_t *id, int *is_new)
{
	int rc;

	if (rec->failed != 0)
		return rec->failed;
	rc = intern_put(t, key, key_sz, id, is_new);
	return rc != 0 ? recording_fail(rec, rc, strerror(-rc)) : 0;
}

/* The statement, with nothing bound, in a transaction; NULL after an error. */
static sqlite3_stmt *recording_begin(struct recording *rec, enum statement which)
{
	int rc;

	if (rec->failed != 0)
		return NULL;
	if (!rec->in_transaction) {
		rc = sqlite3_exec(rec->db, "BEGIN", NULL, NULL, NULL);
		if (rc != SQLITE_OK) {
			recording_fail_sqlite(rec, rc);
			return NULL;
		}
		rec->in_transaction = true;
	}
	return rec->stmts[which];
}

static int recording_step(struct recording *rec, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	/* The message belongs to the step: reset would replace it. */
	if (rc != SQLITE_DONE)
		recording_fail_sqlite(rec, rc);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return rec->failed;
}

/* Not bound is NULL. */
static void bind_str(sqlite3_stmt *stmt, int column, const char *s)
{
	if (s != NULL)
		sqlite3_bind_text(stmt, column, s, (int)strnlen(s, STRING_MAX), SQLITE_STATIC);
}

/* Addresses keep their bits: a kernel address is a negative number in SQL, and printf('%x') shows
 * it as it is. */
static void bind_u64_or_null(sqlite3_stmt *stmt, int column, uint64_t v)
{
	if (v != 0)
		sqlite3_bind_int64(stmt, column, (int64_t)v);
}

/* Quantities stay positive. */
static void bind_count(sqlite3_stmt *stmt, int column, uint64_t v)
{
	sqlite3_bind_int64(stmt, column, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

static void key_str(struct buf *key, const char *s)
{
	/* NULL and "" differ. */
	buf_append(key, s != NULL ? "1" : "0", 1);
	if (s != NULL)
		buf_append(key, s, strnlen(s, STRING_MAX));
	buf_append(key, "", 1);
}

static int recording_prepare(struct recording *rec, struct err *err)
{
	int rc;

	for (int i = 0; i < NR_STATEMENTS; i++) {
		rc = sqlite3_prepare_v3(
		        rec->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &rec->stmts[i], NULL);
		if (rc != SQLITE_OK)
			return err_set(err, schema_errno(rec->db, rc),
			        "%s could not be written: %s", rec->path, sqlite3_errmsg(rec->db));
	}
	return 0;
}

/* Closes and frees everything; the file stays as it is. */
static void recording_free(struct recording *rec)
{
	for (int i = 0; i < NR_STATEMENTS; i++)
		sqlite3_finalize(rec->stmts[i]);
	sqlite3_close(rec->db);
	/* Last: closing any descriptor of the file drops this process's POSIX locks, which are
	 * SQLite's. */
	if (rec->lock_fd >= 0)
		close(rec->lock_fd);
	intern_release(&rec->processes);
	intern_release(&rec->threads);
	intern_release(&rec->triggers);
	intern_release(&rec->functions);
	intern_release(&rec->frames);
	intern_release(&rec->stacks);
	buf_release(&rec->key);
	free(rec->path);
	free(rec);
}

int recording_create(const char *path, struct recording **out, struct err *err)
{
	struct recording *rec = calloc(1, sizeof(*rec));
	int rc;

	if (rec == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	rec->lock_fd = -1;
	buf_init(&rec->key, KEY_MAX);
	rec->path = strdup(path);
	if (rec->path == NULL) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	rc = recording_make_file(path, &rec->db, &rec->lock_fd, err);
	if (rc != 0)
		goto out;
	rc = recording_prepare(rec, err);
	if (rc != 0)
		unlink(path);
out:
	if (rc != 0)
		recording_free(rec);
	else
		*out = rec;
	return rc;
}

int recording_set_meta(struct recording *rec, const char *key, const char *value)
{
	sqlite3_stmt *stmt = recording_begin(rec, SQL_META);

	if (stmt == NULL)
		return rec->failed;
	bind_str(stmt, 1, key);
	bind_str(stmt, 2, value != NULL ? value : "");
	return recording_step(rec, stmt);
}

int recording_add_process(struct recording *rec, const struct recording_process *p, uint32_t *id)
{
	uint64_t key[2] = {(uint64_t)p->pid, p->start_time};
	sqlite3_stmt *stmt;
	uint32_t process;
	int rc;

	rc = recording_put(rec, &rec->processes, key, sizeof(key), &process, NULL);
	if (rc != 0)
		return rc;
	stmt = recording_begin(rec, SQL_PROCESS);
	if (stmt == NULL)
		return rec->failed;
	sqlite3_bind_int64(stmt, 1, process);
	sqlite3_bind_int64(stmt, 2, p->pid);
	bind_count(stmt, 3, p->start_time);
	bind_str(stmt, 4, p->comm);
	bind_str(stmt, 5, p->command_line);
	bind_str(stmt, 6, p->runtime);
	bind_str(stmt, 7, p->runtime_description);
	rc = recording_step(rec, stmt);
	if (rc == 0)
		*id = process;
	return rc;
}

int recording_add_thread(struct recording *rec, uint32_t process, int tid, const char *comm,
        const char *runtime_name, uint32_t *id)
{
	uint32_t key[2] = {process, (uint32_t)tid}, thread;
	sqlite3_stmt *stmt;
	int rc;

	if (process == 0 || process > rec->processes.nr)
		return recording_fail(rec, -EINVAL, "a thread of an unknown process");
	rc = recording_put(rec, &rec->threads, key, sizeof(key), &thread, NULL);
	if (rc != 0)
		return rc;
	stmt = recording_begin(rec, SQL_THREAD);
	if (stmt == NULL)
		return rec->failed;
	sqlite3_bind_int64(stmt, 1, thread);
	sqlite3_bind_int64(stmt, 2, process);
	sqlite3_bind_int64(stmt, 3, tid);
	bind_str(stmt, 4, comm);
	bind_str(stmt, 5, runtime_name);
	rc = recording_step(rec, stmt);
	if (rc == 0)
		*id = thread;
	return rc;
}

int recording_add_trigger(struct recording *rec, const char *name, const char *unit, uint32_t *id)
{
	sqlite3_stmt *stmt;
	uint32_t trigger;
	int rc;

	rc = recording_put(rec, &rec->triggers, name, strnlen(name, STRING_MAX), &trigger, NULL);
	if (rc != 0)
		return rc;
	stmt = recording_begin(rec, SQL_TRIGGER);
	if (stmt == NULL)
		return rec->failed;
	sqlite3_bind_int64(stmt, 1, trigger);
	bind_str(stmt, 2, name);
	bind_str(stmt, 3, unit);
	rc = recording_step(rec, stmt);
	if (rc == 0)
		*id = trigger;
	return rc;
}

static int recording_intern_function(struct recording *rec, const struct frame *frame, uint32_t *id)
{
	const uint8_t head[2] = {frame->kind, frame->role};
	const char *language = frame_other_language(frame);
	sqlite3_stmt *stmt;
	uint32_t function;
	int rc, is_new;

	if (language != NULL && !frame_language_is_valid(language))
		return recording_fail(rec, -EINVAL, "a frame of a language without a proper name");
	buf_reset(&rec->key);
	buf_append(&rec->key, head, sizeof(head));
	buf_append(&rec->key, &frame->first_line, sizeof(frame->first_line));
	key_str(&rec->key, frame->name);
	key_str(&rec->key, frame->owner);
	key_str(&rec->key, frame->path);
	key_str(&rec->key, frame->library);
	key_str(&rec->key, frame->build_id);
	key_str(&rec->key, frame->method);
	key_str(&rec->key, language);
	if (rec->key.failed)
		return recording_fail(rec, -ENOMEM, strerror(ENOMEM));
	rc = recording_put(rec, &rec->functions, rec->key.data, rec->key.len, &function, &is_new);
	if (rc == 0 && is_new) {
		stmt = recording_begin(rec, SQL_FUNCTION);
		if (stmt == NULL)
			return rec->failed;
		sqlite3_bind_int64(stmt, 1, function);
		sqlite3_bind_int64(stmt, 2, frame->kind);
		bind_u64_or_null(stmt, 3, frame->role);
		bind_str(stmt, 4, frame->name);
		bind_str(stmt, 5, frame->owner);
		bind_str(stmt, 6, frame->path);
		bind_str(stmt, 7, frame->library);
		bind_str(stmt, 8, frame->build_id);
		bind_u64_or_null(stmt, 9, frame->first_line);
		bind_str(stmt, 10, frame->method);
		bind_str(stmt, 11, language);
		rc = recording_step(rec, stmt);
	}
	if (rc == 0)
		*id = function;
	return rc;
}

int recording_intern_frame(struct recording *rec, const struct frame *frame, uint32_t *id)
{
	struct frame_key key = {.line = frame->line,
	        .file_off = frame->file_off,
	        .addr = frame->addr,
	        .func_addr = frame->func_addr,
	        .flags = frame->flags};
	sqlite3_stmt *stmt;
	uint32_t frame_id;
	int rc, is_new;

	rc = recording_intern_function(rec, frame, &key.function);
	if (rc != 0)
		return rc;
	rc = recording_put(rec, &rec->frames, &key, sizeof(key), &frame_id, &is_new);
	if (rc == 0 && is_new) {
		stmt = recording_begin(rec, SQL_FRAME);
		if (stmt == NULL)
			return rec->failed;
		sqlite3_bind_int64(stmt, 1, frame_id);
		sqlite3_bind_int64(stmt, 2, key.function);
		bind_u64_or_null(stmt, 3, key.line);
		sqlite3_bind_int64(stmt, 4, (int64_t)key.flags);
		bind_u64_or_null(stmt, 5, key.file_off);
		bind_u64_or_null(stmt, 6, key.addr);
		bind_u64_or_null(stmt, 7, key.func_addr);
		rc = recording_step(rec, stmt);
	}
	if (rc == 0)
		*id = frame_id;
	return rc;
}

int recording_intern_stack(struct recording *rec, const uint32_t *frames, size_t nr, uint32_t *id)
{
	uint32_t stack = 0; /* the empty one */

	for (size_t i = 0; i < nr; i++) {
		uint32_t key[2] = {stack, frames[i]}, child;
		sqlite3_stmt *stmt;
		int rc, is_new;

		if (frames[i] == 0 || frames[i] > rec->frames.nr)
			return recording_fail(rec, -EINVAL, "a stack of an unknown frame");
		rc = recording_put(rec, &rec->stacks, key, sizeof(key), &child, &is_new);
		if (rc == 0 && is_new) {
			stmt = recording_begin(rec, SQL_STACK);
			if (stmt == NULL)
				return rec->failed;
			sqlite3_bind_int64(stmt, 1, child);
			bind_u64_or_null(stmt, 2, stack);
			sqlite3_bind_int64(stmt, 3, frames[i]);
			rc = recording_step(rec, stmt);
		}
		if (rc != 0)
			return rc;
		stack = child;
	}
	if (rec->failed != 0)
		return rec->failed;
	*id = stack;
	return 0;
}

int recording_add_sample(struct recording *rec, const struct recording_sample *s)
{
	sqlite3_stmt *stmt;

	if (s->thread == 0 || s->thread > rec->threads.nr || s->stack > rec->stacks.nr ||
	        s->trigger == 0 || s->trigger > rec->triggers.nr)
		return recording_fail(
		        rec, -EINVAL, "a sample of an unknown thread, stack or trigger");
	stmt = recording_begin(rec, SQL_SAMPLE);
	if (stmt == NULL)
		return rec->failed;
	bind_count(stmt, 1, s->time_ns);
	sqlite3_bind_int64(stmt, 2, s->thread);
	bind_u64_or_null(stmt, 3, s->stack);
	sqlite3_bind_int64(stmt, 4, s->trigger);
	bind_count(stmt, 5, s->weight);
	sqlite3_bind_int64(stmt, 6, s->outcome);
	bind_u64_or_null(stmt, 7, s->reason);
	return recording_step(rec, stmt);
}

int recording_set_loss(struct recording *rec, const char *what, uint64_t count)
{
	sqlite3_stmt *stmt = recording_begin(rec, SQL_LOSS);

	if (stmt == NULL)
		return rec->failed;
	bind_str(stmt, 1, what);
	bind_count(stmt, 2, count);
	return recording_step(rec, stmt);
}

int recording_commit(struct recording *rec, struct err *err)
{
	int rc;

	if (rec->failed == 0 && rec->in_transaction) {
		rc = sqlite3_exec(rec->db, "COMMIT", NULL, NULL, NULL);
		if (rc != SQLITE_OK)
			recording_fail_sqlite(rec, rc);
		else
			rec->in_transaction = false;
	}
	if (rec->failed != 0 && err != NULL)
		*err = rec->err;
	return rec->failed;
}

int recording_close(struct recording *rec, struct err *err)
{
	int rc;

	recording_commit(rec, NULL);
	if (rec->in_transaction && !sqlite3_get_autocommit(rec->db))
		sqlite3_exec(rec->db, "ROLLBACK", NULL, NULL, NULL);
	/* Leaving WAL mode copies the log into the file and removes it. On a full disk that fails
	 * and the log stays beside the file, where readers find it. A reader that has the file open
	 * keeps us in WAL mode as well. */
	for (int i = 0; i < NR_STATEMENTS; i++) {
		sqlite3_finalize(rec->stmts[i]);
		rec->stmts[i] = NULL;
	}
	rc = sqlite3_exec(rec->db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
	if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
		recording_fail_sqlite(rec, rc);
	rc = rec->failed;
	if (rc != 0 && err != NULL)
		*err = rec->err;
	recording_free(rec);
	return rc;
}

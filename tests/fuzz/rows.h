/*
 * A database with the tables of a recording, of which an input fills the rows. A row is the number
 * of its table, then a byte for each column: what kind of value follows.
 */
#ifndef TESTS_FUZZ_ROWS_H
#define TESTS_FUZZ_ROWS_H

#include "tests/fuzz/fuzz.h"

#include "profile/schema.h"

enum { MAX_ROWS = 512, MAX_COLUMNS = 10 };

enum value {
	VALUE_NULL,
	VALUE_BYTE,
	VALUE_WORD,
	VALUE_REAL,
	VALUE_TEXT,
	VALUE_BLOB,
	VALUE_NEXT,
	NR_VALUES
};

struct table {
	const char *name, *columns;
	int nr;
};

/* Without types and constraints: nothing keeps a made-up file to them. */
static const struct table tables[] = {
        {"meta", "key, value", 2},
        {"process", "id, pid, start_time, comm, command_line, runtime, runtime_description", 7},
        {"thread", "id, process, tid, comm, runtime_name", 5},
        {"trigger", "id, name, unit", 3},
        {"function", "id, kind, role, name, owner, path, library, build_id, first_line, method",
                10},
        {"frame", "id, function, line, flags, file_off, addr, func_addr", 7},
        {"stack", "id, parent, frame", 3},
        {"sample", "id, time_ns, thread, stack, trigger, weight, outcome, reason", 8},
        {"loss", "what, count", 2},
};

static void run(sqlite3 *db, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", sql, why);
		abort();
	}
}

/* Made once, and copied for each input. */
static sqlite3 *rows_open(void)
{
	static unsigned char *empty;
	static sqlite3_int64 empty_sz;
	unsigned char *copy;
	sqlite3 *db;
	char sql[512];

	MUST(sqlite3_open(":memory:", &db) == SQLITE_OK);
	if (empty == NULL) {
		for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
			snprintf(sql, sizeof(sql), "CREATE TABLE %s(%s)", tables[i].name,
			        tables[i].columns);
			run(db, sql);
		}
		snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		        SCHEMA_APPLICATION_ID, SCHEMA_VERSION);
		run(db, sql);
		empty = sqlite3_serialize(db, "main", &empty_sz, 0);
	}
	copy = sqlite3_malloc64((sqlite3_uint64)empty_sz);
	memcpy(copy, empty, (size_t)empty_sz);
	MUST(sqlite3_deserialize(db, "main", copy, empty_sz, empty_sz,
	             SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) == SQLITE_OK);
	return db;
}

static void bind(sqlite3_stmt *stmt, int column, struct feed *f, int next)
{
	size_t n = 0;
	uint64_t bits;
	double real;

	switch (feed_u8(f) % NR_VALUES) {
	case VALUE_NULL:
		sqlite3_bind_null(stmt, column);
		break;
	case VALUE_BYTE:
		sqlite3_bind_int(stmt, column, feed_u8(f));
		break;
	case VALUE_WORD:
		sqlite3_bind_int64(stmt, column, (int64_t)feed_u64(f));
		break;
	case VALUE_REAL:
		bits = feed_u64(f);
		memcpy(&real, &bits, sizeof(real));
		sqlite3_bind_double(stmt, column, real);
		break;
	case VALUE_TEXT:
		n = feed_u8(f);
		n = MIN(n, f->n);
		sqlite3_bind_text(stmt, column, (const char *)f->p, (int)n, SQLITE_TRANSIENT);
		break;
	case VALUE_BLOB:
		n = feed_u8(f);
		n = MIN(n, f->n);
		sqlite3_bind_blob(stmt, column, f->p, (int)n, SQLITE_TRANSIENT);
		break;
	case VALUE_NEXT:
		sqlite3_bind_int(stmt, column, next);
		break;
	}
	f->p += n;
	f->n -= n;
}

/* The database as a file has it; to be freed with sqlite3_free(). */
static unsigned char *rows_database(struct feed f, size_t *size)
{
	sqlite3_stmt *insert[ARRAY_SIZE(tables)] = {0};
	int next[ARRAY_SIZE(tables)] = {0};
	sqlite3 *db = rows_open();
	unsigned char *out;
	sqlite3_int64 n;

	run(db, "BEGIN");
	for (int row = 0; row < MAX_ROWS && f.n > 0; row++) {
		size_t i = feed_u8(&f) % ARRAY_SIZE(tables);
		char sql[128];

		snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES(%.*s)", tables[i].name,
		        2 * tables[i].nr - 1, "?,?,?,?,?,?,?,?,?,?");
		if (insert[i] == NULL)
			MUST(sqlite3_prepare_v2(db, sql, -1, &insert[i], NULL) == SQLITE_OK);
		next[i]++;
		for (int k = 0; k < tables[i].nr; k++)
			bind(insert[i], k + 1, &f, next[i]);
		sqlite3_step(insert[i]);
		sqlite3_reset(insert[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		sqlite3_finalize(insert[i]);
	run(db, "COMMIT");
	out = sqlite3_serialize(db, "main", &n, 0);
	MUST(out != NULL);
	sqlite3_close(db);
	*size = (size_t)n;
	return out;
}

/* A plain recording of one sample. */
static unsigned char *rows_plain(size_t *size)
{
	static const uint8_t rows[] = {
	        1, VALUE_NEXT, VALUE_BYTE, 9, VALUE_BYTE, 1, VALUE_TEXT, 1, 'r', 0, 0,
	        0,                                                                    /* process */
	        2, VALUE_NEXT, VALUE_BYTE, 1, VALUE_BYTE, 9, VALUE_TEXT, 1, 'r', 0,   /* thread */
	        3, VALUE_NEXT, VALUE_TEXT, 3, 'c', 'p', 'u', VALUE_TEXT, 2, 'n', 's', /* trigger */
	        4, VALUE_NEXT, VALUE_BYTE, 1, 0, VALUE_TEXT, 1, 'f', 0, 0, 0, 0, 0,
	        0,                                                                   /* function */
	        5, VALUE_NEXT, VALUE_BYTE, 1, VALUE_BYTE, 1, VALUE_BYTE, 0, 0, 0, 0, /* frame */
	        6, VALUE_NEXT, 0, VALUE_BYTE, 1,                                     /* stack */
	        7, VALUE_NEXT, VALUE_BYTE, 1, VALUE_BYTE, 1, VALUE_BYTE, 1, VALUE_BYTE, 1,
	        VALUE_BYTE, 7, VALUE_BYTE, 1, 0, /* sample */
	};

	return rows_database((struct feed){rows, sizeof(rows)}, size);
}

#endif

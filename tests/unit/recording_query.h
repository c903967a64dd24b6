/* A recording in a temporary file that a test writes, closes, and reads with SQL. */
#ifndef TESTS_UNIT_RECORDING_QUERY_H
#define TESTS_UNIT_RECORDING_QUERY_H

#include "profile/recording.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char query_path[] = "/tmp/rprof-test-XXXXXX";
static struct recording *query_rec; /* NULL once it is closed */
static uint32_t query_process;      /* the only one in it */

/* Each stack of a sample, root first. */
#define QUERY_STACKS                                                                               \
	"WITH RECURSIVE up(leaf, id, text) AS ("                                                   \
	"  SELECT DISTINCT stack, stack, '' FROM sample UNION ALL"                                 \
	"  SELECT leaf, s.parent, fu.name || CASE text WHEN '' THEN '' ELSE ';' END || text"       \
	"  FROM up JOIN stack s ON s.id = up.id"                                                   \
	"  JOIN frame f ON f.id = s.frame JOIN function fu ON fu.id = f.function)"                 \
	" SELECT text FROM up WHERE id IS NULL ORDER BY leaf"

static inline void query_start(void)
{
	const struct recording_process p = {
	        .pid = 10, .comm = "toy", .command_line = "toy", .runtime = "toy"};
	int fd;

	memcpy(strrchr(query_path, '-') + 1, "XXXXXX", 6);
	fd = mkstemp(query_path);
	/* A recording is made where none is. */
	if (fd < 0 || close(fd) != 0 || unlink(query_path) != 0 ||
	        recording_create(query_path, &query_rec, NULL) != 0 ||
	        recording_add_process(query_rec, &p, &query_process) != 0)
		abort();
}

/* What was written can be read after this. 0, or what the recording says. */
static inline int query_close(void)
{
	int rc = query_rec != NULL ? recording_close(query_rec, NULL) : 0;

	query_rec = NULL;
	return rc;
}

static inline void query_end(void)
{
	query_close();
	unlink(query_path);
}

/* The rows, with a bar between them and blanks between their values; valid until the next call.
 * What is wrong is said. */
static inline const char *query(const char *sql)
{
	static char text[8192];
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	size_t len = 0;

	text[0] = '\0';
	if (sqlite3_open_v2(query_path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		snprintf(text, sizeof(text), "%s", sqlite3_errmsg(db));
	for (int row = 0; stmt != NULL && sqlite3_step(stmt) == SQLITE_ROW; row++) {
		for (int i = 0; i < sqlite3_column_count(stmt) && len < sizeof(text); i++) {
			const unsigned char *value = sqlite3_column_text(stmt, i);

			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
			        i != 0     ? " "
			        : row != 0 ? "|"
			                   : "",
			        value != NULL ? (const char *)value : "");
		}
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return text;
}

#endif

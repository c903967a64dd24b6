#include "profile/open.h"
#include "profile/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CELL_MAX = 1 << 24 }; /* no string of a recording is longer than a few KiB */

int recording_read_error(const char *path, sqlite3 *db, int sqlite_rc, struct err *err)
{
	int code = schema_errno(db, sqlite_rc);

	/* What SQLite cannot even compile against our schema has another one. */
	if ((sqlite_rc & 0xff) == SQLITE_ERROR)
		code = -EBADMSG;
	if (code == -EBADMSG)
		return err_set(
		        err, code, "%s is damaged or was cut short: %s", path, sqlite3_errmsg(db));
	if (code == -ENOMEM)
		return err_set(err, code, "out of memory while reading %s", path);
	if (code == 0)
		code = -EIO;
	return err_set(err, code, "%s could not be read: %s", path, sqlite3_errmsg(db));
}

/* Says what is wrong with a file that is none of ours, which SQLite would say less well. */
static int check_header(const char *path, struct err *err)
{
	unsigned char head[100];
	struct stat st;
	uint32_t version;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "%s cannot be read: %s", path, strerror(errno));
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG,
		        "%s is %s and no recording", path,
		        S_ISDIR(st.st_mode) ? "a directory" : "no plain file");
	}
	n = pread(fd, head, sizeof(head), 0);
	close(fd);
	if (n < 0)
		return err_set(err, -EIO, "%s cannot be read", path);
	if (n == 0)
		return err_set(err, -EBADMSG, "%s is empty and no recording", path);
	if (n < (ssize_t)sizeof(head) && memcmp(head, "SQLite format 3", MIN((size_t)n, 16)) == 0)
		return err_set(err, -EBADMSG,
		        "%s is damaged or was cut short: only %zd bytes are there", path, n);
	if (n < (ssize_t)sizeof(head) || memcmp(head, "SQLite format 3", 16) != 0)
		return err_set(err, -EBADMSG, "%s is no recording of rprof", path);
	if (!schema_is_header(head, (size_t)n))
		return err_set(
		        err, -EBADMSG, "%s is an SQLite database, but no recording of rprof", path);
	version = (uint32_t)head[60] << 24 | (uint32_t)head[61] << 16 | (uint32_t)head[62] << 8 |
	          head[63];
	if (version > SCHEMA_VERSION)
		return err_set(err, -EPROTONOSUPPORT,
		        "%s was written by a newer rprof (schema %u, this one reads up to %d): "
		        "read it with that one",
		        path, version, SCHEMA_VERSION);
	if (version == 0)
		return err_set(err, -EBADMSG, "%s is damaged: it has no schema version", path);
	return 0;
}

/* A file handed over by somebody else must not run its own SQL: a view in the place of a table is
 * refused. */
static int check_tables(const char *path, sqlite3 *db, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc, code = 0;

	rc = sqlite3_prepare_v2(db,
	        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1", -1, &stmt,
	        NULL);
	for (size_t i = 0; rc == SQLITE_OK && code == 0 && schema_tables[i] != NULL; i++) {
		sqlite3_bind_text(stmt, 1, schema_tables[i], -1, SQLITE_STATIC);
		rc = sqlite3_step(stmt);
		if (rc == SQLITE_ROW && sqlite3_column_int(stmt, 0) != 1)
			code = err_set(err, -EBADMSG, "%s is damaged: it has no table '%s'", path,
			        schema_tables[i]);
		if (rc == SQLITE_ROW)
			rc = sqlite3_reset(stmt);
	}
	if (code == 0 && rc != SQLITE_OK)
		code = recording_read_error(path, db, rc, err);
	sqlite3_finalize(stmt);
	return code;
}

/* Opens and begins to read; only then SQLite looks at the file. *out is set also on failure, for
 * its message. */
static int try_open(const char *name, int flags, sqlite3 **out)
{
	sqlite3_stmt *stmt = NULL;
	int rc;

	rc = sqlite3_open_v2(name, out, SQLITE_OPEN_READONLY | flags, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_busy_timeout(*out, 2000);
	sqlite3_limit(*out, SQLITE_LIMIT_LENGTH, CELL_MAX);
	sqlite3_db_config(*out, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	rc = sqlite3_exec(*out, "PRAGMA cell_size_check=ON; BEGIN", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(
		        *out, "SELECT count(*) FROM sqlite_master", -1, &stmt, NULL);
	if (rc == SQLITE_OK) {
		rc = sqlite3_step(stmt);
		if (rc == SQLITE_ROW)
			rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc;
}

/* No log lies beside: the file is all there is, and nothing else needs to be made or locked. */
static int try_open_immutable(const char *path, sqlite3 **out)
{
	char uri[3 * PATH_MAX + 32];
	char *p = uri + sprintf(uri, "file:");

	for (const char *s = path; *s != '\0' && p < uri + sizeof(uri) - 24; s++) {
		if (strchr("%?#", *s) != NULL)
			p += sprintf(p, "%%%02x", (unsigned char)*s);
		else
			*p++ = *s;
	}
	strcpy(p, "?immutable=1");
	return try_open(uri, SQLITE_OPEN_URI, out);
}

static int copy_file(const char *from, const char *to)
{
	char chunk[65536];
	int in, out, rc = 0;
	ssize_t n;

	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		rc = -errno;
	while (rc == 0 && (n = read(in, chunk, sizeof(chunk))) != 0)
		if (n < 0 || write(out, chunk, (size_t)n) != n)
			rc = errno != 0 ? -errno : -EIO;
	close(in);
	if (out >= 0 && close(out) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* A log lies beside and SQLite may not make the index that it needs to read it: it may in a
 * directory of ours. */
static int try_open_copy(const char *path, sqlite3 **out)
{
	static const char *const suffixes[] = {"", "-wal", "-shm"};
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], from[PATH_MAX + 64], to[PATH_MAX + 64];
	int rc = SQLITE_OK;

	snprintf(dir, sizeof(dir), "%s/rprof-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL)
		return SQLITE_CANTOPEN;
	for (int i = 0; i < 2 && rc == SQLITE_OK; i++) {
		snprintf(from, sizeof(from), "%s%s", path, suffixes[i]);
		snprintf(to, sizeof(to), "%s/copy%s", dir, suffixes[i]);
		if (copy_file(from, to) != 0)
			rc = SQLITE_CANTOPEN;
	}
	if (rc == SQLITE_OK) {
		snprintf(to, sizeof(to), "%s/copy", dir);
		rc = try_open(to, 0, out);
	}
	/* SQLite has the files open: they go when it closes them. */
	for (int i = 0; i < 3; i++) {
		snprintf(to, sizeof(to), "%s/copy%s", dir, suffixes[i]);
		unlink(to);
	}
	rmdir(dir);
	return rc;
}

static int open_any_way(const char *path, sqlite3 **out)
{
	char wal[PATH_MAX + 64];
	struct stat st;
	int rc;

	rc = try_open(path, 0, out);
	if ((rc & 0xff) != SQLITE_CANTOPEN && (rc & 0xff) != SQLITE_READONLY)
		return rc;
	sqlite3_close(*out);
	*out = NULL;
	snprintf(wal, sizeof(wal), "%s-wal", path);
	if (stat(wal, &st) == 0 && st.st_size > 0)
		return try_open_copy(path, out);
	return try_open_immutable(path, out);
}

int recording_open_file(const char *path, sqlite3 **out, struct err *err)
{
	char name[PATH_MAX];
	sqlite3 *db = NULL;
	int n, rc;

	rc = check_header(path, err);
	if (rc != 0)
		return rc;
	/* "./": SQLite takes some names as no files. */
	n = snprintf(name, sizeof(name), "%s%s", path[0] == '/' ? "" : "./", path);
	if (n < 0 || (size_t)n >= sizeof(name))
		return err_set(err, -ENAMETOOLONG, "the name of the recording is too long");
	rc = open_any_way(name, &db);
	if (rc != SQLITE_OK)
		rc = recording_read_error(path, db, rc, err);
	else
		rc = check_tables(path, db, err);
	if (rc != 0)
		sqlite3_close(db);
	else
		*out = db;
	return rc;
}

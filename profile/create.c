#include "profile/create.h"
#include "profile/recording.h"
#include "profile/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small pages: of nearly twenty tables most fill a part of one, and each commit writes whole ones.
 */
enum { PAGE_SZ = 1024 };

/* Files that SQLite keeps beside a database. One that a killed recorder left would be played into
 * the new file. */
static const char *const companions[] = {"-wal", "-shm", "-journal"};

static void remove_companions(const char *path)
{
	char name[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		snprintf(name, sizeof(name), "%s%s", path, companions[i]);
		unlink(name);
	}
}

static int fail_path(struct err *err, int code, const char *path)
{
	switch (code) {
	case -ENOENT:
	case -ENOTDIR:
		return err_set(err, code, "%s cannot be made: its directory does not exist", path);
	case -EISDIR:
		return err_set(err, code, "%s is a directory: name a file with -o", path);
	case -ENOSPC:
	case -EDQUOT:
		return err_set(err, -ENOSPC, "%s cannot be made: the disk is full (%s)", path,
		        strerror(-code));
	default:
		return err_set(err, code, "%s cannot be written: %s", path, strerror(-code));
	}
}

/* 0 when path may be replaced: nothing is there, or an empty file, or a recording that nobody
 * writes. */
static int check_replaceable(const char *path, struct err *err)
{
	unsigned char head[100];
	struct stat st;
	ssize_t n;
	int fd, rc = 0;

	if (stat(path, &st) != 0)
		return errno == ENOENT ? 0 : fail_path(err, -errno, path);
	if (S_ISDIR(st.st_mode))
		return fail_path(err, -EISDIR, path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EEXIST, "%s is no plain file: a recording needs one", path);
	if (st.st_size == 0)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_path(err, -errno, path);
	n = pread(fd, head, sizeof(head), 0);
	if (n < 0 || !schema_is_header(head, (size_t)n))
		rc = err_set(err, -EEXIST,
		        "%s exists and is no recording of rprof: remove it or choose another name "
		        "with -o",
		        path);
	else if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		rc = err_set(err, -EBUSY,
		        "%s is being written by another rprof: choose another name with -o", path);
	close(fd);
	return rc;
}

static int exec_all(sqlite3 *db, const char *script)
{
	return sqlite3_exec(db, script, NULL, NULL, NULL);
}

/* The names of numbers, from the functions that name them, so that the two cannot differ. */
static int insert_names(sqlite3 *db)
{
	char *script;
	int rc = SQLITE_OK;

	for (unsigned i = 1; rc == SQLITE_OK && i < STACK_NR_REASONS; i++) {
		const char *kind = frame_kind_name((enum frame_kind)i);
		const char *role = frame_role_name((enum frame_role)i);
		const char *outcome = stack_outcome_name((enum stack_outcome)i);
		const char *reason = stack_reason_name((enum stack_reason)i);

		script = sqlite3_mprintf(
		        "INSERT INTO frame_kind SELECT %u, %Q WHERE %Q <> 'unknown';"
		        "INSERT INTO frame_role SELECT %u, %Q WHERE %Q IS NOT NULL;"
		        "INSERT INTO stack_outcome SELECT %u, %Q WHERE %Q <> 'unknown';"
		        "INSERT INTO stack_reason SELECT %u, %Q, %Q WHERE %Q <> 'unknown'",
		        i, kind, kind, i, role, role, i, outcome, outcome, i, reason,
		        stack_reason_text((enum stack_reason)i), reason);
		if (script == NULL)
			return SQLITE_NOMEM;
		rc = exec_all(db, script);
		sqlite3_free(script);
	}
	return rc;
}

/* shown: the name that the user gave */
static int write_schema(const char *path, const char *shown, struct err *err)
{
	char pragmas[160];
	sqlite3 *db = NULL;
	int code = 0, rc;

	snprintf(pragmas, sizeof(pragmas),
	        "PRAGMA page_size=%d; PRAGMA synchronous=OFF; BEGIN; PRAGMA application_id=%d; "
	        "PRAGMA user_version=%d",
	        PAGE_SZ, SCHEMA_APPLICATION_ID, SCHEMA_VERSION);
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
	if (rc == SQLITE_OK)
		rc = exec_all(db, pragmas);
	if (rc == SQLITE_OK)
		rc = exec_all(db, schema_sql);
	if (rc == SQLITE_OK)
		rc = insert_names(db);
	if (rc == SQLITE_OK)
		rc = exec_all(db, "COMMIT");
	if (rc != SQLITE_OK) {
		code = schema_errno(db, rc);
		if (code == -EIO)
			err_set(err, code, "%s cannot be written: %s", shown,
			        db ? sqlite3_errmsg(db) : "");
		else
			fail_path(err, code, shown);
	}
	sqlite3_close(db);
	return code;
}

static int open_for_writing(const char *path, sqlite3 **out, struct err *err)
{
	sqlite3 *db = NULL;
	int code, rc;

	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
	if (rc == SQLITE_OK) {
		/* A reader may hold a lock for a moment, while it opens. */
		sqlite3_busy_timeout(db, 2000);
		/* Where WAL does not work (no shared memory on the file system) SQLite keeps its
		 * rollback journal, which is as safe and slower. */
		rc = exec_all(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA "
		                  "temp_store=MEMORY");
	}
	if (rc != SQLITE_OK) {
		code = schema_errno(db, rc);
		err_set(err, code, "%s cannot be written: %s", path,
		        db ? sqlite3_errmsg(db) : strerror(ENOMEM));
		sqlite3_close(db);
		return code;
	}
	*out = db;
	return 0;
}

/* SQLite takes some names as no files (":memory:", "file:..."), and a link would be replaced
 * instead of what it names. */
static int plain_path(const char *path, char *out, size_t out_sz)
{
	char resolved[PATH_MAX];
	struct stat st;
	int n;

	if (path[0] == '\0')
		return -ENOENT;
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, resolved) != NULL)
		path = resolved;
	n = snprintf(out, out_sz, "%s%s", path[0] == '/' ? "" : "./", path);
	return n < 0 || (size_t)n >= out_sz ? -ENAMETOOLONG : 0;
}

int recording_make_file(const char *path, sqlite3 **db, int *lock_fd, struct err *err)
{
	char name[PATH_MAX], temporary[PATH_MAX + 32];
	int fd = -1, rc;
	bool made = false, renamed = false;

	rc = plain_path(path, name, sizeof(name));
	if (rc != 0)
		return err_set(
		        err, rc, "'%s' cannot be the name of a recording: %s", path, strerror(-rc));
	rc = check_replaceable(name, err);
	if (rc != 0)
		return rc;
	snprintf(temporary, sizeof(temporary), "%s.new-%d", name, (int)getpid());
	fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		rc = fail_path(err, -errno, path);
		goto out;
	}
	made = true;
	flock(fd, LOCK_EX | LOCK_NB); /* advice to other recorders only: some file systems have no
	                                 locks */
	rc = write_schema(temporary, path, err);
	if (rc != 0)
		goto out;
	remove_companions(name);
	if (rename(temporary, name) != 0) {
		rc = fail_path(err, -errno, path);
		goto out;
	}
	renamed = true;
	rc = open_for_writing(name, db, err);
	if (rc != 0)
		goto out;
	*lock_fd = fd;
out:
	if (rc != 0) {
		if (renamed)
			unlink(name);
		else if (made)
			unlink(temporary);
		if (made)
			remove_companions(renamed ? name : temporary);
		if (fd >= 0)
			close(fd);
	}
	return rc;
}

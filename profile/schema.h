/* The recording as a database: what the writer and the reader agree on. docs/recording.md explains
 * it to users. */
#ifndef PROFILE_SCHEMA_H
#define PROFILE_SCHEMA_H

#include "base/err.h"
#include <sqlite3.h>
#include <stdbool.h>

enum {
	SCHEMA_APPLICATION_ID = 0x7270726f, /* "rpro"; file(1) and SQLite show it */
	SCHEMA_VERSION = 1,                 /* PRAGMA user_version: a reader refuses a higher one */
};

/* Tables, views and rows of the names of numbers, as one script. */
extern const char schema_sql[];
/* The tables that a recording must have; NULL ends the list. */
extern const char *const schema_tables[];

/* Whether the first 100 bytes of a file are those of a recording. */
bool schema_is_header(const unsigned char *bytes, size_t nr);
/* -errno for SQLite's result: -ENOSPC when the disk, a quota or a limit on the file's size is in
 * the way, -ENOMEM, -EBADMSG (damaged), -EBUSY, -EACCES, -EIO. db may be NULL. */
int schema_errno(sqlite3 *db, int sqlite_rc);

#endif

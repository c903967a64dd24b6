/* Opens the database of a recording for reading, wherever it lies; the part of the reader that
 * deals with the file system. */
#ifndef PROFILE_OPEN_H
#define PROFILE_OPEN_H

#include "base/err.h"
#include <sqlite3.h>

/* See reader_open. The database is in a read transaction: what is read is of one commit. */
int recording_open_file(const char *path, sqlite3 **out, struct err *err);
/* The sentence for an error of SQLite in the middle of reading; returns its -errno. */
int recording_read_error(const char *path, sqlite3 *db, int sqlite_rc, struct err *err);

#endif

/* Puts an empty recording in place; the part of the writer that deals with the file system. */
#ifndef PROFILE_CREATE_H
#define PROFILE_CREATE_H

#include "base/err.h"
#include <sqlite3.h>

/*
 * Makes a recording with its tables under another name, renames it to path and opens it for writing
 * (WAL). Whatever fails, nothing new is left behind and a recording that was there before is
 * untouched. *lock_fd is a descriptor of the file that holds a lock against other recorders; close
 * it after the database. -EEXIST: path is a file that is no recording; -EBUSY: another recorder
 * writes it; -EISDIR, -ENOENT, -EACCES, -EROFS, ...
 */
int recording_make_file(const char *path, sqlite3 **db, int *lock_fd, struct err *err);

#endif

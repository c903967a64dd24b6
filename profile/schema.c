#include "profile/schema.h"

#include <errno.h>
#include <string.h>

const char schema_sql[] = {
#include "profile/schema.sql.inc"
        0};

const char *const schema_tables[] = {"meta", "process", "thread", "trigger", "function", "frame",
        "stack", "sample", "loss", NULL};

bool schema_is_header(const unsigned char *bytes, size_t nr)
{
	/* https://sqlite.org/fileformat.html, 1.3: magic at 0, application id at 68, big-endian. */
	if (nr < 100 || memcmp(bytes, "SQLite format 3", 16) != 0)
		return false;
	return ((uint32_t)bytes[68] << 24 | (uint32_t)bytes[69] << 16 | (uint32_t)bytes[70] << 8 |
	               bytes[71]) == SCHEMA_APPLICATION_ID;
}

/* A write beyond a quota or RLIMIT_FSIZE is an I/O error to SQLite, whose sqlite3_system_errno()
 * may be of a later, successful clean-up; each of its files remembers its own. */
static bool is_out_of_space(sqlite3 *db)
{
	sqlite3_file *journal = NULL;
	int errors[3] = {sqlite3_system_errno(db), 0, 0};

	sqlite3_file_control(db, NULL, SQLITE_FCNTL_LAST_ERRNO, &errors[1]);
	/* The write-ahead log while there is one. */
	if (sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &journal) == SQLITE_OK &&
	        journal != NULL && journal->pMethods != NULL)
		journal->pMethods->xFileControl(journal, SQLITE_FCNTL_LAST_ERRNO, &errors[2]);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i] == ENOSPC || errors[i] == EDQUOT || errors[i] == EFBIG)
			return true;
	return false;
}

int schema_errno(sqlite3 *db, int sqlite_rc)
{
	int sys;

	switch (sqlite_rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
		return -EBADMSG;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_CANTOPEN:
		sys = db != NULL ? sqlite3_system_errno(db) : 0;
		return sys != 0 ? -sys : -EIO;
	case SQLITE_IOERR:
		return db != NULL && is_out_of_space(db) ? -ENOSPC : -EIO;
	default:
		return -EIO;
	}
}

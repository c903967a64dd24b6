#include "profile/schema.h"

#include <errno.h>
#include <string.h>

const char schema_sql[] =
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE frame_kind(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE frame_role(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE stack_outcome(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE stack_reason(id INTEGER PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL);"
        "CREATE TABLE process(id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, start_time INTEGER NOT "
        "NULL,"
        " comm TEXT, command_line TEXT, runtime TEXT, runtime_description TEXT);"
        "CREATE TABLE thread(id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES "
        "process(id),"
        " tid INTEGER NOT NULL, comm TEXT, runtime_name TEXT);"
        "CREATE TABLE trigger(id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL);"
        "CREATE TABLE function(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL REFERENCES "
        "frame_kind(id),"
        " role INTEGER REFERENCES frame_role(id), name TEXT, owner TEXT, path TEXT, library TEXT,"
        " build_id TEXT, first_line INTEGER, method TEXT);"
        "CREATE TABLE frame(id INTEGER PRIMARY KEY, function INTEGER NOT NULL REFERENCES "
        "function(id),"
        " line INTEGER, flags INTEGER NOT NULL, file_off INTEGER, addr INTEGER, func_addr INTEGER);"
        "CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES stack(id),"
        " frame INTEGER NOT NULL REFERENCES frame(id));"
        "CREATE TABLE sample(id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL,"
        " thread INTEGER NOT NULL REFERENCES thread(id), stack INTEGER REFERENCES stack(id),"
        " trigger INTEGER NOT NULL REFERENCES trigger(id), weight INTEGER NOT NULL,"
        " outcome INTEGER NOT NULL REFERENCES stack_outcome(id),"
        " reason INTEGER REFERENCES stack_reason(id));"
        "CREATE TABLE loss(what TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE VIEW named_frame AS SELECT frame.id AS id, frame_kind.name AS kind,"
        " frame_role.name AS role, function.name AS name, owner, path, line, library, build_id, "
        "file_off,"
        " addr, func_addr, flags & 1 AS inlined, frame.function AS function, first_line, method"
        " FROM frame"
        " JOIN function ON function.id = frame.function JOIN frame_kind ON frame_kind.id = "
        "function.kind"
        " LEFT JOIN frame_role ON frame_role.id = function.role;"
        "CREATE VIEW named_sample AS SELECT sample.id AS id, time_ns, trigger.name AS trigger, "
        "unit, weight,"
        " pid, tid, thread.comm AS comm, runtime_name, stack_outcome.name AS outcome,"
        " stack_reason.name AS reason, sample.stack AS stack, stack.frame AS leaf FROM sample"
        " JOIN trigger ON trigger.id = sample.trigger JOIN thread ON thread.id = sample.thread"
        " JOIN process ON process.id = thread.process"
        " JOIN stack_outcome ON stack_outcome.id = sample.outcome"
        " LEFT JOIN stack_reason ON stack_reason.id = sample.reason"
        " LEFT JOIN stack ON stack.id = sample.stack;";

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

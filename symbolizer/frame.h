/*
 * A resolved frame: what a user is shown and what a recording stores.
 *
 * All strings are borrowed: whoever makes a frame says how long they live.
 */
#ifndef SYMBOLIZER_FRAME_H
#define SYMBOLIZER_FRAME_H

#include "base/base.h"
#include <stdbool.h>

/* What a frame is by nature. The names of those of an interpreter are Ruby's, which came first: of
 * another's frames the language is told beside the kind. Numbers are stored in recordings: append
 * only. */
enum frame_kind {
	FRAME_INTERP = 1,     /* "ruby": a method or block run by an interpreter */
	FRAME_INTERP_JIT = 2, /* "jit": the same, run as code of the JIT */
	FRAME_INTERP_C = 3,   /* "cfunc": a C function called as a method */
	FRAME_NATIVE = 4,     /* "native" */
	FRAME_KERNEL = 5,     /* "kernel" */
	FRAME_GC = 6,         /* "gc": garbage collection; stands above the frame that set it off */
};

/* What a native frame is to the reader. Stored in recordings: append only. */
enum frame_role {
	ROLE_NONE = 0,
	ROLE_VM = 1, /* the interpreter's own library or executable */
	ROLE_EXT =
	        2, /* an extension: a library that the interpreter loaded as code of the program */
	ROLE_LIB = 3,     /* any other library, vDSO included */
	ROLE_JIT = 4,     /* code made at run time */
	ROLE_SYSCALL = 5, /* kernel: the system call that the stack leads to */
	ROLE_PROGRAM = 6, /* an executable that is not the interpreter */
};

enum { LANGUAGE_MAX = 15 };

enum {
	FRAME_F_INLINED = 1, /* inlined into the frame below it (its caller) */
	FRAME_F_APPROX = 2,  /* the line is unknown, or may be another of the same function (JIT
	                        leaf) */
};

struct frame {
	uint8_t kind;         /* enum frame_kind */
	uint8_t role;         /* enum frame_role */
	uint16_t flags;       /* FRAME_F_* */
	uint32_t line;        /* the line that runs, 1-based; 0: unknown */
	uint32_t first_line;  /* where the function begins in path, 1-based; 0: unknown */
	uint32_t unused;      /* 0: frames are hashed and compared as bytes, without padding */
	const char *name;     /* label as shown: "Integer#times", "block in Foo#bar", "st_lookup",
	                         "libfoo.so+0x1230" */
	const char *language; /* of a frame of an interpreter: what its runtime is called, "ruby";
	                         NULL: Ruby's, or no such frame */
	const char *owner;    /* class or module of a method: "Integer"; NULL: none */
	const char *method;   /* where name is a block's from which a method was made: the method,
	                         "Foo#bar"; NULL: it is no such method */
	const char *path;     /* source file; NULL: unknown */
	const char *library;  /* path of the ELF file, "[vdso]", "[kernel]"; NULL: none */
	const char *build_id; /* hex; NULL: none */
	uint64_t file_off;    /* offset of the pc in library, 0 when there is none */
	uint64_t addr;        /* the pc in the process (or kernel), 0 when there is none */
	uint64_t func_addr;   /* start of the function in the process, 0: unknown */
};

/* "ruby", "jit", "cfunc", "native", "kernel", "gc": the names of the JSON Lines format. */
const char *frame_kind_name(enum frame_kind kind);
/* A method, block or C function of a program in the interpreter's language, in whatever way it is
 * run. */
bool frame_is_interp(const struct frame *f);
/* NULL for frames of Ruby, as it is stored, and for those of no interpreter. */
const char *frame_other_language(const struct frame *f);
/* What a user is shown as the kind: its name, but of code in another language than Ruby the
 * language's. */
const char *frame_shown_kind(const struct frame *f);
/* Can a language be called so? 1 to LANGUAGE_MAX of a-z, 0-9 and _, and no kind but "ruby": nobody
 * can take it for a kind. */
bool frame_language_is_valid(const char *language);
/* "vm", "ext", "lib", "jit", "syscall", "program", or NULL for ROLE_NONE. */
const char *frame_role_name(enum frame_role role);

#endif

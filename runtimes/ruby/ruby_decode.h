/*
 * What small exported functions of libruby say about the layout and the addresses of hidden data.
 *
 * A function is run symbolically along its main path: a value is a base and the chain of loads made
 * from it. So the compiler's choice of registers, a spill (the volatile slot of 4.0) or an endbr64
 * make no difference; an instruction that is not known ends the run, and the fact is not found.
 * x86-64 only. Pure: bytes in, facts out.
 */
#ifndef RUBY_DECODE_H
#define RUBY_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ruby_base {
	RUBY_BASE_UNKNOWN = 0,
	RUBY_BASE_ADDR,   /* a vaddr of the file (or a number: mov $imm) */
	RUBY_BASE_ARG,    /* the function's first argument */
	RUBY_BASE_FS,     /* the thread pointer */
	RUBY_BASE_TLS_GD, /* what __tls_get_addr gives for the tls_index at vaddr `addr` */
};

enum { RUBY_MAX_LOADS = 6 };

struct ruby_value {
	enum ruby_base base;
	uint64_t addr;                /* ADDR, TLS_GD: vaddr; FS: 0 */
	int64_t add;                  /* added since the last load (or to the base) */
	int32_t load[RUBY_MAX_LOADS]; /* loads made, each from the value so far + load[i] */
	uint8_t nr_loads;
	uint8_t shift; /* logical right shift since */
	uint8_t mask;  /* and-ed with this since; 0: not */
};

struct ruby_cmp {
	struct ruby_value value;
	int64_t imm;
};

enum { RUBY_MAX_CMPS = 16, RUBY_MAX_SEEN = 16 };

struct ruby_run {
	bool returned;            /* a ret was reached */
	struct ruby_value result; /* rax there */
	bool jumped;              /* or a jump out of the function (a tail call) */
	uint64_t jump_target;
	struct ruby_cmp cmp[RUBY_MAX_CMPS]; /* values compared with a number */
	size_t nr_cmps;
	uint64_t seen[RUBY_MAX_SEEN];  /* vaddrs loaded from, in order: the first load of a chain at
	                                  a fixed address */
	bool seen_wide[RUBY_MAX_SEEN]; /* an 8-byte load */
	size_t nr_seen;
	struct ruby_value shifted; /* the first value that was shifted right by 4 */
	bool has_shift4;
};

/* Runs the n bytes of code at vaddr. rdi starts as RUBY_BASE_ARG. */
void ruby_decode_run(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_run *out);

/* How a thread's execution context is found. */
enum ruby_tls_form {
	RUBY_TLS_GD = 1, /* tls_index {module, offset} at vaddr `slot` */
	RUBY_TLS_IE,     /* the offset from the thread pointer stands at vaddr `slot` */
	RUBY_TLS_LE,     /* tp_off is the offset */
};

struct ruby_ec_code {
	enum ruby_tls_form form;
	uint64_t slot;
	int64_t tp_off;
	int32_t field[2]; /* the loads after the one of the EC: rb_thread_current: thread_ptr, self
	                   */
	uint8_t nr_fields;
};

/* rb_thread_current (two fields), rb_errinfo (one). */
bool ruby_decode_ec(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_ec_code *out);

struct ruby_gc_code {
	uint64_t vm_ptr; /* vaddr of ruby_current_vm_ptr, or of the GOT slot with its address */
	bool vm_ptr_is_got;
	int32_t objspace; /* offset in rb_vm_t */
	int32_t field; /* rb_during_gc: byte of the flag; rb_gc_count: offset of the count; in the
	                  object space */
	uint8_t bit;   /* rb_during_gc: of the flag */
};

bool ruby_decode_during_gc(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_gc_code *out);
bool ruby_decode_gc_count(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_gc_code *out);

/* ruby_thread_has_gvl_p: offset of rb_thread_t.blocking_region_buffer. */
bool ruby_decode_gvl(
        const uint8_t *code, size_t n, uint64_t vaddr, int32_t *blocking_region_buffer);

struct ruby_id_code {
	uint64_t last_op_id; /* tLAST_OP_ID */
	uint64_t lookup;     /* vaddr of the function that looks the serial up, 0: it is inlined */
};

/* rb_id2str: the largest ID that is its own serial. */
bool ruby_decode_id2str(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_id_code *out);
/* get_id_serial_entry (or rb_id2str with it inlined): vaddr of the word that holds
 * global_symbols.ids. */
bool ruby_decode_ids(const uint8_t *code, size_t n, uint64_t vaddr, uint64_t *ids);

#endif

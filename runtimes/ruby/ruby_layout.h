/*
 * Where the fields of CRuby's structures lie: one row for each range of releases with the same
 * layout.
 *
 * The numbers are bytes on x86-64 Linux, from the headers of each tag compiled against a
 * neighbouring build's configuration and, where there was one, from the DWARF of a build. 0 in a
 * field that cannot be at 0 means that the release has no such field. What a binary says of itself
 * (its code, see ruby_decode.h) is compared with its row at attach.
 */
#ifndef RUBY_LAYOUT_H
#define RUBY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUBY_VERSION(major, minor, teeny) ((uint32_t)(major) << 16 | (minor) << 8 | (teeny))

/* Where a class keeps its name and, if it is a singleton, its object. */
enum ruby_class_style {
	RUBY_CLASS_IV_TBL = 1, /* hidden instance variables in an st_table: up to 3.1 */
	RUBY_CLASS_SHAPE,      /* hidden instance variables found through the shape: 3.2 */
	RUBY_CLASS_EXT,        /* fields of rb_classext_t: from 3.3 */
};

struct ruby_layout {
	uint32_t since, until; /* RUBY_VERSION(), [since, until) */
	bool supported;        /* run and tested; a row without it is refused at attach */

	struct {
		uint16_t vm_stack, vm_stack_size, cfp, thread_ptr, errinfo;
		uint16_t machine_stack_start, machine_stack_maxsize;
	} ec;
	struct {
		uint16_t pc, iseq, ep, jit_return, sz;
	} cfp;
	struct {
		uint16_t lt_node, self, ractor, ec, nt, thread_id, blocking_region_buffer, name;
	} thread; /* thread_id: 0 where it is in nt */
	struct {
		uint16_t thread_id;
	} nt; /* rb_native_thread */
	struct {
		uint16_t ractor_set, main_thread, objspace;
	} vm;
	struct {
		uint16_t threads_set, vmlr_node,
		        running; /* running: the thread that holds the GVL */
	} ractor;
	struct {
		uint16_t flags, gc_count; /* 0: only the code tells */
		uint16_t minors;   /* profile.minor_gc_count, major_gc_count, compact_count */
		uint8_t minor_bit; /* of the flags: during_minor_gc */
	} objspace;
	struct {
		uint16_t body; /* of rb_iseq_t */
		uint16_t type, iseq_size, iseq_encoded, pathobj, label, first_lineno;
		uint16_t insns_body, insns_size, succ_index_table, parent_iseq, local_iseq, sz;
		bool first_lineno_is_value; /* a Fixnum, not an int */
		uint8_t entry_sz;           /* of struct iseq_insn_info_entry; line_no is at 0 */
	} iseq;                             /* all but the first in rb_iseq_constant_body */
	struct {
		uint16_t def, called_id, owner;                /* of rb_method_entry_t */
		uint16_t body, original_id, method_serial, sz; /* of rb_method_definition_t */
	} method;
	struct {
		uint16_t len, ptr, embed;
		bool embed_len_in_flags; /* (flags >> 14) & 0x1f */
	} string;
	struct {
		uint16_t len, ptr, embed;
		uint8_t embed_len_mask; /* of flags >> 15 */
	} array;
	struct {
		enum ruby_class_style style;
		uint32_t fl_singleton;
		uint16_t ptr, iv_tbl; /* IV_TBL: iv_tbl = *(*(class + ptr) + iv_tbl) */
		uint16_t classpath, permanent_byte,
		        attached_object; /* EXT: permanent is bit 0 of the byte */
	} class;
	uint16_t last_op_id; /* tLAST_OP_ID */
};

/* The row of a release, or NULL. */
const struct ruby_layout *ruby_layout_find(uint32_t version);
/* Row i, or NULL past the last. */
const struct ruby_layout *ruby_layout_row(unsigned int i);
/* The minor versions whose rows are supported: "3.1 and 3.3". out is NUL-terminated. */
void ruby_layout_supported(char *out, size_t n);
/* "3.1.2" to RUBY_VERSION(); 0 for anything else. */
uint32_t ruby_version_parse(const char *s);

#endif

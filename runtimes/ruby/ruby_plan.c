/*
 * The plan by which the kernel side captures what names an object (struct capture_plan, bpf/abi.h):
 * for each kind which words to copy, and which other objects belong to its name. It copies what
 * ruby_names.c reads, no less.
 */
#include "runtimes/ruby/ruby_names.h"

#include <string.h>

enum { HEAP_VARS_MAX = CAPTURE_MAX_TABLE * ST_ENTRY_SZ };

#define ALL_BITS  (~0ULL)
#define WORD(off) (1U << ((off) / 8))

/* Registers. */
enum { OBJ = 0, TYPE, A, B, C, D, E, F, G, H, I, J };

/* The assembler: operations in order; labels are numbers that are bound to a place later. */
enum { MAX_LABELS = 32 };
struct assembler {
	struct capture_plan *plan;
	uint8_t label[MAX_LABELS];
	unsigned int nr_labels;
	bool overflow;
};

static unsigned int label_new(struct assembler *as)
{
	if (as->nr_labels == MAX_LABELS) {
		as->overflow = true;
		return 0;
	}
	return as->nr_labels++;
}

static void bind(struct assembler *as, unsigned int label)
{
	as->label[label] = (uint8_t)as->plan->nr_ops;
}

/* op.c is a label's number + 1, or 0: give up. */
static void emit(struct assembler *as, struct capture_op op)
{
	if (as->plan->nr_ops == CAPTURE_MAX_OPS)
		as->overflow = true;
	else
		as->plan->op[as->plan->nr_ops++] = op;
}

#define OP(as, ...) emit((as), (struct capture_op){__VA_ARGS__})

static void op_read(
        struct assembler *as, uint8_t reg, uint32_t off, uint32_t n, uint32_t words, uint64_t mask)
{
	OP(as, .code = CAPTURE_READ, .a = reg, .off = off, .n = n, .words = words, .imm = mask);
}

static void op_load(struct assembler *as, uint8_t reg, uint32_t off)
{
	OP(as, .code = CAPTURE_LOAD, .a = reg, .off = off, .imm = ALL_BITS);
}

/* Half a word. */
static void op_load_u32(struct assembler *as, uint8_t reg, uint32_t off)
{
	OP(as, .code = CAPTURE_LOAD, .a = reg, .off = off & ~7U, .b = (uint8_t)(off % 8 * 8),
	        .imm = UINT32_MAX);
}

static void op_jump(struct assembler *as, unsigned int to)
{
	OP(as, .code = CAPTURE_JUMP, .c = (uint8_t)(to + 1));
}

static void op_if_eq(struct assembler *as, uint8_t reg, uint64_t value, unsigned int to)
{
	OP(as, .code = CAPTURE_IF_EQ, .a = reg, .imm = value, .c = (uint8_t)(to + 1));
}

static void op_queue(struct assembler *as, uint8_t reg, uint8_t kind)
{
	OP(as, .code = CAPTURE_QUEUE, .a = reg, .b = kind);
}

static void op_end(struct assembler *as)
{
	OP(as, .code = CAPTURE_END);
}

static void begin(struct assembler *as, unsigned int kind)
{
	as->plan->start[kind] = as->plan->nr_ops;
	as->nr_labels = 0;
}

/* Labels become places. */
static void finish(struct assembler *as, unsigned int kind)
{
	for (uint32_t i = as->plan->start[kind]; i < as->plan->nr_ops; i++)
		if (as->plan->op[i].c != 0)
			as->plan->op[i].c = as->label[as->plan->op[i].c - 1];
}

/* An object that a collection has moved is where its old place says. */
static void follow_moved(struct assembler *as, unsigned int start)
{
	unsigned int no = label_new(as);

	OP(as, .code = CAPTURE_LOAD, .a = TYPE, .imm = RUBY_T_MASK);
	OP(as, .code = CAPTURE_IF_IN, .a = TYPE, .c = (uint8_t)(no + 1),
	        .imm = ALL_BITS & ~(1ULL << RUBY_T_MOVED));
	op_load(as, OBJ, RUBY_MOVED_TO * 8);
	op_jump(as, start);
	bind(as, no);
}

/* size of the succinct index of r[from] words into r[to]: ruby_line.c, ruby_succ_table_sz() */
static void succ_table_size(struct assembler *as, uint8_t to, uint8_t from)
{
	unsigned int large = label_new(as), done = label_new(as);

	OP(as, .code = CAPTURE_IF_ABOVE, .a = from, .imm = RUBY_SUCC_IMMEDIATE - 1,
	        .c = (uint8_t)(large + 1));
	OP(as, .code = CAPTURE_SCALE, .a = to, .b = from, .off = 8, .n = RUBY_SUCC_RANKS, .imm = 8);
	op_jump(as, done);
	bind(as, large);
	OP(as, .code = CAPTURE_SCALE, .a = to, .b = from,
	        .off = RUBY_SUCC_BLOCK - 1 - RUBY_SUCC_IMMEDIATE, .n = RUBY_SUCC_BLOCK,
	        .imm = RUBY_SUCC_BLOCK_SZ, .words = RUBY_SUCC_IMMEDIATE / RUBY_SUCC_RANKS * 8);
	bind(as, done);
}

static void plan_code(struct assembler *as, const struct ruby_layout *l)
{
	uint32_t kind_bits = RUBY_T_MASK | RUBY_IMEMO_MASK, words;
	unsigned int start, iseq, lines, end;

	begin(as, RUBY_CAPTURE_CODE);
	start = label_new(as);
	iseq = label_new(as);
	lines = label_new(as);
	end = label_new(as);
	bind(as, start);
	op_read(as, OBJ, 0, RUBY_HEAD_WORDS * 8, WORD(0) | WORD(l->iseq.body), kind_bits);
	follow_moved(as, start);
	OP(as, .code = CAPTURE_LOAD, .a = TYPE, .imm = kind_bits);
	OP(as, .code = CAPTURE_LASTING, .imm = as->plan->lasting_mask);
	op_if_eq(as, TYPE, RUBY_IMEMO(imemo_iseq), iseq);
	op_if_eq(as, TYPE, RUBY_IMEMO(imemo_ifunc), end);
	OP(as, .code = CAPTURE_GIVE_UP);

	bind(as, iseq);
	op_load(as, A, l->iseq.body);
	words = WORD(l->iseq.type) | WORD(l->iseq.iseq_encoded) | WORD(l->iseq.pathobj) |
	        WORD(l->iseq.label) | WORD(l->iseq.first_lineno) | WORD(l->iseq.insns_body) |
	        WORD(l->iseq.insns_size) | WORD(l->iseq.succ_index_table) |
	        WORD(l->iseq.parent_iseq) | WORD(l->iseq.local_iseq);
	op_read(as, A, 0, ruby_body_sz(l), words, ALL_BITS);
	op_load(as, A, l->iseq.label);
	op_load(as, B, l->iseq.pathobj);
	op_load_u32(as, C, l->iseq.type);
	op_load(as, D, l->iseq.parent_iseq);
	op_load_u32(as, E, l->iseq.insns_size);
	op_load(as, F, l->iseq.insns_body);
	op_load(as, G, l->iseq.succ_index_table);
	op_load_u32(as, H, l->iseq.iseq_size);
	OP(as, .code = CAPTURE_STRING, .a = A);
	op_queue(as, B, RUBY_CAPTURE_PATH);
	OP(as, .code = CAPTURE_IF_IN, .a = C, .imm = RUBY_ISEQ_OWN_LABEL,
	        .c = (uint8_t)(lines + 1));
	op_queue(as, D, RUBY_CAPTURE_CODE);

	/* Lines: what is too large for one piece is read later. */
	bind(as, lines);
	op_if_eq(as, E, 0, end);
	OP(as, .code = CAPTURE_SCALE, .a = I, .b = E, .n = 1, .imm = l->iseq.entry_sz);
	OP(as, .code = CAPTURE_READ_VAR, .a = F, .b = I, .imm = CAPTURE_MAX_READ,
	        .c = (uint8_t)(end + 1));
	op_if_eq(as, E, 1, end);
	succ_table_size(as, I, H);
	OP(as, .code = CAPTURE_READ_VAR, .a = G, .b = I, .imm = CAPTURE_MAX_READ,
	        .c = (uint8_t)(end + 1));
	bind(as, end);
	op_end(as);
	finish(as, RUBY_CAPTURE_CODE);
}

/* Of the method entry that was read last: r[A] its definition, which is read, r[TYPE] its kind,
 * r[D] what it has of that kind. */
static void read_definition(struct assembler *as, const struct ruby_layout *l)
{
	uint32_t words = WORD(0) | WORD(l->method.body) | WORD(l->method.original_id) |
	                 WORD(l->method.method_serial);

	op_load(as, A, l->method.def);
	op_read(as, A, 0, ruby_def_sz(l), words, RUBY_METHOD_TYPE_MASK);
	OP(as, .code = CAPTURE_LOAD, .a = TYPE, .imm = RUBY_METHOD_TYPE_MASK);
	op_load(as, D, l->method.body);
}

static void plan_method(struct assembler *as, const struct ruby_layout *l)
{
	uint32_t kind_bits = RUBY_T_MASK | RUBY_IMEMO_MASK;
	uint32_t entry_words =
	        WORD(l->method.def) | WORD(l->method.called_id) | WORD(l->method.owner);
	unsigned int start, entry, end, alias, more;

	begin(as, RUBY_CAPTURE_METHOD);
	start = label_new(as);
	entry = label_new(as);
	end = label_new(as);
	alias = label_new(as);
	more = label_new(as);
	bind(as, start);
	op_read(as, OBJ, 0, RUBY_HEAD_WORDS * 8, WORD(0) | entry_words, kind_bits);
	follow_moved(as, start);
	OP(as, .code = CAPTURE_LOAD, .a = TYPE, .imm = kind_bits);
	OP(as, .code = CAPTURE_LASTING, .imm = as->plan->lasting_mask);
	op_if_eq(as, TYPE, RUBY_IMEMO(imemo_ment), entry);
	op_if_eq(as, TYPE, RUBY_IMEMO(imemo_cref), end);
	OP(as, .code = CAPTURE_GIVE_UP);

	bind(as, entry);
	op_load(as, B, l->method.owner);
	read_definition(as, l);
	op_load(as, C, l->method.original_id);
	op_queue(as, B, RUBY_CAPTURE_CLASS);
	op_queue(as, C, RUBY_CAPTURE_ID);
	/* The C function behind an alias or a refined method. */
	OP(as, .code = CAPTURE_SET, .a = E, .imm = 1);
	OP(as, .code = CAPTURE_SET, .a = F, .imm = RUBY_MAX_ALIASES);
	bind(as, alias);
	OP(as, .code = CAPTURE_IF_IN, .a = TYPE, .c = (uint8_t)(more + 1),
	        .imm = 1ULL << VM_METHOD_TYPE_ALIAS | 1ULL << VM_METHOD_TYPE_REFINED);
	bind(as, end);
	op_end(as);
	bind(as, more);
	op_read(as, D, 0, RUBY_HEAD_WORDS * 8, WORD(0) | entry_words, kind_bits);
	read_definition(as, l);
	OP(as, .code = CAPTURE_SUB, .a = F, .b = F, .n = E);
	op_if_eq(as, F, 0, end);
	op_jump(as, alias);
	finish(as, RUBY_CAPTURE_METHOD);
}

/* r[OBJ] is a class or module: r[TYPE] is its type; else to `not`. */
static void check_module(struct assembler *as, uint64_t flags_mask, bool lasting, unsigned int not )
{
	unsigned int ok = label_new(as), start = label_new(as);

	bind(as, start);
	op_read(as, OBJ, 0, RUBY_T_MOVED_SZ, WORD(0), RUBY_T_MASK | flags_mask);
	follow_moved(as, start);
	if (lasting)
		OP(as, .code = CAPTURE_LASTING, .imm = as->plan->lasting_mask);
	OP(as, .code = CAPTURE_LOAD, .a = J, .imm = flags_mask);
	OP(as, .code = CAPTURE_IF_IN, .a = TYPE, .c = (uint8_t)(ok + 1),
	        .imm = 1ULL << RUBY_T_CLASS | 1ULL << RUBY_T_MODULE);
	op_jump(as, not );
	bind(as, ok);
}

/* RUBY_CLASS_IV_TBL: the hidden variable `id` of r[OBJ] into r[to]; without it to `none`. */
static void class_var(
        struct assembler *as, const struct ruby_layout *l, uint8_t to, uint64_t id, unsigned none)
{
	op_read(as, OBJ, l->class.ptr, 8, WORD(0), ALL_BITS);
	op_load(as, A, 0);
	op_if_eq(as, A, 0, none);
	op_read(as, A, l->class.iv_tbl, 8, WORD(0), ALL_BITS);
	op_load(as, A, 0);
	op_if_eq(as, A, 0, none);
	op_read(as, A, 0, ST_TABLE_SZ, 0, 0);
	op_load(as, B, ST_START);
	op_load(as, C, ST_BOUND);
	op_load(as, D, ST_ENTRIES);
	OP(as, .code = CAPTURE_SUB, .a = C, .b = C, .n = B);
	OP(as, .code = CAPTURE_SCALE, .a = C, .b = C, .n = 1, .imm = ST_ENTRY_SZ);
	OP(as, .code = CAPTURE_SCALE, .a = B, .b = B, .n = 1, .imm = ST_ENTRY_SZ);
	OP(as, .code = CAPTURE_ADD, .a = D, .b = D, .n = B);
	/* Other variables of the class change without its name. */
	OP(as, .code = CAPTURE_READ_VAR, .a = D, .b = C, .imm = HEAP_VARS_MAX,
	        .n = CAPTURE_UNCOUNTED);
	OP(as, .code = CAPTURE_FIND, .a = to, .imm = id, .c = (uint8_t)(none + 1));
}

static void plan_class(struct assembler *as, const struct ruby_objects *o)
{
	const struct ruby_layout *l = o->l;
	unsigned int wrong, path, unnamed, attached, string;
	bool ext = l->class.style == RUBY_CLASS_EXT;

	begin(as, RUBY_CAPTURE_CLASS);
	wrong = label_new(as);
	path = label_new(as);
	unnamed = label_new(as);
	attached = label_new(as);
	string = label_new(as);
	check_module(as, l->class.fl_singleton, true, wrong);
	/* A module has that flag for something else (since 3.4, RMODULE_IS_REFINEMENT). */
	op_if_eq(as, TYPE, RUBY_T_MODULE, path);
	op_if_eq(as, J, 0, path);
	/* A singleton class is named after its object, if that is a class or a module. */
	if (ext) {
		op_read(as, OBJ, l->class.attached_object, 8, WORD(0), ALL_BITS);
		op_load(as, OBJ, 0);
	} else {
		class_var(as, l, OBJ, o->attached_id, unnamed);
	}
	OP(as, .code = CAPTURE_IF_ADDR, .a = OBJ, .c = (uint8_t)(attached + 1));
	op_end(as);
	bind(as, attached);
	check_module(as, 0, false, string);
	bind(as, path);
	if (ext) {
		uint32_t first = l->class.permanent_byte & ~7U;

		op_read(as, OBJ, first, l->class.classpath + 8U - first,
		        WORD(0) | WORD(l->class.classpath - first),
		        1ULL << l->class.permanent_byte % 8 * 8);
		OP(as, .code = CAPTURE_LOAD, .a = A,
		        .b = (uint8_t)(l->class.permanent_byte % 8 * 8), .imm = 1);
		op_load(as, B, l->class.classpath - first);
		op_if_eq(as, A, 0, unnamed);
	} else {
		class_var(as, l, B, o->classpath_id, unnamed);
	}
	OP(as, .code = CAPTURE_STRING, .a = B);
	/* An object that is no class: it has no name and never gets one. */
	bind(as, string);
	op_end(as);
	bind(as, unnamed);
	OP(as, .code = CAPTURE_BRIEF);
	op_end(as);
	bind(as, wrong);
	OP(as, .code = CAPTURE_GIVE_UP);
	finish(as, RUBY_CAPTURE_CLASS);
}

/* symbol.c, get_id_serial_entry: IDs of methods are never freed. */
static void plan_id(struct assembler *as, const struct ruby_objects *o)
{
	unsigned int op_id;

	begin(as, RUBY_CAPTURE_ID);
	op_id = label_new(as);
	OP(as, .code = CAPTURE_SHIFT, .a = A, .b = OBJ, .n = RUBY_ID_SCOPE_SHIFT, .imm = ALL_BITS);
	OP(as, .code = CAPTURE_IF_ABOVE, .a = OBJ, .imm = o->last_op_id, .c = (uint8_t)(op_id + 1));
	OP(as, .code = CAPTURE_SHIFT, .a = A, .b = OBJ, .imm = ALL_BITS);
	bind(as, op_id);
	OP(as, .code = CAPTURE_SCALE, .a = B, .b = A, .n = RUBY_ID_ENTRY_UNIT, .imm = 1);
	OP(as, .code = CAPTURE_SHIFT, .a = C, .b = A, .imm = RUBY_ID_ENTRY_UNIT - 1);
	OP(as, .code = CAPTURE_SCALE, .a = C, .b = C, .n = 1, .imm = 2);
	OP(as, .code = CAPTURE_SET, .a = D, .imm = o->ids_addr);
	op_read(as, D, 0, 8, 0, 0);
	op_load(as, D, 0);
	OP(as, .code = CAPTURE_ELEMENT, .a = D, .b = E, .n = B);
	OP(as, .code = CAPTURE_ELEMENT, .a = E, .b = F, .n = C);
	OP(as, .code = CAPTURE_STRING, .a = F);
	OP(as, .code = CAPTURE_FOREVER);
	op_end(as);
	finish(as, RUBY_CAPTURE_ID);
}

/* iseq.h, rb_iseq_pathobj_new: a string, or [path, absolute path] whose second may be nil. */
static void plan_path(struct assembler *as)
{
	unsigned int start, array, string, first, element;

	begin(as, RUBY_CAPTURE_PATH);
	start = label_new(as);
	array = label_new(as);
	string = label_new(as);
	first = label_new(as);
	element = label_new(as);
	bind(as, start);
	op_read(as, OBJ, 0, RUBY_HEAD_WORDS * 8, WORD(0), RUBY_T_MASK);
	follow_moved(as, start);
	OP(as, .code = CAPTURE_LASTING, .imm = as->plan->lasting_mask);
	op_if_eq(as, TYPE, RUBY_T_STRING, string);
	op_if_eq(as, TYPE, RUBY_T_ARRAY, array);
	OP(as, .code = CAPTURE_GIVE_UP);
	bind(as, array);
	OP(as, .code = CAPTURE_SET, .a = A, .imm = 1);
	OP(as, .code = CAPTURE_ELEMENT, .a = OBJ, .b = B, .n = A, .c = (uint8_t)(first + 1));
	OP(as, .code = CAPTURE_IF_ADDR, .a = B, .c = (uint8_t)(element + 1));
	bind(as, first);
	OP(as, .code = CAPTURE_SET, .a = A, .imm = 0);
	OP(as, .code = CAPTURE_ELEMENT, .a = OBJ, .b = B, .n = A);
	bind(as, element);
	OP(as, .code = CAPTURE_STRING, .a = B);
	op_end(as);
	bind(as, string);
	OP(as, .code = CAPTURE_STRING, .a = OBJ);
	op_end(as);
	finish(as, RUBY_CAPTURE_PATH);
}

bool ruby_plan(const struct runtime *rt, struct capture_plan *out)
{
	const struct ruby_layout *l = rt->l;
	struct assembler as = {.plan = out};

	memset(out, 0, sizeof(*out));
	out->lasting_mask = ruby_old_mask(l);
	out->aged_kinds = 1U << RUBY_CAPTURE_CODE | 1U << RUBY_CAPTURE_METHOD |
	                  1U << RUBY_CAPTURE_CLASS | 1U << RUBY_CAPTURE_PATH;
	out->moved_mask = RUBY_T_MASK;
	out->moved_type = RUBY_T_MOVED;
	out->moved_to = RUBY_MOVED_TO;
	out->string = (struct capture_layout){
	        .outside = RSTRING_NOEMBED,
	        .len = l->string.len,
	        .ptr = l->string.ptr,
	        .embed = l->string.embed,
	        .len_shift = RSTRING_EMBED_LEN_SHIFT,
	        .len_mask = l->string.embed_len_in_flags ? RSTRING_EMBED_LEN_MASK : 0,
	};
	out->array = (struct capture_layout){
	        .outside = RARRAY_EMBED_FLAG,
	        .len = l->array.len,
	        .ptr = l->array.ptr,
	        .embed = l->array.embed,
	        .len_shift = RARRAY_EMBED_LEN_SHIFT,
	        .len_mask = l->array.embed_len_mask,
	};
	plan_code(&as, l);
	plan_method(&as, l);
	plan_class(&as, &rt->objects);
	plan_id(&as, &rt->objects);
	plan_path(&as);
	return !as.overflow;
}

/*
 * Objects of Ruby that are made up in memory, captured as the plan says, and named: what is read of
 * them, what a capture has to hold, and which name a frame does not get because its object may be
 * another one by now.
 */
#include "runtimes/ruby/ruby_names.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <stdlib.h>

enum {
	HEAP = 0x100000,
	HEAP_SZ = 1 << 17,
	OBJSPACE = HEAP, /* the collector's state stands first */
	GC_COUNT = 64,
	GC_MINORS = 72,
	IDS = HEAP + 128, /* the address of global_symbols.ids */
	FIRST_OBJECT = HEAP + 256,
	NR_IDS = 64,
	CAPTURE_SZ = 1 << 18,
	OLD_STAMP = 11,
};

/* The memory of a process; of what is not readable, reads fail. */
static struct {
	uint8_t bytes[HEAP_SZ];
	uint64_t next, gone_from, gone_to;
	size_t nr_reads;
	bool gone;
} heap;

static struct runtime rt;
static struct interp_moment now; /* of the sample */

static int heap_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	heap.nr_reads++;
	if (heap.gone || addr < HEAP || addr - HEAP > HEAP_SZ || n > HEAP_SZ - (addr - HEAP))
		return -EFAULT;
	if (addr < heap.gone_to && addr + n > heap.gone_from)
		return -EFAULT;
	memcpy(out, heap.bytes + (addr - HEAP), n);
	return 0;
}

static uint64_t get(uint64_t addr)
{
	uint64_t v;

	memcpy(&v, heap.bytes + (addr - HEAP), 8);
	return v;
}

static void put(uint64_t addr, uint64_t v)
{
	memcpy(heap.bytes + (addr - HEAP), &v, 8);
}

static void put_u32(uint64_t addr, uint32_t v)
{
	memcpy(heap.bytes + (addr - HEAP), &v, 4);
}

static uint64_t room(size_t n)
{
	uint64_t addr = heap.next;

	heap.next += (n + 15) & ~(size_t)7;
	return addr;
}

/* ---- objects ------------------------------------------------------------------------------- */

static void string_at(uint64_t addr, const char *text)
{
	size_t len = strlen(text);
	uint64_t at = addr + rt.l->string.embed, flags = RUBY_T_STRING;

	if (len + rt.l->string.embed >= 40) {
		flags |= RSTRING_NOEMBED;
		at = room(len);
		put(addr + rt.l->string.ptr, at);
		put(addr + rt.l->string.len, len);
	} else if (rt.l->string.embed_len_in_flags) {
		flags |= len << 14;
	} else {
		put(addr + rt.l->string.len, len);
	}
	put(addr, flags);
	memcpy(heap.bytes + (at - HEAP), text, len);
}

static uint64_t string(const char *text)
{
	uint64_t addr = room(40);

	string_at(addr, text);
	return addr;
}

static uint64_t array(const uint64_t *v, size_t nr)
{
	uint64_t addr = room(40), at = room(nr * 8);

	put(addr, RUBY_T_ARRAY);
	put(addr + rt.l->array.len, nr);
	put(addr + rt.l->array.ptr, at);
	for (size_t i = 0; i < nr; i++)
		put(at + i * 8, v[i]);
	return addr;
}

/* The name of an ID: IDs up to last_op_id are serial numbers, others have their scope below. */
static uint64_t id_named(uint64_t id, const char *name)
{
	uint64_t serial = id > rt.objects.last_op_id ? id >> RUBY_ID_SCOPE_SHIFT : id;
	uint64_t entries = get(get(get(IDS) + rt.l->array.ptr));

	put(get(entries + rt.l->array.ptr) + serial * 16, string(name));
	return id;
}

static uint64_t id(unsigned int serial, const char *name)
{
	return id_named(serial << RUBY_ID_SCOPE_SHIFT | 1, name);
}

enum { CLASSPATH = 60, ATTACHED, FIRST_ID = 20 };

/* A class with hidden variables, of which the first entry is one that was deleted. */
static void class_vars(uint64_t addr, uint64_t path, uint64_t attached)
{
	uint64_t ext = room(64), table = room(56), entries = room(4 * 24);
	const uint64_t words[] = {~0ULL, CLASSPATH, HEAP, 1, rt.objects.classpath_id, path, 2,
	        rt.objects.attached_id, attached};
	size_t nr = attached != 0 ? 3 : path != 0 ? 2 : 1;

	put(addr + rt.l->class.ptr, ext);
	put(ext + rt.l->class.iv_tbl, table);
	put(table + 32, 1);
	put(table + 40, 1 + nr);
	put(table + 48, entries);
	for (size_t i = 0; i < nr * 3; i++)
		put(entries + 24 + i * 8, words[i]);
}

/* path NULL: it has none. */
static uint64_t class_of(unsigned int type, const char *path, bool permanent, uint64_t attached)
{
	uint64_t addr = room(512), name = path != NULL ? string(path) : 0;

	put(addr, type | (attached != 0 ? rt.l->class.fl_singleton : 0));
	if (rt.l->class.style == RUBY_CLASS_EXT) {
		put(addr + rt.l->class.classpath, name);
		heap.bytes[addr + rt.l->class.permanent_byte - HEAP] = permanent;
		put(addr + rt.l->class.attached_object, attached);
	} else {
		class_vars(addr, permanent ? name : 0, attached);
	}
	return addr;
}

struct method_of {
	uint64_t entry, def;
};

static struct method_of method(unsigned int type, uint64_t owner, uint64_t name_id, uint64_t body)
{
	struct method_of m = {.entry = room(40), .def = room(64)};

	put(m.entry, RUBY_T_IMEMO | imemo_ment << 12);
	put(m.entry + rt.l->method.def, m.def);
	put(m.entry + rt.l->method.owner, owner);
	put(m.def, type);
	put(m.def + rt.l->method.body, body);
	put(m.def + rt.l->method.original_id, name_id);
	return m;
}

struct code_of {
	uint64_t iseq, body, encoded, lines;
};

/* Each instruction of nr has a line of its own, from `line` on. */
static struct code_of code(
        unsigned int type, const char *label, uint64_t path, uint32_t line, uint32_t nr)
{
	struct code_of c = {.iseq = room(40), .body = room(ruby_body_sz(rt.l))};
	const struct ruby_layout *l = rt.l;
	uint64_t table = room(ruby_succ_table_sz(nr) + 64);

	c.encoded = room(nr * 8);
	c.lines = room(nr * l->iseq.entry_sz);
	put(c.iseq, RUBY_T_IMEMO | imemo_iseq << 12);
	put(c.iseq + l->iseq.body, c.body);
	put_u32(c.body + l->iseq.type, type);
	put_u32(c.body + l->iseq.iseq_size, nr);
	put(c.body + l->iseq.iseq_encoded, c.encoded);
	put(c.body + l->iseq.pathobj, path);
	put(c.body + l->iseq.label, string(label));
	if (l->iseq.first_lineno_is_value)
		put(c.body + l->iseq.first_lineno, (uint64_t)line << 1 | 1);
	else
		put_u32(c.body + l->iseq.first_lineno, line);
	put(c.body + l->iseq.local_iseq, c.iseq);
	put(c.body + l->iseq.insns_body, c.lines);
	put_u32(c.body + l->iseq.insns_size, nr);
	put(c.body + l->iseq.succ_index_table, table);
	for (uint32_t i = 0; i < nr; i++)
		put_u32(c.lines + i * l->iseq.entry_sz, line + i);
	/* Ranks: the first positions have theirs in words of nine; the others count bits that are
	 * all set (ruby_line.h). */
	for (uint32_t i = 0; i < MIN(nr, (uint32_t)RUBY_SUCC_IMMEDIATE); i++)
		put(table + i / 9 * 8, get(table + i / 9 * 8) | (uint64_t)(i + 1) << i % 9 * 7);
	for (uint32_t i = RUBY_SUCC_IMMEDIATE; i < nr; i += RUBY_SUCC_BLOCK) {
		uint64_t block = table + RUBY_SUCC_IMMEDIATE / 9 * 8 +
		                 (i - RUBY_SUCC_IMMEDIATE) / RUBY_SUCC_BLOCK * RUBY_SUCC_BLOCK_SZ;

		put_u32(block, i);
		for (uint64_t k = 1; k < 8; k++)
			put(block + 8, get(block + 8) | k * 64 << (k - 1) * 9);
		for (uint64_t k = 0; k < 8; k++)
			put(block + 16 + k * 8, ~0ULL);
	}
	return c;
}

static void stands_in(struct code_of c, struct code_of parent, struct code_of local)
{
	put(c.body + rt.l->iseq.parent_iseq, parent.iseq);
	put(c.body + rt.l->iseq.local_iseq, local.iseq);
}

/* ---- the process --------------------------------------------------------------------------- */

static void collections(uint64_t count)
{
	put(OBJSPACE + GC_COUNT, count);
	put(OBJSPACE + GC_MINORS, count);
}

static void start(uint32_t version)
{
	uint64_t empty[NR_IDS * 2] = {0}, entries;

	ruby_cache_free(rt.cache);
	memset(&heap, 0, sizeof(heap));
	memset(&rt, 0, sizeof(rt));
	heap.next = FIRST_OBJECT;
	rt.l = ruby_layout_find(version);
	rt.target = (struct target){.pid = 1, .pidfd = -1, .read = heap_read};
	rt.proc.objspace_addr = OBJSPACE;
	rt.proc.objspace_gc_count = GC_COUNT;
	rt.proc.objspace_minors = GC_MINORS;
	rt.proc.objspace_minor_bit = rt.l->objspace.minor_bit;
	rt.objects = (struct ruby_objects){.l = rt.l,
	        .target = &rt.target,
	        .ids_addr = IDS,
	        .last_op_id = 15,
	        .classpath_id = CLASSPATH << RUBY_ID_SCOPE_SHIFT,
	        .attached_id = ATTACHED << RUBY_ID_SCOPE_SHIFT};
	if (ruby_cache_new(&rt.cache) != 0)
		abort();
	entries = array(empty, NR_IDS * 2);
	put(IDS, array(&entries, 1));
	collections(3);
	now = (struct interp_moment){.time_ns = 1000, .gc_gen = 3 << 3};
}

static const uint32_t versions[] = {RUBY_VERSION(3, 1, 2), RUBY_VERSION(3, 3, 8)};

static struct interp_info resolve_frame(struct interp_frame f)
{
	struct interp_info info;

	ruby_resolve(&rt, &f, false, &now, &info);
	return info;
}

/* A frame of this code, behind its instruction `at`. */
static struct interp_info resolve(struct code_of c, uint32_t at, uint64_t method, uint32_t extra)
{
	return resolve_frame((struct interp_frame){.pc = c.encoded + (at + 1) * 8,
	        .code = c.iseq,
	        .method = method,
	        .flags = VM_FRAME_MAGIC_METHOD,
	        .extra = extra});
}

/* ---- captures ------------------------------------------------------------------------------ */

static struct {
	union {
		struct rprof_capture head;
		uint8_t bytes[CAPTURE_SZ];
	};
	size_t size;
} capture;

static void begin_capture(unsigned int kind, uint64_t object)
{
	capture.head = (struct rprof_capture){
	        .kind = kind, .object = object, .time_ns = now.time_ns, .gc_gen = now.gc_gen};
	capture.size = sizeof(capture.head);
}

static void put_piece(uint64_t addr, size_t n)
{
	struct capture_piece piece = {.addr = addr, .size = n};

	memcpy(capture.bytes + capture.size, &piece, sizeof(piece));
	capture.size += sizeof(piece);
	memcpy(capture.bytes + capture.size, heap.bytes + (addr - HEAP), n);
	capture.size += (n + 7) & ~(size_t)7;
}

/* All of memory but [from, to). */
static void capture_without(unsigned int kind, uint64_t object, uint64_t from, uint64_t to)
{
	begin_capture(kind, object);
	put_piece(HEAP, from - HEAP);
	put_piece(to, HEAP + HEAP_SZ - to);
	ruby_captured(&rt, &capture.head, capture.size);
}

static void capture_all(unsigned int kind, uint64_t object)
{
	begin_capture(kind, object);
	put_piece(HEAP, HEAP_SZ);
	ruby_captured(&rt, &capture.head, capture.size);
}

static void capture_code(struct code_of c)
{
	capture_all(RUBY_CAPTURE_CODE, c.iseq);
	capture_all(RUBY_CAPTURE_PATH, get(c.body + rt.l->iseq.pathobj));
}

/* ---- objects are read as what they are ------------------------------------------------------- */

TEST(strings_are_read_wherever_their_text_is)
{
	char text[RUBY_MAX_NAME], *large;

	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		uint64_t s;

		start(versions[v]);
		CHECK_EQ(ruby_string_read(&rt.objects, string("short"), text), 0);
		CHECK_STR(text, "short");
		CHECK_EQ(ruby_string_read(
		                 &rt.objects, string("a text too long for its object"), text),
		        0);
		CHECK_STR(text, "a text too long for its object");
		CHECK_EQ(ruby_string_read(&rt.objects, string(""), text), 0);
		CHECK_STR(text, "");
		/* A length that makes no sense. */
		s = string("a text too long for its object");
		put(s + rt.l->string.len, 2 * RUBY_MAX_NAME);
		large = malloc(RUBY_MAX_NAME);
		REQUIRE(large != NULL);
		CHECK_EQ(ruby_string_read(&rt.objects, s, large), 0);
		CHECK_EQ(strlen(large), RUBY_MAX_NAME - 1);
		free(large);
	}
}

TEST(an_object_that_was_moved_is_read_where_it_is)
{
	char text[RUBY_MAX_NAME];
	uint64_t old, s;

	start(versions[0]);
	s = string("moved");
	old = room(40);
	put(old, RUBY_T_MOVED);
	put(old + RUBY_MOVED_TO * 8, s);
	CHECK_EQ(ruby_string_read(&rt.objects, old, text), 0);
	CHECK_STR(text, "moved");
	/* Not for ever. */
	put(old + RUBY_MOVED_TO * 8, old);
	CHECK_EQ(ruby_string_read(&rt.objects, old, text), -EINVAL);
}

TEST(an_object_of_another_type_is_none)
{
	const uint64_t one = 1;
	char text[RUBY_MAX_NAME];
	uint64_t v;

	start(versions[0]);
	CHECK_EQ(ruby_string_read(&rt.objects, array(&one, 1), text), -EINVAL);
	CHECK_EQ(ruby_array_read(&rt.objects, string("x"), 0, &v), -EINVAL);
	CHECK_EQ(ruby_string_read(&rt.objects, 3, text), -EINVAL);
}

TEST(an_array_has_the_elements_that_it_has)
{
	const uint64_t two[] = {71, 72};
	uint64_t a, v = 0;

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		start(versions[i]);
		a = array(two, 2);
		CHECK_EQ(ruby_array_read(&rt.objects, a, 1, &v), 0);
		CHECK_EQ(v, 72);
		CHECK_EQ(ruby_array_read(&rt.objects, a, 2, &v), -EINVAL);
		/* in the object itself */
		a = room(40);
		put(a, RUBY_T_ARRAY | RARRAY_EMBED_FLAG | 2 << 15);
		put(a + rt.l->array.embed, 81);
		put(a + rt.l->array.embed + 8, 82);
		CHECK_EQ(ruby_array_read(&rt.objects, a, 0, &v), 0);
		CHECK_EQ(v, 81);
		CHECK_EQ(ruby_array_read(&rt.objects, a, 2, &v), -EINVAL);
	}
}

TEST(ids_of_operators_and_of_names_are_both_found)
{
	char text[RUBY_MAX_NAME];

	start(versions[0]);
	id_named(13, "<=>");
	id(13, "each"); /* the same serial number: it takes that one's place */
	id_named(12, "==");
	CHECK_EQ(ruby_id_read(&rt.objects, 12, text), 0);
	CHECK_STR(text, "==");
	CHECK_EQ(ruby_id_read(&rt.objects, 13 << RUBY_ID_SCOPE_SHIFT | 1, text), 0);
	CHECK_STR(text, "each");
	CHECK_EQ(ruby_id_read(&rt.objects, 0, text), -EINVAL);
}

TEST(a_class_has_its_permanent_path_and_a_singleton_that_of_its_object)
{
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		struct ruby_class_name name;
		uint64_t class, module, other;

		start(versions[v]);
		class = class_of(RUBY_T_CLASS, "Shop::Cart", true, 0);
		module = class_of(RUBY_T_MODULE, "Shop", true, 0);
		other = string("an object");
		CHECK_EQ(ruby_class_read(&rt.objects, class, &name), 0);
		CHECK_STR(name.path, "Shop::Cart");
		CHECK(!name.singleton);
		CHECK_EQ(ruby_class_read(
		                 &rt.objects, class_of(RUBY_T_CLASS, NULL, true, module), &name),
		        0);
		CHECK_STR(name.path, "Shop");
		CHECK(name.singleton);
		CHECK_EQ(ruby_class_read(
		                 &rt.objects, class_of(RUBY_T_CLASS, NULL, true, other), &name),
		        0);
		CHECK_STR(name.path, "");
		CHECK(name.singleton);
		/* Another release has that flag of a module for something else. */
		put(module, get(module) | rt.l->class.fl_singleton);
		CHECK_EQ(ruby_class_read(&rt.objects, module, &name), 0);
		CHECK_STR(name.path, "Shop");
		CHECK(!name.singleton);
		CHECK_EQ(ruby_class_read(&rt.objects,
		                 class_of(RUBY_T_CLASS, "#<Class:0x1>::Cart", false, 0), &name),
		        0);
		CHECK_STR(name.path, "");
		CHECK_EQ(ruby_class_read(&rt.objects, other, &name), -EINVAL);
	}
}

/* ---- what a plan captures is enough --------------------------------------------------------- */

/*
 * The plan as bpf/abi.h says it, without what it says of hashes and stamps: the pieces of an object
 * become a capture, and the objects that belong to it are captured too.
 */
struct queued {
	unsigned int kind;
	uint64_t object;
};

struct player {
	const struct capture_plan *plan;
	uint64_t r[CAPTURE_REGS];
	uint64_t piece, piece_sz; /* what was read last */
	struct queued queue[64];
	size_t nr_queued;
	bool failed;
};

static bool play_read(struct player *p, uint64_t addr, uint64_t n)
{
	if (addr < HEAP || addr + n > HEAP + HEAP_SZ)
		return false;
	put_piece(addr, n);
	p->piece = addr;
	p->piece_sz = n;
	return true;
}

/* The head of a counted sequence; *at and *len: where it stands. */
static bool play_head(struct player *p, uint64_t object, const struct capture_layout *l, bool array,
        size_t head_sz, uint64_t *at, uint64_t *len)
{
	uint64_t flags;
	bool outside;

	for (int i = 0; i < 2; i++) {
		if (!play_read(p, object, head_sz))
			return false;
		flags = get(object);
		if ((flags & p->plan->moved_mask) != p->plan->moved_type)
			break;
		object = get(object + p->plan->moved_to * 8);
	}
	outside = array ? (flags & l->outside) == 0 : (flags & l->outside) != 0;
	*len = outside || l->len_mask == 0 ? get(object + l->len)
	                                   : flags >> l->len_shift & l->len_mask;
	*at = outside ? get(object + l->ptr) : object + l->embed;
	return true;
}

static bool play_op(struct player *p, const struct capture_op *op)
{
	const struct capture_plan *plan = p->plan;
	uint64_t *r = p->r, at, len;

	switch (op->code) {
	case CAPTURE_READ:
		return play_read(p, r[op->a] + op->off, op->n);
	case CAPTURE_READ_VAR:
		return r[op->b] <= op->imm && play_read(p, r[op->a], r[op->b]);
	case CAPTURE_STRING:
		return play_head(
		               p, r[op->a], &plan->string, false, CAPTURE_STRING_HEAD, &at, &len) &&
		       play_read(p, at, MIN(len, (uint64_t)CAPTURE_MAX_STRING));
	case CAPTURE_ELEMENT:
		if (!play_head(p, r[op->a], &plan->array, true, CAPTURE_ARRAY_HEAD, &at, &len) ||
		        r[op->n] >= len || !play_read(p, at + r[op->n] * 8, 8))
			return false;
		r[op->b] = get(p->piece);
		return true;
	case CAPTURE_FIND:
		for (at = p->piece; at < p->piece + p->piece_sz; at += 24) {
			if (get(at + 8) != op->imm)
				continue;
			r[op->a] = get(at + 16);
			return true;
		}
		return false;
	case CAPTURE_LOAD:
		r[op->a] = get(p->piece + op->off) >> op->b & op->imm;
		return true;
	case CAPTURE_SET:
		r[op->a] = op->imm;
		return true;
	case CAPTURE_SHIFT:
		r[op->a] = r[op->b] >> op->n & op->imm;
		return true;
	case CAPTURE_SCALE:
		r[op->a] = (r[op->b] + (int32_t)op->off) / op->n * op->imm + op->words;
		return true;
	case CAPTURE_ADD:
		r[op->a] = r[op->b] + r[op->n];
		return true;
	case CAPTURE_SUB:
		r[op->a] = r[op->b] - r[op->n];
		return true;
	case CAPTURE_QUEUE:
		if (p->nr_queued < ARRAY_SIZE(p->queue))
			p->queue[p->nr_queued++] = (struct queued){op->b, r[op->a]};
		return true;
	default:
		return true;
	}
}

/* Where to go on: false is one step further. */
static bool play_jumps(const struct player *p, const struct capture_op *op)
{
	uint64_t v = p->r[op->a];

	switch (op->code) {
	case CAPTURE_JUMP:
		return true;
	case CAPTURE_IF_EQ:
		return v == op->imm;
	case CAPTURE_IF_ABOVE:
		return v > op->imm;
	case CAPTURE_IF_IN:
		return v < 64 && (op->imm >> v & 1) != 0;
	case CAPTURE_IF_ADDR:
		return ruby_is_heap(v);
	default:
		return false;
	}
}

/* False: the plan gave up. */
static bool play(struct player *p, unsigned int kind, uint64_t object)
{
	uint32_t at = p->plan->start[kind];

	memset(p->r, 0, sizeof(p->r));
	p->r[0] = object;
	begin_capture(kind, object);
	for (int steps = 0; steps < CAPTURE_MAX_STEPS; steps++) {
		const struct capture_op *op = &p->plan->op[at++];

		if (op->code == CAPTURE_END)
			return true;
		if (op->code == CAPTURE_GIVE_UP)
			return false;
		if (play_jumps(p, op))
			at = op->c;
		else if (!play_op(p, op) && (at = op->c) == 0)
			return false;
	}
	return false;
}

static size_t play_all(const struct capture_plan *plan, unsigned int kind, uint64_t object)
{
	struct player p = {.plan = plan, .queue = {{kind, object}}, .nr_queued = 1};

	for (size_t i = 0; i < p.nr_queued; i++) {
		if (!play(&p, p.queue[i].kind, p.queue[i].object))
			TAP_FAIL("the plan gives up object %#" PRIx64 " of kind %u",
			        p.queue[i].object, p.queue[i].kind);
		/* It may be gone before what was captured of it is looked at. */
		heap.gone = true;
		ruby_captured(&rt, &capture.head, capture.size);
		heap.gone = false;
	}
	return p.nr_queued;
}

/* What is captured is all that is needed: then the process may be gone. */
TEST(what_the_plan_captures_names_a_frame_without_the_process)
{
	static const uint32_t sizes[] = {1, 20, 400, 1200}; /* instructions, and lines */

	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			static struct capture_plan plan;
			struct method_of m, c, alias;
			struct code_of body, block, rescue;
			struct interp_info info;
			uint64_t path, owner, meta;

			start(versions[v]);
			REQUIRE(ruby_plan(&rt, &plan));
			path = string("/srv/app/models/shopping_cart.rb");
			path = array((uint64_t[]){string("cart.rb"), path}, 2);
			owner = class_of(RUBY_T_CLASS, "Shop::Cart", true, 0);
			meta = class_of(RUBY_T_CLASS, NULL, true, owner);
			body = code(ISEQ_TYPE_METHOD, "total", path, 10, sizes[k]);
			block = code(ISEQ_TYPE_BLOCK, "block in total", path, 12, sizes[k]);
			rescue = code(ISEQ_TYPE_RESCUE, "rescue in total", path, 14, 3);
			stands_in(block, body, body);
			stands_in(rescue, block, body);
			m = method(0, owner, id(FIRST_ID, "total"), body.iseq);
			c = method(VM_METHOD_TYPE_CFUNC, meta, id(FIRST_ID + 1, "load"), 0x7000);
			alias = method(
			        VM_METHOD_TYPE_ALIAS, meta, id(FIRST_ID + 2, "open"), c.entry);
			CHECK(play_all(&plan, RUBY_CAPTURE_CODE, rescue.iseq) >= 3);
			CHECK(play_all(&plan, RUBY_CAPTURE_CODE, block.iseq) >= 2);
			CHECK_EQ(play_all(&plan, RUBY_CAPTURE_METHOD, m.entry), 3);
			CHECK_EQ(play_all(&plan, RUBY_CAPTURE_METHOD, alias.entry), 3);
			heap.gone = true;

			info = resolve(block, sizes[k] - 1, m.entry, 0);
			CHECK_STR(info.frame.name, "block in Shop::Cart#total");
			CHECK_STR(info.frame.owner, "Shop::Cart");
			CHECK_STR(info.frame.path, "/srv/app/models/shopping_cart.rb");
			CHECK_EQ(info.frame.line, 12 + sizes[k] - 1);
			CHECK_EQ(info.flags, INTERP_RESOLVED);
			info = resolve(rescue, 2, m.entry, 0);
			CHECK_STR(info.frame.name, "block in Shop::Cart#total");
			CHECK_EQ(info.frame.line, 16);
			CHECK_EQ(info.frame.first_line, 12);
			CHECK_EQ(info.flags, INTERP_RESOLVED | INTERP_SKIP_NEXT);
			info = resolve_frame((struct interp_frame){
			        .method = alias.entry, .flags = VM_FRAME_MAGIC_CFUNC});
			CHECK_STR(info.frame.name, "Shop::Cart.open");
			CHECK_EQ(info.func_addr, 0x7000);
			CHECK_EQ(info.flags, INTERP_RESOLVED);
		}
	}
}

/* ---- names that are not certain -------------------------------------------------------------- */

static const char freed[] = "(code freed before it was read)";

TEST(a_block_in_blocks_says_how_deep_it_is)
{
	struct code_of body, outer, inner;

	start(versions[1]);
	body = code(ISEQ_TYPE_METHOD, "total", string("a.rb"), 1, 4);
	outer = code(ISEQ_TYPE_BLOCK, "block in total", string("a.rb"), 2, 4);
	inner = code(ISEQ_TYPE_BLOCK, "block (2 levels) in total", string("a.rb"), 3, 4);
	stands_in(outer, body, body);
	stands_in(inner, outer, body);
	capture_code(body);
	capture_code(outer);
	capture_code(inner);
	CHECK_STR(resolve(outer, 0, 0, 0).frame.name, "block in total");
	CHECK_STR(resolve(inner, 0, 0, 0).frame.name, "block (2 levels) in total");
}

TEST(code_that_is_its_own_parent_has_its_own_label_and_no_end)
{
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_BLOCK, "block in x", string("a.rb"), 1, 4);
	put(c.body + rt.l->iseq.parent_iseq, c.iseq);
	put(c.body + rt.l->iseq.local_iseq, HEAP + HEAP_SZ - 64);
	capture_code(c);
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "block in x");
}

TEST(an_alias_of_itself_has_no_function_and_no_end)
{
	struct method_of m;

	start(versions[1]);
	m = method(VM_METHOD_TYPE_ALIAS, class_of(RUBY_T_CLASS, "A", true, 0), id(FIRST_ID, "loop"),
	        0);
	put(m.def + rt.l->method.body, m.entry);
	capture_all(RUBY_CAPTURE_METHOD, m.entry);
	CHECK_EQ(resolve_frame(
	                 (struct interp_frame){.method = m.entry, .flags = VM_FRAME_MAGIC_CFUNC})
	                 .func_addr,
	        0);
}

TEST(another_object_at_the_same_address_has_its_own_name)
{
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "before", string("a.rb"), 1, 4);
	capture_code(c);
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "before");
	put(c.body + rt.l->iseq.label, string("behind"));
	capture_code(c);
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "behind");
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "behind");
}

/* The kernel side could not send the object of this sample: what it sent before may be another. */
TEST(what_was_captured_before_names_no_frame_whose_object_was_not_sent)
{
	struct interp_info info;
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "before", string("a.rb"), 1, 4);
	capture_code(c);
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "before");
	/* Two collections on, something else stands there; and one more behind the sample. */
	put(c.body + rt.l->iseq.label, string("behind"));
	collections(6);
	now = (struct interp_moment){.time_ns = 2000, .gc_gen = 5 << 3};
	info = resolve(c, 0, 0, INTERP_F_CODE_UNSENT);
	CHECK_STR(info.frame.name, freed);
	CHECK_EQ(info.flags, INTERP_UNVERIFIED);
	/* Nothing was freed since the sample: what stands there is what it saw. */
	collections(5);
	now.time_ns = 3000;
	ruby_cache_free(rt.cache);
	REQUIRE(ruby_cache_new(&rt.cache) == 0);
	info = resolve(c, 0, 0, INTERP_F_CODE_UNSENT);
	CHECK_STR(info.frame.name, "behind");
}

TEST(what_was_read_for_a_sample_names_no_later_one)
{
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "before", string("a.rb"), 1, 4);
	CHECK_STR(resolve(c, 0, 0, INTERP_F_CODE_UNSENT).frame.name, "before");
	put(c.body + rt.l->iseq.label, string("behind"));
	collections(5);
	now = (struct interp_moment){.time_ns = 2000, .gc_gen = 5 << 3};
	CHECK_STR(resolve(c, 0, 0, INTERP_F_CODE_UNSENT).frame.name, "behind");
}

TEST(a_part_that_was_not_captured_counts_only_if_nothing_was_freed)
{
	struct interp_info info;
	struct code_of c;
	uint64_t label;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "before", string("a.rb"), 1, 4);
	label = get(c.body + rt.l->iseq.label);
	capture_without(RUBY_CAPTURE_CODE, c.iseq, label, label + 40);
	capture_all(RUBY_CAPTURE_PATH, get(c.body + rt.l->iseq.pathobj));
	CHECK_STR(resolve(c, 0, 0, 0).frame.name, "before");
	/* The string was freed and its place taken, before it was read. */
	string_at(label, "another");
	collections(5);
	capture_without(RUBY_CAPTURE_CODE, c.iseq, label, label + 40);
	info = resolve(c, 0, 0, 0);
	CHECK_STR(info.frame.name, freed);
	CHECK_EQ(info.flags, INTERP_UNVERIFIED);
}

TEST(lines_that_were_not_captured_count_only_if_nothing_was_freed)
{
	struct interp_info info;
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "long", string("a.rb"), 10, 4);
	capture_without(RUBY_CAPTURE_CODE, c.iseq, c.lines, c.lines + 16);
	CHECK_EQ(resolve(c, 2, 0, 0).frame.line, 12);
	put_u32(c.lines + 2 * rt.l->iseq.entry_sz, 99);
	collections(5);
	capture_without(RUBY_CAPTURE_CODE, c.iseq, c.lines, c.lines + 16);
	capture_all(RUBY_CAPTURE_PATH, get(c.body + rt.l->iseq.pathobj));
	info = resolve(c, 2, 0, 0);
	CHECK_STR(info.frame.name, "long");
	CHECK_EQ(info.frame.line, 10);
	CHECK_EQ(info.frame.flags, FRAME_F_APPROX);
}

TEST(a_pc_of_other_code_has_no_line)
{
	struct interp_info info;
	struct code_of c;

	start(versions[1]);
	c = code(ISEQ_TYPE_METHOD, "here", string("a.rb"), 10, 4);
	capture_code(c);
	CHECK_EQ(resolve(c, 3, 0, 0).frame.line, 13);
	info = resolve(c, 4, 0, 0);
	CHECK_EQ(info.frame.line, 0);
	CHECK_EQ(info.frame.flags, FRAME_F_APPROX);
	c.encoded -= 4096;
	info = resolve(c, 0, 0, 0);
	CHECK_EQ(info.frame.line, 0);
	CHECK_EQ(info.frame.flags, FRAME_F_APPROX);
}

/* vm_core.h, enum vm_frame_env_flags: which frames are shown, and where an activation begins. */
TEST(each_kind_of_control_frame_is_what_it_is)
{
	static const struct {
		uint32_t flags;
		uint64_t pc, code;
		uint8_t class;
		bool ends_run;
	} cases[] = {
	        {VM_FRAME_MAGIC_METHOD, 8, 8, STITCH_CODE, false},
	        {VM_FRAME_MAGIC_METHOD | VM_FRAME_FLAG_FINISH, 8, 8, STITCH_CODE, true},
	        {VM_FRAME_MAGIC_METHOD, 0, 8, STITCH_CODE, false},
	        {VM_FRAME_MAGIC_BLOCK | VM_FRAME_FLAG_FINISH, 8, 8, STITCH_CODE, true},
	        {VM_FRAME_MAGIC_CFUNC | VM_FRAME_FLAG_CFRAME, 0, 0, STITCH_C, false},
	        {VM_FRAME_MAGIC_IFUNC, 0, 8, STITCH_HIDDEN, false},
	        {VM_FRAME_MAGIC_TOP | VM_FRAME_FLAG_FINISH, 8, 8, STITCH_CODE, true},
	        {VM_FRAME_MAGIC_TOP | VM_FRAME_FLAG_FINISH, 0, 8, STITCH_HIDDEN, false},
	        {VM_FRAME_MAGIC_DUMMY | VM_FRAME_FLAG_FINISH, 0, 0, STITCH_HIDDEN, false},
	        {VM_FRAME_MAGIC_DUMMY | VM_FRAME_FLAG_FINISH, 8, 8, STITCH_HIDDEN, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct interp_frame f = {
		        .flags = cases[i].flags, .pc = cases[i].pc, .code = cases[i].code};
		struct interp_desc d;

		ruby_frame_class(&rt, &f, &d);
		if (d.class != cases[i].class || d.ends_run != cases[i].ends_run)
			TAP_FAIL("case %zu is of class %u, ends_run %u", i, d.class, d.ends_run);
	}
}

/* ---- what the collector has done --------------------------------------------------------------
 */

static uint64_t torn_count;

static int torn_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	int rc = heap_read(t, addr, out, n);

	if (rc == 0 && addr == OBJSPACE + GC_COUNT)
		put(addr, get(addr) + torn_count);
	return rc;
}

TEST(a_collection_that_begins_while_its_state_is_read_is_seen)
{
	uint64_t gen;

	start(versions[1]);
	CHECK_EQ(ruby_gc_gen(&rt, &gen), 0);
	CHECK_EQ(gen, 3 << 3);
	CHECK(ruby_gc_is_same(&rt, 3 << 3, 0));
	rt.target.read = torn_read;
	torn_count = 1;
	CHECK_EQ(ruby_gc_gen(&rt, &gen), 0);
	CHECK_EQ(gen, 4 << 3 | RUBY_GEN_COLLECTING);
	CHECK(!ruby_gc_is_same(&rt, 4 << 3, 0));
}

TEST(what_is_old_is_what_a_sample_saw_one_collection_before_and_no_more)
{
	struct interp_moment when = {.gc_gen = 7 << 3};

	CHECK(ruby_gc_agree(&when, 7 << 3, 0));
	CHECK(!ruby_gc_agree(&when, 8 << 3, 0));
	CHECK(ruby_gc_agree(&when, 8 << 3, OLD_STAMP));
	CHECK(!ruby_gc_agree(&when, 9 << 3, OLD_STAMP));
	CHECK(!ruby_gc_agree(&when, 8 << 3 | RUBY_GEN_COLLECTING, OLD_STAMP));
	when.unsent_old_stamp = OLD_STAMP;
	CHECK(ruby_gc_agree(&when, 9 << 3, OLD_STAMP));
	CHECK(!ruby_gc_agree(&when, 9 << 3, OLD_STAMP + 2));
	when = (struct interp_moment){.gc_gen = 7 << 3 | RUBY_GC_MARKING};
	CHECK(!ruby_gc_agree(&when, 8 << 3, OLD_STAMP));
}

int main(int argc, char **argv)
{
	int rc = tap_run(argc, argv);

	ruby_cache_free(rt.cache);
	return rc;
}

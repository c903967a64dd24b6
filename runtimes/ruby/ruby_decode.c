#include "runtimes/ruby/ruby_decode.h"
#include "base/base.h"
#include <string.h>

enum { RAX = 0, RCX = 1, RDX = 2, RBX = 3, RSP = 4, RBP = 5, RSI = 6, RDI = 7, NR_REGS = 16 };
enum { NR_SLOTS = 8, MAX_INSNS = 200 };

/* One decoded instruction's ModRM operands. */
struct operand {
	bool is_reg;
	bool fs;     /* %fs: segment */
	bool abs;    /* disp32 without base */
	bool rip;    /* disp is the vaddr */
	bool index;  /* has an index register: the address is not known */
	uint8_t reg; /* register, or base register of memory */
	int64_t disp;
};

struct slot {
	bool used;
	int64_t off;
	struct ruby_value value;
};

struct machine {
	const uint8_t *code;
	size_t n, pos;
	uint64_t vaddr;
	struct ruby_value reg[NR_REGS];
	struct slot slot[NR_SLOTS];
	struct ruby_run *run;
};

static const struct ruby_value unknown;

static bool get(struct machine *m, size_t n, uint64_t *out)
{
	*out = 0;
	if (m->n - m->pos < n)
		return false;
	memcpy(out, m->code + m->pos, n);
	m->pos += n;
	return true;
}

static bool get_signed(struct machine *m, size_t n, int64_t *out)
{
	uint64_t v;

	if (!get(m, n, &v))
		return false;
	*out = n == 1 ? (int8_t)v : n == 4 ? (int32_t)v : (int64_t)v;
	return true;
}

/* As the processor adds: displacements may take an address beyond either end. */
static int64_t plus(int64_t a, uint64_t b)
{
	return (int64_t)((uint64_t)a + b);
}

/* reg: the register field; rm: the other operand. imm_sz: bytes that follow, for rip-relative
 * addresses. */
static bool modrm(
        struct machine *m, uint8_t rex, bool fs, size_t imm_sz, uint8_t *reg, struct operand *rm)
{
	uint64_t byte, sib;
	uint8_t mod, base;

	memset(rm, 0, sizeof(*rm));
	rm->fs = fs;
	if (!get(m, 1, &byte))
		return false;
	mod = (uint8_t)byte >> 6;
	*reg = ((byte >> 3) & 7) | (rex & 4 ? 8 : 0);
	base = byte & 7;
	if (mod == 3) {
		rm->is_reg = true;
		rm->reg = base | (rex & 1 ? 8 : 0);
		return true;
	}
	if (base == 4) {
		if (!get(m, 1, &sib))
			return false;
		base = sib & 7;
		rm->index = ((sib >> 3) & 7) != 4 || (rex & 2);
		if (base == 5 && mod == 0) {
			rm->abs = true;
			return get_signed(m, 4, &rm->disp);
		}
	} else if (base == 5 && mod == 0) {
		rm->rip = true;
		if (!get_signed(m, 4, &rm->disp))
			return false;
		rm->disp = plus(rm->disp, m->vaddr + m->pos + imm_sz);
		return true;
	}
	rm->reg = base | (rex & 1 ? 8 : 0);
	return mod == 0 || get_signed(m, mod == 1 ? 1 : 4, &rm->disp);
}

static bool on_stack(const struct operand *o)
{
	return !o->is_reg && !o->fs && !o->abs && !o->rip && !o->index && o->reg == RSP;
}

/* The address that a memory operand names, as base + add. */
static struct ruby_value address_of(const struct machine *m, const struct operand *o)
{
	struct ruby_value v = unknown;

	if (o->index)
		return v;
	if (o->fs) {
		v.base = RUBY_BASE_FS;
		if (o->abs) {
			v.add = o->disp;
		} else if (o->rip) {
			v.base = RUBY_BASE_UNKNOWN;
		} else {
			/* mov %fs:(%rax): rax is the offset, a number or a load of one. */
			v = m->reg[o->reg];
			if (v.base != RUBY_BASE_ADDR)
				return unknown;
			v.add = plus(v.add, (uint64_t)o->disp);
			if (v.nr_loads == 0) {
				v.base = RUBY_BASE_FS;
				v.add = plus(v.add, v.addr);
				v.addr = 0;
			} else {
				v.base = RUBY_BASE_FS;
			}
		}
		return v;
	}
	if (o->rip || o->abs) {
		v.base = RUBY_BASE_ADDR;
		v.addr = (uint64_t)o->disp;
		return v;
	}
	v = m->reg[o->reg];
	if (v.shift || v.mask)
		return unknown;
	v.add = plus(v.add, (uint64_t)o->disp);
	return v;
}

static void note_seen(struct machine *m, const struct ruby_value *address, bool wide)
{
	struct ruby_run *run = m->run;

	if (address->base != RUBY_BASE_ADDR || address->nr_loads || run->nr_seen == RUBY_MAX_SEEN)
		return;
	run->seen_wide[run->nr_seen] = wide;
	run->seen[run->nr_seen++] = address->addr + (uint64_t)address->add;
}

static struct ruby_value load(struct machine *m, const struct operand *o, bool wide)
{
	struct ruby_value v;

	if (o->is_reg)
		return m->reg[o->reg];
	if (on_stack(o)) {
		for (size_t i = 0; i < NR_SLOTS; i++)
			if (m->slot[i].used && m->slot[i].off == o->disp)
				return m->slot[i].value;
		return unknown;
	}
	v = address_of(m, o);
	note_seen(m, &v, wide);
	if (v.base == RUBY_BASE_UNKNOWN || v.nr_loads == RUBY_MAX_LOADS || v.add != (int32_t)v.add)
		return unknown;
	v.load[v.nr_loads++] = (int32_t)v.add;
	v.add = 0;
	return v;
}

static void store(struct machine *m, const struct operand *o, struct ruby_value v)
{
	if (o->is_reg) {
		m->reg[o->reg] = v;
		return;
	}
	if (!on_stack(o))
		return;
	for (size_t i = 0; i < NR_SLOTS; i++) {
		if (!m->slot[i].used || m->slot[i].off == o->disp) {
			m->slot[i] = (struct slot){true, o->disp, v};
			return;
		}
	}
}

static void note_cmp(struct machine *m, struct ruby_value v, int64_t imm)
{
	struct ruby_run *run = m->run;

	if (v.base != RUBY_BASE_UNKNOWN && run->nr_cmps < RUBY_MAX_CMPS)
		run->cmp[run->nr_cmps++] = (struct ruby_cmp){v, imm};
}

static void move_stack(struct machine *m, int64_t by)
{
	for (size_t i = 0; i < NR_SLOTS; i++)
		m->slot[i].off = plus(m->slot[i].off, (uint64_t)by);
}

/* A call: with an address in rdi it is one of __tls_get_addr, for all that this file wants to know;
 * the attach proves what comes of it on live memory. */
static void call(struct machine *m)
{
	static const uint8_t lost[] = {RCX, RDX, RSI, RDI, 8, 9, 10, 11};
	struct ruby_value v = m->reg[RDI];

	if (v.base == RUBY_BASE_ADDR && v.nr_loads == 0) {
		v.base = RUBY_BASE_TLS_GD;
		v.addr += (uint64_t)v.add;
		v.add = 0;
	} else {
		v = unknown;
	}
	for (size_t i = 0; i < sizeof(lost); i++)
		m->reg[lost[i]] = unknown;
	m->reg[RAX] = v;
}

static void shift_right(struct machine *m, const struct operand *rm, unsigned int by)
{
	struct ruby_value v;

	if (!rm->is_reg)
		return;
	v = m->reg[rm->reg];
	if (by == 4 && v.shift == 0 && !m->run->has_shift4) {
		m->run->shifted = v;
		m->run->has_shift4 = true;
	}
	v.shift = (uint8_t)MIN(v.shift + by, 63U);
	m->reg[rm->reg] = v;
}

/* Group 1: op is the register field (4 and, 5 sub, 7 cmp, 0 add). */
static void immediate(struct machine *m, unsigned int op, const struct operand *rm, int64_t imm)
{
	if (op == 7) {
		note_cmp(m, load(m, rm, true), imm);
		return;
	}
	if (!rm->is_reg)
		return;
	if (rm->reg == RSP && (op == 5 || op == 0)) {
		move_stack(m, op == 5 ? imm : -imm);
	} else if (op == 4 && imm > 0 && imm < 256) {
		m->reg[rm->reg].mask = (uint8_t)imm;
	} else if (op == 0) {
		m->reg[rm->reg].add = plus(m->reg[rm->reg].add, (uint64_t)imm);
	} else {
		m->reg[rm->reg] = unknown;
	}
}

static bool two_byte(struct machine *m, uint8_t rex, bool fs)
{
	struct operand rm;
	uint64_t op;
	int64_t rel;
	uint8_t reg;

	if (!get(m, 1, &op))
		return false;
	if (op >= 0x80 && op <= 0x8f) /* jcc rel32: not taken */
		return get_signed(m, 4, &rel);
	if (!modrm(m, rex, fs, 0, &reg, &rm))
		return false;
	if (op == 0xb6 || op == 0xb7) { /* movzx */
		struct ruby_value v = load(m, &rm, false);

		m->reg[reg] = v;
		return true;
	}
	if (op >= 0x40 && op <= 0x4f) /* cmovcc: either; the old value stays */
		return true;
	if (op >= 0x90 && op <= 0x9f) { /* setcc */
		if (rm.is_reg)
			m->reg[rm.reg] = unknown;
		return true;
	}
	return op == 0x1e || op == 0x1f; /* endbr64, nop */
}

/* One instruction. False: the end, or one that is not known. */
static bool step(struct machine *m)
{
	bool fs = false, rex_w;
	struct operand rm;
	uint64_t op, imm;
	int64_t simm;
	uint8_t rex = 0, reg;

	for (;;) { /* prefixes */
		if (!get(m, 1, &op))
			return false;
		if (op == 0x64)
			fs = true;
		else if ((op & 0xf0) == 0x40)
			rex = (uint8_t)op;
		else if (op != 0x66 && op != 0xf3 && op != 0xf2 && op != 0x2e && op != 0x3e)
			break;
	}
	rex_w = rex & 8;
	if (op == 0x0f)
		return two_byte(m, rex, fs);
	if (op >= 0x50 && op <= 0x5f) { /* push, pop */
		move_stack(m, op < 0x58 ? 8 : -8);
		if (op >= 0x58)
			m->reg[(op & 7) | (rex & 1 ? 8 : 0)] = unknown;
		return true;
	}
	if (op >= 0xb8 && op <= 0xbf) { /* mov $imm, reg */
		struct ruby_value *r = &m->reg[(op & 7) | (rex & 1 ? 8 : 0)];

		if (!get(m, rex_w ? 8 : 4, &imm))
			return false;
		*r = (struct ruby_value){.base = RUBY_BASE_ADDR, .addr = imm};
		return true;
	}
	if (op >= 0x70 && op <= 0x7f) /* jcc rel8: not taken */
		return get_signed(m, 1, &simm);
	switch (op) {
	case 0x90:
		return true;
	case 0xc3:
		m->run->returned = true;
		m->run->result = m->reg[RAX];
		return false;
	case 0xe8:
		if (!get_signed(m, 4, &simm))
			return false;
		call(m);
		return true;
	case 0xe9:
	case 0xeb:
		if (!get_signed(m, op == 0xe9 ? 4 : 1, &simm))
			return false;
		m->run->jumped = true;
		m->run->jump_target = m->vaddr + m->pos + (uint64_t)simm;
		return false;
	case 0x3d: /* cmp $imm32, rax */
		if (!get_signed(m, 4, &simm))
			return false;
		note_cmp(m, m->reg[RAX], simm);
		return true;
	case 0xa8: /* test $imm8, al */
		return get(m, 1, &imm);
	case 0xa9:
		return get(m, 4, &imm);
	}
	if (!modrm(m, rex, fs,
	            op == 0x83 || op == 0x80 || op == 0xc0 || op == 0xc1 || op == 0xf6 ? 1
	            : op == 0x81 || op == 0xc7 || op == 0xf7                           ? 4
	                                                                               : 0,
	            &reg, &rm))
		return false;
	switch (op) {
	case 0x8b: /* mov rm, reg */
		m->reg[reg] = load(m, &rm, rex_w);
		return true;
	case 0x89: /* mov reg, rm */
		store(m, &rm, m->reg[reg]);
		return true;
	case 0x8d: /* lea */
		m->reg[reg] = address_of(m, &rm);
		return true;
	case 0x80: /* group 1, bytes; only cmp tells something */
	case 0x83:
		if (!get_signed(m, 1, &simm))
			return false;
		if (op == 0x83 || (reg & 7) == 7)
			immediate(m, reg & 7, &rm, simm);
		return true;
	case 0x81:
		if (!get_signed(m, 4, &simm))
			return false;
		immediate(m, reg & 7, &rm, simm);
		return true;
	case 0xc0: /* group 2 */
	case 0xc1:
		if (!get(m, 1, &imm))
			return false;
		if ((reg & 7) == 5)
			shift_right(m, &rm, imm & 63);
		else if (rm.is_reg)
			m->reg[rm.reg] = unknown;
		return true;
	case 0xc7: /* mov $imm32, rm */
		if (!get_signed(m, 4, &simm))
			return false;
		store(m, &rm, (struct ruby_value){.base = RUBY_BASE_ADDR, .addr = (uint64_t)simm});
		return true;
	case 0xf6: /* test $imm, rm (group 3, only /0 has an immediate) */
	case 0xf7:
		return (reg & 7) == 0 && get(m, op == 0xf6 ? 1 : 4, &imm);
	case 0x84: /* test, cmp of registers */
	case 0x85:
	case 0x38:
	case 0x39:
	case 0x3a:
	case 0x3b:
		load(m, &rm, rex_w);
		return true;
	case 0x31: /* xor, sub, add, and, or into rm */
	case 0x29:
	case 0x01:
	case 0x21:
	case 0x09:
		if (rm.is_reg)
			m->reg[rm.reg] = op == 0x31 && rm.reg == reg
			                         ? (struct ruby_value){.base = RUBY_BASE_ADDR}
			                         : unknown;
		return true;
	case 0x2b: /* into reg */
	case 0x03:
	case 0x33:
		/* add %fs:0,%rax: initial exec or local exec, the other way round. */
		if (op == 0x03 && rm.fs && rm.abs && rm.disp == 0 &&
		        m->reg[reg].base == RUBY_BASE_ADDR) {
			m->reg[reg].base = RUBY_BASE_FS;
			if (m->reg[reg].nr_loads == 0) {
				m->reg[reg].add = plus(m->reg[reg].add, m->reg[reg].addr);
				m->reg[reg].addr = 0;
			}
			return true;
		}
		m->reg[reg] = unknown;
		return true;
	case 0xff: /* call *rm; jmp *rm ends it */
		if ((reg & 7) != 2)
			return false;
		call(m);
		return true;
	}
	return false;
}

void ruby_decode_run(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_run *out)
{
	struct machine m = {.code = code, .n = n, .vaddr = vaddr, .run = out};

	memset(out, 0, sizeof(*out));
	m.reg[RDI].base = RUBY_BASE_ARG;
	for (int i = 0; i < MAX_INSNS && step(&m); i++)
		;
}

bool ruby_decode_ec(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_ec_code *out)
{
	struct ruby_ec_code ec = {0};
	const struct ruby_value *v;
	struct ruby_run run;
	unsigned int first;

	ruby_decode_run(code, n, vaddr, &run);
	v = &run.result;
	if (!run.returned || v->shift || v->mask || v->add)
		return false;
	if (v->base == RUBY_BASE_TLS_GD) {
		ec.form = RUBY_TLS_GD;
		ec.slot = v->addr;
		first = 1;
		if (v->nr_loads < 2 || v->load[0] != 0)
			return false;
	} else if (v->base == RUBY_BASE_FS && v->addr != 0) {
		/* The GOT word, then the thread-local variable at it. */
		ec.form = RUBY_TLS_IE;
		ec.slot = v->addr;
		first = 2;
		if (v->nr_loads < 3 || v->load[0] != 0 || v->load[1] != 0)
			return false;
	} else if (v->base == RUBY_BASE_FS && v->nr_loads >= 2) {
		ec.form = RUBY_TLS_LE;
		/* mov %fs:0,%rax first loads the thread pointer's own address. */
		first = v->load[0] == 0 ? 2 : 1;
		ec.tp_off = v->load[first - 1];
		if (v->nr_loads <= first)
			return false;
	} else {
		return false;
	}
	for (unsigned int i = first; i < v->nr_loads && ec.nr_fields < 2; i++)
		ec.field[ec.nr_fields++] = v->load[i];
	*out = ec;
	return true;
}

static bool decode_objspace(const struct ruby_value *v, struct ruby_gc_code *out)
{
	if (v->base != RUBY_BASE_ADDR || v->nr_loads < 3 || v->nr_loads > 4 || v->load[0] != 0 ||
	        (v->nr_loads == 4 && v->load[1] != 0))
		return false;
	out->vm_ptr = v->addr;
	out->vm_ptr_is_got = v->nr_loads == 4;
	out->objspace = v->load[v->nr_loads - 2];
	out->field = v->load[v->nr_loads - 1];
	return out->objspace > 0 && out->field > 0;
}

bool ruby_decode_during_gc(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_gc_code *out)
{
	struct ruby_gc_code gc = {0};
	struct ruby_run run;

	ruby_decode_run(code, n, vaddr, &run);
	if (!run.returned || run.result.mask != 1 || !decode_objspace(&run.result, &gc))
		return false;
	gc.bit = run.result.shift;
	*out = gc;
	return true;
}

bool ruby_decode_gc_count(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_gc_code *out)
{
	struct ruby_gc_code gc = {0};
	struct ruby_run run;

	ruby_decode_run(code, n, vaddr, &run);
	if (!run.returned || run.result.mask || run.result.shift ||
	        !decode_objspace(&run.result, &gc))
		return false;
	*out = gc;
	return true;
}

bool ruby_decode_gvl(const uint8_t *code, size_t n, uint64_t vaddr, int32_t *blocking_region_buffer)
{
	struct ruby_run run;

	ruby_decode_run(code, n, vaddr, &run);
	for (size_t i = 0; i < run.nr_cmps; i++) {
		const struct ruby_value *v = &run.cmp[i].value;

		if (run.cmp[i].imm == 0 && v->nr_loads >= 2 &&
		        (v->base == RUBY_BASE_TLS_GD || v->base == RUBY_BASE_FS) &&
		        v->load[v->nr_loads - 1] > 0) {
			*blocking_region_buffer = v->load[v->nr_loads - 1];
			return true;
		}
	}
	return false;
}

bool ruby_decode_id2str(const uint8_t *code, size_t n, uint64_t vaddr, struct ruby_id_code *out)
{
	struct ruby_id_code id = {0};
	struct ruby_run run;
	bool found = false;

	ruby_decode_run(code, n, vaddr, &run);
	for (size_t i = 0; i < run.nr_cmps && !found; i++) {
		if (run.cmp[i].value.base == RUBY_BASE_ARG && run.cmp[i].value.nr_loads == 0 &&
		        run.cmp[i].value.shift == 0 && run.cmp[i].imm > 127 &&
		        run.cmp[i].imm < 1024) {
			id.last_op_id = (uint64_t)run.cmp[i].imm;
			found = true;
		}
	}
	if (!found || !run.has_shift4 || run.shifted.base != RUBY_BASE_ARG)
		return false;
	id.lookup = run.jumped ? run.jump_target : 0;
	*out = id;
	return true;
}

bool ruby_decode_ids(const uint8_t *code, size_t n, uint64_t vaddr, uint64_t *ids)
{
	struct ruby_run run;

	/* if (num && num <= symbols->last_id) ... symbols->ids: a 4-byte access, then a word 16
	 * bytes further on (symbol.c, get_id_serial_entry; rb_symbols_t {last_id 0, str 8, ids
	 * 16}). */
	ruby_decode_run(code, n, vaddr, &run);
	for (size_t i = 0; i < run.nr_seen; i++)
		for (size_t j = i + 1; j < run.nr_seen; j++)
			if (!run.seen_wide[i] && run.seen_wide[j] &&
			        run.seen[j] == run.seen[i] + 16) {
				*ids = run.seen[j];
				return true;
			}
	return false;
}

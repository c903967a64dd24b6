/*
 * Finds out what there is to know of a Ruby process: which file is the interpreter, where its data
 * lies, and whether all of it holds on live memory. Nothing is guessed: two sources that disagree,
 * or memory that does not look as the layout says, end the attach.
 */
#include "runtimes/ruby/ruby_runtime.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CODE_SZ = 512,        /* of a function that is decoded */
	MAX_TEXT = 256 << 20, /* of the file that is searched for calls */
	NR_TRIES = 16,        /* a running thread moves under our eyes: look again */
	MAX_STATIC_TLS = 1 << 24,
	NR_VALIDATED = RPROF_MAX_INTERP,
	NR_OUTER = 8,
};

/* ---- the file ---------------------------------------------------------------------------- */

static bool is_code_of_file(const struct mapping *m)
{
	return (m->prot & MAPS_PROT_EXEC) && m->path[0] == '/';
}

static int rank_of(const struct mapping *m)
{
	const char *name = strrchr(m->path, '/');

	name = name != NULL ? name + 1 : m->path;
	if (strncmp(name, "libruby", 7) == 0)
		return 0;
	return strstr(name, "ruby") != NULL ? 1 : 2;
}

/* Is this file a Ruby? -EACCES and the like are remembered: "could not be read" is not "not there".
 */
static bool is_ruby(struct dso *dso)
{
	return dso_find_symbol(dso, "ruby_version") != NULL &&
	       dso_find_symbol(dso, "rb_thread_current") != NULL;
}

/* Names with "ruby" first; the executable comes before its libraries in the address space. */
static int find_interpreter(const struct target *target, const struct maps *maps,
        struct dso_cache *dsos, struct dso **out, const struct mapping **mapping, struct err *err)
{
	struct err why = {0};
	int failed = 0;

	for (int rank = 0; rank < 3; rank++) {
		uint64_t dev = 0, ino = 0;

		for (size_t i = 0; i < maps->nr; i++) {
			const struct mapping *m = &maps->v[i];
			struct dso *dso;
			int rc;

			if (!is_code_of_file(m) || rank_of(m) != rank ||
			        (m->dev == dev && m->ino == ino))
				continue;
			dev = m->dev;
			ino = m->ino;
			rc = dso_cache_get(dsos, target, m, &dso, &why);
			if (rc != 0 && rank < 2)
				failed = rc;
			if (rc != 0 || !is_ruby(dso))
				continue;
			*out = dso;
			*mapping = m;
			return 0;
		}
	}
	if (failed != 0 && failed != -ENOEXEC)
		return err_set(err, failed, "the Ruby interpreter of process %d cannot be read: %s",
		        (int)target->pid, why.msg);
	return err_set(err, -ENOENT,
	        "process %d runs no Ruby: give the pid of a Ruby process (`pgrep -a ruby` lists "
	        "them)",
	        (int)target->pid);
}

static bool symbol_addr(const struct runtime *rt, const char *name, uint64_t *addr)
{
	const struct dso_symbol *sym = dso_find_symbol(rt->dso, name);

	if (sym == NULL)
		return false;
	*addr = sym->vaddr + rt->bias;
	return true;
}

/* A string constant: as the process has it, else as the file has it. */
static bool read_text(const struct runtime *rt, const char *symbol, char *out, size_t n)
{
	const struct dso_symbol *sym = dso_find_symbol(rt->dso, symbol);
	size_t i;

	if (sym == NULL)
		return false;
	for (i = 0; i + 1 < n; i++) {
		if (target_read(&rt->target, sym->vaddr + rt->bias + i, out + i, 1) != 0 &&
		        dso_read(rt->dso, sym->vaddr + i, out + i, 1) != 0)
			return false;
		if (out[i] == '\0')
			return i > 0;
		if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] > '~')
			return false;
	}
	out[i] = '\0';
	return true;
}

static int find_version(struct runtime *rt, struct err *err)
{
	const struct ruby_layout *l;
	char supported[128];

	if (!read_text(rt, "ruby_version", rt->version, sizeof(rt->version)))
		return err_set(err, -EINVAL, "%s says no version", dso_path(rt->dso));
	if (!read_text(rt, "ruby_description", rt->description, sizeof(rt->description)))
		snprintf(rt->description, sizeof(rt->description), "ruby %s", rt->version);
	l = ruby_layout_find(ruby_version_parse(rt->version));
	if (l == NULL || !l->supported) {
		ruby_layout_supported(supported, sizeof(supported));
		return err_set(err, -ENOTSUP,
		        "Ruby %s in process %d is not supported yet; rprof supports %s",
		        rt->version, (int)rt->target.pid, supported);
	}
	rt->l = l;
	return 0;
}

/* ---- code -------------------------------------------------------------------------------- */

/* The bytes of an exported function, as far as they can be read; 0: there is none. */
static size_t read_code_at(const struct runtime *rt, uint64_t vaddr, uint8_t *out)
{
	for (size_t n = CODE_SZ; n >= 32; n /= 2)
		if (dso_read(rt->dso, vaddr, out, n) == 0)
			return n;
	return 0;
}

static size_t read_code(const struct runtime *rt, const char *name, uint8_t *out, uint64_t *vaddr)
{
	const struct dso_symbol *sym = dso_find_symbol(rt->dso, name);

	if (sym == NULL)
		return 0;
	*vaddr = sym->vaddr;
	return read_code_at(rt, sym->vaddr, out);
}

static int disagree(
        const struct runtime *rt, const char *what, int64_t decoded, int64_t table, struct err *err)
{
	return err_set(err, -EINVAL,
	        "Ruby %s in process %d is not built as rprof knows it: %s is %" PRId64
	        " in its code, %" PRId64 " in rprof's table",
	        rt->version, (int)rt->target.pid, what, decoded, table);
}

/* The execution context's thread-local variable, and the offsets that its users show. */
static int decode_ec(struct runtime *rt, struct err *err)
{
	const struct ruby_layout *l = rt->l;
	struct ruby_ec_code errinfo;
	uint8_t code[CODE_SZ];
	uint64_t vaddr = 0;
	size_t n;

	n = read_code(rt, "rb_thread_current", code, &vaddr);
	if (!ruby_decode_ec(code, n, vaddr, &rt->ec_code) || rt->ec_code.nr_fields != 2)
		return err_set(err, -ENOTSUP,
		        "the code of rb_thread_current in %s is not known to rprof: how it finds "
		        "a thread's execution context cannot be told",
		        dso_path(rt->dso));
	if (rt->ec_code.field[0] != l->ec.thread_ptr)
		return disagree(rt, "ec->thread_ptr", rt->ec_code.field[0], l->ec.thread_ptr, err);
	if (rt->ec_code.field[1] != l->thread.self)
		return disagree(rt, "thread->self", rt->ec_code.field[1], l->thread.self, err);
	n = read_code(rt, "rb_errinfo", code, &vaddr);
	if (ruby_decode_ec(code, n, vaddr, &errinfo)) {
		if (errinfo.nr_fields < 1 || errinfo.field[0] != l->ec.errinfo)
			return disagree(rt, "ec->errinfo", errinfo.field[0], l->ec.errinfo, err);
		if (errinfo.form != rt->ec_code.form || errinfo.slot != rt->ec_code.slot ||
		        errinfo.tp_off != rt->ec_code.tp_off)
			return err_set(err, -EINVAL,
			        "rb_thread_current and rb_errinfo in %s use different "
			        "thread-local variables",
			        dso_path(rt->dso));
	}
	rt->from.ec = "code of rb_thread_current";
	return 0;
}

static int decode_gvl(struct runtime *rt, struct err *err)
{
	uint8_t code[CODE_SZ];
	uint64_t vaddr = 0;
	int32_t buffer;
	size_t n;

	n = read_code(rt, "ruby_thread_has_gvl_p", code, &vaddr);
	if (ruby_decode_gvl(code, n, vaddr, &buffer) &&
	        buffer != rt->l->thread.blocking_region_buffer)
		return disagree(rt, "thread->blocking_region_buffer", buffer,
		        rt->l->thread.blocking_region_buffer, err);
	return 0;
}

static int booting(const struct runtime *rt, struct err *err)
{
	return err_set(err, -EAGAIN, "Ruby %s in process %d is still starting (or is ending)",
	        rt->version, (int)rt->target.pid);
}

/* vm, main thread, object space. */
static int find_vm(struct runtime *rt, struct err *err)
{
	struct ruby_gc_code gc = {0}, count = {0};
	uint64_t vaddr = 0, addr, exported = 0, vm, th, objspace;
	bool has_gc, has_count, has_symbol;
	uint8_t code[CODE_SZ];
	size_t n;

	has_symbol = symbol_addr(rt, "ruby_current_vm_ptr", &exported);
	n = read_code(rt, "rb_during_gc", code, &vaddr);
	has_gc = ruby_decode_during_gc(code, n, vaddr, &gc);
	n = read_code(rt, "rb_gc_count", code, &vaddr);
	has_count = ruby_decode_gc_count(code, n, vaddr, &count);
	if (!has_gc && !has_symbol)
		return err_set(err, -ENOTSUP,
		        "the code of rb_during_gc in %s is not known to rprof, and "
		        "ruby_current_vm_ptr is not exported",
		        dso_path(rt->dso));
	addr = exported;
	if (has_gc) {
		addr = gc.vm_ptr + rt->bias;
		/* Until ld.so has relocated the file, the GOT holds nothing of use. */
		if (gc.vm_ptr_is_got && (target_read_u64(&rt->target, addr, &addr) != 0 ||
		                                !ruby_is_heap(addr) || addr < rt->bias))
			return booting(rt, err);
		if (has_symbol && addr != exported)
			return err_set(err, -EINVAL,
			        "ruby_current_vm_ptr and rb_during_gc in %s do not agree",
			        dso_path(rt->dso));
		if (gc.bit != 5)
			return disagree(rt, "the bit of during_gc", gc.bit, 5, err);
	}
	if (has_gc && has_count && (gc.vm_ptr != count.vm_ptr || gc.objspace != count.objspace))
		return err_set(err, -EINVAL, "rb_during_gc and rb_gc_count in %s do not agree",
		        dso_path(rt->dso));
	rt->from.vm = has_gc && has_symbol ? "ruby_current_vm_ptr and code of rb_during_gc"
	              : has_gc             ? "code of rb_during_gc"
	                                   : "ruby_current_vm_ptr";
	if (target_read_u64(&rt->target, addr, &vm) != 0 || !ruby_is_heap(vm) ||
	        target_read_u64(&rt->target, vm + rt->l->vm.main_thread, &th) != 0 ||
	        !ruby_is_heap(th))
		return booting(rt, err);
	rt->vm = vm;
	rt->main_thread = th;

	/* The code knows best: builds of one release differ in what stands before this field. */
	rt->proc.vm_objspace = has_gc ? (uint32_t)gc.objspace : rt->l->vm.objspace;
	rt->proc.objspace_flags = has_gc ? (uint16_t)gc.field : rt->l->objspace.flags;
	rt->proc.objspace_gc_count = has_count ? (uint16_t)count.field : 0;
	rt->proc.objspace_minors = rt->l->objspace.minors;
	rt->proc.objspace_minor_bit = rt->l->objspace.minor_bit;
	rt->from.objspace = has_gc ? "code of rb_during_gc" : "table";
	if (has_gc && gc.field != rt->l->objspace.flags)
		return disagree(rt, "the byte of during_gc", gc.field, rt->l->objspace.flags, err);
	if (has_count && rt->l->objspace.gc_count && count.field != rt->l->objspace.gc_count)
		return disagree(
		        rt, "the count of collections", count.field, rt->l->objspace.gc_count, err);
	if (target_read_u64(&rt->target, vm + rt->proc.vm_objspace, &objspace) != 0 ||
	        !ruby_is_heap(objspace))
		return booting(rt, err);
	rt->proc.objspace_addr = objspace;
	return 0;
}

/* ---- the execution context in TLS ---------------------------------------------------------- */

/* The thread pointer (pthread_t is the TCB in glibc). */
static int thread_tp(const struct runtime *rt, uint64_t th, uint64_t *out)
{
	uint64_t tp, nt, tcb[3], at = th + rt->l->thread.thread_id;
	int rc;

	if (rt->l->thread.thread_id == 0) {
		rc = target_read_u64(&rt->target, th + rt->l->thread.nt, &nt);
		if (rc != 0 || !ruby_is_heap(nt))
			return rc != 0 ? rc
			               : -ENOENT; /* a thread that is not on a native thread now */
		at = nt + rt->l->nt.thread_id;
	}
	rc = target_read_u64(&rt->target, at, &tp);
	if (rc != 0 || !ruby_is_heap(tp))
		return rc != 0 ? rc : -ENOENT;
	rc = target_read(&rt->target, tp, tcb, sizeof(tcb));
	if (rc != 0)
		return rc;
	/* tcbhead_t {tcb, dtv, self}, sysdeps/x86_64/nptl/tls.h. */
	if (tcb[0] != tp || tcb[2] != tp)
		return -EINVAL;
	*out = tp;
	return 0;
}

/* Is *(tp + off) a context of thread th? */
static bool is_ec_of(const struct runtime *rt, uint64_t tp, int64_t off, uint64_t th)
{
	uint64_t ec, ec_th;

	for (int i = 0; i < NR_TRIES; i++)
		if (target_read_u64(&rt->target, tp + (uint64_t)off, &ec) == 0 &&
		        ruby_is_heap(ec) &&
		        target_read_u64(&rt->target, ec + rt->l->ec.thread_ptr, &ec_th) == 0 &&
		        ec_th == th)
			return true;
	return false;
}

/* {module, offset} of the slot, and the block of the module in the thread's DTV. */
static int find_tls_block(struct runtime *rt, uint64_t tp, int64_t *tp_off, bool *is_static)
{
	uint64_t index[2], dtv, entry[2];
	int rc;

	rc = target_read(&rt->target, rt->ec_code.slot + rt->bias, index, sizeof(index));
	if (rc == 0)
		rc = target_read_u64(&rt->target, tp + 8, &dtv);
	if (rc != 0)
		return rc;
	if (index[0] == 0 || index[0] > 4096 || index[1] > MAX_STATIC_TLS)
		return -EINVAL;
	rt->proc.tls_module = (uint32_t)index[0];
	rt->proc.tls_off = index[1];
	rc = target_read(&rt->target, dtv + 16 * index[0], entry, sizeof(entry));
	if (rc != 0)
		return rc;
	if (!ruby_is_heap(entry[0]))
		return -ENOENT;
	*tp_off = (int64_t)(entry[0] + index[1] - tp);
	/* struct dtv_pointer {val, to_free}: a block in static TLS is never freed (glibc >= 2.26).
	 */
	*is_static = entry[1] == 0 && *tp_off < 0 && *tp_off > -MAX_STATIC_TLS;
	return 0;
}

static int find_tls(struct runtime *rt, struct err *err)
{
	const struct dso_symbol *sym = dso_find_symbol(rt->dso, "ruby_current_ec");
	bool is_static = true;
	int64_t tp_off = 0;
	uint64_t tp, off;
	int rc = 0;

	rc = thread_tp(rt, rt->main_thread, &tp);
	if (rc == -EINVAL)
		return err_set(err, -ENOTSUP,
		        "process %d does not run on glibc: its thread-local storage is not "
		        "known to rprof",
		        (int)rt->target.pid);
	if (rc != 0)
		return booting(rt, err);
	switch (rt->ec_code.form) {
	case RUBY_TLS_GD:
		rc = find_tls_block(rt, tp, &tp_off, &is_static);
		if (rc != 0)
			return booting(rt, err);
		if (sym != NULL && sym->vaddr != rt->proc.tls_off)
			return err_set(err, -EINVAL,
			        "ruby_current_ec and rb_thread_current in %s do not agree",
			        dso_path(rt->dso));
		if (sym != NULL)
			rt->from.ec = "ruby_current_ec and code of rb_thread_current";
		break;
	case RUBY_TLS_IE:
		if (target_read_u64(&rt->target, rt->ec_code.slot + rt->bias, &off) != 0)
			return booting(rt, err);
		tp_off = (int64_t)off;
		break;
	case RUBY_TLS_LE:
		tp_off = rt->ec_code.tp_off;
		break;
	}
	if (!is_ec_of(rt, tp, tp_off, rt->main_thread))
		return booting(rt, err);
	rt->proc.ec_source = is_static ? RUBY_EC_TP_OFFSET : RUBY_EC_DTV;
	rt->proc.tp_off = is_static ? tp_off : 0;
	return 0;
}

/* ---- live frames --------------------------------------------------------------------------- */

static bool magic_is_known(uint32_t flags)
{
	static const uint32_t magics[] = {VM_FRAME_MAGIC_METHOD, VM_FRAME_MAGIC_BLOCK,
	        VM_FRAME_MAGIC_CLASS, VM_FRAME_MAGIC_TOP, VM_FRAME_MAGIC_CFUNC,
	        VM_FRAME_MAGIC_IFUNC, VM_FRAME_MAGIC_EVAL, VM_FRAME_MAGIC_RESCUE,
	        VM_FRAME_MAGIC_DUMMY};

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if ((flags & VM_FRAME_MAGIC_MASK) == magics[i])
			return true;
	return false;
}

/* iseq_encoded of the iseq of a frame that runs one; *bad is set when memory is not as it must be.
 */
static bool frame_insns(
        const struct runtime *rt, const struct interp_frame *f, bool *bad, uint64_t *encoded)
{
	const struct ruby_layout *l = rt->l;
	uint32_t magic = f->flags & VM_FRAME_MAGIC_MASK;
	uint64_t iseq[5], body, insns;
	uint32_t size;

	if (f->code == 0 || f->pc == 0 || magic == VM_FRAME_MAGIC_IFUNC ||
	        magic == VM_FRAME_MAGIC_CFUNC || magic == VM_FRAME_MAGIC_DUMMY)
		return false;
	*bad = true;
	if (target_read(&rt->target, f->code, iseq, sizeof(iseq)) != 0 ||
	        ruby_imemo_type(iseq[0]) != imemo_iseq)
		return false;
	body = iseq[l->iseq.body / 8];
	if (target_read_u32(&rt->target, body + l->iseq.iseq_size, &size) != 0 ||
	        target_read_u64(&rt->target, body + l->iseq.iseq_encoded, &insns) != 0 ||
	        f->pc < insns || f->pc > insns + size * 8ULL)
		return false;
	*bad = false;
	*encoded = insns;
	return true;
}

/*
 * The frames of one thread. It may be running: what is near the leaf can be torn, the outermost
 * frames stand still. So of these NR_OUTER must have a known magic and a pc within their iseq. 0,
 * -EAGAIN (no frames yet), or -EINVAL. *insn: the first instruction of an iseq, unless there was
 * none.
 */
static int validate_thread(const struct runtime *rt, uint64_t th, uint64_t *insn)
{
	struct interp_frame *f = malloc(NR_VALIDATED * sizeof(*f));
	uint64_t ec, encoded;
	int nr, rc = -EAGAIN;

	for (int i = 0; f != NULL && i < NR_TRIES && rc != 0; i++) {
		rc = ruby_thread_ec(rt, th, &ec);
		if (rc != 0)
			continue;
		nr = ruby_frames_read(rt, ec, f, NR_VALIDATED);
		rc = nr < 0 ? nr : nr == 0 ? -EAGAIN : 0;
		for (int k = nr - 1; k >= 0 && k >= nr - NR_OUTER && rc == 0; k--) {
			bool bad = false;

			if (!magic_is_known(f[k].flags))
				rc = -EINVAL;
			else if (frame_insns(rt, &f[k], &bad, &encoded))
				target_read_u64(&rt->target, encoded, insn);
			else if (bad && k > 0)
				rc = -EINVAL;
		}
	}
	free(f);
	return rc;
}

static int validate_frames(struct runtime *rt, uint64_t *insn, struct err *err)
{
	uint64_t *th;
	size_t nr;
	int rc;

	*insn = 0;
	rc = validate_thread(rt, rt->main_thread, insn);
	if (rc == -EINVAL)
		return err_set(err, -EINVAL,
		        "the frames of the main thread of process %d are not as Ruby %s lays "
		        "them out",
		        (int)rt->target.pid, rt->version);
	if (rc != 0)
		return booting(rt, err);
	th = calloc(RUBY_MAX_THREADS, sizeof(*th));
	if (th == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	nr = ruby_threads_read(rt, th, RUBY_MAX_THREADS);
	rt->nr_threads = (unsigned int)nr;
	for (size_t i = 0; i < nr && i < 16; i++) {
		uint64_t tp;

		if (th[i] != rt->main_thread && *insn == 0)
			validate_thread(rt, th[i], insn);
		/* One constant for all threads, or none. */
		if (rt->proc.ec_source == RUBY_EC_TP_OFFSET && th[i] != rt->main_thread &&
		        thread_tp(rt, th[i], &tp) == 0 &&
		        !is_ec_of(rt, tp, rt->proc.tp_off, th[i]) &&
		        rt->ec_code.form == RUBY_TLS_GD && i < 4) {
			uint64_t ec;

			/* 0: a thread on its way in or out. */
			if (target_read_u64(&rt->target, tp + (uint64_t)rt->proc.tp_off, &ec) ==
			                0 &&
			        ec != 0)
				rt->proc.ec_source = RUBY_EC_DTV;
		}
	}
	free(th);
	return *insn == 0 ? booting(rt, err) : 0;
}

/* ---- the interpreter's loop ------------------------------------------------------------------ */

static bool in_range(uint64_t x, uint64_t lo, uint64_t hi)
{
	return x >= lo && x < hi;
}

/* Does [start, end) jump (jmp, jcc) into [lo, hi), past its first byte? */
static bool jumps_into(
        const struct runtime *rt, uint64_t start, uint64_t end, uint64_t lo, uint64_t hi)
{
	size_t n = end - start;
	bool found = false;
	uint8_t *code;
	int32_t rel;

	if (n < 5 || n > 1 << 20)
		return false;
	code = malloc(n);
	if (code != NULL && dso_read(rt->dso, start, code, n) == 0) {
		for (size_t i = 0; i + 5 <= n && !found; i++) {
			bool jcc = i + 6 <= n && code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80;

			if (!jcc && code[i] != 0xe9)
				continue;
			memcpy(&rel, code + i + 1 + jcc, 4);
			found = in_range(start + i + 5 + jcc + (uint64_t)(int64_t)rel, lo + 1, hi);
		}
	}
	free(code);
	return found;
}

/* A part that was moved out has no name, or one that says so. */
static bool is_cold_name(const struct runtime *rt, uint64_t vaddr)
{
	const struct dso_symbol *sym = dso_function_at(rt->dso, vaddr);

	return sym == NULL || strstr(sym->name, ".cold") != NULL;
}

/*
 * The parts that the compiler moved out of a function ("name.cold"): an FDE that the function jumps
 * into and that jumps back into the middle of it. A chance hit of the byte search on both ways into
 * one FDE does not happen.
 */
static size_t find_cold(const struct runtime *rt, uint64_t lo, uint64_t hi, struct ruby_range *out)
{
	size_t n = hi - lo, nr = 0;
	uint8_t *code;
	int32_t rel;

	if (n > 1 << 20 || (code = malloc(n)) == NULL)
		return 0;
	if (dso_read(rt->dso, lo, code, n) != 0)
		n = 0;
	for (size_t i = 0; i + 6 <= n && nr < RUBY_MAX_COLD; i++) {
		bool jcc = code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80, seen = false;
		uint64_t to, start, end;

		if (!jcc && code[i] != 0xe9)
			continue;
		memcpy(&rel, code + i + 1 + jcc, 4);
		to = lo + i + 5 + jcc + (uint64_t)(int64_t)rel;
		if (in_range(to, lo, hi) || !dso_fde_at(rt->dso, to, &start, &end))
			continue;
		for (size_t k = 0; k < nr; k++)
			seen |= out[k].lo == start + rt->bias;
		if (!seen && is_cold_name(rt, start) && jumps_into(rt, start, end, lo, hi))
			out[nr++] = (struct ruby_range){start + rt->bias, end + rt->bias};
	}
	free(code);
	return nr;
}

/* Adds the functions of one segment that call `callee`. At most max are counted. */
static size_t find_callers(const struct runtime *rt, uint64_t callee, uint64_t vaddr,
        const uint8_t *text, size_t n, struct ruby_range *out, size_t nr, size_t max)
{
	const uint8_t *p = text, *end = text + n;
	int32_t rel;

	while ((p = memchr(p, 0xe8, (size_t)(end - p))) != NULL && end - p >= 5) {
		uint64_t at = vaddr + (uint64_t)(p - text), start, fde_end;
		bool seen = false;

		memcpy(&rel, p + 1, 4);
		p++;
		if (at + 5 + (uint64_t)(int64_t)rel != callee ||
		        !dso_fde_at(rt->dso, at, &start, &fde_end))
			continue;
		for (size_t i = 0; i < nr; i++)
			seen |= out[i].lo == start;
		if (!seen && nr < max)
			out[nr++] = (struct ruby_range){start, fde_end};
	}
	return nr;
}
/* The executable segment that vaddr is in. */
static void find_text(struct runtime *rt, uint64_t vaddr)
{
	uint64_t lo, size;

	for (size_t i = 0; dso_text_segment(rt->dso, i, &lo, &size); i++)
		if (vaddr - lo < size) {
			rt->proc.text_lo = lo + rt->bias;
			rt->proc.text_hi = lo + size + rt->bias;
		}
}

static int find_loop(struct runtime *rt, uint64_t insn, struct err *err)
{
	const struct dso_symbol *sym = dso_find_symbol(rt->dso, "rb_vm_exec");
	uint64_t core_lo, core_hi, lo = 0, hi = 0, vaddr, size;
	struct ruby_range caller[4];
	size_t nr = 0;

	if (!dso_fde_at(rt->dso, insn - rt->bias, &core_lo, &core_hi))
		return err_set(err, -ENOTSUP,
		        "%s has no unwind information for Ruby's interpreter loop at %#" PRIx64,
		        dso_path(rt->dso), insn - rt->bias);
	for (size_t i = 0; dso_text_segment(rt->dso, i, &vaddr, &size); i++) {
		uint8_t *text = size <= MAX_TEXT ? malloc(size) : NULL;

		if (text != NULL && dso_read(rt->dso, vaddr, text, size) == 0)
			nr = find_callers(
			        rt, core_lo, vaddr, text, size, caller, nr, ARRAY_SIZE(caller));
		free(text);
	}
	if (sym != NULL && !dso_fde_at(rt->dso, sym->vaddr, &lo, &hi))
		sym = NULL;
	if (sym == NULL && nr == 0)
		return err_set(err, -ENOTSUP, "nothing in %s calls Ruby's interpreter loop",
		        dso_path(rt->dso));
	if (sym == NULL) {
		lo = caller[0].lo;
		hi = caller[0].hi;
	}
	rt->nr_exec_cold = find_cold(rt, lo, hi, rt->exec_cold);
	rt->nr_core_cold = find_cold(rt, core_lo, core_hi, rt->core_cold);
	/* All calls stand in one function, its moved-out parts included. */
	for (size_t i = 0; i < nr; i++) {
		bool known = caller[i].lo == lo;

		for (size_t k = 0; k < rt->nr_exec_cold; k++)
			known |= caller[i].lo + rt->bias == rt->exec_cold[k].lo;
		if (!known)
			return err_set(err, -ENOTSUP,
			        "the function that runs Ruby's interpreter loop in %s cannot be "
			        "told: both %#" PRIx64 " and %#" PRIx64 " call it",
			        dso_path(rt->dso), lo, caller[i].lo);
	}
	rt->from.vm_exec = sym == NULL ? "only caller of the loop"
	                   : nr == 0   ? "rb_vm_exec"
	                               : "rb_vm_exec and only caller of the loop";
	rt->from.vm_core = "address of an instruction";
	rt->proc.vm_exec_lo = lo + rt->bias;
	rt->proc.vm_exec_hi = hi + rt->bias;
	rt->proc.vm_core_lo = core_lo + rt->bias;
	rt->proc.vm_core_hi = core_hi + rt->bias;
	find_text(rt, lo);
	return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

static int find_names(struct runtime *rt, struct err *err)
{
	struct ruby_objects *o = &rt->objects;
	uint64_t vaddr = 0, ids, object;
	struct ruby_class_name class;
	struct ruby_id_code id;
	uint8_t code[CODE_SZ];
	size_t n;
	int rc;

	*o = (struct ruby_objects){
	        .l = rt->l, .target = &rt->target, .last_op_id = rt->l->last_op_id};
	n = read_code(rt, "rb_id2str", code, &vaddr);
	if (!ruby_decode_id2str(code, n, vaddr, &id))
		return err_set(err, -ENOTSUP, "the code of rb_id2str in %s is not known to rprof",
		        dso_path(rt->dso));
	if (id.last_op_id != rt->l->last_op_id)
		return disagree(rt, "tLAST_OP_ID", (int64_t)id.last_op_id, rt->l->last_op_id, err);
	if (id.lookup != 0) {
		vaddr = id.lookup;
		n = read_code_at(rt, vaddr, code);
	}
	if (!ruby_decode_ids(code, n, vaddr, &ids))
		return err_set(err, -ENOTSUP,
		        "the code behind rb_id2str in %s is not known to rprof", dso_path(rt->dso));
	o->ids_addr = ids + rt->bias;
	rt->from.ids = "code of rb_id2str";

	/* rb_cObject is a Class whose name is known: the proof of strings, IDs and class paths. */
	if (!symbol_addr(rt, "rb_cObject", &vaddr) ||
	        target_read_u64(&rt->target, vaddr, &object) != 0 || !ruby_is_heap(object))
		return booting(rt, err);
	rc = 0;
	if (rt->l->class.style == RUBY_CLASS_IV_TBL)
		rc = ruby_class_calibrate(o, object);
	if (rc == 0)
		rc = ruby_class_read(o, object, &class);
	if (rc != 0 || class.singleton || strcmp(class.path, "Object") != 0)
		return err_set(err, -EINVAL,
		        "class Object in process %d is not as Ruby %s lays it out",
		        (int)rt->target.pid, rt->version);
	return 0;
}

/* ---- */

/* Executable memory of no file, with the rest of its reservation: what a JIT maps. */
static void find_jit(struct runtime *rt, const struct maps *maps)
{
	for (size_t i = 0; i < maps->nr && rt->nr_jit < RUBY_MAX_JIT; i++) {
		const struct mapping *m = &maps->v[i];
		struct ruby_range *last = rt->nr_jit > 0 ? &rt->jit[rt->nr_jit - 1] : NULL;
		uint64_t hi = m->end;

		if (!(m->prot & MAPS_PROT_EXEC) ||
		        (m->path[0] != '\0' && strncmp(m->path, "[anon:Ruby", 10) != 0))
			continue;
		for (size_t k = i + 1; k < maps->nr && maps->v[k].start == hi &&
		                       maps->v[k].prot == 0 && maps->v[k].path[0] != '/';
		        k++)
			hi = maps->v[k].end;
		if (last != NULL && last->hi == m->start)
			last->hi = hi;
		else
			rt->jit[rt->nr_jit++] = (struct ruby_range){m->start, hi};
	}
}

static void fill_proc(struct runtime *rt)
{
	const struct ruby_layout *l = rt->l;
	struct ruby_proc *p = &rt->proc;

	p->ec_vm_stack = l->ec.vm_stack;
	p->ec_vm_stack_size = l->ec.vm_stack_size;
	p->ec_cfp = l->ec.cfp;
	p->ec_thread = l->ec.thread_ptr;
	p->ec_machine_stack_start = l->ec.machine_stack_start;
	p->ec_machine_stack_maxsize = l->ec.machine_stack_maxsize;
	p->thread_ractor = l->thread.ractor;
	p->ractor_running = l->ractor.running;
	p->cfp_sz = l->cfp.sz;
	p->cfp_pc = l->cfp.pc;
	p->cfp_iseq = l->cfp.iseq;
	p->cfp_ep = l->cfp.ep;
	p->cfp_jit_return = l->cfp.jit_return;
}

int ruby_attach(const struct target *target, const struct maps *maps, struct dso_cache *dsos,
        struct runtime **out, struct err *err)
{
	const struct mapping *m = NULL;
	struct runtime *rt;
	uint64_t insn;
	int rc;

	rt = calloc(1, sizeof(*rt));
	if (rt == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	rt->target = *target;
	rt->target.pidfd = -1;
	rc = find_interpreter(target, maps, dsos, &rt->dso, &m, err);
	if (rc != 0)
		goto out;
	if (!dso_load_bias(rt->dso, m, &rt->bias)) {
		/* The analyzer doesn't know that err_set() returns what it is given: m is set.
		 * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		rc = err_set(err, -EINVAL, "the mapping of %s makes no sense", m->path);
		goto out;
	}
	if ((rc = find_version(rt, err)) != 0 || (rc = decode_ec(rt, err)) != 0 ||
	        (rc = decode_gvl(rt, err)) != 0 || (rc = find_vm(rt, err)) != 0 ||
	        (rc = find_tls(rt, err)) != 0 || (rc = validate_frames(rt, &insn, err)) != 0 ||
	        (rc = find_loop(rt, insn, err)) != 0 || (rc = find_names(rt, err)) != 0)
		goto out;
	fill_proc(rt);
	find_jit(rt, maps);
	if (rt->nr_jit > 0) {
		rt->proc.jit_lo = rt->jit[0].lo;
		rt->proc.jit_sz = rt->jit[0].hi - rt->jit[0].lo;
	}
	rc = ruby_cache_new(&rt->cache);
	if (rc != 0) {
		rc = err_set(err, rc, "out of memory");
		goto out;
	}
	ruby_gc_entries_find(rt);
	*out = rt;
	rt = NULL;
out:
	free(rt);
	return rc;
}

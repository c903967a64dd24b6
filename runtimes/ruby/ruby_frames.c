/* The walk of control frames in user space: at attach, and as the oracle of the kernel-side one. */
#include "runtimes/ruby/ruby_runtime.h"
#include <errno.h>
#include <string.h>

int ruby_thread_ec(const struct runtime *rt, uint64_t th, uint64_t *ec)
{
	int rc;

	if (!ruby_is_heap(th))
		return -EINVAL;
	rc = target_read_u64(&rt->target, th + rt->l->thread.ec, ec);
	return rc == 0 && !ruby_is_heap(*ec) ? -EINVAL : rc;
}

/* A circular list through {next, prev} nodes: the address of each entry whose node is at node_off.
 */
static size_t list_read(
        const struct runtime *rt, uint64_t head, uint64_t node_off, uint64_t *out, size_t max)
{
	uint64_t node;
	size_t nr = 0;

	if (target_read_u64(&rt->target, head, &node) != 0)
		return 0;
	while (nr < max && node != head && ruby_is_heap(node)) {
		out[nr++] = node - node_off;
		if (target_read_u64(&rt->target, node, &node) != 0)
			break;
	}
	return nr;
}

size_t ruby_threads_read(const struct runtime *rt, uint64_t *out, size_t max)
{
	uint64_t ractor[64];
	size_t nr_ractors, nr = 0;

	nr_ractors = list_read(rt, rt->vm + rt->l->vm.ractor_set, rt->l->ractor.vmlr_node, ractor,
	        ARRAY_SIZE(ractor));
	for (size_t i = 0; i < nr_ractors; i++)
		nr += list_read(rt, ractor[i] + rt->l->ractor.threads_set, rt->l->thread.lt_node,
		        out + nr, max - nr);
	return nr;
}

/* The method word of the local environment, or of the first bmethod environment on the way. */
static void read_method(const struct runtime *rt, uint64_t ep, struct interp_frame *f)
{
	uint64_t env[3];

	for (int hop = 0; hop <= RUBY_MAX_EP_HOPS; hop++) {
		if (target_read(&rt->target, ep - 16, env, sizeof(env)) != 0) {
			f->extra |= INTERP_F_EP_FAULT;
			return;
		}
		if (hop == 0)
			f->flags = (uint32_t)env[2];
		if (ruby_env_has_method(env[2])) {
			f->method = env[0];
			return;
		}
		ep = ruby_env_outer(env[1]);
	}
	f->extra |= INTERP_F_EP_HOPS;
}

int ruby_frames_read(const struct runtime *rt, uint64_t ec, struct interp_frame *out, size_t max)
{
	const struct ruby_layout *l = rt->l;
	uint64_t stack, size, cfp, end;
	uint8_t buf[INTERP_CONTEXT_SZ];
	int nr = 0, rc;

	rc = target_read(&rt->target, ec, buf, sizeof(buf));
	if (rc != 0)
		return rc;
	stack = ruby_word(buf, l->ec.vm_stack);
	size = ruby_word(buf, l->ec.vm_stack_size);
	cfp = ruby_word(buf, l->ec.cfp);
	if (!ruby_is_heap(stack) || size == 0 || size > 1ULL << 28)
		return -EINVAL;
	end = stack + size * 8;
	if (cfp < stack || cfp > end || (end - cfp) % l->cfp.sz != 0)
		return -EINVAL;
	for (; cfp < end && (size_t)nr < max; cfp += l->cfp.sz) {
		struct interp_frame f = {0};
		uint8_t frame[64];

		rc = target_read(&rt->target, cfp, frame, l->cfp.sz);
		if (rc != 0)
			return rc;
		f.pc = ruby_word(frame, l->cfp.pc);
		f.code = ruby_word(frame, l->cfp.iseq);
		if (l->cfp.jit_return && ruby_word(frame, l->cfp.jit_return))
			f.extra |= INTERP_F_JIT;
		read_method(rt, ruby_word(frame, l->cfp.ep), &f);
		out[nr++] = f;
	}
	return nr;
}

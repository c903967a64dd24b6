/* An extension whose Init_ burns CPU, and whose Init_ runs Ruby code that does. The place is in
 * truth.so. */
#include <ruby.h>

#define KEPT       __attribute__((noinline, noclone))
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

static KEPT void init_helper(void)
{
	VALUE(*burn)
	(VALUE, VALUE) = (VALUE(*)(VALUE, VALUE))NUM2ULL(rb_eval_string("Truth::BURN_ADDR"));

	burn(Qnil, INT2FIX(0));
	KEEP_FRAME;
}

void Init_truth_init(void)
{
	init_helper();
	rb_funcall(rb_cObject, rb_intern("from_init"), 0);
	KEEP_FRAME;
}

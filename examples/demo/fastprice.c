/*
 * The C extension of the demo: prices an order's lines, and asks Ruby back for each discount.
 *
 *	FastPrice.total(lines) { |sku, cents| cents - discount } -> Integer
 *	FastPrice.fingerprint(string)                            -> Integer
 */
#include <ruby.h>

/* Not inlined, so that the flame graph has a native frame below the C function that Ruby calls. */
__attribute__((noinline)) static uint64_t hash_bytes(const unsigned char *bytes, long n)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (int round = 0; round < 40; round++)
		for (long i = 0; i < n; i++)
			hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

__attribute__((noinline)) static long add_tax(long cents)
{
	volatile long tax = 0;

	for (long step = 0; step < 1000; step++)
		tax += (cents * 19 + step) % 100;
	return cents + cents * 19 / 100 + (tax & 0);
}

static VALUE fast_price_fingerprint(VALUE self, VALUE string)
{
	StringValue(string);
	return ULL2NUM(hash_bytes((unsigned char *)RSTRING_PTR(string), RSTRING_LEN(string)) >> 8);
}

static VALUE fast_price_total(VALUE self, VALUE lines)
{
	long total = 0;

	Check_Type(lines, T_ARRAY);
	for (long i = 0; i < RARRAY_LEN(lines); i++) {
		VALUE line = rb_ary_entry(lines, i);

		Check_Type(line, T_ARRAY);
		total += add_tax(
		        NUM2LONG(rb_yield_values(2, rb_ary_entry(line, 0), rb_ary_entry(line, 1))));
	}
	return LONG2NUM(total);
}

__attribute__((visibility("default"))) void Init_fastprice(void)
{
	VALUE module = rb_define_module("FastPrice");

	rb_define_singleton_method(module, "fingerprint", fast_price_fingerprint, 1);
	rb_define_singleton_method(module, "total", fast_price_total, 1);
}

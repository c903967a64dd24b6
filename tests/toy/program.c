/*
 * A program with an interpreter that is none: toy_call() runs a C function under a made-up name,
 * and keeps the names of those that run in toy_stack. Says "ready" in the innermost one, and works
 * there for ever.
 */
#include "tests/toy/runtime/toy_abi.h"
#include <stdint.h>
#include <stdio.h>

#define NAMED(text, at) (&(const struct toy_code){.name = text, .line = at})

struct toy_stack toy_stack;

/* The interpreter: each activation runs one made-up frame. */
__attribute__((noinline)) void toy_call(const struct toy_code *code, void (*body)(void))
{
	toy_stack.code[toy_stack.depth++] = (uintptr_t)code;
	body();
	toy_stack.depth--;
}

__attribute__((noinline)) void work(void)
{
	puts("ready");
	fflush(stdout);
	for (volatile uint64_t i = 0;; i++)
		;
}

__attribute__((noinline)) void library(void)
{
	toy_call(NAMED("Toy.inner", 3), work);
	toy_stack.depth |= 0; /* no tail call */
}

__attribute__((noinline)) void start(void)
{
	toy_call(NAMED("Toy.middle", 2), library);
	toy_stack.depth |= 0;
}

int main(void)
{
	toy_call(NAMED("Toy.outer", 1), start);
	return 0;
}

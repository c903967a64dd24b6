#include "record/trigger.h"

#include "base/base.h"
#include "record/syscalls.h"

#include <stdio.h>

const struct trigger triggers[NR_TRIGGERS] = {
        {
                .number = TRIGGER_CPU,
                .name = "cpu",
                .unit = "ns",
                .program = "on_cpu_clock",
                .attach = ATTACH_CLOCK,
                .weight = WEIGHT_PERIOD,
        },
        {
                .number = TRIGGER_SYSCALL,
                .name = "syscall",
                .unit = "calls",
                .program = "on_sys_enter",
                .attach = ATTACH_SYSCALLS,
                .weight = WEIGHT_ONE,
                .has_calls = true,
        },
};

bool trigger_is_on(const struct trigger *t, const struct trigger_options *options)
{
	switch (t->attach) {
	case ATTACH_CLOCK:
		return options->rate_hz != 0;
	case ATTACH_SYSCALLS:
		return options->nr_syscalls != 0;
	}
	return false;
}

const struct trigger *trigger_find(uint32_t number)
{
	for (size_t i = 0; i < NR_TRIGGERS; i++)
		if (triggers[i].number == number)
			return &triggers[i];
	return NULL;
}

void trigger_name(const struct trigger *t, uint32_t call, char *out, size_t out_sz)
{
	const char *known = t->has_calls ? syscall_name(call) : NULL;

	if (!t->has_calls)
		snprintf(out, out_sz, "%s", t->name);
	else if (known != NULL)
		snprintf(out, out_sz, "%s:%s", t->name, known);
	else
		snprintf(out, out_sz, "%s:%u", t->name, call);
}

bool trigger_frame(
        const struct trigger *t, uint32_t call, struct frame *f, char *name, size_t name_sz)
{
	const char *known = t->has_calls ? syscall_name(call) : NULL;

	if (!t->has_calls)
		return false;
	snprintf(name, name_sz, "syscall_%u", call);
	*f = (struct frame){.kind = FRAME_KERNEL,
	        .role = ROLE_SYSCALL,
	        .library = "[kernel]",
	        .name = known != NULL ? known : name};
	return true;
}

uint64_t trigger_weight(const struct trigger *t, const struct trigger_options *options,
        const struct rprof_sample *s)
{
	if (s->weight != 0)
		return s->weight;
	return t->weight == WEIGHT_PERIOD && options->rate_hz != 0
	               ? 1000000000ULL / options->rate_hz
	               : 1;
}

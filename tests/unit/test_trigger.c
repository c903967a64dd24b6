/* The table of triggers, and what follows from a row. */
#include "record/trigger.h"
#include "record/syscalls.h"
#include "tests/unit/tap.h"

#include <string.h>

static const uint32_t calls[] = {257};
static const struct trigger_options both = {.rate_hz = 99, .syscalls = calls, .nr_syscalls = 1};

TEST(each_row_is_complete_and_found_by_its_number)
{
	for (size_t i = 0; i < NR_TRIGGERS; i++) {
		const struct trigger *t = &triggers[i];

		CHECK(t->name != NULL && t->unit != NULL && t->program != NULL);
		CHECK(trigger_find(t->number) == t);
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(t->name, triggers[j].name) != 0);
	}
	CHECK(trigger_find(0) == NULL);
	CHECK(trigger_find(UINT32_MAX) == NULL);
}

TEST(a_trigger_is_on_where_its_events_are_asked_for)
{
	const struct trigger *cpu = trigger_find(TRIGGER_CPU),
	                     *syscall = trigger_find(TRIGGER_SYSCALL);
	struct trigger_options options = {.rate_hz = 1};

	CHECK(trigger_is_on(cpu, &options) && !trigger_is_on(syscall, &options));
	options = (struct trigger_options){.syscalls = calls, .nr_syscalls = 1};
	CHECK(!trigger_is_on(cpu, &options) && trigger_is_on(syscall, &options));
	CHECK(trigger_is_on(cpu, &both) && trigger_is_on(syscall, &both));
}

/* docs/recording.md */
TEST(names_and_units_are_those_of_recordings)
{
	char name[64];

	trigger_name(trigger_find(TRIGGER_CPU), 7, name, sizeof(name));
	CHECK_STR(name, "cpu");
	CHECK_STR(trigger_find(TRIGGER_CPU)->unit, "ns");
	trigger_name(trigger_find(TRIGGER_SYSCALL), 257, name, sizeof(name));
	CHECK_STR(name, "syscall:openat");
	trigger_name(trigger_find(TRIGGER_SYSCALL), RPROF_MAX_SYSCALL - 1, name, sizeof(name));
	CHECK_STR(name, "syscall:1023");
	CHECK_STR(trigger_find(TRIGGER_SYSCALL)->unit, "calls");
}

TEST(a_system_call_is_the_innermost_frame)
{
	struct frame f = {0};
	char name[32];

	CHECK(!trigger_frame(trigger_find(TRIGGER_CPU), 257, &f, name, sizeof(name)));
	CHECK(trigger_frame(trigger_find(TRIGGER_SYSCALL), 257, &f, name, sizeof(name)));
	CHECK_STR(f.name, "openat");
	CHECK_EQ(f.role, ROLE_SYSCALL);
	CHECK_EQ(f.kind, FRAME_KERNEL);
	CHECK(trigger_frame(trigger_find(TRIGGER_SYSCALL), 1000, &f, name, sizeof(name)));
	CHECK_STR(f.name, "syscall_1000");
}

TEST(the_record_s_weight_comes_first_then_the_row_s)
{
	struct rprof_sample s = {0};

	CHECK_EQ(trigger_weight(trigger_find(TRIGGER_CPU), &both, &s), 10101010);
	CHECK_EQ(trigger_weight(trigger_find(TRIGGER_SYSCALL), &both, &s), 1);
	s.weight = 5000000000;
	CHECK_EQ(trigger_weight(trigger_find(TRIGGER_CPU), &both, &s), 5000000000);
	CHECK_EQ(trigger_weight(trigger_find(TRIGGER_SYSCALL), &both, &s), 5000000000);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

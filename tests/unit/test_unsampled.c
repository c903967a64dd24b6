#include "record/unsampled.h"
#include "tests/unit/tap.h"

TEST(cpu_time_that_is_worth_ten_samples_must_show)
{
	CHECK(is_unsampled(0, 1000000000, 99));
	CHECK(is_unsampled(0, 102000000, 99));
	CHECK(!is_unsampled(0, 100000000, 99));
	CHECK(is_unsampled(0, 10000000, 1000));
	CHECK(!is_unsampled(0, 9999999, 1000));
}

TEST(one_sample_is_a_sample)
{
	CHECK(!is_unsampled(1, 3600000000000, 99));
}

TEST(an_idle_process_is_no_error)
{
	CHECK(!is_unsampled(0, 0, 99));
	CHECK(!is_unsampled(0, 0, 100000));
}

TEST(system_calls_alone_ask_for_no_cpu_samples)
{
	CHECK(!is_unsampled(0, 3600000000000, 0));
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

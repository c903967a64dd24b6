/* The list of runtimes: user space and the kernel side must mean the same one by the same id. */
#include "base/base.h"
#include "runtimes/runtime.h"
#include "tests/unit/tap.h"
#include <errno.h>

static const struct runtime_ops one = {.name = "one", .id = 1, .config_sz = 16};

/* What the kernel side would say of its walks. */
static int check(const struct runtime_ops *ops, uint32_t size_of_1, uint32_t size_of_2, char *said)
{
	const uint32_t config_sz[] = {0, size_of_1, size_of_2};
	struct err err = {0};
	int rc = runtime_check_walk(ops, config_sz, ARRAY_SIZE(config_sz), &err);

	snprintf(said, ERR_MSG_SZ, "%s", err.msg);
	return rc;
}

TEST(a_walk_of_the_same_id_and_size_is_the_runtimes_own)
{
	char said[ERR_MSG_SZ];

	CHECK_EQ(check(&one, 16, 0, said), 0);
}

TEST(a_runtime_without_a_walk_is_refused_with_a_sentence)
{
	const struct runtime_ops third = {.name = "third", .id = 3, .config_sz = 16};
	const struct runtime_ops none = {.name = "none", .id = RUNTIME_NONE, .config_sz = 16};
	char said[ERR_MSG_SZ];

	CHECK_EQ(check(&one, 0, 16, said), -EINVAL);
	CHECK(strstr(said, "no walk for one (runtime 1)") != NULL);
	CHECK_EQ(check(&third, 16, 16, said), -EINVAL);
	CHECK(strstr(said, "no walk for third (runtime 3)") != NULL);
	CHECK_EQ(check(&none, 16, 16, said), -EINVAL);
}

TEST(a_walk_that_takes_another_size_is_refused_with_a_sentence)
{
	const struct runtime_ops large = {
	        .name = "large", .id = 2, .config_sz = RPROF_CONFIG_SZ + 8};
	char said[ERR_MSG_SZ];

	CHECK_EQ(check(&one, 24, 16, said), -EINVAL);
	CHECK(strstr(said, "for one (runtime 1) takes 24 bytes") != NULL);
	CHECK_EQ(check(&large, 16, RPROF_CONFIG_SZ + 8, said), -EINVAL);
}

TEST(each_runtime_of_the_list_has_an_id_of_its_own)
{
	for (size_t i = 0; runtimes[i] != NULL; i++) {
		CHECK(runtimes[i]->id != RUNTIME_NONE && runtimes[i]->id <= MAX_RUNTIME_ID);
		CHECK(runtimes[i]->config_sz <= RPROF_CONFIG_SZ);
		for (size_t j = 0; j < i; j++)
			CHECK(runtimes[i]->id != runtimes[j]->id);
	}
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

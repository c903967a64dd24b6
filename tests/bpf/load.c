/*
 * Loads each BPF program as a recording does and compares how many instructions the verifier went
 * through with the committed budget (tests/bpf/budget): a walk that nears the kernel's limit of a
 * million is noticed long before.
 */
#include "bpf/rprof.skel.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool budget_find(const char *path, const char *name, unsigned *budget)
{
	char line[256], key[64];
	unsigned value;
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		if (line[0] != '#' && sscanf(line, "%63s %u", key, &value) == 2 &&
		        strcmp(key, name) == 0)
			found = true;
	if (f != NULL)
		fclose(f);
	if (found)
		*budget = value;
	return found;
}

static bool check_program(struct bpf_program *prog, const char *budget_path, int number)
{
	const char *name = bpf_program__name(prog);
	struct bpf_prog_info info = {0};
	unsigned len = sizeof(info), budget = 0;
	bool ok = false;

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len) == 0)
		ok = budget_find(budget_path, name, &budget) && info.verified_insns <= budget;
	printf("%s %d - %s: the verifier went through %u instructions, the budget is %u\n",
	        ok ? "ok" : "not ok", number, name, info.verified_insns, budget);
	return ok;
}

int main(int argc, char **argv)
{
	struct rprof_bpf *skel = rprof_bpf__open_and_load();
	struct bpf_program *prog;
	int number = 0, nr_failed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: load BUDGET\n");
		return 2;
	}
	if (skel == NULL) {
		printf("not ok 1 - the BPF programs load: %s\n1..1\n", strerror(errno));
		return 1;
	}
	bpf_object__for_each_program(prog, skel->obj) nr_failed +=
	        !check_program(prog, argv[1], ++number);
	printf("1..%d\n", number);
	rprof_bpf__destroy(skel);
	return nr_failed != 0;
}

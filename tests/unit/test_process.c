/* A process whose image changes: what it runs is looked for for as long as it may still come. */
#include "record/process.h"
#include "runtimes/runtime.h"
#include "tests/unit/rubies.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Says what it is and waits for a line, before it becomes the next: Ruby, a shell, Ruby. */
struct program {
	pid_t pid;
	FILE *in, *out;
};

static bool program_start(struct program *p)
{
	struct test_ruby ruby;
	int to[2], from[2];
	char script[1024];

	if (!test_ruby_find(FIRST_RUBY, &ruby))
		return false;
	if (ruby.argv[0] != ruby.text[0]) {
		tap_skip("Ruby %s is not installed", FIRST_RUBY);
		return false;
	}
	snprintf(script, sizeof(script),
	        "$stdout.sync = true; puts 1; gets; exec('/bin/sh', '-c', %%q(echo 2; read x; exec "
	        "%s -W0 --disable-gems -e '$stdout.sync = true; puts 3; gets'))",
	        ruby.argv[0]);
	if (pipe(to) != 0 || pipe(from) != 0)
		abort();
	p->pid = fork();
	if (p->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		close(from[0]);
		execl(ruby.argv[0], ruby.argv[0], "-W0", "--disable-gems", "-e", script, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->in = fdopen(to[1], "w");
	p->out = fdopen(from[0], "r");
	return true;
}

static int program_says(struct program *p)
{
	char line[64];

	return fgets(line, sizeof(line), p->out) != NULL ? atoi(line) : -1;
}

static void program_go_on(struct program *p)
{
	fputs("\n", p->in);
	fflush(p->in);
}

static void program_end(struct program *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	fclose(p->in);
	fclose(p->out);
}

/* As the recorder does, ten times a second. */
static int look_again(struct process *p)
{
	process_refresh_maps(p, NULL);
	return process_reattach(p, NULL);
}

static void check_images(struct program *program, struct process *p)
{
	CHECK(p->ops != NULL);
	program_go_on(program);
	REQUIRE(program_says(program) == 2);
	CHECK_EQ(process_refresh_maps(p, NULL), 1);
	CHECK(p->ops == NULL && p->lost_runtime);
	/* A shell that waits for long is no interpreter that starts. */
	for (int i = 0; i < 1000 && p->lost_runtime; i++)
		CHECK_EQ(-look_again(p), ENOENT);
	CHECK(!p->lost_runtime);
	program_go_on(program);
	REQUIRE(program_says(program) == 3);
	CHECK_EQ(process_refresh_maps(p, NULL), 1);
	CHECK(p->lost_runtime);
	CHECK_EQ(look_again(p), 0);
	CHECK(p->ops != NULL && !p->lost_runtime);
}

TEST(an_interpreter_that_comes_after_a_long_time_is_found)
{
	struct dso_cache *dsos = NULL;
	struct process *p = NULL;
	struct program program;
	struct err err = {0};

	if (!program_start(&program))
		return;
	if (program_says(&program) == 1 && dso_cache_new(&dsos) == 0 &&
	        process_new(program.pid, dsos, &p, &err) == 0)
		check_images(&program, p);
	else
		TAP_FAIL("cannot attach: %s", err.msg);
	process_free(p);
	dso_cache_free(dsos);
	program_end(&program);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	return tap_run(argc, argv);
}

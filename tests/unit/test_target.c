#include "symbolizer/target.h"
#include "tests/unit/tap.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The same address in parent and child; only the child writes to it. */
static char words[4096] __attribute__((aligned(4096)));

struct child {
	pid_t pid;
	int go; /* closing it ends the child */
};

/* A child that has written its words and waits. */
static bool child_start(struct child *c, const char *comm)
{
	int ready[2], go[2];
	char byte;

	if (pipe(ready) != 0 || pipe(go) != 0)
		return false;
	c->pid = fork();
	if (c->pid == 0) {
		close(go[1]);
		if (comm != NULL)
			prctl(PR_SET_NAME, comm);
		memcpy(words, "the child's words", 18);
		memcpy(words + 64, &(uint64_t){0x1122334455667788}, 8);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	close(ready[1]);
	close(go[0]);
	c->go = go[1];
	bool ok = c->pid > 0 && read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return ok;
}

static void child_end(struct child *c)
{
	close(c->go);
	kill(c->pid, SIGKILL); /* a later child may have inherited the other end */
	waitpid(c->pid, NULL, 0);
}

TEST(what_another_process_wrote_can_be_read)
{
	struct child c;
	struct target t;
	char text[18] = "";
	uint64_t u64 = 0;
	uint32_t u32 = 0;

	REQUIRE(child_start(&c, NULL));
	REQUIRE(target_open(&t, c.pid, NULL) == 0);
	CHECK_EQ(target_read(&t, (uintptr_t)words, text, 17), 0);
	CHECK_STR(text, "the child's words");
	CHECK_EQ(target_read_u64(&t, (uintptr_t)words + 64, &u64), 0);
	CHECK_EQ(u64, 0x1122334455667788);
	CHECK_EQ(target_read_u32(&t, (uintptr_t)words + 64, &u32), 0);
	CHECK_EQ(u32, 0x55667788);
	target_close(&t);
	child_end(&c);
}

TEST(a_read_that_runs_off_the_mapping_fails_as_a_whole)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct target t;
	uint64_t v = 42;
	char out[64];

	REQUIRE(p != MAP_FAILED && munmap(p + 4096, 4096) == 0);
	REQUIRE(target_open(&t, getpid(), NULL) == 0);
	CHECK_EQ(target_read(&t, (uintptr_t)p + 4096 - 32, out, 32), 0);
	CHECK_EQ(target_read(&t, (uintptr_t)p + 4096 - 32, out, 33), -EFAULT);
	CHECK_EQ(target_read_u64(&t, (uintptr_t)p + 4096 - 4, &v), -EFAULT);
	CHECK_EQ(v, 42);
	CHECK_EQ(target_read(&t, 0, out, 1), -EFAULT);
	CHECK_EQ(target_read(&t, UINT64_MAX - 3, out, 8), -EFAULT);
	CHECK_EQ(target_read(&t, 1ULL << 63, out, 8), -EFAULT);
	CHECK_EQ(target_read(&t, 0, out, 0), 0);
	target_close(&t);
	munmap(p, 4096);
}

TEST(pieces_are_read_up_to_the_first_that_cannot_be)
{
	static uint64_t there[600];
	uint64_t got[ARRAY_SIZE(there)] = {0};
	struct target_piece pieces[ARRAY_SIZE(there)];
	struct target t;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(there); i++) {
		there[i] = i + 1;
		pieces[i] = (struct target_piece){
		        (uint64_t)(uintptr_t)&there[i], &got[i], sizeof(got[i])};
	}
	REQUIRE(target_open(&t, getpid(), &err) == 0);
	CHECK_EQ(target_read_pieces(&t, pieces, ARRAY_SIZE(there)), ARRAY_SIZE(there));
	CHECK(memcmp(got, there, sizeof(there)) == 0);
	for (size_t bad = 0; bad < ARRAY_SIZE(there); bad += 100) {
		uint64_t addr = pieces[bad].addr;

		pieces[bad].addr = 8;
		CHECK_EQ(target_read_pieces(&t, pieces, ARRAY_SIZE(there)), bad);
		pieces[bad].addr = addr;
	}
	CHECK_EQ(target_read_pieces(&t, pieces, 0), 0);
	target_close(&t);
}

TEST(a_process_that_is_not_there_cannot_be_opened)
{
	struct target t = {.pid = 77};
	struct err err = {0};

	CHECK_EQ(target_open(&t, 0x3fffffff, &err), -ESRCH);
	CHECK_EQ(err.code, -ESRCH);
	CHECK(strstr(err.msg, "1073741823") != NULL);
	CHECK_EQ(t.pid, 77);
	CHECK_EQ(target_open(&t, 0, &err), -ESRCH);
	CHECK_EQ(target_open(&t, -1, &err), -ESRCH);
}

TEST(an_exited_process_is_not_alive_even_before_it_is_reaped)
{
	struct child c;
	struct target t, zombie;
	siginfo_t info;
	char byte;
	struct err err;

	REQUIRE(child_start(&c, NULL));
	REQUIRE(target_open(&t, c.pid, NULL) == 0);
	CHECK(target_is_alive(&t));
	close(c.go);
	REQUIRE(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK(!target_is_alive(&t));
	CHECK_EQ(target_open(&zombie, c.pid, &err), -ESRCH);
	CHECK(strstr(err.msg, "exited") != NULL);
	waitpid(c.pid, NULL, 0);
	CHECK(!target_is_alive(&t));
	CHECK_EQ(target_read(&t, (uintptr_t)words, &byte, 1), -ESRCH);
	target_close(&t);
}

/* The name is the second field of /proc/PID/stat and not quoted. */
TEST(cpu_time_is_what_the_process_used_and_ends_with_it)
{
	uint64_t used = 0, later = 0, end;
	struct rusage ru;
	struct child c;
	struct target t, self;

	REQUIRE(target_open(&self, getpid(), NULL) == 0);
	REQUIRE(target_cpu_ns(&self, &used) == 0);
	end = used + 20000000;
	while (later < end && target_cpu_ns(&self, &later) == 0)
		;
	getrusage(RUSAGE_SELF, &ru);
	CHECK(used > 0 && later >= end);
	CHECK((uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec + 1) * 1000000000 > later);
	target_close(&self);

	REQUIRE(child_start(&c, NULL));
	REQUIRE(target_open(&t, c.pid, NULL) == 0);
	CHECK_EQ(target_cpu_ns(&t, &used), 0);
	child_end(&c);
	used = 7;
	CHECK(target_cpu_ns(&t, &used) < 0);
	CHECK_EQ(used, 7);
	target_close(&t);
}

TEST(a_name_made_to_look_like_fields_does_not_fool_the_start_time)
{
	struct child plain, odd;
	struct target a, b;

	REQUIRE(child_start(&plain, "plain") && child_start(&odd, "x) Z 1 1\n 5 5"));
	REQUIRE(target_open(&a, plain.pid, NULL) == 0);
	REQUIRE(target_open(&b, odd.pid, NULL) == 0);
	CHECK(target_is_alive(&b));
	/* Started one after the other: ticks of 10 ms. */
	CHECK(b.start_time >= a.start_time && b.start_time - a.start_time < 6000);
	target_close(&a);
	target_close(&b);
	child_end(&plain);
	child_end(&odd);
}

static void *idle(void *arg)
{
	char byte;
	pid_t tid = gettid();

	if (write(((int *)arg)[1], &tid, sizeof(tid)) == sizeof(tid))
		(void)!read(((int *)arg)[2], &byte, 1);
	return NULL;
}

TEST(a_thread_is_not_a_process)
{
	int up[2], down[2];
	struct target t;
	struct err err;
	pthread_t th;
	pid_t tid;

	REQUIRE(pipe(up) == 0 && pipe(down) == 0);
	int fds[] = {up[0], up[1], down[0]};
	REQUIRE(pthread_create(&th, NULL, idle, fds) == 0);
	REQUIRE(read(up[0], &tid, sizeof(tid)) == sizeof(tid));
	CHECK_EQ(target_open(&t, tid, &err), -ESRCH);
	CHECK(strstr(err.msg, "thread") != NULL);
	close(down[1]);
	pthread_join(th, NULL);
}

/* The kernel says EPERM to a user that is not the process's and has no capability. */
TEST(no_permission_names_the_remedy)
{
	struct child c;
	int status, result[2];
	struct err err = {0};

	if (geteuid() != 0)
		SKIP("needs root");
	REQUIRE(child_start(&c, NULL) && pipe(result) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct target t;

		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		int rc = target_open(&t, c.pid, &err);
		(void)!write(result[1], &err, sizeof(err));
		_exit(rc == -EPERM ? 0 : 1);
	}
	REQUIRE(read(result[0], &err, sizeof(err)) == (ssize_t)sizeof(err));
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(strstr(err.msg, "CAP_SYS_PTRACE") != NULL);
	child_end(&c);
}

static int made_up_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	if (addr < 16 || addr + n > 32)
		return -EFAULT;
	memcpy(out, (const char *)t->ctx + addr - 16, n);
	return 0;
}

TEST(memory_can_be_made_up)
{
	struct target t = {.pid = 1, .pidfd = -1, .read = made_up_read, .ctx = "0123456789abcdef"};
	char text[5] = "";

	CHECK(target_is_alive(&t));
	CHECK_EQ(target_read(&t, 20, text, 4), 0);
	CHECK_STR(text, "4567");
	CHECK_EQ(target_read(&t, 30, text, 4), -EFAULT);
	target_close(&t);
}

static int read_anything(const struct target *t, uint64_t addr, void *out, size_t n)
{
	memset(out, 7, n);
	return 0;
}

TEST(a_read_across_the_end_of_memory_is_none)
{
	struct target t = {.pidfd = -1, .read = read_anything};
	uint64_t v;

	CHECK_EQ(target_read(&t, UINT64_MAX - 3, &v, 8), -EFAULT);
	CHECK_EQ(target_read(&t, UINT64_MAX - 8, &v, 8), 0);
	CHECK_EQ(target_read_u64(&t, UINT64_MAX - 3, &v), -EFAULT);
}

/* The number of a process that has ended is given to another one. */
TEST(a_process_that_started_at_another_time_is_another)
{
	struct child c;
	struct target t;

	REQUIRE(child_start(&c, NULL) && target_open(&t, c.pid, NULL) == 0);
	CHECK(target_is_alive(&t));
	t.start_time++;
	CHECK(!target_is_alive(&t));
	target_close(&t);
	child_end(&c);
}

TEST(a_piece_that_can_be_read_in_part_is_not_read)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char whole[8], part[8];
	struct target t;

	REQUIRE(page != MAP_FAILED && mprotect(page + 4096, 4096, PROT_NONE) == 0);
	REQUIRE(target_open(&t, getpid(), NULL) == 0);
	const struct target_piece pieces[] = {
	        {(uint64_t)(uintptr_t)page, whole, sizeof(whole)},
	        {(uint64_t)(uintptr_t)page + 4092, part, sizeof(part)},
	        {(uint64_t)(uintptr_t)page, whole, sizeof(whole)},
	};

	CHECK_EQ(target_read_pieces(&t, pieces, 3), 1);
	target_close(&t);
	munmap(page, 8192);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

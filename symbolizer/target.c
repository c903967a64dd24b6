#include "symbolizer/target.h"
#include "base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

enum { STAT_SZ = 4096, MAX_PIECES = 256 };

/* The first line of a small file of /proc, without its newline. 0 or -errno. */
static int proc_read(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, out + len, n - 1 - len);
		if (got < 0 && errno != EINTR) {
			int rc = -errno;

			close(fd);
			return rc;
		}
		if (got > 0)
			len += (size_t)got;
	} while (got != 0 && len < n - 1);
	close(fd);
	out[len] = '\0';
	return 0;
}

/* State and start time. -ESRCH when there is no such process. */
static int proc_stat(pid_t pid, char *state, uint64_t *start_time)
{
	char path[64], text[STAT_SZ], *p;
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	rc = proc_read(path, text, sizeof(text));
	if (rc != 0)
		return rc == -ENOENT ? -ESRCH : rc;
	/* Field 2 is the program's name in parentheses and may itself hold parentheses, spaces and
	 * newlines; no later field does. */
	p = strrchr(text, ')');
	if (p == NULL || p[1] != ' ' || p[2] == '\0')
		return -EINVAL;
	p += 2;
	char st = *p;

	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (p == NULL)
			return -EINVAL;
		p++;
	}
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(p, &end, 10);
	if (errno != 0 || end == p)
		return -EINVAL;
	*state = st;
	*start_time = v;
	return 0;
}

static bool state_is_exited(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

static int target_read_process(const struct target *t, uint64_t addr, void *out, size_t n)
{
	char *to = out;

	while (n > 0) {
		struct iovec local = {.iov_base = to, .iov_len = n};
		struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = n};
		ssize_t got = process_vm_readv(t->pid, &local, 1, &remote, 1, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == ESRCH || errno == EPERM ? -errno : -EFAULT;
		if (got == 0)
			return -EFAULT;
		/* A short count means that the next page can't be read (or a signal came in
		 * between); the next round tells which. */
		to += got;
		addr += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

static int set_perm_err(struct err *err, pid_t pid)
{
	char scope[16] = "";

	if (geteuid() == 0)
		return err_set(err, -EPERM,
		        "process %d may not be looked at, not even by this root: CAP_SYS_PTRACE is "
		        "missing (a container?), or a security module protects the process",
		        (int)pid);

	if (proc_read("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)) != 0)
		return err_set(err, -EPERM,
		        "process %d may not be looked at: run as root or with "
		        "CAP_SYS_PTRACE",
		        (int)pid);
	scope[strcspn(scope, "\n")] = '\0';
	if (scope[0] >= '3')
		return err_set(err, -EPERM,
		        "process %d may not be looked at: kernel.yama.ptrace_scope is %s, "
		        "which forbids it to everybody until a reboot; it must be 2 or less",
		        (int)pid, scope);
	return err_set(err, -EPERM,
	        "process %d may not be looked at: run as root or with CAP_SYS_PTRACE "
	        "(for a process of the same user kernel.yama.ptrace_scope, which is %s, must be 0)",
	        (int)pid, scope);
}

/* /proc/PID/maps asks for the same permission as process_vm_readv. */
static int check_access(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? -EPERM : errno == ENOENT ? -ESRCH : -errno;
	close(fd);
	return 0;
}

/* Numbers of processes mean to the kernel what /proc shows only if both are of one namespace. */
static int check_proc(struct err *err)
{
	char self[24];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n < 0 && errno != ENOENT)
		return err_set(err, -errno, "/proc/self cannot be read: %s", strerror(errno));
	self[MAX(n, 0)] = '\0';
	if (strtol(self, NULL, 10) == (long)getpid())
		return 0;
	return err_set(err, -ENXIO,
	        "/proc is not of the PID namespace that rprof runs in: mount one that is "
	        "(mount -t proc proc /proc), or run rprof where /proc is from, with nsenter or on "
	        "the host");
}

int target_open(struct target *t, pid_t pid, struct err *err)
{
	uint64_t start_time, again;
	char state;
	int pidfd = -1, rc;

	rc = check_proc(err);
	if (rc != 0)
		return rc;
	if (pid <= 0)
		return err_set(err, -ESRCH,
		        "there is no process %d (`pgrep -a ruby` lists the Ruby processes)",
		        (int)pid);
	rc = proc_stat(pid, &state, &start_time);
	if (rc == 0) {
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0)
			rc = -errno;
	}
	/* The pidfd could be that of a later process with the same number. */
	if (rc == 0)
		rc = proc_stat(pid, &state, &again);
	if (rc == 0 && again != start_time)
		rc = -ESRCH;
	if (rc == 0 && state_is_exited(state)) {
		rc = err_set(err, -ESRCH, "process %d has exited", (int)pid);
		goto out;
	}
	if (rc == 0)
		rc = check_access(pid);
	if (rc == -ESRCH) {
		err_set(err, rc,
		        "there is no process %d (`pgrep -a ruby` lists the Ruby processes)",
		        (int)pid);
	} else if (rc == -EINVAL || rc == -ENOENT) {
		/* pidfd_open's answer for a thread that does not lead its process. */
		rc = err_set(err, -ESRCH, "%d is a thread, not a process", (int)pid);
	} else if (rc == -EPERM || rc == -EACCES) {
		rc = set_perm_err(err, pid);
	} else if (rc != 0) {
		err_set(err, rc, "cannot open process %d: %s", (int)pid, strerror(-rc));
	}
out:
	if (rc != 0) {
		if (pidfd >= 0)
			close(pidfd);
		return rc;
	}
	*t = (struct target){
	        .pid = pid,
	        .start_time = start_time,
	        .pidfd = pidfd,
	        .read = target_read_process,
	};
	return 0;
}

void target_close(struct target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	t->pidfd = -1;
}

bool target_is_alive(const struct target *t)
{
	struct pollfd pfd = {.fd = t->pidfd, .events = POLLIN};
	uint64_t start_time;
	char state;

	if (t->pidfd < 0)
		return t->read != target_read_process;
	/* A pidfd becomes readable when the last thread has exited, reaped or not. */
	if (poll(&pfd, 1, 0) > 0 && (pfd.revents & POLLIN) != 0)
		return false;
	if (proc_stat(t->pid, &state, &start_time) != 0)
		return false;
	/* 'Z' with a silent pidfd: the leading thread has left, others run on. */
	return start_time == t->start_time;
}

int target_cpu_ns(const struct target *t, uint64_t *out)
{
	struct timespec ts;
	clockid_t clock;
	int rc = clock_getcpuclockid(t->pid, &clock);

	if (rc != 0)
		return -rc;
	if (clock_gettime(clock, &ts) != 0)
		return -errno;
	*out = (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
	return 0;
}

int target_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	if (n == 0)
		return 0;
	if (addr + n < addr)
		return -EFAULT;
	return t->read(t, addr, out, n);
}

/* One system call for the first of them; how many it read whole. */
static size_t read_process_pieces(const struct target *t, const struct target_piece *v, size_t nr)
{
	struct iovec local[MAX_PIECES], remote[MAX_PIECES];
	size_t whole = 0;
	ssize_t got;

	nr = MIN(nr, (size_t)MAX_PIECES);
	for (size_t i = 0; i < nr; i++) {
		local[i] = (struct iovec){.iov_base = v[i].out, .iov_len = v[i].n};
		remote[i] =
		        (struct iovec){.iov_base = (void *)(uintptr_t)v[i].addr, .iov_len = v[i].n};
	}
	got = process_vm_readv(t->pid, local, nr, remote, nr, 0);
	for (; whole < nr && got >= (ssize_t)v[whole].n; whole++)
		got -= (ssize_t)v[whole].n;
	return whole;
}

size_t target_read_pieces(const struct target *t, const struct target_piece *v, size_t nr)
{
	size_t done = 0;

	while (done < nr) {
		if (t->read == target_read_process)
			done += read_process_pieces(t, v + done, nr - done);
		/* What cut it short may have been a signal. */
		if (done < nr && target_read(t, v[done].addr, v[done].out, v[done].n) != 0)
			break;
		done += done < nr;
	}
	return done;
}

int target_read_u64(const struct target *t, uint64_t addr, uint64_t *out)
{
	uint64_t v;
	int rc = target_read(t, addr, &v, sizeof(v));

	if (rc == 0)
		*out = v;
	return rc;
}

int target_read_u32(const struct target *t, uint64_t addr, uint32_t *out)
{
	uint32_t v;
	int rc = target_read(t, addr, &v, sizeof(v));

	if (rc == 0)
		*out = v;
	return rc;
}

/* rprof info: what rprof would see in a process and what not, and why. This is what a bug report
 * pastes. */
#include "cli/cmd.h"
#include "cli/options.h"
#include "record/process.h"
#include "symbolizer/kallsyms.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_SHOWN_THREADS = 256, TEXT_MAX = 4 << 20 };

static const char usage[] = {
#include "cli/usage/info.txt.inc"
        0};

/* One fact: a line "key: value" under its heading, or a member of the JSON object. */
struct facts {
	struct buf out;
	bool json;
	bool first;
};

static void facts_section(struct facts *f, const char *name)
{
	if (f->json)
		buf_printf(&f->out, "%s\"%s\":{", f->first ? "" : ",", name);
	else
		buf_printf(&f->out, "%s%s\n", f->out.len != 0 ? "\n" : "", name);
	f->first = true;
}

static void facts_section_end(struct facts *f)
{
	if (f->json)
		buf_puts(&f->out, "}");
	f->first = false;
}

static void facts_add(struct facts *f, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void facts_add(struct facts *f, const char *key, const char *fmt, ...)
{
	char value[2048];
	va_list args;

	va_start(args, fmt);
	vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	if (f->json) {
		buf_puts(&f->out, f->first ? "" : ",");
		buf_json_str(&f->out, key);
		buf_puts(&f->out, ":");
		buf_json_str(&f->out, value);
	} else {
		buf_printf(&f->out, "  %s: %s\n", key, value);
	}
	f->first = false;
}

static void word_of(const char *path, char *out, size_t n)
{
	struct buf b;

	buf_init(&b, 4096);
	snprintf(out, n, "unknown");
	if (buf_read_file(&b, path) == 0 && b.len != 0)
		snprintf(out, n, "%.*s", (int)strcspn(b.data, "\n"), b.data);
	buf_release(&b);
}

static uint64_t effective_capabilities(void)
{
	uint64_t caps = 0;
	char *line;
	struct buf b;

	buf_init(&b, 65536);
	if (buf_read_file(&b, "/proc/self/status") == 0 &&
	        (line = strstr(b.data, "CapEff:")) != NULL)
		caps = strtoull(line + 7, NULL, 16);
	buf_release(&b);
	return caps;
}

static void add_permissions(struct facts *f)
{
	/* include/uapi/linux/capability.h */
	static const struct {
		const char *name, *what;
		int bit;
	} caps[] = {
	        {"CAP_SYS_PTRACE", "reading another user's process", 19},
	        {"CAP_PERFMON", "sampling", 38},
	        {"CAP_BPF", "loading BPF programs", 39},
	        {"CAP_SYSLOG", "kernel symbols", 34},
	};
	uint64_t have = effective_capabilities();
	bool admin = have & 1ULL << 21;
	char word[64];

	facts_section(f, "permissions");
	facts_add(f, "user", "%u%s", (unsigned)geteuid(), geteuid() == 0 ? " (root)" : "");
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++)
		facts_add(f, caps[i].name, "%s (%s)",
		        have & 1ULL << caps[i].bit ? "yes"
		        : admin                    ? "by CAP_SYS_ADMIN"
		                                   : "no",
		        caps[i].what);
	word_of("/proc/sys/kernel/perf_event_paranoid", word, sizeof(word));
	facts_add(f, "kernel.perf_event_paranoid", "%s", word);
	word_of("/proc/sys/kernel/kptr_restrict", word, sizeof(word));
	facts_add(f, "kernel.kptr_restrict", "%s", word);
	word_of("/proc/sys/kernel/yama/ptrace_scope", word, sizeof(word));
	facts_add(f, "kernel.yama.ptrace_scope", "%s", word);
	facts_section_end(f);
}

static void add_kernel(struct facts *f)
{
	unsigned major = 0, minor = 0;
	struct kallsyms *k = NULL;
	struct err err = {0};
	struct utsname uts;
	char word[64];

	facts_section(f, "kernel");
	if (uname(&uts) == 0) {
		facts_add(f, "release", "%s %s", uts.release, uts.machine);
		if (sscanf(uts.release, "%u.%u", &major, &minor) == 2)
			facts_add(f, "bpf_loop", "%s",
			        major > 5 || (major == 5 && minor >= 17)
			                ? "yes"
			                : "no: Linux 5.17 or newer is needed");
	}
	facts_add(f, "BTF", "%s",
	        access("/sys/kernel/btf/vmlinux", R_OK) == 0
	                ? "/sys/kernel/btf/vmlinux"
	                : "missing: rprof needs CONFIG_DEBUG_INFO_BTF");
	if (kallsyms_new(&k, &err) == 0)
		facts_add(f, "kernel symbols", "readable");
	else
		facts_add(f, "kernel symbols", "no: %s", err.msg);
	kallsyms_free(k);
	word_of("/proc/sys/kernel/perf_event_max_sample_rate", word, sizeof(word));
	facts_add(f, "kernel.perf_event_max_sample_rate", "%s", word);
	facts_section_end(f);
}

static void add_threads(struct facts *f, pid_t pid)
{
	char path[64], comm_path[128], comm[64], key[32];
	size_t nr = 0;
	struct dirent *e;
	DIR *dir;

	facts_section(f, "threads");
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		if (nr++ < MAX_SHOWN_THREADS) {
			snprintf(comm_path, sizeof(comm_path), "%s/%.20s/comm", path, e->d_name);
			word_of(comm_path, comm, sizeof(comm));
			snprintf(key, sizeof(key), "%.20s", e->d_name);
			facts_add(f, key, "%s", comm);
		}
	}
	if (dir != NULL)
		closedir(dir);
	facts_add(f, "count", "%zu", nr);
	facts_section_end(f);
}

static void add_libraries(struct facts *f, struct process *p)
{
	facts_section(f, "libraries");
	for (size_t i = 0; i < p->maps.nr; i++) {
		const struct mapping *m = &p->maps.v[i];
		const struct unwind_table *t;
		char symbols[512], unwind[128], key[600];
		struct err err = {0};
		const struct mapping_info *info;
		struct dso *dso;

		if (!(m->prot & MAPS_PROT_EXEC))
			continue;
		info = process_mapping(p, m);
		dso = info->dso;
		if (info->kind == MAPPING_JIT) {
			snprintf(key, sizeof(key), "%#" PRIx64 "-%#" PRIx64, m->start, m->end);
			facts_add(f, key, "executable memory without a file: code of a JIT");
			continue;
		}
		snprintf(key, sizeof(key), "%.590s", m->path);
		if (dso == NULL) {
			if (strcmp(m->path, "[vsyscall]") != 0)
				facts_add(f, key,
				        "cannot be read: frames there have no names and end the "
				        "stack");
			continue;
		}
		t = dso_unwind_table(dso, &err);
		if (t != NULL)
			snprintf(unwind, sizeof(unwind),
			        "%zu unwind rows (%zu cannot be expressed)", t->nr_rows,
			        t->nr_unsupported);
		else
			snprintf(unwind, sizeof(unwind), "no unwind table: %.90s", err.msg);
		if (dso_describe_symbols(dso, symbols, sizeof(symbols)) == 0 && symbols[0] == '\0')
			snprintf(symbols, sizeof(symbols), "no symbols");
		facts_add(f, key, "%s; %s; build ID %s", symbols, unwind,
		        dso_build_id(dso)[0] != '\0' ? dso_build_id(dso) : "none");
	}
	facts_section_end(f);
}

/* The interpreter's facts; when it cannot be read, why. */
static void add_runtime(struct facts *f, const struct process *p, int rc, const struct err *err)
{
	facts_section(f, "runtime");
	if (p != NULL && p->rt != NULL) {
		p->ops->describe(p->rt, &f->out, f->json);
	} else {
		facts_add(f, "unusable", "%s", err->msg[0] != '\0' ? err->msg : strerror(-rc));
	}
	facts_section_end(f);
}

static int print_info(pid_t pid, bool json)
{
	struct facts f = {.json = json, .first = true};
	struct dso_cache *dsos = NULL;
	struct process *p = NULL;
	struct err err = {0};
	int rc, code = EXIT_OK;

	if (dso_cache_new(&dsos) != 0)
		return cli_fail(EXIT_INTERNAL, "out of memory");
	rc = process_new(pid, dsos, &p, &err);
	if (rc == -ESRCH) {
		dso_cache_free(dsos);
		return cli_fail(EXIT_NO_PROCESS, "%s", err.msg);
	}
	if (rc == -ENOENT && err.msg[0] == '\0')
		err_set(&err, rc, "no Ruby that rprof knows runs in this process");
	buf_init(&f.out, TEXT_MAX);
	if (json)
		buf_puts(&f.out, "{");
	facts_section(&f, "rprof");
	facts_add(&f, "version", "%s", RPROF_VERSION);
	facts_section_end(&f);
	facts_section(&f, "process");
	facts_add(&f, "pid", "%d", (int)pid);
	if (p != NULL) {
		facts_add(&f, "name", "%s", p->comm);
		facts_add(&f, "command", "%s", p->command_line != NULL ? p->command_line : "");
	}
	facts_section_end(&f);
	add_runtime(&f, p, rc, &err);
	add_threads(&f, pid);
	if (p != NULL)
		add_libraries(&f, p);
	add_kernel(&f);
	add_permissions(&f);
	if (json)
		buf_puts(&f.out, "}\n");
	if (f.out.failed)
		code = cli_fail(EXIT_INTERNAL, "out of memory");
	else
		fwrite(f.out.data, 1, f.out.len, stdout);
	if (rc != 0 && code == EXIT_OK) {
		cli_fail(EXIT_INTERNAL, "%s", err.msg);
		code = rc == -ENOENT                   ? EXIT_NOT_RUBY
		       : rc == -ENOTSUP                ? EXIT_UNSUPPORTED
		       : rc == -EPERM || rc == -EACCES ? EXIT_PERMISSION
		                                       : EXIT_INTERNAL;
	}
	buf_release(&f.out);
	process_free(p);
	dso_cache_free(dsos);
	rc = cli_finish_stdout();
	return code != EXIT_OK ? code : rc;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = {
	        {"pid", required_argument, NULL, 'p'},
	        {"json", no_argument, NULL, 'j'},
	        {"help", no_argument, NULL, 'h'},
	        {NULL, 0, NULL, 0},
	};
	pid_t *pids = NULL;
	struct err err = {0};
	bool json = false;
	size_t nr = 0;
	int opt, code;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":p:h", longs, NULL)) != -1) {
		if (opt == 'h')
			return cli_usage(&cmd_info);
		if (opt == 'j')
			json = true;
		else if (opt == ':')
			return cli_bad_usage(
			        &cmd_info, "option %s needs a value", argv[optind - 1]);
		else if (opt != 'p')
			return cli_bad_usage(&cmd_info, "there is no option %s", argv[optind - 1]);
		else if (option_pids("-p", optarg, &pids, &nr, &err) != 0)
			return cli_bad_usage(&cmd_info, "%s", err.msg);
	}
	for (; optind < argc; optind++)
		if (option_pids("PID", argv[optind], &pids, &nr, &err) != 0)
			return cli_bad_usage(&cmd_info, "%s", err.msg);
	if (nr != 1) {
		free(pids);
		return cli_bad_usage(&cmd_info, "give one process: rprof info PID");
	}
	code = print_info(pids[0], json);
	free(pids);
	return code;
}

const struct command cmd_info = {
        .name = "info",
        .summary = "show what rprof would see in a process, and why not",
        .run = run,
        .usage = usage,
};

#include "symbolizer/kallsyms.h"
#include "base/buf.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* About 10 MB on a distribution's kernel with its modules loaded. */
enum { KALLSYMS_TEXT_MAX = 256 << 20 };
/* Behind the kernel's last function and each module's come gaps, and code that has no symbol. */
static const uint64_t function_sz_max = 1 << 20;

struct kallsyms {
	struct kallsym *v; /* owned, ascending by addr */
	size_t nr;
	char *text;   /* owned: the names */
	bool unread;  /* /proc/kallsyms is read when somebody asks */
	bool reading; /* v, nr and text are the reader's until it is joined */
	pthread_t reader;
};

static bool parse_addr(const char **p, uint64_t *out)
{
	const char *s = *p;
	uint64_t v = 0;

	for (; v >> 60 == 0; s++) {
		if (*s >= '0' && *s <= '9')
			v = v << 4 | (uint64_t)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			v = v << 4 | (uint64_t)(*s - 'a' + 10);
		else
			break;
	}
	if (s == *p || *s != ' ')
		return false;
	*p = s + 1;
	*out = v;
	return true;
}

/* One terminated line: "ffffffff81000000 T _stext" or "ffffffffc0000000 t foo\t[module]". */
static bool parse_line(char *line, char *type, struct kallsym *out)
{
	const char *p = line;
	char *name, *tab, *end;

	*out = (struct kallsym){0};
	if (!parse_addr(&p, &out->addr) || p[0] == '\0' || p[1] != ' ' || p[2] == '\0')
		return false;
	*type = p[0];
	name = line + (p + 2 - line);
	out->name = name;
	tab = strchr(name, '\t');
	if (tab == NULL)
		return true;
	*tab = '\0';
	end = strchr(tab + 1, ']');
	if (tab[1] != '[' || end == NULL || end[1] != '\0')
		return false;
	*end = '\0';
	out->module = tab + 2;
	return *name != '\0';
}

static bool is_text(char type)
{
	return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

/* How little a reader wants an alias. SYSCALL_DEFINE0 of the kernel's syscall_wrapper.h gives
 * __do_sys_getpid two aliases, of which __x64_sys_getpid is what other system calls are called;
 * sections' bounds (_stext,
 * __entry_text_start) stand where functions do. */
static size_t alias_rank(const char *name)
{
	size_t len = strlen(name), rank = MIN(strspn(name, "_"), 8);

	if (strncmp(name, "__x64_sys_", 10) == 0)
		rank = 0;
	if ((len > 6 && strcmp(name + len - 6, "_start") == 0) ||
	        (len > 4 && strcmp(name + len - 4, "_end") == 0))
		rank += 16;
	return rank;
}

/* By address; of aliases the wanted one first, then in the order of the file, which is that of the
 * pointers. */
static int compare(const void *a, const void *b)
{
	const struct kallsym *x = a, *y = b;
	size_t p, q;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	p = alias_rank(x->name);
	q = alias_rank(y->name);
	if (p != q)
		return p < q ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* The end of a region, where no function begins unless it has a name of its own. */
static bool is_end(const char *name)
{
	return strcmp(name, "_etext") == 0 || strcmp(name, "_einittext") == 0;
}

static void sysctl_read(const char *path, char *out, size_t n)
{
	struct buf value;

	buf_init(&value, 16);
	snprintf(out, n, "unknown");
	if (buf_read_file(&value, path) == 0 && value.len > 0)
		snprintf(out, n, "%.*s", (int)strcspn(value.data, "\n"), value.data);
	buf_release(&value);
}

/* kernel/ksyms_common.c, kallsyms_show_value(): which of the two sysctls hides the addresses. */
static int hidden_err(struct err *err)
{
	char restrict_value[16], paranoid[16];

	sysctl_read("/proc/sys/kernel/kptr_restrict", restrict_value, sizeof(restrict_value));
	sysctl_read("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid));
	if (strcmp(restrict_value, "0") == 0)
		return err_set(err, -EPERM,
		        "the kernel hides the addresses of its symbols: CAP_SYSLOG shows them, or "
		        "kernel.perf_event_paranoid (now %s) of 1 or less",
		        paranoid);
	return err_set(err, -EPERM,
	        "the kernel hides the addresses of its symbols: kernel.kptr_restrict is %s, it "
	        "must "
	        "be 0, or 1 for a reader with CAP_SYSLOG",
	        restrict_value);
}

/* Of the text only the names are needed: half of it. Without memory for a copy it stays as it is.
 */
static void compact(struct kallsyms *k)
{
	const char *module = NULL, *module_copy = NULL;
	size_t len = 0, at = 0;
	struct kallsym *v;
	char *names;

	for (size_t i = 0; i < k->nr; i++) {
		len += strlen(k->v[i].name) + 1;
		if (k->v[i].module != NULL)
			len += strlen(k->v[i].module) + 1;
	}
	names = malloc(len + 1);
	if (names == NULL)
		return;
	for (size_t i = 0; i < k->nr; i++) {
		struct kallsym *sym = &k->v[i];

		sym->name = memcpy(names + at, sym->name, strlen(sym->name) + 1);
		at += strlen(sym->name) + 1;
		if (sym->module == NULL)
			continue;
		if (module == NULL || strcmp(module, sym->module) != 0) {
			module = sym->module;
			module_copy = memcpy(names + at, module, strlen(module) + 1);
			at += strlen(module) + 1;
		}
		sym->module = module_copy;
	}
	free(k->text);
	k->text = names;
	v = k->nr != 0 ? realloc(k->v, k->nr * sizeof(*v)) : NULL;
	if (v != NULL)
		k->v = v;
}

static void forget(struct kallsyms *k)
{
	free(k->v);
	free(k->text);
	*k = (struct kallsyms){0};
}

/* Takes over text, which has a NUL at text[len]. */
static int parse_text(struct kallsyms *k, char *text, size_t len, struct err *err)
{
	bool shown = false;
	size_t cap = 0, nr_lines = 0;
	int rc = -ENOMEM;

	*k = (struct kallsyms){.text = text};
	for (char *line = text, *end = text + len; line < end;) {
		char *eol = memchr(line, '\n', (size_t)(end - line));
		struct kallsym sym;
		char type;

		if (eol == NULL)
			eol = end;
		*eol = '\0';
		nr_lines++;
		if (!parse_line(line, &type, &sym)) {
			rc = err_set(err, -EINVAL, "line %zu is no line of kallsyms", nr_lines);
			goto out;
		}
		line = eol + 1;
		shown |= sym.addr != 0;
		if (!is_text(type))
			continue;
		if (k->nr == cap) {
			size_t grown = cap == 0 ? 4096 : cap * 2;
			struct kallsym *v = reallocarray(k->v, grown, sizeof(*v));

			if (v == NULL) {
				rc = err_set(err, -ENOMEM, "out of memory");
				goto out;
			}
			k->v = v;
			cap = grown;
		}
		k->v[k->nr++] = sym;
	}
	if (nr_lines == 0) {
		rc = err_set(err, -EINVAL, "kallsyms is empty");
		goto out;
	}
	if (!shown) {
		rc = hidden_err(err);
		goto out;
	}
	if (k->nr > 0)
		qsort(k->v, k->nr, sizeof(*k->v), compare);
	compact(k);
	return 0;
out:
	forget(k);
	return rc;
}

static int read_proc(struct kallsyms *k, struct err *err)
{
	struct buf text;
	int rc;

	buf_init(&text, KALLSYMS_TEXT_MAX);
	rc = buf_read_file(&text, "/proc/kallsyms");
	if (rc == 0 && text.data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		return parse_text(k, text.data, text.len, err);
	buf_release(&text);
	return err_set(err, rc, "/proc/kallsyms cannot be read: %s", strerror(-rc));
}

static int finish_new(struct kallsyms *k, int rc, struct kallsyms **out)
{
	if (rc != 0)
		free(k);
	else
		*out = k;
	return rc;
}

int kallsyms_parse(struct kallsyms **out, const char *text, size_t len, struct err *err)
{
	struct kallsyms *k = calloc(1, sizeof(*k));
	char *copy = malloc(len + 1);

	if (k == NULL || copy == NULL) {
		free(k);
		free(copy);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return finish_new(k, parse_text(k, copy, len, err), out);
}

int kallsyms_new(struct kallsyms **out, struct err *err)
{
	struct kallsyms *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	return finish_new(k, read_proc(k, err), out);
}

int kallsyms_new_unread(struct kallsyms **out, struct err *err)
{
	struct kallsyms *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	k->unread = true;
	*out = k;
	return 0;
}

static void *reader_main(void *arg)
{
	struct kallsyms *k = arg, read = {0};

	if (read_proc(&read, NULL) == 0) {
		k->v = read.v;
		k->nr = read.nr;
		k->text = read.text;
	}
	return NULL;
}

void kallsyms_read_ahead(struct kallsyms *k)
{
	sigset_t all, old;

	if (!k->unread)
		return;
	/* Signals are for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	k->reading = pthread_create(&k->reader, NULL, reader_main, k) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	k->unread = !k->reading;
}

static void wait_for_reader(struct kallsyms *k)
{
	if (k->reading)
		pthread_join(k->reader, NULL);
	k->reading = false;
}

void kallsyms_free(struct kallsyms *k)
{
	if (k == NULL)
		return;
	wait_for_reader(k);
	forget(k);
	free(k);
}

const struct kallsym *kallsyms_find(struct kallsyms *k, uint64_t addr)
{
	size_t lo = 0, hi;

	wait_for_reader(k);
	if (k->unread) {
		k->unread = false;
		read_proc(k, NULL);
	}
	hi = k->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->v[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Nothing comes after the last one, so it has no end. */
	if (lo == 0 || lo == k->nr)
		return NULL;
	while (lo > 1 && k->v[lo - 2].addr == k->v[lo - 1].addr)
		lo--;
	const struct kallsym *sym = &k->v[lo - 1];

	return addr - sym->addr < function_sz_max && !is_end(sym->name) ? sym : NULL;
}

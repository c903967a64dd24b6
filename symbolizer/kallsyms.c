#include "symbolizer/kallsyms.h"
#include "base/array.h"
#include "base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	KALLSYMS_TEXT_MAX = 256 << 20, /* about 10 MB with a distribution's modules loaded */
	CHUNK_SZ = 64 << 10,           /* and no line is longer */
};
/* Behind the kernel's last function and each module's come gaps, and code that has no symbol. */
static const uint64_t function_sz_max = 1 << 20;

struct symbol {
	uint64_t addr;
	uint32_t name, module; /* where in names; module 0: none */
};

struct kallsyms {
	struct symbol *v; /* owned, ascending by addr */
	size_t nr, cap;
	struct buf names;     /* each with its NUL; the first one is empty */
	struct kallsym found; /* the last answer */
	bool unread;          /* /proc/kallsyms is read when somebody asks */
	bool reading;         /* v, nr and names are the reader's until it is joined */
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

struct line {
	uint64_t addr;
	char type;
	const char *name, *module; /* in the line; module NULL: the kernel itself */
};

/* One terminated line: "ffffffff81000000 T _stext" or "ffffffffc0000000 t foo\t[module]". */
static bool parse_line(char *text, struct line *out)
{
	const char *p = text;
	char *name, *tab, *end;

	*out = (struct line){0};
	if (!parse_addr(&p, &out->addr) || p[0] == '\0' || p[1] != ' ' || p[2] == '\0')
		return false;
	out->type = p[0];
	name = text + (p + 2 - text);
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
 * names. */
static int compare(const void *a, const void *b, void *names)
{
	const struct symbol *x = a, *y = b;
	size_t p, q;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	p = alias_rank((char *)names + x->name);
	q = alias_rank((char *)names + y->name);
	if (p != q)
		return p < q ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* The kernel writes its own symbols in order, and those of each module. */
static void sort_symbols(struct kallsyms *k)
{
	size_t first = 0;

	for (size_t i = 1; i < k->nr; i++) {
		if (k->v[i].addr < k->v[i - 1].addr) {
			qsort_r(k->v, k->nr, sizeof(*k->v), compare, k->names.data);
			return;
		}
	}
	for (size_t i = 1; i <= k->nr; i++) {
		if (i < k->nr && k->v[i].addr == k->v[first].addr)
			continue;
		if (i - first > 1)
			qsort_r(k->v + first, i - first, sizeof(*k->v), compare, k->names.data);
		first = i;
	}
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

static void forget(struct kallsyms *k)
{
	free(k->v);
	buf_release(&k->names);
	*k = (struct kallsyms){0};
}

struct parser {
	struct kallsyms *k;
	size_t nr_lines;
	uint32_t module; /* the last one's name */
	bool shown;
};

static int add_name(struct kallsyms *k, const char *name, uint32_t *at)
{
	*at = (uint32_t)k->names.len;
	return buf_append(&k->names, name, strlen(name) + 1);
}

static int add_symbol(struct parser *p, const struct line *line)
{
	struct kallsyms *k = p->k;
	struct symbol sym = {.addr = line->addr};
	int rc;

	rc = ARRAY_RESERVE(k->v, k->cap, k->nr + 1, KALLSYMS_TEXT_MAX);
	if (rc != 0)
		return rc;
	rc = add_name(k, line->name, &sym.name);
	if (rc == 0 && line->module != NULL &&
	        (p->module == 0 || strcmp(k->names.data + p->module, line->module) != 0))
		rc = add_name(k, line->module, &p->module);
	if (rc != 0)
		return rc;
	sym.module = line->module != NULL ? p->module : 0;
	k->v[k->nr++] = sym;
	return 0;
}

static int parser_init(struct parser *p, struct kallsyms *k)
{
	*k = (struct kallsyms){0};
	buf_init(&k->names, KALLSYMS_TEXT_MAX);
	*p = (struct parser){.k = k};
	return buf_append(&k->names, "", 1);
}

/* The lines in text, which are changed; *used is where the last one that is whole ends. is_last:
 * what follows is one too. text[len] is writable. */
static int parse_lines(struct parser *p, char *text, size_t len, bool is_last, size_t *used)
{
	size_t at = 0;

	while (at < len) {
		char *eol = memchr(text + at, '\n', len - at);
		struct line line;
		int rc = 0;

		if (eol == NULL && !is_last)
			break;
		if (eol == NULL)
			eol = text + len;
		*eol = '\0';
		p->nr_lines++;
		if (!parse_line(text + at, &line))
			return -EINVAL;
		p->shown |= line.addr != 0;
		if (is_text(line.type))
			rc = add_symbol(p, &line);
		if (rc != 0)
			return rc;
		at = (size_t)(eol - text) + 1;
	}
	*used = MIN(at, len);
	return 0;
}

/* rc: of what came before. What was read is ready, or forgotten. */
static int parser_finish(struct parser *p, int rc, struct err *err)
{
	struct kallsyms *k = p->k;
	struct symbol *v;

	if (rc == -EINVAL)
		err_set(err, rc, "line %zu is no line of kallsyms", p->nr_lines);
	else if (rc == -ENOMEM)
		err_set(err, rc, "out of memory");
	else if (rc != 0)
		err_set(err, rc, "/proc/kallsyms cannot be read: %s", strerror(-rc));
	else if (p->nr_lines == 0)
		rc = err_set(err, -EINVAL, "kallsyms is empty");
	else if (!p->shown)
		rc = hidden_err(err);
	if (rc != 0) {
		forget(k);
		return rc;
	}
	sort_symbols(k);
	v = k->nr != 0 ? realloc(k->v, k->nr * sizeof(*v)) : NULL;
	if (v != NULL) {
		k->v = v;
		k->cap = k->nr;
	}
	return 0;
}

/* Piece by piece: the text is twice as large as what is kept of it. */
static int parse_fd(struct parser *p, int fd)
{
	char *chunk = malloc(CHUNK_SZ + 1);
	size_t len = 0, total = 0, used;
	ssize_t n = 1;
	int rc = chunk != NULL ? 0 : -ENOMEM;

	while (rc == 0 && n != 0) {
		n = read(fd, chunk + len, CHUNK_SZ - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = -errno;
			break;
		}
		len += (size_t)n;
		total += (size_t)n;
		rc = parse_lines(p, chunk, len, n == 0, &used);
		if (rc != 0)
			break;
		len -= used;
		memmove(chunk, chunk + used, len);
		if (len == CHUNK_SZ || total > KALLSYMS_TEXT_MAX)
			rc = -E2BIG;
	}
	free(chunk);
	return rc;
}

static int read_proc(struct kallsyms *k, struct err *err)
{
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC), rc;
	struct parser p;

	rc = fd < 0 ? -errno : 0;
	if (parser_init(&p, k) != 0)
		rc = -ENOMEM;
	if (rc == 0)
		rc = parse_fd(&p, fd);
	if (fd >= 0)
		close(fd);
	return parser_finish(&p, rc, err);
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
	struct parser p;
	size_t used;
	int rc;

	if (k == NULL || copy == NULL) {
		free(k);
		free(copy);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (len > 0)
		memcpy(copy, text, len);
	rc = parser_init(&p, k);
	if (rc == 0)
		rc = parse_lines(&p, copy, len, true, &used);
	free(copy);
	return finish_new(k, parser_finish(&p, rc, err), out);
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
		k->names = read.names;
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
	const struct symbol *sym = &k->v[lo - 1];
	const char *names = k->names.data;

	if (addr - sym->addr >= function_sz_max || is_end(names + sym->name))
		return NULL;
	k->found = (struct kallsym){
	        .name = names + sym->name,
	        .module = sym->module != 0 ? names + sym->module : NULL,
	        .addr = sym->addr,
	};
	return &k->found;
}

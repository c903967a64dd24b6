#include "symbolizer/maps.h"
#include "base/array.h"
#include "base/buf.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* vm.max_map_count is 65530 by default, a line at most PATH_MAX with each newline as "\012". */
enum { MAPS_TEXT_MAX = 256 << 20 };

static const char deleted_suffix[] = " (deleted)";

static bool parse_hex(const char **p, const char *end, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; s < end && isxdigit((unsigned char)*s); s++) {
		if (v >> 60 != 0)
			return false;
		v = v << 4 | (uint64_t)(*s <= '9' ? *s - '0' : (*s | 0x20) - 'a' + 10);
	}
	if (s == *p)
		return false;
	*p = s;
	*out = v;
	return true;
}

static bool parse_dec(const char **p, const char *end, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; s < end && isdigit((unsigned char)*s); s++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	if (s == *p)
		return false;
	*p = s;
	*out = v;
	return true;
}

static bool parse_char(const char **p, const char *end, char c)
{
	if (*p == end || **p != c)
		return false;
	(*p)++;
	return true;
}

/* The kernel writes a newline in a path as "\012", and nothing else so (seq_file_path(.., "\n")).
 */
static size_t unescape(char *s, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len; i++) {
		if (len - i >= 4 && memcmp(s + i, "\\012", 4) == 0) {
			s[out++] = '\n';
			i += 3;
		} else {
			s[out++] = s[i];
		}
	}
	return out;
}

/* One line without its newline. path points into the line and is terminated at *eol. */
static bool parse_line(char *line, char *eol, struct mapping *m)
{
	const char *p = line;
	uint64_t major, minor;

	*m = (struct mapping){0};
	if (!parse_hex(&p, eol, &m->start) || !parse_char(&p, eol, '-') ||
	        !parse_hex(&p, eol, &m->end) || !parse_char(&p, eol, ' '))
		return false;
	if (m->start >= m->end || eol - p < 5 || p[4] != ' ')
		return false;
	m->prot = (p[0] == 'r' ? MAPS_PROT_READ : 0u) | (p[1] == 'w' ? MAPS_PROT_WRITE : 0u) |
	          (p[2] == 'x' ? MAPS_PROT_EXEC : 0u);
	p += 5;
	if (!parse_hex(&p, eol, &m->file_off) || !parse_char(&p, eol, ' ') ||
	        !parse_hex(&p, eol, &major) || !parse_char(&p, eol, ':') ||
	        !parse_hex(&p, eol, &minor) || !parse_char(&p, eol, ' ') ||
	        !parse_dec(&p, eol, &m->ino))
		return false;
	if (p != eol && *p != ' ')
		return false;
	m->dev = major << 32 | (minor & UINT32_MAX);
	while (p != eol && *p == ' ')
		p++;
	char *path = line + (p - line);
	size_t len = (size_t)(eol - path), suffix_len = sizeof(deleted_suffix) - 1;

	if (m->ino != 0 && len > suffix_len &&
	        memcmp(eol - suffix_len, deleted_suffix, suffix_len) == 0) {
		m->deleted = true;
		len -= suffix_len;
	}
	path[unescape(path, len)] = '\0';
	m->path = path;
	return true;
}

/* Takes over text, which has room for a NUL at text[len]. */
static int parse_text(struct maps *maps, char *text, size_t len, struct err *err)
{
	struct maps new = {.text = text};
	size_t cap = 0;
	int rc = 0;

	for (char *line = text, *end = text + len; line < end;) {
		char *eol = memchr(line, '\n', (size_t)(end - line));
		struct mapping m;

		if (eol == NULL)
			eol = end;
		if (memchr(line, '\0', (size_t)(eol - line)) != NULL ||
		        !parse_line(line, eol, &m)) {
			rc = err_set(
			        err, -EINVAL, "line %zu is no line of a maps file", new.nr + 1);
			goto out;
		}
		/* The file is read page by page: a process that changes its mappings meanwhile may
		 * show one twice. What was seen first stays. */
		if (new.nr == 0 || m.start >= new.v[new.nr - 1].end) {
			rc = ARRAY_RESERVE(new.v, cap, new.nr + 1, MAPS_TEXT_MAX);
			if (rc != 0) {
				rc = err_set(err, rc, "out of memory");
				goto out;
			}
			new.v[new.nr++] = m;
		}
		line = eol + (eol != end);
	}
	maps_release(maps);
	*maps = new;
	return 0;
out:
	maps_release(&new);
	return rc;
}

int maps_parse(struct maps *maps, const char *text, size_t len, struct err *err)
{
	char *copy = malloc(len + 1);

	if (copy == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return parse_text(maps, copy, len, err);
}

/* proc(5), /proc/PID/stat: field 9, flags; PF_KTHREAD of include/linux/sched.h. */
static bool is_kernel_thread(pid_t pid)
{
	unsigned long flags = 0;
	struct buf stat;
	char path[64];
	char *rest;

	buf_init(&stat, 4096);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	/* comm may hold anything: the fields begin behind its last ')'. */
	if (buf_read_file(&stat, path) == 0 && stat.data != NULL &&
	        (rest = strrchr(stat.data, ')')) != NULL)
		(void)!sscanf(rest, ") %*c %*d %*d %*d %*d %*d %lu", &flags);
	buf_release(&stat);
	return (flags & 0x00200000) != 0;
}

int maps_read(struct maps *maps, pid_t pid, struct err *err)
{
	struct buf text;
	char path[64];
	int rc;

	buf_init(&text, MAPS_TEXT_MAX);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	rc = buf_read_file(&text, path);
	if (rc == 0) {
		if (text.data != NULL) /* parse_text() owns it from here */
			return parse_text(maps, text.data, text.len, err);
		/* The mappings of a zombie, or of a thread of the kernel: an empty file. */
		rc = -ESRCH;
		if (is_kernel_thread(pid)) {
			buf_release(&text);
			return err_set(err, -ENOENT,
			        "process %d is a thread of the kernel: give the pid of a Ruby "
			        "process "
			        "(`pgrep -a ruby` lists them)",
			        (int)pid);
		}
	}
	buf_release(&text);
	if (rc == -ENOENT || rc == -ESRCH)
		return err_set(err, -ESRCH, "process %d has exited", (int)pid);
	if (rc == -EACCES || rc == -EPERM)
		return err_set(err, -EPERM,
		        "the mappings of process %d may not be read: run as root or with "
		        "CAP_SYS_PTRACE",
		        (int)pid);
	return err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
}

void maps_release(struct maps *maps)
{
	free(maps->v);
	free(maps->text);
	*maps = (struct maps){0};
}

const struct mapping *maps_find(const struct maps *maps, uint64_t addr)
{
	size_t lo = 0, hi = maps->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (addr < maps->v[mid].start)
			hi = mid;
		else if (addr >= maps->v[mid].end)
			lo = mid + 1;
		else
			return &maps->v[mid];
	}
	return NULL;
}

static const struct mapping *next_code(const struct maps *maps, size_t *i)
{
	while (*i < maps->nr) {
		const struct mapping *m = &maps->v[(*i)++];

		if ((m->prot & MAPS_PROT_EXEC) != 0)
			return m;
	}
	return NULL;
}

bool maps_same_code(const struct maps *a, const struct maps *b)
{
	const struct mapping *x, *y;
	size_t i = 0, j = 0;

	for (;;) {
		x = next_code(a, &i);
		y = next_code(b, &j);
		if (x == NULL || y == NULL)
			return x == y;
		if (x->start != y->start || x->end != y->end || x->file_off != y->file_off ||
		        x->dev != y->dev || x->ino != y->ino)
			return false;
	}
}

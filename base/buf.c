#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data != NULL)
		b->data[0] = '\0';
}

/* Makes room for n more bytes and the NUL. */
static int buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap != 0 ? b->cap : 256;
	char *data;

	if (n > b->max || b->len > b->max - n) {
		b->failed = true;
		return -E2BIG;
	}
	if (b->len + n < b->cap)
		return 0;
	while (cap <= b->len + n)
		cap *= 2;
	data = realloc(b->data, cap);
	if (data == NULL) {
		b->failed = true;
		return -ENOMEM;
	}
	b->data = data;
	b->cap = cap;
	return 0;
}

int buf_append(struct buf *b, const void *data, size_t n)
{
	int rc = buf_reserve(b, n);

	if (rc != 0)
		return rc;
	if (n != 0)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	int n, rc;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0) {
		b->failed = true;
		return -EINVAL;
	}
	rc = buf_reserve(b, (size_t)n);
	if (rc != 0)
		return rc;
	va_start(args, fmt);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
	va_end(args);
	b->len += (size_t)n;
	return 0;
}

/* Length of the UTF-8 sequence at s, or 0 when it is none (overlong forms and surrogates included).
 */
static size_t utf8_len(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return (s[1] & 0xc0) == 0x80 ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
			return 0;
		return 3;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80 || (s[3] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
			return 0;
		return 4;
	}
	return 0;
}

int buf_json_str(struct buf *b, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	if (s == NULL)
		return buf_puts(b, "null");
	buf_append(b, "\"", 1);
	while (*p != '\0') {
		size_t n = utf8_len(p);

		if (n == 0) {
			buf_puts(b, "\\ufffd");
			p++;
		} else if (*p == '"' || *p == '\\') {
			buf_printf(b, "\\%c", *p++);
		} else if (*p < 0x20 || *p == 0x7f) {
			buf_printf(b, "\\u%04x", *p++);
		} else {
			buf_append(b, p, n);
			p += n;
		}
	}
	buf_append(b, "\"", 1);
	return b->failed ? -ENOMEM : 0;
}

int buf_read_file(struct buf *b, const char *path)
{
	char chunk[16384];
	ssize_t n;
	int fd, rc = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		rc = buf_append(b, chunk, (size_t)n);
		if (rc != 0)
			break;
	}
	close(fd);
	return rc;
}

/* What a text must be that was made of strings of others: JSON that is JSON, lines without control
 * characters. */
#ifndef TESTS_FUZZ_TEXT_CHECK_H
#define TESTS_FUZZ_TEXT_CHECK_H

#include "tests/fuzz/fuzz.h"

#include <ctype.h>

/* The length of the UTF-8 character at p, as RFC 3629 has it; 0: there is none. */
static inline size_t utf8_len(const char *text, const char *end)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t n = p[0] < 0x80   ? 1
	           : p[0] < 0xc2 ? 0
	           : p[0] < 0xe0 ? 2
	           : p[0] < 0xf0 ? 3
	           : p[0] < 0xf5 ? 4
	                         : 0;

	if (n == 0 || (size_t)(end - text) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* No control character but the newline, C1 ones in UTF-8 included. */
static inline void lines_check(const char *p, size_t n)
{
	for (const char *end = p + n; p < end; p++) {
		MUST(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 0x7f));
		MUST(end - p < 2 || (unsigned char)p[0] != 0xc2 || (unsigned char)p[1] >= 0xa0 ||
		        ((unsigned char)p[1] & 0xc0) != 0x80);
	}
}

static inline const char *json_string(const char *p, const char *end)
{
	MUST(p < end && *p == '"');
	for (p++; p < end && *p != '"';) {
		size_t n = utf8_len(p, end);

		MUST(n > 0 && (unsigned char)*p >= ' ');
		if (*p != '\\') {
			p += n;
			continue;
		}
		MUST(end - p >= 2 && strchr("\"\\/bfnrtu", p[1]) != NULL && p[1] != '\0');
		if (p[1] == 'u')
			for (int i = 2; i < 6; i++)
				MUST(end - p > i && isxdigit((unsigned char)p[i]));
		p += p[1] == 'u' ? 6 : 2;
	}
	MUST(p < end);
	return p + 1;
}

/* One value, without blanks around it; returns what is behind it. */
static inline const char *json_value(const char *p, const char *end)
{
	static const char *const words[] = {"true", "false", "null"};
	const char *begin = p;
	char close;

	MUST(p < end);
	if (*p == '"')
		return json_string(p, end);
	if (*p == '{' || *p == '[') {
		close = *p == '{' ? '}' : ']';
		p++;
		while (p < end && *p != close) {
			if (close == '}') {
				p = json_string(p, end);
				MUST(p < end && *p++ == ':');
			}
			p = json_value(p, end);
			MUST(p < end && (*p == close || (*p == ',' && p[1] != close)));
			p += *p == ',';
		}
		MUST(p < end);
		return p + 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if ((size_t)(end - p) >= strlen(words[i]) &&
		        memcmp(p, words[i], strlen(words[i])) == 0)
			return p + strlen(words[i]);
	p += *p == '-';
	MUST(p < end && isdigit((unsigned char)*p));
	while (p < end && (isdigit((unsigned char)*p) || strchr(".eE+-", *p) != NULL))
		p++;
	MUST(p > begin);
	return p;
}

/* One object a line. */
static inline void json_lines_check(const char *p, size_t n)
{
	for (const char *end = p + n; p < end; p++) {
		MUST(*p == '{');
		p = json_value(p, end);
		MUST(p < end && *p == '\n');
	}
}

#endif

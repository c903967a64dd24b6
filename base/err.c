#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list args;

	if (err == NULL)
		return code;
	err->code = code;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	return code;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char rest[ERR_MSG_SZ];
	va_list args;
	size_t len;
	int n;

	if (err == NULL)
		return 0;
	memcpy(rest, err->msg, sizeof(rest));
	va_start(args, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	len = n < 0 ? 0 : MIN((size_t)n, sizeof(err->msg) - 1);
	len += (size_t)snprintf(err->msg + len, sizeof(err->msg) - len, ": ");
	if (len < sizeof(err->msg) - 1) {
		memcpy(err->msg + len, rest, sizeof(err->msg) - len);
		err->msg[sizeof(err->msg) - 1] = '\0';
	}
	return err->code;
}

#include "profile/label.h"
#include "profile/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum place {
	PLACE_NONE,
	PLACE_FILE, /* the last part of the path, and the line */
	PLACE_PATH,
};

/* Namesakes, or functions that begin on the same line of files of the same name. */
struct peers {
	struct intern keys;
	uint32_t *first; /* by id - 1: the first function that has this key */
	bool *differ;    /* by id - 1: another one begins elsewhere */
};

static int peers_init(struct peers *p, uint32_t nr_functions)
{
	intern_init(&p->keys);
	p->first = calloc((size_t)nr_functions + 1, sizeof(*p->first));
	p->differ = calloc((size_t)nr_functions + 1, sizeof(*p->differ));
	return p->first != NULL && p->differ != NULL ? 0 : -ENOMEM;
}

static void peers_release(struct peers *p)
{
	intern_release(&p->keys);
	free(p->first);
	free(p->differ);
}

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The same code run as JIT code is another function of the recording, at the same place. */
static bool is_same_place(const struct frame *a, const struct frame *b)
{
	return a->first_line == b->first_line && strcmp(a->path, b->path) == 0;
}

static int peers_add(struct peers *p, const struct reader *r, const struct buf *key,
        uint32_t function, uint32_t *id)
{
	struct frame f = reader_function(r, function), first;
	int rc, is_new;

	if (key->failed)
		return -ENOMEM;
	rc = intern_put(&p->keys, key->data, key->len, id, &is_new);
	if (rc != 0)
		return rc;
	if (is_new)
		p->first[*id - 1] = function;
	first = reader_function(r, p->first[*id - 1]);
	p->differ[*id - 1] |= !is_same_place(&first, &f);
	return 0;
}

static bool has_first_line(const struct frame *f)
{
	return f->first_line != 0 && f->path != NULL;
}

static int find_places(struct labels *l, struct peers *names, struct peers *files, struct buf *key)
{
	uint32_t nr = reader_nr_functions(l->reader), *ids;
	int rc = 0;

	ids = calloc((size_t)nr + 1, sizeof(*ids));
	if (ids == NULL)
		return -ENOMEM;
	for (uint32_t i = 1; rc == 0 && i <= nr; i++) {
		struct frame f = reader_function(l->reader, i);

		if (!has_first_line(&f))
			continue;
		buf_reset(key);
		label_put_name(key, &f);
		buf_append(key, "", 1);
		rc = peers_add(names, l->reader, key, i, &ids[i]);
	}
	for (uint32_t i = 1; rc == 0 && i <= nr; i++) {
		struct frame f = reader_function(l->reader, i);

		if (ids[i] == 0 || !names->differ[ids[i] - 1])
			continue;
		l->places[i - 1] = PLACE_FILE;
		buf_reset(key);
		buf_append(key, &ids[i], sizeof(ids[i]));
		buf_append(key, &f.first_line, sizeof(f.first_line));
		buf_puts(key, file_of(f.path));
		rc = peers_add(files, l->reader, key, i, &ids[i]);
	}
	for (uint32_t i = 1; rc == 0 && i <= nr; i++)
		if (l->places[i - 1] == PLACE_FILE && files->differ[ids[i] - 1])
			l->places[i - 1] = PLACE_PATH;
	free(ids);
	return rc;
}

int labels_init(struct labels *l, const struct reader *r)
{
	struct peers names, files;
	struct buf key;
	int rc, of_files;

	*l = (struct labels){.reader = r};
	l->places = calloc((size_t)reader_nr_functions(r) + 1, sizeof(*l->places));
	rc = peers_init(&names, reader_nr_functions(r));
	of_files = peers_init(&files, reader_nr_functions(r));
	buf_init(&key, SIZE_MAX / 2);
	if (rc != 0 || of_files != 0 || l->places == NULL)
		rc = -ENOMEM;
	else
		rc = find_places(l, &names, &files, &key);
	buf_release(&key);
	peers_release(&names);
	peers_release(&files);
	if (rc != 0)
		labels_release(l);
	return rc;
}

void labels_release(struct labels *l)
{
	free(l->places);
	*l = (struct labels){0};
}

bool labels_has_place(const struct labels *l, uint32_t function)
{
	return l->places[function - 1] != PLACE_NONE;
}

void labels_put_place(const struct labels *l, uint32_t function, struct buf *b)
{
	struct frame f = reader_function(l->reader, function);

	buf_puts(b, l->places[function - 1] == PLACE_PATH ? f.path : file_of(f.path));
	buf_printf(b, ":%u", f.first_line);
}

void label_put_name(struct buf *b, const struct frame *f)
{
	buf_puts(b, f->name != NULL ? f->name : "");
	if (f->method != NULL && f->method[0] != '\0') {
		buf_puts(b, " (");
		buf_puts(b, f->method);
		buf_puts(b, ")");
	}
}

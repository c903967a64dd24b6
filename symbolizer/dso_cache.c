/* Which file is behind a mapping, and which files are the same. */
#include "symbolizer/dso_internal.h"
#include "base/array.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { VDSO_SZ_MAX = 1 << 18, NR_FILES_MAX = 1 << 20 };

struct file_id {
	uint64_t dev, ino, size, mtime_sec, mtime_nsec;
};

struct known_file {
	struct file_id id;
	struct dso *dso;
};

struct root {
	uint64_t dev, ino;
	int fd;
};

struct dso_cache {
	struct dso **v; /* owned, and each dso too */
	size_t nr, cap;
	struct known_file *files; /* owned */
	size_t nr_files, cap_files;
	struct hash64 by_file;     /* hash of a file_id to its index in files */
	struct hash64 by_build_id; /* hash of the build ID to the dso's index in v */
	struct root *roots;        /* owned, and each descriptor too */
	size_t nr_roots, cap_roots;
	struct file_id own_root;
};

static struct file_id file_id_of(const struct stat *st)
{
	/* Member by member: the struct is hashed as bytes and has no padding. */
	return (struct file_id){
	        .dev = st->st_dev,
	        .ino = st->st_ino,
	        .size = (uint64_t)st->st_size,
	        .mtime_sec = (uint64_t)st->st_mtim.tv_sec,
	        .mtime_nsec = (uint64_t)st->st_mtim.tv_nsec,
	};
}

int dso_cache_new(struct dso_cache **out)
{
	struct dso_cache *cache = calloc(1, sizeof(*cache));
	struct stat st;

	if (cache == NULL)
		return -ENOMEM;
	hash64_init(&cache->by_file);
	hash64_init(&cache->by_build_id);
	if (stat("/", &st) == 0)
		cache->own_root = file_id_of(&st);
	*out = cache;
	return 0;
}

static void dso_free(struct dso *dso)
{
	dso_dwarf_free(dso->dwarf);
	dso_symbols_release(&dso->symbols);
	dso_plt_release(&dso->plt);
	if (dso->has_unwind)
		unwind_table_release(&dso->unwind);
	free(dso->unwind_err);
	elf_file_close(&dso->debug_file);
	free(dso->debug_path);
	elf_file_close(&dso->elf);
	string_pool_release(&dso->strings);
	free(dso->path);
	free(dso);
}

void dso_cache_free(struct dso_cache *cache)
{
	if (cache == NULL)
		return;
	for (size_t i = 0; i < cache->nr; i++)
		dso_free(cache->v[i]);
	for (size_t i = 0; i < cache->nr_roots; i++)
		close(cache->roots[i].fd);
	free(cache->v);
	free(cache->files);
	free(cache->roots);
	hash64_release(&cache->by_file);
	hash64_release(&cache->by_build_id);
	free(cache);
}

/* ---- opening --------------------------------------------------------------------- */

int root_open(int root_fd, const char *path)
{
	/* A FIFO must not make us wait, and a link of a process's root must not lead out of that
	 * root. */
	struct open_how how = {
	        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	        .resolve = root_fd >= 0 ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS : 0,
	};
	struct stat st;
	int fd;

	fd = (int)syscall(SYS_openat2, root_fd >= 0 ? root_fd : AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -ENOEXEC;
	}
	return fd;
}

/* The root directory of a process, -1 when it is ours (or unknown). */
static int cache_root(struct dso_cache *cache, pid_t pid)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root/.", (int)pid);
	if (stat(path, &st) != 0 ||
	        (st.st_dev == cache->own_root.dev && st.st_ino == cache->own_root.ino))
		return -1;
	for (size_t i = 0; i < cache->nr_roots; i++) {
		if (cache->roots[i].dev == st.st_dev && cache->roots[i].ino == st.st_ino)
			return cache->roots[i].fd;
	}
	if (ARRAY_RESERVE(cache->roots, cache->cap_roots, cache->nr_roots + 1, NR_FILES_MAX) != 0)
		return -1;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		cache->roots[cache->nr_roots++] = (struct root){st.st_dev, st.st_ino, fd};
	return fd;
}

/* The file at a path need not be the one that was mapped: compare what is in memory. Code isn't
 * relocated. */
static bool is_mapped_file(int fd, const struct target *target, const struct mapping *mapping)
{
	unsigned char in_file[4096], in_memory[4096];
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st) == 0 && st.st_ino == mapping->ino &&
	        ((uint64_t)major(st.st_dev) << 32 | minor(st.st_dev)) == mapping->dev)
		return true;
	if ((mapping->prot & MAPS_PROT_WRITE) != 0 ||
	        mapping->end - mapping->start < sizeof(in_memory))
		return false;
	got = pread(fd, in_file, sizeof(in_file), (off_t)mapping->file_off);
	return got > 0 && target_read(target, mapping->start, in_memory, (size_t)got) == 0 &&
	       memcmp(in_file, in_memory, (size_t)got) == 0;
}

/* A descriptor of the mapped file or -errno; or *known, when we have it already. */
static int open_mapped(const struct dso_cache *cache, const struct target *target,
        const struct mapping *mapping, int root_fd, struct dso **known, struct err *err)
{
	char path[96];
	struct stat st;
	int fd;

	/* The link in map_files leads to the very file, whatever became of its path. */
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)target->pid,
	        (unsigned long long)mapping->start, (unsigned long long)mapping->end);
	if (stat(path, &st) == 0) {
		struct file_id id = file_id_of(&st);
		const uint64_t *i = hash64_find(&cache->by_file, hash_bytes(&id, sizeof(id), 0));

		if (i != NULL && memcmp(&cache->files[*i].id, &id, sizeof(id)) == 0) {
			*known = cache->files[*i].dso;
			return 0;
		}
		if (!S_ISREG(st.st_mode))
			return err_set(err, -ENOEXEC, "%s: not a regular file", mapping->path);
		fd = root_open(-1, path);
		if (fd >= 0)
			return fd;
	}
	/* It takes a capability that we may lack, and a mapping that is still there. */
	if (mapping->deleted)
		return err_set(err, -ENOENT, "%s: the file was deleted", mapping->path);
	/* The kernel writes paths as we see them if it can, as for a process in a chroot, else as
	 * the process does, as for one in a container. */
	bool replaced = false;
	int rc = -ENOENT;

	for (int i = root_fd >= 0 ? 0 : 1; i < 2; i++) {
		rc = fd = root_open(i == 0 ? root_fd : -1, mapping->path);
		if (fd < 0)
			continue;
		if (is_mapped_file(fd, target, mapping))
			return fd;
		close(fd);
		replaced = true;
	}
	if (replaced)
		return err_set(err, -ENOENT, "%s: the file was replaced since it was mapped",
		        mapping->path);
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP)
		return err_set(err, -ENOENT, "%s: the file is gone", mapping->path);
	if (rc == -EACCES || rc == -EPERM)
		return err_set(err, -EPERM, "%s may not be read: run as root", mapping->path);
	return err_set(err, rc, "%s cannot be opened: %s", mapping->path,
	        rc == -ENOEXEC ? "not a regular file" : strerror(-rc));
}

/* ---- the cache ------------------------------------------------------------------- */

/* Takes over elf. */
static int dso_new(struct dso **out, struct elf_file *elf, const char *path, int root_fd)
{
	struct dso *dso = calloc(1, sizeof(*dso));
	unsigned char id[ELF_BUILD_ID_SZ];
	const char *slash;

	if (dso != NULL)
		dso->path = strdup(path);
	if (dso == NULL || dso->path == NULL) {
		free(dso);
		elf_file_close(elf);
		return -ENOMEM;
	}
	dso->elf = *elf;
	dso->debug_file = (struct elf_file){.fd = -1};
	dso->root_fd = root_fd;
	slash = strrchr(dso->path, '/');
	dso->name = slash != NULL && slash[1] != '\0' ? slash + 1 : dso->path;
	string_pool_init(&dso->strings);
	size_t n = elf_file_build_id(&dso->elf, id);

	for (size_t i = 0; i < n; i++)
		snprintf(dso->build_id + 2 * i, 3, "%02x", id[i]);
	*out = dso;
	return 0;
}

/* The same build ID and the same program headers. */
static bool is_same_build(const struct dso *a, const struct dso *b)
{
	return strcmp(a->build_id, b->build_id) == 0 && a->elf.nr_phdrs == b->elf.nr_phdrs &&
	       (a->elf.nr_phdrs == 0 || memcmp(a->elf.phdrs, b->elf.phdrs,
	                                        a->elf.nr_phdrs * sizeof(*a->elf.phdrs)) == 0);
}

static int cache_add_file(struct dso_cache *cache, const struct file_id *id, struct dso *dso)
{
	int rc = ARRAY_RESERVE(cache->files, cache->cap_files, cache->nr_files + 1, NR_FILES_MAX);

	if (rc != 0)
		return rc;
	cache->files[cache->nr_files] = (struct known_file){*id, dso};
	rc = hash64_put(&cache->by_file, hash_bytes(id, sizeof(*id), 0), cache->nr_files);

	if (rc == 0)
		cache->nr_files++;
	return rc;
}

/* Takes over dso; *out is that or the one that was there before. */
static int cache_add(
        struct dso_cache *cache, struct dso *dso, const struct file_id *id, struct dso **out)
{
	uint64_t key = hash_bytes(dso->build_id, strlen(dso->build_id), 0);
	bool has_id = dso->build_id[0] != '\0';
	const uint64_t *i = has_id ? hash64_find(&cache->by_build_id, key) : NULL;

	if (i != NULL && is_same_build(cache->v[*i], dso)) {
		dso_free(dso);
		dso = cache->v[*i];
	} else {
		int rc = ARRAY_RESERVE(cache->v, cache->cap, cache->nr + 1, NR_FILES_MAX);

		if (rc != 0) {
			dso_free(dso);
			return rc;
		}
		cache->v[cache->nr++] = dso;
		/* Not being found again costs memory only. */
		if (has_id)
			(void)hash64_put(&cache->by_build_id, key, cache->nr - 1);
	}
	if (id != NULL)
		(void)cache_add_file(cache, id, dso);
	*out = dso;
	return 0;
}

/* Takes over fd. */
static int cache_add_fd(struct dso_cache *cache, int fd, const char *path, int root_fd,
        struct dso **out, struct err *err)
{
	struct elf_file elf;
	struct file_id id;
	struct stat st;
	struct dso *dso;
	int rc;

	if (fstat(fd, &st) != 0) {
		rc = -errno;
		close(fd);
		return err_set(err, rc, "%s: %s", path, strerror(-rc));
	}
	id = file_id_of(&st);
	const uint64_t *i = hash64_find(&cache->by_file, hash_bytes(&id, sizeof(id), 0));

	if (i != NULL && memcmp(&cache->files[*i].id, &id, sizeof(id)) == 0) {
		close(fd);
		*out = cache->files[*i].dso;
		return 0;
	}
	rc = elf_file_open_fd(&elf, fd, err);
	if (rc != 0) {
		err_prefix(err, "%s", path);
		return rc;
	}
	rc = dso_new(&dso, &elf, path, root_fd);
	if (rc == 0)
		rc = cache_add(cache, dso, &id, out);
	return rc == 0 ? 0 : err_set(err, rc, "out of memory");
}

static int get_vdso(struct dso_cache *cache, const struct target *target,
        const struct mapping *mapping, struct dso **out, struct err *err)
{
	uint64_t size = mapping->end - mapping->start;
	struct elf_file elf;
	struct dso *dso;
	void *mem;
	int rc;

	if (size > VDSO_SZ_MAX)
		return err_set(err, -ENOEXEC, "a vDSO of %llu bytes", (unsigned long long)size);
	mem = malloc(size);
	if (mem == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	rc = target_read(target, mapping->start, mem, size);
	if (rc != 0) {
		free(mem);
		return err_set(err, rc == -ESRCH ? -ENOENT : rc, "the vDSO cannot be read: %s",
		        strerror(-rc));
	}
	rc = elf_file_open_mem(&elf, mem, size, err);
	if (rc != 0) {
		err_prefix(err, "[vdso]");
		return rc;
	}
	rc = dso_new(&dso, &elf, mapping->path, -1);
	if (rc == 0)
		rc = cache_add(cache, dso, NULL, out);
	return rc == 0 ? 0 : err_set(err, rc, "out of memory");
}

int dso_cache_get(struct dso_cache *cache, const struct target *target,
        const struct mapping *mapping, struct dso **out, struct err *err)
{
	struct dso *known = NULL;
	int fd, root_fd;

	if (strcmp(mapping->path, "[vdso]") == 0)
		return get_vdso(cache, target, mapping, out, err);
	if (mapping->path[0] != '/')
		return err_set(err, -ENOEXEC, "%s is no file",
		        mapping->path[0] != '\0' ? mapping->path : "anonymous memory");
	root_fd = cache_root(cache, target->pid);
	fd = open_mapped(cache, target, mapping, root_fd, &known, err);
	if (known != NULL) {
		*out = known;
		return 0;
	}
	if (fd < 0)
		return fd;
	return cache_add_fd(cache, fd, mapping->path, root_fd, out, err);
}

int dso_cache_get_path(struct dso_cache *cache, const char *path, struct dso **out, struct err *err)
{
	int fd = root_open(-1, path);

	if (fd < 0)
		return err_set(err, fd, "%s: %s", path,
		        fd == -ENOEXEC ? "not a regular file" : strerror(-fd));
	return cache_add_fd(cache, fd, path, -1, out, err);
}

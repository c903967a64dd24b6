/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The list of runtimes: X(id, ID, name). The only place outside of their folders that names them,
 * with the includes of bpf/runtimes.bpf.h.
 *
 * name stands for the folder runtimes/NAME/ and for what has its name: name_runtime in user space,
 * struct name_proc between the two sides, name_walk() and the others of bpf/runtimes.bpf.h in the
 * kernel. id names the runtime between the two sides, and is never given to another one.
 */
#ifndef RUNTIMES_LIST_H
#define RUNTIMES_LIST_H

/* clang-format off */
#define RUNTIMES(X) \
	X(1, RUBY, ruby)
/* clang-format on */

enum { MAX_RUNTIME_ID = 15 };

#define RUNTIME_ID_ENUM(id, ID, name) RUNTIME_##ID = id,
enum runtime_id { RUNTIME_NONE = 0, RUNTIMES(RUNTIME_ID_ENUM) };
#undef RUNTIME_ID_ENUM

#endif

#include "runtimes/ruby/ruby_layout.h"
#include "base/base.h"
#include <stdio.h>

/* Patch releases that moved a field which is read here have a row of their own: 3.1.5, 3.2.3
 * and 3.2.4 each moved vm.objspace (loaded_features_realpath_map and static_ext_inits were inserted
 * before it in rb_vm_t). */
/* clang-format off */
static const struct ruby_layout layouts[] = {
	{
		.since = RUBY_VERSION(2, 7, 0),
		.until = RUBY_VERSION(3, 0, 0),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 56, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 0,
			.sz = 56},
		.thread = {.lt_node = 0, .self = 16, .ractor = 0, .ec = 32, .nt = 0,
			.thread_id = 72, .blocking_region_buffer = 152, .name = 360},
		.nt = {.thread_id = 0},
		.vm = {.ractor_set = 0, .main_thread = 192, .objspace = 1152},
		.ractor = {.threads_set = 0, .vmlr_node = 0, .running = 0},
		.objspace = {.flags = 16, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 120, .insns_size = 136, .succ_index_table = 144,
			.parent_iseq = 168, .local_iseq = 176, .sz = 288,
			.first_lineno_is_value = true, .entry_sz = 8},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 16, .embed_len_in_flags = true},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 3},
		.class = {.style = RUBY_CLASS_IV_TBL, .fl_singleton = 0x1000, .ptr = 24,
			.iv_tbl = 8},
		.last_op_id = 0,
	},
	{
		.since = RUBY_VERSION(3, 0, 0),
		.until = RUBY_VERSION(3, 1, 0),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 56, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 0,
			.sz = 56},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 40,
			.nt = 0, .thread_id = 80, .blocking_region_buffer = 160, .name = 384},
		.nt = {.thread_id = 0},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1088},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 120, .insns_size = 136, .succ_index_table = 144,
			.parent_iseq = 168, .local_iseq = 176, .sz = 288,
			.first_lineno_is_value = true, .entry_sz = 8},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 16, .embed_len_in_flags = true},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 3},
		.class = {.style = RUBY_CLASS_IV_TBL, .fl_singleton = 0x1000, .ptr = 24,
			.iv_tbl = 8},
		.last_op_id = 168,
	},
	{
		.since = RUBY_VERSION(3, 1, 0),
		.until = RUBY_VERSION(3, 1, 5),
		.supported = true,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 112,
			.machine_stack_start = 144,
			.machine_stack_maxsize = 160},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 56,
			.sz = 64},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 40,
			.nt = 0, .thread_id = 80, .blocking_region_buffer = 168, .name = 352},
		.nt = {.thread_id = 0},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1104},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 440, .minors = 384, .minor_bit = 9},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 120, .insns_size = 136, .succ_index_table = 144,
			.parent_iseq = 168, .local_iseq = 176, .sz = 312,
			.first_lineno_is_value = true, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 16, .embed_len_in_flags = true},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 3},
		.class = {.style = RUBY_CLASS_IV_TBL, .fl_singleton = 0x1000, .ptr = 24,
			.iv_tbl = 8},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 1, 5),
		.until = RUBY_VERSION(3, 2, 0),
		.supported = true,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 112,
			.machine_stack_start = 144,
			.machine_stack_maxsize = 160},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 56,
			.sz = 64},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 40,
			.nt = 0, .thread_id = 80, .blocking_region_buffer = 168, .name = 352},
		.nt = {.thread_id = 0},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1112},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 440, .minors = 384, .minor_bit = 9},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 120, .insns_size = 136, .succ_index_table = 144,
			.parent_iseq = 168, .local_iseq = 176, .sz = 312,
			.first_lineno_is_value = true, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 16, .embed_len_in_flags = true},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 3},
		.class = {.style = RUBY_CLASS_IV_TBL, .fl_singleton = 0x1000, .ptr = 24,
			.iv_tbl = 8},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 2, 0),
		.until = RUBY_VERSION(3, 2, 3),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 56,
			.sz = 64},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 120, .name = 304},
		.nt = {.thread_id = 8},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1128},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 160, .local_iseq = 168, .sz = 320,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_SHAPE, .fl_singleton = 0x1000},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 2, 3),
		.until = RUBY_VERSION(3, 2, 4),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 56,
			.sz = 64},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 120, .name = 304},
		.nt = {.thread_id = 8},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1136},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 160, .local_iseq = 168, .sz = 320,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_SHAPE, .fl_singleton = 0x1000},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 2, 4),
		.until = RUBY_VERSION(3, 3, 0),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 56,
			.sz = 64},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 120, .name = 304},
		.nt = {.thread_id = 8},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1144},
		.ractor = {.threads_set = 304, .vmlr_node = 568, .running = 336},
		.objspace = {.flags = 16, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 160, .local_iseq = 168, .sz = 320,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_SHAPE, .fl_singleton = 0x1000},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 3, 0),
		.until = RUBY_VERSION(3, 4, 0),
		.supported = true,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 120,
			.machine_stack_start = 152,
			.machine_stack_maxsize = 168},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 48,
			.sz = 56},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 248, .name = 432},
		.nt = {.thread_id = 16},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1304},
		.ractor = {.threads_set = 256, .vmlr_node = 432, .running = 328},
		.objspace = {.flags = 16, .gc_count = 1392, .minors = 1336, .minor_bit = 10},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 160, .local_iseq = 168, .sz = 344,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_EXT, .fl_singleton = 0x1000, .classpath = 152,
			.permanent_byte = 149, .attached_object = 128},
		.last_op_id = 169,
	},
	{
		.since = RUBY_VERSION(3, 4, 0),
		.until = RUBY_VERSION(4, 0, 0),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 112,
			.machine_stack_start = 144,
			.machine_stack_maxsize = 160},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 48,
			.sz = 56},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 248, .name = 448},
		.nt = {.thread_id = 16},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1296},
		.ractor = {.threads_set = 256, .vmlr_node = 432, .running = 328},
		.objspace = {.flags = 20, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 160, .local_iseq = 168, .sz = 352,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 48},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_EXT, .fl_singleton = 0x2000, .classpath = 152,
			.permanent_byte = 149, .attached_object = 128},
		.last_op_id = 170,
	},
	{
		.since = RUBY_VERSION(4, 0, 0),
		.until = RUBY_VERSION(4, 1, 0),
		.supported = false,
		.ec = {.vm_stack = 0, .vm_stack_size = 8, .cfp = 16,
			.thread_ptr = 48, .errinfo = 128,
			.machine_stack_start = 176,
			.machine_stack_maxsize = 192},
		.cfp = {.pc = 0, .iseq = 16, .ep = 32, .jit_return = 48,
			.sz = 56},
		.thread = {.lt_node = 0, .self = 16, .ractor = 24, .ec = 48,
			.nt = 40, .thread_id = 0, .blocking_region_buffer = 256, .name = 448},
		.nt = {.thread_id = 16},
		.vm = {.ractor_set = 8, .main_thread = 40, .objspace = 1248},
		.ractor = {.threads_set = 184, .vmlr_node = 360, .running = 256},
		.objspace = {.flags = 28, .gc_count = 0},
		.iseq = {.body = 16, .type = 0, .iseq_size = 4, .iseq_encoded = 8,
			.pathobj = 64, .label = 80, .first_lineno = 88,
			.insns_body = 112, .insns_size = 128, .succ_index_table = 136,
			.parent_iseq = 168, .local_iseq = 176, .sz = 360,
			.first_lineno_is_value = false, .entry_sz = 12},
		.method = {.def = 16, .called_id = 24, .owner = 32, .body = 8,
			.original_id = 32, .method_serial = 40, .sz = 56},
		.string = {.len = 16, .ptr = 24, .embed = 24, .embed_len_in_flags = false},
		.array = {.len = 16, .ptr = 32, .embed = 16, .embed_len_mask = 0x7f},
		.class = {.style = RUBY_CLASS_EXT, .fl_singleton = 0x2000, .classpath = 152,
			.permanent_byte = 149, .attached_object = 136},
		.last_op_id = 171,
	},
};
/* clang-format on */

const struct ruby_layout *ruby_layout_row(unsigned int i)
{
	return i < ARRAY_SIZE(layouts) ? &layouts[i] : NULL;
}

const struct ruby_layout *ruby_layout_find(uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (version >= layouts[i].since && version < layouts[i].until)
			return &layouts[i];
	return NULL;
}

/* The next row of another minor version that is supported, from row i on. */
static size_t next_supported(size_t i, uint32_t minor)
{
	while (i < ARRAY_SIZE(layouts) && (!layouts[i].supported || layouts[i].since >> 8 == minor))
		i++;
	return i;
}

void ruby_layout_supported(char *out, size_t n)
{
	size_t len = 0, i = next_supported(0, 0), next;

	out[0] = '\0';
	for (; i < ARRAY_SIZE(layouts) && len < n; i = next) {
		uint32_t minor = layouts[i].since >> 8;
		bool is_last, is_first = len == 0;

		next = next_supported(i, minor);
		is_last = next == ARRAY_SIZE(layouts);
		len += (size_t)snprintf(out + len, n - len, "%s%u.%u",
		        is_first  ? ""
		        : is_last ? " and "
		                  : ", ",
		        minor >> 8, minor & 255);
	}
}

uint32_t ruby_version_parse(const char *s)
{
	uint32_t part[3];

	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		uint32_t n = 0;

		if (*s < '0' || *s > '9')
			return 0;
		for (; *s >= '0' && *s <= '9'; s++) {
			n = n * 10 + (uint32_t)(*s - '0');
			if (n > 255)
				return 0;
		}
		part[i] = n;
		if (*s != (i < 2 ? '.' : '\0'))
			return 0;
		s += i < 2;
	}
	return RUBY_VERSION(part[0], part[1], part[2]);
}

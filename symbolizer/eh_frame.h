/*
 * Reading .eh_frame: its entries (LSB 5.0 Core, "Exception Frames"), and the numbers in them.
 * Pure. Borrows the section's bytes; every read is bounded.
 */
#ifndef SYMBOLIZER_EH_FRAME_H
#define SYMBOLIZER_EH_FRAME_H

#include "base/base.h"
#include <stdbool.h>
#include <string.h>

/* A position in bytes. A read past the end, or of a number that does not fit, sets `bad`, which
 * stays, and gives 0: a caller may read several and ask once. */
struct eh_reader {
	const uint8_t *p, *end;
	bool bad;
};

struct eh_frame {
	const uint8_t *data;
	size_t sz;
	uint64_t vaddr;
};

struct eh_cie {
	uint64_t code_align;
	int64_t data_align;
	const uint8_t *insns;
	size_t insns_sz;
	uint8_t pc_enc;    /* DW_EH_PE_* of the FDEs' addresses */
	bool has_aug_data; /* 'z' */
	bool is_signal;    /* 'S' */
};

struct eh_fde {
	uint64_t start, end; /* vaddr, [start, end) */
	const uint8_t *insns;
	size_t insns_sz;
};

enum eh_entry_kind { EH_CIE, EH_FDE, EH_ZERO };

/* The frame around an entry's content. */
struct eh_entry {
	enum eh_entry_kind kind;
	size_t off;            /* of the entry in the section: names a CIE */
	size_t cie_off;        /* of an FDE's CIE; SIZE_MAX: it names none */
	struct eh_reader body; /* behind the CIE id or pointer */
};

/* The entry at *off, and *off behind it. False at the end, and where the rest makes no sense. */
bool eh_frame_next(const struct eh_frame *eh, size_t *off, struct eh_entry *entry);
/* False when the CIE is not one of this architecture (symbolizer/arch.h), or cannot be understood.
 */
bool eh_parse_cie(const struct eh_frame *eh, const struct eh_entry *entry, struct eh_cie *cie);
bool eh_parse_fde(const struct eh_frame *eh, const struct eh_entry *entry, const struct eh_cie *cie,
        struct eh_fde *fde);

/* A pointer as `enc` (DW_EH_PE_*) says; absolute and pc-relative ones only. */
uint64_t eh_read_pointer(const struct eh_frame *eh, struct eh_reader *r, uint8_t enc);
uint64_t eh_read_uleb(struct eh_reader *r);
int64_t eh_read_sleb(struct eh_reader *r);
/* n bytes to step over; NULL when there are fewer. */
const uint8_t *eh_read_bytes(struct eh_reader *r, uint64_t n);

#define EH_DEFINE_READ(name, type)                                                                 \
	static inline type eh_read_##name(struct eh_reader *r)                                     \
	{                                                                                          \
		type value = 0;                                                                    \
                                                                                                   \
		if ((size_t)(r->end - r->p) < sizeof(value)) {                                     \
			r->bad = true;                                                             \
			r->p = r->end;                                                             \
			return 0;                                                                  \
		}                                                                                  \
		memcpy(&value, r->p, sizeof(value));                                               \
		r->p += sizeof(value);                                                             \
		return value;                                                                      \
	}
EH_DEFINE_READ(u8, uint8_t)
EH_DEFINE_READ(u16, uint16_t)
EH_DEFINE_READ(u32, uint32_t)
EH_DEFINE_READ(u64, uint64_t)
#undef EH_DEFINE_READ

#endif

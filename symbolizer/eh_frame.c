#include "symbolizer/eh_frame.h"
#include "symbolizer/arch.h"

enum {
	DW_EH_PE_absptr = 0x00,
	DW_EH_PE_uleb128 = 0x01,
	DW_EH_PE_udata2 = 0x02,
	DW_EH_PE_udata4 = 0x03,
	DW_EH_PE_udata8 = 0x04,
	DW_EH_PE_sleb128 = 0x09,
	DW_EH_PE_sdata2 = 0x0a,
	DW_EH_PE_sdata4 = 0x0b,
	DW_EH_PE_sdata8 = 0x0c,
	DW_EH_PE_format = 0x0f,
	DW_EH_PE_pcrel = 0x10,
	DW_EH_PE_aligned = 0x50,
	DW_EH_PE_application = 0x70,
	DW_EH_PE_indirect = 0x80,
	DW_EH_PE_omit = 0xff,
};

uint64_t eh_read_uleb(struct eh_reader *r)
{
	uint64_t value = 0;
	unsigned int shift;

	for (shift = 0; shift < 64; shift += 7) {
		uint8_t byte = eh_read_u8(r);

		if (shift == 63 && (byte & 0x7e) != 0)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return r->bad ? 0 : value;
	}
	r->bad = true;
	return 0;
}

int64_t eh_read_sleb(struct eh_reader *r)
{
	uint64_t value = 0;
	unsigned int shift;

	for (shift = 0; shift < 64; shift += 7) {
		uint8_t byte = eh_read_u8(r);

		if (shift == 63 && byte != 0 && byte != 0x7f)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			if ((byte & 0x40) != 0 && shift < 57)
				value |= ~0ULL << (shift + 7);
			return r->bad ? 0 : (int64_t)value;
		}
	}
	r->bad = true;
	return 0;
}

const uint8_t *eh_read_bytes(struct eh_reader *r, uint64_t n)
{
	const uint8_t *p = r->p;

	if ((uint64_t)(r->end - r->p) < n) {
		r->bad = true;
		r->p = r->end;
		return NULL;
	}
	r->p += n;
	return p;
}

/* The value without what it is relative to. */
static uint64_t read_format(struct eh_reader *r, uint8_t enc)
{
	switch (enc & DW_EH_PE_format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return eh_read_u64(r);
	case DW_EH_PE_uleb128:
		return eh_read_uleb(r);
	case DW_EH_PE_udata2:
		return eh_read_u16(r);
	case DW_EH_PE_udata4:
		return eh_read_u32(r);
	case DW_EH_PE_sleb128:
		return (uint64_t)eh_read_sleb(r);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int64_t)(int16_t)eh_read_u16(r);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int64_t)(int32_t)eh_read_u32(r);
	default:
		r->bad = true;
		return 0;
	}
}

uint64_t eh_read_pointer(const struct eh_frame *eh, struct eh_reader *r, uint8_t enc)
{
	uint64_t base;

	switch (enc & ~DW_EH_PE_format) {
	case 0:
		base = 0;
		break;
	case DW_EH_PE_pcrel:
		base = eh->vaddr + (uint64_t)(r->p - eh->data);
		break;
	default:
		r->bad = true;
		return 0;
	}
	return base + read_format(r, enc);
}

/* The personality routine is of no interest, only its size is. */
static void skip_pointer(const struct eh_frame *eh, struct eh_reader *r, uint8_t enc)
{
	if (enc == DW_EH_PE_omit)
		return;
	if ((enc & DW_EH_PE_application) == DW_EH_PE_aligned) {
		uint64_t at = eh->vaddr + (uint64_t)(r->p - eh->data);

		eh_read_bytes(r, -at & 7);
		eh_read_u64(r);
		return;
	}
	read_format(r, enc);
}

bool eh_frame_next(const struct eh_frame *eh, size_t *off, struct eh_entry *entry)
{
	struct eh_reader r = {.end = eh->data + eh->sz};
	uint64_t length;
	size_t id_at;
	uint32_t id;

	if (*off >= eh->sz)
		return false;
	r.p = eh->data + *off;
	entry->off = *off;
	entry->cie_off = 0;
	length = eh_read_u32(&r);
	if (length == 0xffffffff)
		length = eh_read_u64(&r);
	if (r.bad || length > (uint64_t)(r.end - r.p))
		return false;
	r.end = r.p + length;
	*off = (size_t)(r.end - eh->data);
	/* crtend.o's terminator. libgcc finds what lies behind it by .eh_frame_hdr, so go on. */
	if (length == 0) {
		entry->kind = EH_ZERO;
		return true;
	}
	/* 4 bytes also in the 64-bit form (LSB 5.0, and LLVM's libunwind). */
	id_at = (size_t)(r.p - eh->data);
	id = eh_read_u32(&r);
	entry->kind = id == 0 && !r.bad ? EH_CIE : EH_FDE;
	if (entry->kind == EH_FDE)
		entry->cie_off = id <= id_at && !r.bad ? id_at - id : SIZE_MAX;
	entry->body = r;
	return true;
}

static bool parse_augmentation(
        const struct eh_frame *eh, const char *aug, struct eh_reader *r, struct eh_cie *cie)
{
	struct eh_reader data;
	uint64_t sz;

	if (aug[0] == '\0')
		return true;
	if (aug[0] != 'z')
		return false; /* "eh" of gcc 2: its size cannot be known */
	cie->has_aug_data = true;
	sz = eh_read_uleb(r);
	data = (struct eh_reader){.p = r->p};
	eh_read_bytes(r, sz);
	if (r->bad)
		return false;
	data.end = r->p;
	for (aug++; *aug != '\0'; aug++) {
		switch (*aug) {
		case 'R':
			cie->pc_enc = eh_read_u8(&data);
			break;
		case 'P':
			skip_pointer(eh, &data, eh_read_u8(&data));
			break;
		case 'L':
			eh_read_u8(&data);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B': /* arm64: pointer authentication, memory tagging */
		case 'G':
			break;
		default:
			/* How long its data are is unknown, so an encoding behind it is too. */
			if (strchr(aug, 'R') != NULL)
				return false;
			cie->is_signal |= strchr(aug, 'S') != NULL;
			return !data.bad;
		}
	}
	return !data.bad;
}

bool eh_parse_cie(const struct eh_frame *eh, const struct eh_entry *entry, struct eh_cie *cie)
{
	struct eh_reader r = entry->body;
	uint8_t version = eh_read_u8(&r);
	const char *aug = (const char *)r.p;
	uint64_t ra;

	*cie = (struct eh_cie){.pc_enc = DW_EH_PE_absptr};
	if (version != 1 && version != 3 && version != 4)
		return false;
	if (eh_read_bytes(&r, strnlen(aug, (size_t)(r.end - r.p)) + 1) == NULL)
		return false;
	if (version == 4 && (eh_read_u8(&r) != 8 || eh_read_u8(&r) != 0))
		return false; /* address and segment size */
	cie->code_align = eh_read_uleb(&r);
	cie->data_align = eh_read_sleb(&r);
	ra = version == 1 ? eh_read_u8(&r) : eh_read_uleb(&r);
	if (r.bad || ra != ARCH_DWARF_RA || !parse_augmentation(eh, aug, &r, cie))
		return false;
	cie->insns = r.p;
	cie->insns_sz = (size_t)(r.end - r.p);
	return true;
}

bool eh_parse_fde(const struct eh_frame *eh, const struct eh_entry *entry, const struct eh_cie *cie,
        struct eh_fde *fde)
{
	struct eh_reader r = entry->body;
	uint64_t start, sz;

	start = eh_read_pointer(eh, &r, cie->pc_enc);
	sz = read_format(&r, cie->pc_enc);
	if (cie->has_aug_data)
		eh_read_bytes(&r, eh_read_uleb(&r));
	if (r.bad || sz > UINT64_MAX - start)
		return false;
	fde->start = start;
	fde->end = start + sz;
	fde->insns = r.p;
	fde->insns_sz = (size_t)(r.end - r.p);
	return true;
}

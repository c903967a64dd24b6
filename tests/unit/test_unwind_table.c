/*
 * The table builder on hand-made .eh_frame bytes: every instruction, every edge of the format, and
 * bytes that are cut or damaged anywhere.
 */
#include "symbolizer/unwind_table.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <stdlib.h>

enum {
	EH_VADDR = 0x100000,
	TEXT_LO = 0x1000,
	TEXT_HI = 0x90000,
	START = 0x2000, /* of the FDE where a test needs one only */
	FP = 6,
	SP = 7,
	RA = 16,
};

/* ---- an assembler -----------------------------------------------------------------------------
 */

struct section {
	uint8_t data[1 << 19];
	size_t sz;
	size_t entry; /* offset of the one that is open */
	size_t cie;
};

static struct section sec;
static struct unwind_table table;

static void put(const void *data, size_t n)
{
	memcpy(sec.data + sec.sz, data, n);
	sec.sz += n;
}

static void put_u8(uint8_t x)
{
	put(&x, 1);
}

static void put_u32(uint32_t x)
{
	put(&x, 4);
}

static void put_u64(uint64_t x)
{
	put(&x, 8);
}

static void begin(uint32_t id)
{
	sec.entry = sec.sz;
	put_u32(0);
	put_u32(id);
}

static void end(void)
{
	uint32_t len;

	while (sec.sz % 8 != 0)
		put_u8(0);
	len = (uint32_t)(sec.sz - sec.entry - 4);
	memcpy(sec.data + sec.entry, &len, 4);
}

#define INSNS(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

/* With `aug` (and its data, without their length) as they come. */
static void put_cie(const char *aug, const uint8_t *aug_data, size_t aug_sz, const uint8_t *insns,
        size_t insns_sz)
{
	sec.cie = sec.sz;
	begin(0);
	put_u8(1);
	put(aug, strlen(aug) + 1);
	put_u8(1);    /* code alignment */
	put_u8(0x78); /* data alignment: -8 */
	put_u8(RA);
	if (aug[0] == 'z') {
		put_u8((uint8_t)aug_sz);
		put(aug_data, aug_sz);
	}
	put(insns, insns_sz);
	end();
}

/* What every compiler writes: CFA rsp + 8, return address at CFA - 8. */
#define USUAL INSNS(0x0c, SP, 8, 0x80 | RA, 1)

static void start_section(void)
{
	sec = (struct section){0};
	unwind_table_release(&table);
	put_cie("zR", INSNS(0x1b), USUAL);
}

static void begin_fde(void)
{
	begin((uint32_t)(sec.sz + 4 - sec.cie));
}

static void put_fde(uint64_t start, uint32_t sz, const uint8_t *insns, size_t insns_sz)
{
	begin_fde();
	put_u32((uint32_t)(start - (EH_VADDR + sec.sz)));
	put_u32(sz);
	put_u8(0);
	put(insns, insns_sz);
	end();
}

#define NOTHING INSNS(0)

static int build(void)
{
	/* A copy of just the size, so that ASan sees a byte too far. */
	uint8_t *copy = malloc(sec.sz != 0 ? sec.sz : 1);
	int rc;

	memcpy(copy, sec.data, sec.sz);
	unwind_table_release(&table);
	rc = unwind_table_build(&table, copy, sec.sz, EH_VADDR, TEXT_LO, TEXT_HI, NULL);
	free(copy);
	return rc;
}

/* One FDE at START, 0x100 bytes long, with these instructions. */
static int build_one(const uint8_t *insns, size_t sz)
{
	start_section();
	put_fde(START, 0x100, insns, sz);
	return build();
}

#define BUILD_ONE(...) REQUIRE(build_one(INSNS(__VA_ARGS__)) == 0)

static void check_rule(uint64_t vaddr, struct unwind_rule want)
{
	const struct unwind_rule *got = unwind_table_find(&table, vaddr);

	if (memcmp(got, &want, sizeof(want)) != 0)
		TAP_FAIL("%#" PRIx64
		         ": cfa %u%+d fp %u%+d ra %u%+d flags %u, not cfa %u%+d fp %u%+d "
		         "ra %u%+d flags %u",
		        vaddr, got->cfa_kind, got->cfa_off, got->fp_kind, got->fp_off, got->ra_kind,
		        got->ra_off, got->flags, want.cfa_kind, want.cfa_off, want.fp_kind,
		        want.fp_off, want.ra_kind, want.ra_off, want.flags);
}

#define RULE(...)    ((struct unwind_rule){.ra_off = -8, __VA_ARGS__})
#define SP_PLUS(n)   RULE(.cfa_kind = CFA_SP, .cfa_off = (n))
#define NO_RULE      ((struct unwind_rule){0})
#define SP_FP(n, at) RULE(.cfa_kind = CFA_SP, .cfa_off = (n), .fp_kind = FP_AT_CFA, .fp_off = (at))

/* ---- instructions -----------------------------------------------------------------------------
 */

TEST(the_cies_rule_holds_in_the_whole_fde_and_nowhere_else)
{
	BUILD_ONE(0);
	check_rule(START - 1, NO_RULE);
	check_rule(START, SP_PLUS(8));
	check_rule(START + 0xff, SP_PLUS(8));
	check_rule(START + 0x100, NO_RULE);
	CHECK_EQ(table.nr_fdes, 1);
	CHECK_EQ(table.fdes[0].start, START);
	CHECK_EQ(table.fdes[0].end, START + 0x100);
}

TEST(all_forms_of_advance_move_by_their_operand)
{
	BUILD_ONE(0x41, 0x0e, 16, 0x02, 0x10, 0x0e, 24, 0x03, 0x20, 0, 0x0e, 32, 0x04, 0x30, 0, 0,
	        0, 0x0e, 40);
	check_rule(START, SP_PLUS(8));
	check_rule(START + 1, SP_PLUS(16));
	check_rule(START + 0x10, SP_PLUS(16));
	check_rule(START + 0x11, SP_PLUS(24));
	check_rule(START + 0x30, SP_PLUS(24));
	check_rule(START + 0x31, SP_PLUS(32));
	check_rule(START + 0x60, SP_PLUS(32));
	check_rule(START + 0x61, SP_PLUS(40));
	check_rule(START + 0xff, SP_PLUS(40));
}

TEST(set_loc_moves_to_an_address)
{
	start_section();
	begin_fde();
	put_u32((uint32_t)(START - (EH_VADDR + sec.sz)));
	put_u32(0x100);
	put_u8(0);
	put_u8(0x01);
	put_u32((uint32_t)(START + 0x42 - (EH_VADDR + sec.sz)));
	put(INSNS(0x0e, 48));
	end();
	REQUIRE(build() == 0);
	check_rule(START + 0x41, SP_PLUS(8));
	check_rule(START + 0x42, SP_PLUS(48));
}

TEST(instructions_behind_the_fdes_end_have_no_effect)
{
	BUILD_ONE(0x02, 0xff, 0x0e, 16, 0x41, 0x0e, 24, 0x3f);
	check_rule(START + 0xfe, SP_PLUS(8));
	check_rule(START + 0xff, SP_PLUS(16));
	check_rule(START + 0x100, NO_RULE);
}

TEST(a_cfa_can_be_of_rbp)
{
	BUILD_ONE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, FP, 0x41, 0x0c, SP, 8, 0x41, 0x12, FP, 0x7c);
	check_rule(START + 1, SP_FP(16, -16));
	check_rule(START + 4,
	        RULE(.cfa_kind = CFA_FP, .cfa_off = 16, .fp_kind = FP_AT_CFA, .fp_off = -16));
	check_rule(START + 5, SP_FP(8, -16));
	check_rule(START + 6,
	        RULE(.cfa_kind = CFA_FP, .cfa_off = 32, .fp_kind = FP_AT_CFA, .fp_off = -16));
}

TEST(a_cfa_offset_can_be_signed_and_scaled)
{
	BUILD_ONE(0x13, 0x7b);
	check_rule(START, SP_PLUS(40));
}

TEST(a_cfa_of_another_register_is_unsupported_and_counted)
{
	BUILD_ONE(0x0c, 10, 0, 0x44, 0x0d, SP);
	check_rule(START, NO_RULE);
	check_rule(START + 4, SP_PLUS(0));
	CHECK_EQ(table.nr_unsupported, 1);
}

TEST(all_forms_of_saved_say_where_rbp_is)
{
	/* offset, offset_extended, offset_extended_sf, GNU_negative_offset_extended, */
	BUILD_ONE(0x86, 3, 0x41, 0x05, FP, 4, 0x41, 0x11, FP, 0x7b, 0x41, 0x2f, FP, 0x06, 0x41,
	        /* undefined, same_value, restore, offset, restore_extended */
	        0x07, FP, 0x41, 0x08, FP, 0x41, 0x86, 2, 0x41, 0xc6, 0x41, 0x86, 2, 0x41, 0x06, FP);
	check_rule(START, SP_FP(8, -24));
	check_rule(START + 1, SP_FP(8, -32));
	check_rule(START + 2, SP_FP(8, 40));
	check_rule(START + 3, SP_FP(8, 48));
	check_rule(START + 4, RULE(.cfa_kind = CFA_SP, .cfa_off = 8, .fp_kind = FP_UNDEFINED));
	check_rule(START + 5, SP_PLUS(8));
	check_rule(START + 6, SP_FP(8, -16));
	check_rule(START + 7, SP_PLUS(8));
	check_rule(START + 8, SP_FP(8, -16));
	check_rule(START + 9, SP_PLUS(8));
}

TEST(what_a_rule_cannot_say_of_rbp_is_unsupported)
{
	/* register, val_offset, val_offset_sf, val_expression, other expression */
	BUILD_ONE(0x09, FP, 11, 0x41, 0x14, FP, 1, 0x41, 0x15, FP, 1, 0x41, 0x16, FP, 2, 0x76, 0,
	        0x41, 0x10, FP, 2, 0x77, 0, 0x41, 0x10, FP, 3, 0x76, 0, 0x06, 0x41, 0x08, FP);
	for (int i = 0; i < 6; i++)
		check_rule(START + i, NO_RULE);
	check_rule(START + 6, SP_PLUS(8));
	CHECK_EQ(table.nr_unsupported, 1); /* one run of it */
}

TEST(other_registers_do_not_matter)
{
	BUILD_ONE(0x83, 2, 0x09, 3, 11, 0x14, 12, 1, 0x10, 13, 2, 0x77, 8, 0x07, 15, 0x2e, 0x90,
	        0x01, 0xc3);
	check_rule(START, SP_PLUS(8));
	CHECK_EQ(table.nr_rows, 3); /* low == 0, the rule, the end */
}

TEST(a_saved_rsp_is_unsupported)
{
	BUILD_ONE(0x87, 2, 0x41, 0xc7);
	check_rule(START, NO_RULE);
	check_rule(START + 1, SP_PLUS(8));
}

TEST(states_are_remembered_and_restored)
{
	BUILD_ONE(0x41, 0x0e, 16, 0x86, 2, 0x0a, 0x41, 0x0a, 0x0e, 8, 0xc6, 0x41, 0x0b, 0x41, 0x0e,
	        99, 0x41, 0x0b);
	check_rule(START + 1, SP_FP(16, -16));
	check_rule(START + 2, SP_PLUS(8));
	check_rule(START + 3, SP_FP(16, -16));
	check_rule(START + 4, SP_FP(99, -16));
	check_rule(START + 5, SP_FP(16, -16));
}

TEST(a_state_that_was_not_remembered_makes_a_bad_fde)
{
	BUILD_ONE(0x41, 0x0b);
	CHECK_EQ(table.nr_bad_fdes, 1);
	CHECK_EQ(table.nr_fdes, 0);
	check_rule(START, NO_RULE);
}

TEST(too_many_remembered_states_make_a_bad_fde)
{
	uint8_t insns[65];

	memset(insns, 0x0a, sizeof(insns));
	REQUIRE(build_one(insns, 64) == 0);
	CHECK_EQ(table.nr_bad_fdes, 0);
	REQUIRE(build_one(insns, 65) == 0);
	CHECK_EQ(table.nr_bad_fdes, 1);
}

TEST(an_unknown_instruction_makes_a_bad_fde)
{
	start_section();
	put_fde(START, 0x10, INSNS(0x41, 0x0e, 16, 0x41, 0x3f));
	put_fde(START + 0x10, 0x10, INSNS(0x41, 0x0e, 16));
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, 1);
	CHECK_EQ(table.nr_fdes, 1);
	check_rule(START + 1, NO_RULE);
	check_rule(START + 0x11, SP_PLUS(16));
}

TEST(an_undefined_return_address_is_the_end_whatever_the_cfa)
{
	BUILD_ONE(0x07, RA, 0x41, 0x0c, 1, 0);
	check_rule(START, (struct unwind_rule){.ra_kind = RA_END});
	check_rule(START + 1, (struct unwind_rule){.ra_kind = RA_END});
}

TEST(a_return_address_elsewhere_is_unsupported_or_at_its_offset)
{
	BUILD_ONE(0x09, RA, 1, 0x41, 0x90, 3, 0x41, 0x10, RA, 2, 0x76, 8, 0x41, 0x08, RA);
	check_rule(START, NO_RULE);
	check_rule(
	        START + 1, (struct unwind_rule){.cfa_kind = CFA_SP, .cfa_off = 8, .ra_off = -24});
	check_rule(START + 2, NO_RULE);
	check_rule(START + 3, NO_RULE);
}

TEST(an_offset_beyond_32_bits_is_unsupported)
{
	BUILD_ONE(0x0e, 0xff, 0xff, 0xff, 0xff, 0x07, 0x41, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x08);
	check_rule(START, SP_PLUS(INT32_MAX));
	check_rule(START + 1, NO_RULE);
}

/* ---- expressions ------------------------------------------------------------------------------
 */

#define PLT_EXPR(lit) 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, lit, 0x2a, 0x33, 0x24, 0x22

TEST(the_plts_expression_is_known_with_each_number)
{
	BUILD_ONE(PLT_EXPR(0x3b), 0x50, PLT_EXPR(0x3a), 0x50, PLT_EXPR(0x39), 0x50, PLT_EXPR(0x2f),
	        0x50, PLT_EXPR(0x30), 0x50, PLT_EXPR(0x40));
	check_rule(START, RULE(.cfa_kind = CFA_PLT, .cfa_off = 11));
	check_rule(START + 0x10, RULE(.cfa_kind = CFA_PLT, .cfa_off = 10));
	check_rule(START + 0x20, RULE(.cfa_kind = CFA_PLT, .cfa_off = 9));
	check_rule(START + 0x30, NO_RULE);
	check_rule(START + 0x40, RULE(.cfa_kind = CFA_PLT, .cfa_off = 0));
	check_rule(START + 0x50, NO_RULE);
}

TEST(a_cfa_can_be_loaded_from_memory)
{
	BUILD_ONE(0x0f, 3, 0x76, 0x78, 0x06, 0x10, FP, 2, 0x76, 0, 0x41, 0x0f, 3, 0x77, 24, 0x06,
	        0x41, 0x0f, 5, 0x77, 24, 0x06, 0x23, 8, 0x41, 0x0f, 2, 0x76, 0x78);
	check_rule(START, RULE(.cfa_kind = CFA_FP_DEREF, .cfa_off = -8, .fp_kind = FP_AT_FP));
	check_rule(START + 1, RULE(.cfa_kind = CFA_SP_DEREF, .cfa_off = 24, .fp_kind = FP_AT_FP));
	check_rule(START + 2, NO_RULE);
	check_rule(START + 3, NO_RULE);
	CHECK_EQ(table.nr_unsupported, 1);
}

TEST(a_register_ends_an_expression_and_an_offset_alone_does_not)
{
	BUILD_ONE(0x0f, 3, 0x77, 24, 0x06, 0x41, 0x0e, 16, 0x41, 0x0d, SP);
	check_rule(START + 1, RULE(.cfa_kind = CFA_SP_DEREF, .cfa_off = 24));
	check_rule(START + 2, SP_PLUS(16));
}

static void put_signal_cie(const uint8_t *insns, size_t sz)
{
	put_cie("zRS", INSNS(0x1b), insns, sz);
}

TEST(a_signal_frame_starts_a_byte_early_and_keeps_its_rule_throughout)
{
	start_section();
	put_fde(START - 0x20, 0x20, INSNS(0x41, 0x0e, 16));
	put_signal_cie(USUAL);
	put_fde(START - 1, 10,
	        INSNS(0x0f, 4, 0x77, 0xa0, 0x01, 0x06, 0x10, RA, 3, 0x77, 0xa8, 0x01));
	REQUIRE(build() == 0);
	check_rule(START - 2, SP_PLUS(16));
	for (int i = -1; i < 9; i++)
		check_rule(START + i,
		        (struct unwind_rule){.cfa_kind = CFA_SIGFRAME, .flags = UNWIND_F_SIGNAL});
	check_rule(START + 9, NO_RULE);
}

TEST(a_signal_frame_that_is_not_the_kernels_keeps_its_own_rule)
{
	start_section();
	put_signal_cie(USUAL);
	put_fde(START, 10, NOTHING);
	REQUIRE(build() == 0);
	check_rule(START, RULE(.cfa_kind = CFA_SP, .cfa_off = 8, .flags = UNWIND_F_SIGNAL));
	start_section();
	put_signal_cie(USUAL);
	put_fde(START, 10, INSNS(0x0f, 3, 0x77, 24, 0x06));
	REQUIRE(build() == 0);
	check_rule(START, RULE(.cfa_kind = CFA_SP_DEREF, .cfa_off = 24, .flags = UNWIND_F_SIGNAL));
}

/* ---- the format -------------------------------------------------------------------------------
 */

/* An FDE whose addresses are encoded as `enc`, of `width` bytes, absolute or pc-relative. */
static void put_encoded(uint8_t enc, const uint8_t *start, size_t width)
{
	put_cie("zR", &enc, 1, USUAL);
	begin_fde();
	put(start, width);
	put(INSNS(0x10, 0, 0, 0, 0, 0, 0, 0)); /* size: its first bytes */
	sec.sz -= 8 - width;
	put_u8(0);
	end();
}

TEST(addresses_come_in_every_encoding)
{
	static const struct {
		uint8_t enc, width;
	} encodings[] = {{0x00, 8}, {0x02, 2}, {0x03, 4}, {0x04, 8}, {0x0a, 2}, {0x0b, 4},
	        {0x0c, 8}, {0x1b, 4}, {0x1c, 8}, {0x14, 8}, {0x10, 8}};

	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		uint64_t start = START;

		start_section();
		sec.sz = 0;
		/* Where the CIE ends and the FDE's address begins is fixed: 24 + 8. */
		if ((encodings[i].enc & 0x70) == 0x10)
			start -= EH_VADDR + 32;
		put_encoded(encodings[i].enc, (const uint8_t *)&start, encodings[i].width);
		REQUIRE(build() == 0);
		check_rule(START - 1, NO_RULE);
		check_rule(START, SP_PLUS(8));
		check_rule(START + 0xf, SP_PLUS(8));
		check_rule(START + 0x10, NO_RULE);
	}
}

TEST(addresses_can_be_leb128)
{
	start_section();
	sec.sz = 0;
	put_encoded(0x01, (const uint8_t[]){0x80, 0x40}, 2);
	sec.data[sec.entry + 8 + 2] = 0x90; /* 0x10 in two bytes */
	sec.data[sec.entry + 8 + 3] = 0x00;
	REQUIRE(build() == 0);
	check_rule(START + 0xf, SP_PLUS(8));
	check_rule(START + 0x10, NO_RULE);
}

TEST(addresses_relative_to_what_is_unknown_make_bad_fdes)
{
	static const uint8_t encodings[] = {0x2b, 0x3b, 0x4b, 0x9b, 0x05, 0x0d, 0xff};

	for (size_t i = 0; i < sizeof(encodings); i++) {
		start_section();
		put_encoded(encodings[i], (const uint8_t[]){0, 0x20, 0, 0}, 4);
		REQUIRE(build() == 0);
		CHECK_EQ(table.nr_bad_fdes, 1);
		CHECK_EQ(table.nr_rows, 0);
	}
}

static void check_augmentation(const char *aug, const uint8_t *data, size_t sz, bool good)
{
	start_section();
	put_cie(aug, data, sz, USUAL);
	put_fde(START, 0x10, NOTHING);
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, !good);
	check_rule(START, good ? SP_PLUS(8) : NO_RULE);
}

TEST(augmentations_are_understood_or_stepped_over)
{
	check_augmentation("zPLR", INSNS(0x9b, 1, 2, 3, 4, 0x1b, 0x1b), true);
	check_augmentation("zPR", INSNS(0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b), true);
	check_augmentation("zPR", INSNS(0xff, 0x1b), true);
	check_augmentation("zRBG", INSNS(0x1b), true);
	check_augmentation("zRx", INSNS(0x1b, 7, 7, 7), true);
	check_augmentation("zxR", INSNS(0x1b, 0x1b), false);
	check_augmentation("zR", INSNS(0x1b, 1, 2), true);
	check_augmentation("zPR", INSNS(0x00, 1), false);
	check_augmentation("x", INSNS(0), false);
	check_augmentation("eh", NOTHING, false);
}

TEST(an_aligned_personality_is_stepped_over)
{
	start_section();
	sec.sz = 0;
	/* "zPR": the encoding is at 17, so the pointer is at 24. */
	put_cie("zPR", INSNS(0x50, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b), USUAL);
	CHECK_EQ(sec.data[17], 0x50);
	put_fde(START, 0x10, INSNS(0));
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, 0);
	check_rule(START, SP_PLUS(8));
}

TEST(a_cie_without_augmentation_has_absolute_addresses)
{
	start_section();
	put_cie("", NOTHING, USUAL);
	begin_fde();
	put_u64(START);
	put_u64(0x10);
	put(INSNS(0x41, 0x0e, 16));
	end();
	REQUIRE(build() == 0);
	check_rule(START + 1, SP_PLUS(16));
}

TEST(versions_3_and_4_of_a_cie_are_read)
{
	for (uint8_t version = 2; version <= 5; version++) {
		start_section();
		sec.cie = sec.sz;
		begin(0);
		put_u8(version);
		put("zR", 3);
		if (version == 4)
			put(INSNS(8, 0));
		put(INSNS(1, 0x78, 0x90, 0x00, 1, 0x1b)); /* 16 in two bytes */
		put(USUAL);
		end();
		put_fde(START, 0x10, NOTHING);
		REQUIRE(build() == 0);
		CHECK_EQ(table.nr_bad_fdes, version == 2 || version == 5);
		check_rule(START, version == 3 || version == 4 ? SP_PLUS(8) : NO_RULE);
	}
}

TEST(code_is_counted_in_its_alignment)
{
	start_section();
	sec.cie = sec.sz;
	begin(0);
	put(INSNS(1, 'z', 'R', 0, 4, 0x7c, RA, 1, 0x1b, 0x0c, SP, 8, 0x90, 2));
	end();
	put_fde(START, 0x100, INSNS(0x43, 0x0e, 16));
	REQUIRE(build() == 0);
	check_rule(START + 11, SP_PLUS(8));
	check_rule(START + 12, SP_PLUS(16));
}

TEST(the_64_bit_form_is_read)
{
	uint64_t len;
	size_t at;

	start_section();
	at = sec.sz;
	put_u32(0xffffffff);
	put_u64(0);
	put_u32((uint32_t)(sec.sz - sec.cie));
	put_u32((uint32_t)(START - (EH_VADDR + sec.sz)));
	put_u32(0x10);
	put_u8(0);
	put(INSNS(0x41, 0x0e, 16));
	len = sec.sz - at - 12;
	memcpy(sec.data + at + 4, &len, 8);
	put_fde(START + 0x10, 0x10, INSNS(0x0e, 24));
	REQUIRE(build() == 0);
	check_rule(START + 1, SP_PLUS(16));
	check_rule(START + 0x10, SP_PLUS(24));
}

TEST(what_stands_behind_a_terminator_is_read)
{
	start_section();
	put_u32(0);
	put_fde(START, 0x10, NOTHING);
	put_u32(0);
	REQUIRE(build() == 0);
	check_rule(START, SP_PLUS(8));
}

TEST(an_empty_section_gives_an_empty_table)
{
	sec.sz = 0;
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_rows, 0);
	check_rule(START, NO_RULE);
	put_u32(0);
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_rows, 0);
}

TEST(other_bytes_are_refused)
{
	sec.sz = 0;
	put("not an .eh_frame", 16);
	CHECK_EQ(build(), -EINVAL);
}

TEST(an_fde_without_its_cie_is_bad)
{
	start_section();
	begin(4);
	put_u32(START);
	end();
	begin(0x7fffffff);
	put_u32(START);
	end();
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, 2);
}

/* ---- the table --------------------------------------------------------------------------------
 */

TEST(equal_rules_are_one_row)
{
	start_section();
	put_fde(START, 0x10, INSNS(0x41, 0x0e, 16, 0x41, 0x83, 2, 0x41, 0x0e, 8));
	put_fde(START + 0x10, 0x10, NOTHING);
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_rows, 5); /* low == 0, 8, 16, 8, the end */
	CHECK_EQ(table.nr_rules, 3);
	CHECK_EQ(table.nr_fdes, 2);
}

TEST(a_gap_of_one_byte_has_no_rule)
{
	start_section();
	put_fde(START, 0xf, NOTHING);
	put_fde(START + 0x10, 0x10, NOTHING);
	REQUIRE(build() == 0);
	check_rule(START + 0xe, SP_PLUS(8));
	check_rule(START + 0xf, NO_RULE);
	check_rule(START + 0x10, SP_PLUS(8));
}

TEST(fdes_come_in_any_order)
{
	start_section();
	put_fde(START + 0x40, 0x10, INSNS(0x0e, 16));
	put_fde(START, 0x10, INSNS(0x0e, 24));
	put_fde(START + 0x10, 0x30, INSNS(0x0e, 32));
	REQUIRE(build() == 0);
	check_rule(START + 0xf, SP_PLUS(24));
	check_rule(START + 0x3f, SP_PLUS(32));
	check_rule(START + 0x40, SP_PLUS(16));
	CHECK_EQ(table.fdes[0].start, START);
}

TEST(of_fdes_that_overlap_the_first_is_kept)
{
	start_section();
	put_fde(START, 0x20, INSNS(0x0e, 16));
	put_fde(START + 0x10, 0x20, INSNS(0x0e, 24));
	put_fde(START + 0x30, 0x10, INSNS(0x0e, 32));
	put_fde(START + 0x30, 0x10, INSNS(0x0e, 40));
	REQUIRE(build() == 0);
	check_rule(START + 0x1f, SP_PLUS(16));
	check_rule(START + 0x20, NO_RULE);
	check_rule(START + 0x30, SP_PLUS(32));
	CHECK_EQ(table.nr_fdes, 2);
}

TEST(a_rule_is_carried_into_each_page_it_reaches)
{
	start_section();
	put_fde(0xfff0, 0x30010, INSNS(0x0e, 16));
	put_fde(0x50000, 0x10, INSNS(0x0e, 24));
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_pages, 9);
	CHECK_EQ(table.pages[0].nr, 2);
	for (int p = 1; p <= 3; p++) {
		CHECK_EQ(table.pages[p].nr, 1);
		CHECK_EQ(UNWIND_ROW_LOW(table.rows[table.pages[p].first]), 0);
		check_rule((uint64_t)p << 16, SP_PLUS(16));
		check_rule(((uint64_t)p << 16) + 0xffff, SP_PLUS(16));
	}
	CHECK_EQ(table.pages[4].nr, 0);
	CHECK_EQ(table.pages[5].nr, 2);
	check_rule(0xffef, NO_RULE);
	check_rule(0x40000, NO_RULE);
	check_rule(0x50000, SP_PLUS(24));
	check_rule(0x50010, NO_RULE);
	check_rule(0x60000, NO_RULE);
	check_rule(UINT64_MAX, NO_RULE);
}

TEST(what_lies_outside_of_the_text_is_dropped)
{
	start_section();
	put_fde(0, 0x10, INSNS(0x0e, 16));
	put_fde(TEXT_LO - 8, 16, INSNS(0x0e, 24, 0x44, 0x0e, 32, 0x48, 0x0e, 40));
	put_fde(TEXT_HI - 8, 16, INSNS(0x0e, 48, 0x48, 0x0e, 56));
	put_fde(TEXT_HI, 16, INSNS(0x0e, 64));
	REQUIRE(build() == 0);
	check_rule(8, NO_RULE);
	check_rule(TEXT_LO - 1, NO_RULE);
	check_rule(TEXT_LO, SP_PLUS(32));
	check_rule(TEXT_LO + 4, SP_PLUS(40));
	check_rule(TEXT_LO + 8, NO_RULE);
	check_rule(TEXT_HI - 1, SP_PLUS(48));
	check_rule(TEXT_HI, NO_RULE);
	CHECK_EQ(table.nr_fdes, 2);
}

TEST(a_page_with_too_many_rows_has_none_and_its_neighbours_have_theirs)
{
	start_section();
	begin_fde();
	put_u32((uint32_t)(0x2fff0 - (EH_VADDR + sec.sz)));
	put_u32(0x10020);
	put_u8(0);
	put(INSNS(0x02, 0x10));
	for (int i = 0; i < UNWIND_CHUNK_ROWS + 1; i++)
		put(INSNS(0x42, 0x0e, i % 2 != 0 ? 16 : 24));
	end();
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_full_pages, 1);
	CHECK_EQ(table.pages[3].nr, 0);
	check_rule(0x2fff0, SP_PLUS(8));
	check_rule(0x30100, NO_RULE);
	check_rule(0x40000, SP_PLUS(24));
	check_rule(0x4000f, SP_PLUS(24));
	CHECK_EQ(table.nr_rows, table.pages[2].nr + table.pages[4].nr);
}

/* Five FDEs of `nr` rules each, all different. */
static int build_rules(uint32_t nr)
{
	start_section();
	for (uint32_t fde = 0; fde < 5; fde++) {
		begin_fde();
		put_u32((uint32_t)(START + 0x4000 * fde - (EH_VADDR + sec.sz)));
		put_u32(0x4000);
		put_u8(0);
		for (uint32_t i = 0; i < nr; i++) {
			uint32_t off = 1000 + fde * nr + i;

			put(INSNS(0x0e, (uint8_t)(0x80 | off), (uint8_t)(0x80 | off >> 7),
			        (uint8_t)(off >> 14), 0x41));
		}
		sec.sz--; /* the last one holds to the end */
		end();
	}
	return build();
}

TEST(more_rules_than_an_index_holds_are_refused)
{
	CHECK_EQ(build_rules(13107), 0); /* 65535 and the first */
	CHECK_EQ(table.nr_rules, 65536);
	CHECK_EQ(build_rules(13108), -E2BIG);
}

TEST(text_that_ends_beyond_64_gib_is_refused)
{
	struct unwind_table t;

	CHECK_EQ(unwind_table_build(&t, sec.data, 0, EH_VADDR, 0, (1ULL << 36) + 1, NULL), -E2BIG);
}

/* ---- damage -----------------------------------------------------------------------------------
 */

static void put_rich_section(void)
{
	start_section();
	put_fde(START, 0x40,
	        INSNS(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, FP, 0x0a, 0x50, 0x0c, SP, 8, 0x41, 0x0b,
	                0x02, 1, 0x2e, 16, 0x11, FP, 0x7e));
	put_cie("zPLR", INSNS(0x9b, 1, 2, 3, 4, 0x1b, 0x1b), USUAL);
	begin_fde();
	put_u32((uint32_t)(START + 0x40 - (EH_VADDR + sec.sz)));
	put_u32(0x1ff00);
	put(INSNS(4, 9, 9, 9, 9, 0x03, 0, 0x20, PLT_EXPR(0x3b), 0x04, 0, 0, 1, 0, 0x0f, 3, 0x76,
	        0x78, 6, 0x10, FP, 2, 0x76, 0, 0x41, 0x07, RA, 0x41, 0x06, RA, 0x09, 3, 4, 0x14, 3,
	        9));
	end();
	put_signal_cie(USUAL);
	put_fde(0x30000, 10, INSNS(0x0f, 4, 0x77, 0xa0, 0x01, 0x06));
	put_u32(0);
}

static void check_form(void)
{
	for (size_t p = 0; p < table.nr_pages; p++) {
		const struct unwind_table_page *page = &table.pages[p];

		if (page->nr == 0)
			continue;
		REQUIRE(page->first + (size_t)page->nr <= table.nr_rows);
		REQUIRE(UNWIND_ROW_LOW(table.rows[page->first]) == 0);
		for (uint32_t i = 0; i < page->nr; i++) {
			const uint32_t *row = &table.rows[page->first + i];

			REQUIRE(UNWIND_ROW_RULE(*row) < table.nr_rules);
			REQUIRE(i == 0 || UNWIND_ROW_LOW(row[-1]) < UNWIND_ROW_LOW(*row));
		}
	}
	for (size_t i = 0; i < table.nr_fdes; i++)
		REQUIRE(i == 0 || table.fdes[i - 1].end <= table.fdes[i].start);
}

TEST(a_section_cut_anywhere_gives_a_table_or_an_error)
{
	size_t sz;

	put_rich_section();
	for (sz = sec.sz; sz > 0; sz--) {
		sec.sz = sz;
		if (build() == 0)
			check_form();
	}
}

TEST(a_section_with_any_byte_changed_gives_a_table_or_an_error)
{
	put_rich_section();
	for (size_t i = 0; i < sec.sz; i++) {
		uint8_t was = sec.data[i];

		for (int x = 1; x < 256; x += 6) {
			sec.data[i] = (uint8_t)(was + x);
			if (build() == 0)
				check_form();
		}
		sec.data[i] = was;
	}
}

TEST(a_section_with_random_bytes_changed_gives_a_table_or_an_error)
{
	unsigned int seed = 1;

	for (int round = 0; round < 5000; round++) {
		put_rich_section();
		for (int i = rand_r(&seed) % 8; i >= 0; i--)
			sec.data[(size_t)rand_r(&seed) % sec.sz] = (uint8_t)rand_r(&seed);
		if (build() == 0)
			check_form();
	}
}

TEST(code_that_goes_back_is_refused)
{
	start_section();
	begin_fde();
	put_u32((uint32_t)(START - (EH_VADDR + sec.sz)));
	put_u32(0x100);
	put_u8(0);
	put_u8(0x40 | 0x20); /* advance by 32 */
	put_u8(0x0e);
	put_u8(16); /* def_cfa_offset 16 */
	put_u8(0x01);
	put_u32((uint32_t)(START + 0x10 - (EH_VADDR + sec.sz))); /* set_loc, behind us */
	put_u8(0x0e);
	put_u8(24);
	end();
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, 1);
	check_rule(START, NO_RULE);
	check_rule(START + 0x30, NO_RULE);
}

TEST(a_return_address_in_another_column_is_refused)
{
	start_section();
	sec.cie = sec.sz;
	begin(0);
	put_u8(1);
	put("zR", 3);
	put_u8(1);
	put_u8(0x78);
	put_u8(RA + 1);
	put_u8(1);
	put_u8(0x1b);
	put(USUAL);
	end();
	put_fde(START, 0x100, NOTHING);
	REQUIRE(build() == 0);
	CHECK_EQ(table.nr_bad_fdes, 1);
	check_rule(START, NO_RULE);
}

int main(int argc, char **argv)
{
	int rc = tap_run(argc, argv);

	unwind_table_release(&table);
	return rc;
}

/*
 * Records that hold what differs from a thread's last walk, made whole again: against a kernel side
 * that keeps walks by the rule of bpf/abi.h (struct rprof_sample), and knows the whole stacks.
 * Stacks are written down root first here, records leaf first.
 */
#include "record/kept_walk.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <stdlib.h>

struct stack {
	uint32_t tgid, tid, nr_kernel, nr_native, nr_interp;
	enum walk_outcome native_outcome, interp_outcome;
	uint64_t native[RPROF_MAX_NATIVE];
	struct interp_frame interp[RPROF_MAX_INTERP];
};

/* What the kernel side has in a slot. */
struct kept {
	uint32_t tgid, tid, seq, nr_native, nr_interp;
	uint64_t native[RPROF_MAX_KEPT_NATIVE];
	struct interp_frame interp[RPROF_MAX_KEPT_INTERP];
};

enum { NR_SLOTS = 4 };

static struct kept slots[NR_SLOTS];
static struct kept_walks *walks;

/* The record that was made last, of its own size, so that a read behind it is noticed. */
static struct rprof_sample *record;
static size_t record_sz;

static struct stack stack;
static const struct rprof_sample *whole;
static size_t whole_sz;

static void end(void)
{
	kept_walks_free(walks);
	walks = NULL;
	free(record);
	record = NULL;
}

static bool start(void)
{
	end();
	memset(slots, 0, sizeof(slots));
	memset(&stack, 0, sizeof(stack));
	stack.tgid = 100;
	stack.tid = 101;
	stack.native_outcome = WALK_ROOT;
	stack.interp_outcome = WALK_ROOT;
	return kept_walks_new(NR_SLOTS, &walks) == 0;
}

static struct interp_frame interp_frame(uint64_t word)
{
	return (struct interp_frame){.pc = word,
	        .code = word ^ 1,
	        .method = word << 8,
	        .flags = (uint32_t)word,
	        .extra = 7};
}

/* Makes the stack so deep; frames that are new have this word in them. */
static void set_depth(uint32_t nr_native, uint32_t nr_interp, uint64_t word)
{
	for (uint32_t i = stack.nr_native; i < nr_native; i++)
		stack.native[i] = word << 16 | i;
	for (uint32_t i = stack.nr_interp; i < nr_interp; i++)
		stack.interp[i] = interp_frame(word << 16 | i);
	stack.nr_native = nr_native;
	stack.nr_interp = nr_interp;
}

/* The walk did not get to the outermost frames. */
static void cut_native(uint32_t nr_missing)
{
	stack.nr_native -= nr_missing;
	memmove(stack.native, stack.native + nr_missing, stack.nr_native * sizeof(stack.native[0]));
	stack.native_outcome = WALK_UNREADABLE;
}

static void cut_interp(uint32_t nr_missing)
{
	stack.nr_interp -= nr_missing;
	memmove(stack.interp, stack.interp + nr_missing, stack.nr_interp * sizeof(stack.interp[0]));
	stack.interp_outcome = WALK_LIMIT;
}

static bool interp_equal(const struct interp_frame *a, const struct interp_frame *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The kernel side sends the stack by a slot: *record; and keeps it, unless it could not be sent. */
static void send(uint32_t slot, bool sent)
{
	struct kept *kept = &slots[slot];
	uint32_t base_native = 0, base_interp = 0;
	uint64_t *word;

	if (kept->tgid != stack.tgid || kept->tid != stack.tid) {
		kept->tgid = stack.tgid;
		kept->tid = stack.tid;
		kept->nr_native = kept->nr_interp = 0;
	}
	if (stack.native_outcome == WALK_ROOT)
		while (base_native < MIN(kept->nr_native, stack.nr_native) &&
		        kept->native[base_native] == stack.native[base_native])
			base_native++;
	if (stack.interp_outcome == WALK_ROOT)
		while (base_interp < MIN(kept->nr_interp, stack.nr_interp) &&
		        interp_equal(&kept->interp[base_interp], &stack.interp[base_interp]))
			base_interp++;
	free(record);
	record_sz = sizeof(*record) +
	            (stack.nr_kernel + stack.nr_native - base_native) * sizeof(uint64_t) +
	            (stack.nr_interp - base_interp) * sizeof(struct interp_frame);
	record = calloc(1, record_sz);
	*record = (struct rprof_sample){
	        .tgid = stack.tgid,
	        .tid = stack.tid,
	        .flags = SAMPLE_F_KEPT,
	        .keep_slot = slot,
	        .keep_seq = ++kept->seq,
	        .nr_kernel = (uint16_t)stack.nr_kernel,
	        .nr_native = (uint16_t)(stack.nr_native - base_native),
	        .nr_interp = (uint16_t)(stack.nr_interp - base_interp),
	        .base_native = (uint16_t)base_native,
	        .base_interp = (uint16_t)base_interp,
	        .native_outcome = (uint8_t)stack.native_outcome,
	        .interp_outcome = (uint8_t)stack.interp_outcome,
	};
	word = (uint64_t *)(record + 1);
	for (uint32_t i = 0; i < stack.nr_kernel; i++)
		*word++ = ~(uint64_t)i;
	for (uint32_t i = stack.nr_native; i > base_native; i--)
		*word++ = stack.native[i - 1];
	for (uint32_t i = stack.nr_interp; i > base_interp; i--, word += 4)
		memcpy(word, &stack.interp[i - 1], sizeof(stack.interp[0]));

	if (stack.native_outcome == WALK_ROOT) {
		kept->nr_native = MIN(stack.nr_native, (uint32_t)RPROF_MAX_KEPT_NATIVE);
		memcpy(kept->native, stack.native, kept->nr_native * sizeof(stack.native[0]));
	}
	if (stack.interp_outcome == WALK_ROOT) {
		kept->nr_interp = MIN(stack.nr_interp, (uint32_t)RPROF_MAX_KEPT_INTERP);
		memcpy(kept->interp, stack.interp, kept->nr_interp * sizeof(stack.interp[0]));
	}
	if (!sent)
		kept->nr_native = kept->nr_interp = 0;
}

static int expand(void)
{
	whole = NULL;
	return kept_walks_expand(walks, record, record_sz, &whole, &whole_sz);
}

/* Is what the last expand() gave the stack? */
static bool whole_is_stack(void)
{
	if (whole == NULL || whole->tid != stack.tid || whole->nr_kernel != stack.nr_kernel ||
	        whole->nr_native != stack.nr_native || whole->nr_interp != stack.nr_interp ||
	        whole->base_native != 0 || whole->base_interp != 0 ||
	        !record_is_whole(whole, whole_sz))
		return false;
	for (uint32_t i = 0; i < stack.nr_kernel; i++)
		if (record_kernel(whole)[i] != ~(uint64_t)i)
			return false;
	for (uint32_t i = 0; i < stack.nr_native; i++)
		if (record_native(whole)[i] != stack.native[stack.nr_native - 1 - i])
			return false;
	for (uint32_t i = 0; i < stack.nr_interp; i++)
		if (!interp_equal(&record_interp(whole)[i], &stack.interp[stack.nr_interp - 1 - i]))
			return false;
	return true;
}

static bool send_is_whole(uint32_t slot)
{
	send(slot, true);
	return expand() == 0 && whole_is_stack();
}

TEST(a_record_without_a_base_is_given_as_it_is)
{
	REQUIRE(start());
	set_depth(5, 3, 1);
	send(0, true);
	CHECK_EQ(expand(), 0);
	CHECK(whole == record);
	CHECK_EQ(whole_sz, record_sz);
	end();
}

TEST(a_record_that_is_not_kept_changes_nothing)
{
	REQUIRE(start());
	set_depth(5, 3, 1);
	CHECK(send_is_whole(0));
	set_depth(2, 1, 1);
	set_depth(6, 6, 2);
	send(1, true);
	record->flags = 0;
	record->keep_slot = 0;
	record->keep_seq = 9;
	CHECK_EQ(expand(), 0);
	CHECK(whole == record);
	set_depth(2, 1, 2);
	set_depth(5, 3, 1);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 5);
	CHECK_EQ(record->base_interp, 3);
	end();
}

TEST(frames_of_the_last_walk_follow_those_of_the_record)
{
	REQUIRE(start());
	set_depth(5, 3, 1);
	CHECK(send_is_whole(0));
	stack.nr_kernel = 4;
	set_depth(3, 2, 1);
	set_depth(9, 4, 2);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 3);
	CHECK_EQ(record->base_interp, 2);
	/* The same once more: no frame in the record at all. */
	CHECK(send_is_whole(0));
	CHECK_EQ(record->nr_native + record->nr_interp, 0);
	/* And less than before. */
	stack.nr_kernel = 0;
	set_depth(1, 1, 2);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->nr_native + record->nr_interp, 0);
	set_depth(6, 6, 3);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 1);
	end();
}

TEST(one_of_the_two_stacks_may_have_no_base)
{
	REQUIRE(start());
	set_depth(5, 0, 1);
	CHECK(send_is_whole(0));
	set_depth(5, 4, 2);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 5);
	CHECK_EQ(record->base_interp, 0);
	set_depth(0, 4, 2);
	set_depth(3, 4, 3);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 0);
	CHECK_EQ(record->base_interp, 4);
	end();
}

TEST(each_slot_has_its_own_walk)
{
	REQUIRE(start());
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t slot = i * 3 % NR_SLOTS;

		stack.tid = 200 + slot;
		set_depth(0, 0, 0);
		set_depth(4 + slot, 2 + slot, slot);
		set_depth(8, 9, i);
		CHECK(send_is_whole(slot));
		CHECK_EQ(record->base_native, i < NR_SLOTS ? 0 : 4 + slot);
		CHECK_EQ(record->base_interp, i < NR_SLOTS ? 0 : 2 + slot);
	}
	end();
}

TEST(threads_take_a_slot_from_one_another)
{
	REQUIRE(start());
	set_depth(6, 6, 1);
	for (uint32_t i = 0; i < 6; i++) {
		stack.tid = 300 + i % 2;
		CHECK(send_is_whole(2));
		CHECK_EQ(record->base_native + record->base_interp, 0);
	}
	CHECK(send_is_whole(2));
	CHECK_EQ(record->base_native, 6);
	/* The same thread number in another process is another thread. */
	stack.tgid++;
	CHECK(send_is_whole(2));
	CHECK_EQ(record->base_native, 0);
	end();
}

TEST(the_walk_of_another_thread_is_no_base)
{
	REQUIRE(start());
	set_depth(6, 6, 1);
	CHECK(send_is_whole(0));
	send(0, true);
	record->tid++;
	CHECK_EQ(expand(), -ENODATA);
	record->tid--;
	record->tgid++;
	CHECK_EQ(expand(), -ENODATA);
	record->tgid--;
	CHECK_EQ(expand(), 0);
	CHECK(whole_is_stack());
	/* Nor is what the slot's last owner had, where the new one has sent less. */
	stack.tid++;
	stack.native_outcome = WALK_UNREADABLE;
	stack.interp_outcome = WALK_NO_CONTEXT;
	CHECK(send_is_whole(0));
	send(0, true);
	record->base_native = 1;
	CHECK_EQ(expand(), -ENODATA);
	end();
}

TEST(what_the_kernel_could_not_send_is_not_built_on)
{
	REQUIRE(start());
	set_depth(6, 6, 1);
	CHECK(send_is_whole(0));
	set_depth(3, 3, 1);
	set_depth(6, 6, 2);
	send(0, false);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native + record->base_interp, 0);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 6);
	end();
}

TEST(a_record_that_did_not_arrive_is_noticed)
{
	REQUIRE(start());
	set_depth(6, 6, 1);
	CHECK(send_is_whole(0));
	set_depth(3, 3, 1);
	set_depth(6, 6, 2);
	send(0, true); /* and is gone */
	for (uint32_t i = 0; i < 3; i++) {
		send(0, true);
		CHECK_EQ(record->base_native, 6);
		CHECK_EQ(expand(), -ENODATA);
		CHECK(whole == NULL);
	}
	/* A whole one mends it. */
	set_depth(0, 0, 0);
	set_depth(6, 6, 3);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 0);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 6);
	end();
}

/* The number fits again, but what the cut walk left as it was is not what the kernel side has. */
TEST(a_cut_walk_does_not_mend_what_is_missing)
{
	REQUIRE(start());
	set_depth(6, 6, 1);
	CHECK(send_is_whole(0));
	set_depth(0, 0, 0);
	set_depth(6, 6, 2);
	send(0, true); /* and is gone */
	stack.native_outcome = WALK_UNREADABLE;
	stack.interp_outcome = WALK_UNREADABLE;
	CHECK(send_is_whole(0));
	stack.native_outcome = WALK_ROOT;
	stack.interp_outcome = WALK_ROOT;
	send(0, true);
	CHECK_EQ(record->base_native, 6);
	CHECK_EQ(expand(), -ENODATA);
	end();
}

TEST(a_cut_walk_leaves_the_kept_one_alone)
{
	static struct stack uncut;

	REQUIRE(start());
	set_depth(6, 6, 1);
	CHECK(send_is_whole(0));
	set_depth(2, 2, 1);
	set_depth(5, 5, 2);
	uncut = stack;
	cut_native(1);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 0);
	CHECK_EQ(record->base_interp, 2);
	stack = uncut;
	cut_interp(1);
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 2);
	CHECK_EQ(record->base_interp, 0);
	stack = uncut;
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, 5);
	CHECK_EQ(record->base_interp, 5);
	end();
}

TEST(the_outermost_frames_are_kept_up_to_a_number)
{
	REQUIRE(start());
	set_depth(RPROF_MAX_KEPT_NATIVE + 100, RPROF_MAX_KEPT_INTERP + 100, 1);
	CHECK(send_is_whole(0));
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, RPROF_MAX_KEPT_NATIVE);
	CHECK_EQ(record->base_interp, RPROF_MAX_KEPT_INTERP);
	CHECK_EQ(record->nr_native, 100);
	record->keep_seq++;
	record->base_native++;
	CHECK_EQ(expand(), -ENODATA);
	record->base_native--;
	record->base_interp++;
	CHECK_EQ(expand(), -ENODATA);
	end();
}

TEST(the_largest_record_becomes_whole)
{
	REQUIRE(start());
	stack.nr_kernel = RPROF_MAX_KERNEL;
	set_depth(RPROF_MAX_NATIVE, RPROF_MAX_INTERP, 1);
	CHECK(send_is_whole(0));
	CHECK(send_is_whole(0));
	CHECK_EQ(record->base_native, RPROF_MAX_KEPT_NATIVE);
	end();
}

TEST(a_record_is_not_whole_when_its_base_is_too_large)
{
	REQUIRE(start());
	set_depth(RPROF_MAX_KEPT_NATIVE, RPROF_MAX_KEPT_INTERP, 1);
	CHECK(send_is_whole(0));
	set_depth(1, 1, 1);
	set_depth(RPROF_MAX_NATIVE, RPROF_MAX_INTERP, 2);
	send(0, true);
	record->base_native = 2;
	CHECK_EQ(expand(), -ENODATA);
	record->base_native = 1;
	record->base_interp = 2;
	CHECK_EQ(expand(), -ENODATA);
	record->base_interp = 1;
	CHECK_EQ(expand(), 0);
	CHECK(whole_is_stack());
	end();
}

TEST(a_record_that_is_shorter_than_it_says_is_none)
{
	REQUIRE(start());
	stack.nr_kernel = 2;
	set_depth(3, 2, 1);
	send(0, true);
	for (size_t size = 0; size < record_sz; size++) {
		void *cut = malloc(size + (size == 0));

		memcpy(cut, record, size);
		CHECK_EQ(kept_walks_expand(walks, cut, size, &whole, &whole_sz), -EINVAL);
		free(cut);
	}
	CHECK_EQ(expand(), 0);
	end();
}

TEST(a_record_with_impossible_numbers_is_none)
{
	REQUIRE(start());
	set_depth(3, 2, 1);
	send(0, true);
	free(record);
	/* Room for what they say. */
	record_sz = 4 << 20;
	record = calloc(1, record_sz);
	record->nr_kernel = RPROF_MAX_KERNEL + 1;
	CHECK_EQ(expand(), -EINVAL);
	record->nr_kernel = 0;
	record->nr_native = RPROF_MAX_NATIVE + 1;
	CHECK_EQ(expand(), -EINVAL);
	record->nr_native = 0;
	record->nr_interp = RPROF_MAX_INTERP + 1;
	CHECK_EQ(expand(), -EINVAL);
	record->nr_interp = 0;
	record->flags = SAMPLE_F_KEPT;
	record->keep_slot = NR_SLOTS;
	CHECK_EQ(expand(), -EINVAL);
	record->keep_slot = UINT16_MAX;
	CHECK_EQ(expand(), -EINVAL);
	record->keep_slot = 0;
	record->base_native = UINT16_MAX;
	CHECK_EQ(expand(), -ENODATA);
	/* A base of a walk that is in no slot. */
	record->flags = 0;
	CHECK_EQ(expand(), -ENODATA);
	CHECK(whole == NULL);
	end();
}

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % n;
}

/* Of 64 threads on 4 slots, most of the time the same few. */
enum { NR_THREADS = 64 };

static void random_stack(struct stack *threads)
{
	uint32_t thread = random_below(random_below(4) ? 5 : NR_THREADS);
	uint32_t depth = random_below(20) ? 40 : 2500, native, interp;

	stack = threads[thread];
	stack.tgid = 1 + thread % 2;
	stack.tid = 1000 + thread;
	stack.native_outcome = WALK_ROOT;
	stack.interp_outcome = WALK_ROOT;
	native = random_below(stack.nr_native + 1);
	interp = random_below(stack.nr_interp + 1);
	set_depth(native, interp, 0);
	native += random_below(depth);
	interp += random_below(depth);
	set_depth(MIN(native, (uint32_t)RPROF_MAX_NATIVE), MIN(interp, (uint32_t)RPROF_MAX_INTERP),
	        random_below(1 << 20));
	stack.nr_kernel = random_below(3) ? 0 : random_below(RPROF_MAX_KERNEL + 1);
	threads[thread] = stack;
	if (random_below(8) == 0)
		cut_native(random_below(stack.nr_native + 1));
	if (random_below(8) == 0)
		cut_interp(random_below(stack.nr_interp + 1));
}

/* one_in: of so many records one is not sent, and (hidden) one more gets lost without anybody
 * knowing. Returns how many could not be made whole. */
static uint32_t run_random(uint64_t seed, uint32_t one_in, bool hidden)
{
	struct stack *threads = calloc(NR_THREADS, sizeof(*threads));
	uint32_t nr_missing = 0;

	random_state = seed;
	for (uint32_t i = 0; i < 4000 && !tap_failed; i++) {
		bool sent = random_below(one_in) != 0;
		int rc;

		random_stack(threads);
		send(stack.tid % NR_SLOTS, sent);
		if (!sent || (hidden && random_below(one_in) == 0))
			continue;
		rc = expand();
		if (rc == -ENODATA)
			nr_missing++;
		else if (rc != 0 || !whole_is_stack())
			TAP_FAIL("seed %" PRIu64 ", record %u: %d, or not the stack", seed, i, rc);
	}
	free(threads);
	return nr_missing;
}

TEST(random_stacks_come_out_as_they_were)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		REQUIRE(start());
		CHECK_EQ(run_random(seed, 10, false), 0);
		end();
	}
}

TEST(a_stack_is_right_or_missing_whatever_gets_lost)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		REQUIRE(start());
		CHECK(run_random(seed, 10, true) > 0);
		end();
	}
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}

#include "cli/summary.h"

#include "base/buf.h"

#include <inttypes.h>

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

/* The reasons of one outcome's stacks: "fiber-switch 3, no-cfi 2". */
static void print_reasons(const struct store_stats *p, bool transient, FILE *out)
{
	const char *sep = " (";

	for (int i = 1; i < (int)ARRAY_SIZE(p->reason); i++) {
		if (p->reason[i] == 0 ||
		        stack_reason_is_transient((enum stack_reason)i) != transient)
			continue;
		fprintf(out, "%s%s %" PRIu64, sep, stack_reason_name((enum stack_reason)i),
		        p->reason[i]);
		sep = ", ";
	}
	if (sep[0] == ',')
		fputs(")", out);
}

static void print_outcome(const struct store_stats *p, enum stack_outcome outcome, FILE *out)
{
	fprintf(out, "  %-10s %6.2f %%  %" PRIu64, stack_outcome_name(outcome),
	        share(p->outcome[outcome], p->samples), p->outcome[outcome]);
	if (outcome == STACK_TRANSIENT || outcome == STACK_TRUNCATED)
		print_reasons(p, outcome == STACK_TRANSIENT, out);
	fputc('\n', out);
}

/* What marks mean that are on more than a few stacks. */
static void print_meanings(const struct store_stats *p, FILE *out)
{
	double part = share(p->outcome[STACK_NO_CONTEXT], p->samples);
	struct buf b;

	buf_init(&b, 65536);
	for (int i = 1; i < (int)ARRAY_SIZE(p->reason); i++) {
		if (share(p->reason[i], p->samples) <= STACK_MEANING_MIN_SHARE)
			continue;
		buf_printf(&b, "  %.1f %% %s: ", share(p->reason[i], p->samples),
		        stack_reason_name((enum stack_reason)i));
		stack_meaning(&b, STACK_TRUNCATED, (enum stack_reason)i, &p->cuts[i]);
		buf_puts(&b, "\n");
	}
	if (part > STACK_MEANING_MIN_SHARE) {
		buf_printf(&b, "  %.1f %% %s: ", part, stack_outcome_name(STACK_NO_CONTEXT));
		stack_meaning(&b, STACK_NO_CONTEXT, REASON_NONE, NULL);
		buf_puts(&b, "\n");
	}
	if (b.data != NULL && !b.failed)
		fputs(b.data, out);
	buf_release(&b);
}

void summary_print(const struct recorder_facts *s, bool unsampled, FILE *out)
{
	const struct store_stats *p = &s->pipeline.stored;
	const struct kernel_stats *ss = &s->kernel;
	double seconds = (double)s->duration_ns / 1e9;

	fprintf(out, "%" PRIu64 " samples of %" PRIu64 " thread%s in %.1f s%s\n", p->samples,
	        p->threads, p->threads == 1 ? "" : "s", seconds,
	        s->all_exited ? " (the process exited)" : "");
	if (p->samples != 0) {
		print_outcome(p, STACK_EXACT, out);
		print_outcome(p, STACK_TRANSIENT, out);
		print_outcome(p, STACK_TRUNCATED, out);
		if (p->outcome[STACK_NO_CONTEXT] != 0)
			print_outcome(p, STACK_NO_CONTEXT, out);
		print_meanings(p, out);
	}
	fprintf(out,
	        "  lost       %" PRIu64 " (ring buffer full %" PRIu64 ", walk in progress %" PRIu64,
	        s->lost, ss->lost, ss->missed);
	if (s->unread != 0)
		fprintf(out, ", not read in time %" PRIu64, s->unread);
	fputs(")\n", out);
	if (s->table_losses != 0)
		fprintf(out, "  libraries without unwind tables: the tables are full\n");
	if (s->pipeline.bad_records + ss->bad_records != 0)
		fprintf(out, "  records that were not understood: %" PRIu64 "\n",
		        s->pipeline.bad_records + ss->bad_records);
	fprintf(out, "cost: rprof %.2f %% of one CPU", share(s->own_cpu_ns, s->duration_ns));
	if (ss->bpf_runs != 0)
		fprintf(out, ", in the kernel %.2f %% (%.1f us a sample)",
		        share(ss->bpf_ns, s->duration_ns),
		        (double)ss->bpf_ns / 1e3 / (double)(ss->samples != 0 ? ss->samples : 1));
	fprintf(out, "\nrecording: %s\n", s->path);
	if (p->samples == 0 && unsampled)
		return;
	if (p->samples == 0)
		fprintf(out, "next: nothing was recorded: was the process idle? CPU samples are "
		             "taken only while it runs\n");
	else
		fprintf(out, "next: rprof flamegraph %s -o flamegraph.html   or: rprof report %s\n",
		        s->path, s->path);
}

void summary_print_json(const struct recorder_facts *s, FILE *out)
{
	const struct store_stats *p = &s->pipeline.stored;
	const struct kernel_stats *ss = &s->kernel;
	const char *sep = "";
	struct buf path;

	buf_init(&path, 65536);
	buf_json_str(&path, s->path);
	fprintf(out,
	        "{\"recording\":%s,\"duration_ns\":%" PRIu64 ",\"rate_hz\":%u,\"samples\":%" PRIu64
	        ",\"threads\":%" PRIu64 ",\"exited\":%s,\"outcomes\":{",
	        path.data != NULL ? path.data : "null", s->duration_ns, s->rate_hz, p->samples,
	        p->threads, s->all_exited ? "true" : "false");
	for (int i = STACK_EXACT; i <= STACK_NO_CONTEXT; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i == STACK_EXACT ? "" : ",",
		        stack_outcome_name((enum stack_outcome)i), p->outcome[i]);
	fputs("},\"reasons\":{", out);
	for (int i = 1; i < (int)ARRAY_SIZE(p->reason); i++) {
		if (p->reason[i] == 0)
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, sep, stack_reason_name((enum stack_reason)i),
		        p->reason[i]);
		sep = ",";
	}
	fprintf(out,
	        "},\"lost\":{\"ring-buffer-full\":%" PRIu64 ",\"walk-in-progress\":%" PRIu64
	        ",\"unwind-tables-full\":%" PRIu64 ",\"not-read-in-time\":%" PRIu64
	        "},\"recorder_cpu_ns\":%" PRIu64 ",\"bpf_run_ns\":%" PRIu64 ",\"bpf_runs\":%" PRIu64
	        ",\"user_reads\":%" PRIu64 ",\"table_lookups\":%" PRIu64 ",\"ring_bytes\":%" PRIu64
	        ",\"wakeups\":%" PRIu64 ",\"captures\":%" PRIu64 ",\"captures_as_before\":%" PRIu64
	        ",\"samples_with_unsent\":%" PRIu64 ",\"longest_run_ns\":%" PRIu64
	        ",\"records_not_understood\":%" PRIu64 ",\"verified_instructions\":{",
	        ss->lost, ss->missed, s->table_losses, s->unread, s->own_cpu_ns, ss->bpf_ns,
	        ss->bpf_runs, ss->reads, ss->lookups, ss->ring_bytes, ss->wakeups, ss->captures,
	        ss->looked_at, ss->unsent, ss->longest_ns,
	        s->pipeline.bad_records + ss->bad_records);
	for (size_t i = 0; i < NR_TRIGGERS; i++)
		fprintf(out, "%s\"%s\":%u", i == 0 ? "" : ",", triggers[i].name, ss->verified[i]);
	fputs("}", out);
#ifdef RPROF_CHECK
	fprintf(out,
	        ",\"walks_compared\":%" PRIu64 ",\"frames_compared\":%" PRIu64
	        ",\"native_differences\":%" PRIu64 ",\"interp_differences\":%" PRIu64
	        ",\"whole_differences\":%" PRIu64 ",\"captures_compared\":%" PRIu64
	        ",\"capture_differences\":%" PRIu64,
	        ss->checked, ss->check_frames, ss->check_native, ss->check_interp, ss->check_whole,
	        ss->check_captures, ss->check_capture);
#endif
	fputs("}\n", out);
	buf_release(&path);
}

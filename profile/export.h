/* Recordings as text for other programs: folded stacks and JSON Lines (docs/jsonl.md: a stable
 * form). */
#ifndef PROFILE_EXPORT_H
#define PROFILE_EXPORT_H

#include "profile/reader.h"
#include "profile/view.h"

/* Takes a piece of the output; 0 or -errno, which ends the export. */
typedef int export_write_fn(const char *data, size_t len, void *ctx);

/*
 * `root;...;leaf COUNT`, one line for each distinct line, in the order of their first samples; with
 * threads, `process;thread;root;...`. COUNT is samples, so filter->trigger must name one trigger:
 * those of different triggers do not add up. Suffixes of the usual scripts: kernel `_[k]`, JIT code
 * `_[j]`, inlined `_[i]`. Before the suffix, where several functions have one name, stands where
 * each begins: `block in <main> [shop.rb:12]`. In names ';' becomes ':', a control character ' ',
 * and a last word of digits is joined by '_': the scripts would take it for a count.
 */
int export_folded(struct reader *r, const struct reader_filter *filter, const struct view *view,
        bool threads, export_write_fn *write, void *ctx, struct err *err);

/* What the recording holds, nothing left out; with samples, a line for each sample follows. */
int export_jsonl(struct reader *r, const struct reader_filter *filter, bool samples,
        export_write_fn *write, void *ctx, struct err *err);

/* The trigger to show when the user names none: "cpu", else the first; NULL: there is none. */
const char *export_default_trigger(const struct reader *r);

/* One frame as a JSON object, as in JSON Lines. */
struct buf;
void export_frame_json(struct buf *b, const struct frame *f);

#endif

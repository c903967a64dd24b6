/*
 * What a function is called where people read it. Its name is the runtime's own label, which two
 * blocks of a file share: "block in <main>". Where functions of a recording share a name, those
 * whose first line is known are shown with the place where they begin. All others are called by
 * their names alone. Pure; reports, folded stacks and flame graphs share it.
 */
#ifndef PROFILE_LABEL_H
#define PROFILE_LABEL_H

#include "base/buf.h"
#include "profile/reader.h"

struct labels {
	const struct reader *reader; /* borrowed */
	uint8_t *places;             /* owned; enum place by function id - 1 */
};

/* 0 or -ENOMEM. Of all functions of the recording, whatever a view or a filter hides: a function is
 * called the same in all that is made of a recording. */
int labels_init(struct labels *l, const struct reader *r);
void labels_release(struct labels *l); /* zeroed is allowed */

/* Is the function shown with the line where it begins? */
bool labels_has_place(const struct labels *l, uint32_t function);
/* Appends that place: "shop.rb:12", or with the whole path if a namesake begins on this line of
 * another "shop.rb". To be called if there is one. */
void labels_put_place(const struct labels *l, uint32_t function, struct buf *b);
/* Appends the name; of a method made of a block with the method's: "block in <main> (Foo#bar)". An
 * unknown name is "". */
void label_put_name(struct buf *b, const struct frame *f);

#endif

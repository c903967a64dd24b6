/* What a recording ends with: how much, how well, at what cost, and what to do next. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "record/recorder.h"
#include <stdio.h>

/* unsampled: an error follows: of a process that used CPU time there is no sample. */
void summary_print(const struct recorder_facts *s, bool unsampled, FILE *out);
void summary_print_json(const struct recorder_facts *s, FILE *out);

#endif

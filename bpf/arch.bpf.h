/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The kernel side of the architecture that the recorded programs run on. */
#ifndef BPF_ARCH_BPF_H
#define BPF_ARCH_BPF_H

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#include "bpf/arch/x86_64.bpf.h"
#else
#error "bpf/arch/ has no file for this architecture"
#endif

#endif

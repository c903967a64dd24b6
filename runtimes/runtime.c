#include "runtimes/runtime.h"

const struct runtime_ops *const runtimes[] = {&ruby_runtime, NULL};

// Everything that most programs need: formulas, schedules, machines, operators, kernels, tuning,
// libraries. Not included:
//
// - schedules/library/library.h: the library's schedules with typed parameters
// - targets/lower/nest.h: Kernel::nest(), the arguments, loops and buffers of a kernel
// - targets/chip/compile.h: programs for the simulated chip
// - targets/cpu/emit.h: tensor instructions of one's own
// - schedules/primitive.h: directives as data
#pragma once

#include "autotune/tune.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "driver/library.h"
#include "driver/machines.h"
#include "driver/target.h"
#include "driver/tuned.h"
#include "dsl/buffers.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "dsl/op.h"
#include "dsl/padding.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "dsl/top_k.h"
#include "dsl/tuple.h"
#include "machine/instruction.h"
#include "machine/machine.h"
#include "ops/ops.h"
#include "schedules/schedule.h"
#include "schedules/values.h"
#include "support/error.h"

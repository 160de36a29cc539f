// All that a program needs: formulas, schedules, machines, operators, kernels, tuning, libraries.
#pragma once

#include "autotune/tune.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "driver/library.h"
#include "driver/target.h"
#include "driver/tuned.h"
#include "dsl/buffers.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "dsl/op.h"
#include "machine/instruction.h"
#include "machine/machine.h"
#include "ops/ops.h"
#include "schedules/schedule.h"
#include "support/error.h"

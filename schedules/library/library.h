// The schedules of the library with their typed parameters: library::schedule_matmul(op, machine,
// parameters), …
#pragma once

#include "schedules/library/attention.h"
#include "schedules/library/chip_elementwise.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/chip_packed_matmul.h"
#include "schedules/library/conv.h"
#include "schedules/library/conv_filters.h"
#include "schedules/library/depthwise.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/gemv.h"
#include "schedules/library/matmul.h"
#include "schedules/library/reduce.h"
#include "schedules/library/rows.h"
#include "schedules/library/scatter.h"
#include "schedules/library/transpose.h"
#include "schedules/library/winograd.h"

// All operators.
#pragma once

#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/quantise.h"
#include "ops/recurrent.h"
#include "ops/reorder.h"
#include "ops/resize.h"
#include "ops/rows.h"
#include "ops/scan.h"

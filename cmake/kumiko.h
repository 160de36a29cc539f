// #include <kumiko/kumiko.h>: all of Kumiko.
#pragma once

#include "driver/kumiko.h"

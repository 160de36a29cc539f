// #include <kumiko/kumiko.h>: what most programs need (driver/kumiko.h names the other headers).
#pragma once

#include "driver/kumiko.h"

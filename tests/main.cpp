// The entry point of every test executable: doctest's own, which takes filters and options such as `--test-case=NAME`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// A shared object without ops.
extern "C" int nothing_of_interest(void);
int nothing_of_interest(void) { return 0; }

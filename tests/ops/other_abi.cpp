// A shared object for another version of Kumiko; it must be refused.
struct Exported {
    const char *abi;
    void *operators;
};
extern "C" const Exported kumiko_exported_ops;
const Exported kumiko_exported_ops = {"ops 0, Halide 1.0, C++ ABI 1", nullptr};

// Recovery from crashes of the compiler.
#pragma once

#include <functional>

namespace kumiko {

// Runs f. An event in f that would end the process (an abort of LLVM, a fault in an emitter) throws
// InternalError instead. Memory that f allocated and locks that it took are not released, so the
// caller should be a program that continues with something else. While f runs, the process's
// handlers of SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV and SIGTRAP are LLVM's, which pass on the
// signals of other threads.
void survive_crashes(const std::function<void()> &f);

} // namespace kumiko

// Compiling what may crash the compiler.
#pragma once

#include <functional>

namespace kumiko {

// Runs f. What in it would end the process (an abort of LLVM's, a fault of an emitter) throws InternalError instead, and what f had
// allocated or locked stays so: for programs that go on with something else. While it runs, the process's handlers of SIGABRT, SIGBUS,
// SIGFPE, SIGILL, SIGSEGV and SIGTRAP are LLVM's, which pass on what happens in other threads.
void survive_crashes(const std::function<void()> &f);

} // namespace kumiko

#include "targets/cpu/crash_guard.h"

#include "support/error.h"

#include <llvm/Support/CrashRecoveryContext.h>

#include <exception>
#include <mutex>

namespace kumiko {

namespace {

// The handlers are installed while at least one caller is active.
class Handlers {
public:
    Handlers() {
        const std::lock_guard lock(mutex());
        if (users()++ == 0) llvm::CrashRecoveryContext::Enable();
    }
    ~Handlers() {
        const std::lock_guard lock(mutex());
        if (--users() == 0) llvm::CrashRecoveryContext::Disable();
    }
    Handlers(const Handlers &) = delete;
    Handlers &operator=(const Handlers &) = delete;

private:
    static std::mutex &mutex() {
        static std::mutex m;
        return m;
    }
    static int &users() {
        static int n = 0;
        return n;
    }
};

} // namespace

void survive_crashes(const std::function<void()> &f) {
    const Handlers handlers;
    std::exception_ptr thrown; // an exception must not unwind through LLVM's frames
    llvm::CrashRecoveryContext context;
    const bool whole = context.RunSafely([&] {
        try {
            f();
        } catch (...) {
            thrown = std::current_exception();
        }
    });
    if (thrown) std::rethrow_exception(thrown);
    if (!whole) throw InternalError("the compiler crashed");
}

} // namespace kumiko

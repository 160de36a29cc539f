#include "autotune/measurer.h"

#include "autotune/measurer/measure.h"
#include "autotune/socket_io.h"
#include "support/duration.h"
#include "support/memory.h"
#include "support/names.h"

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace kumiko {

namespace {

const std::vector<std::string> &outcome_names() {
    static const std::vector<std::string> names = {"ok",    "illegal", "unbuildable", "unlinkable", "failed",
                                                   "wrong", "crashed", "timed out",   "impossible"};
    return names;
}

Outcome outcome_of(uint32_t status) {
    switch (status) {
    case MEASURER_OK:
        return Outcome::Ok;
    case MEASURER_BAD_OBJECT:
        return Outcome::Unlinkable;
    case MEASURER_FAILED:
    case MEASURER_NO_MEMORY:
        return Outcome::Failed;
    case MEASURER_WRONG:
        return Outcome::Wrong;
    default:
        throw InternalError("the measurer rejected a request as malformed");
    }
}

// Polls whether the running call has exceeded its time limit.
class CallWatch {
public:
    CallWatch(const measurer_page &page, double timeout) : page_(page), timeout_(timeout), seen_(page.calls) {}
    bool over() {
        if (const uint32_t calls = page_.calls; calls != seen_) seen_ = calls, since_.restart();
        return seen_ % 2 == 1 && since_.seconds() > timeout_;
    }

private:
    const measurer_page &page_;
    const double timeout_;
    uint32_t seen_;
    Stopwatch since_;
};

// Duplicates a descriptor above those passed to the child, so that dup2 does not overwrite another.
int moved_up(int descriptor) {
    const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 16);
    close(descriptor);
    return high;
}

std::string signal_name(int number) {
    switch (number) {
    case SIGSEGV:
        return "it accessed unmapped memory (SIGSEGV)";
    case SIGBUS:
        return "it accessed memory that has no backing (SIGBUS)";
    case SIGILL:
        return "it executed an instruction that this processor lacks (SIGILL)";
    case SIGFPE:
        return "it divided by zero (SIGFPE)";
    case SIGABRT:
        return "it aborted (SIGABRT)";
    case SIGKILL:
        return "it was killed (SIGKILL)";
    default:
        return "signal " + std::to_string(number);
    }
}

// Program name (argv[0]) for a process that should measure; no file has that name.
constexpr const char *measurer_name = "kumiko: measure";
bool main_acts_as_measurer = false;

} // namespace

void act_as_measurer(int argc, char **argv) {
    if (argc == 4 && argv[0] == std::string_view(measurer_name)) std::_Exit(kumiko_measure(argv));
    main_acts_as_measurer = true;
}

bool acts_as_measurer() { return main_acts_as_measurer; }

std::string outcome_name(Outcome outcome) { return outcome_names().at(static_cast<size_t>(outcome)); }

Outcome outcome_from_name(const std::string &name) {
    for (size_t i = 0; i < outcome_names().size(); i++) {
        if (outcome_names()[i] == name) return static_cast<Outcome>(i);
    }
    throw UserError("there is no outcome \"" + name + "\"" + suggest(name, outcome_names()));
}

std::string find_measurer() {
    namespace fs = std::filesystem;
    std::error_code error;
    // In a build folder, the measurer is near the program; in an installation, near the shared
    // library.
    std::vector<fs::path> folders = {fs::read_symlink("/proc/self/exe", error).parent_path()};
    Dl_info library;
    if (dladdr(reinterpret_cast<const void *>(&find_measurer), &library) && library.dli_fname)
        folders.push_back(fs::canonical(library.dli_fname, error).parent_path());
    for (const fs::path &folder : folders) {
        for (const char *place :
             {"kumiko_measurer", "../kumiko_measurer", "../../kumiko_measurer", "../libexec/kumiko/kumiko_measurer",
              "../bin/kumiko_measurer", "../../bin/kumiko_measurer"}) {
            const fs::path candidate = folder / place;
            if (access(candidate.c_str(), X_OK) == 0) return candidate.lexically_normal().string();
        }
    }
    throw UserError(
        "the tuner runs candidates in the program kumiko_measurer, which is neither near this program (in " +
        folders.front().string() + ") nor near the library (in " + folders.back().string() +
        "); build the target kumiko_measurer, or give its path in TuneOptions::measurer");
}

Measurer::Measurer(const MeasureTask &task, const MeasurerOptions &options) : task_(task), options_(options) {
    if (task.calls_this_program() && !options_.program.empty())
        throw UserError("the op calls a function of this program, which the measurer " + options_.program +
                        " does not have; leave TuneOptions::measurer empty");
    runs_this_program_ = options_.program.empty() && task.calls_functions() && acts_as_measurer();
    // Also works if the file was replaced.
    if (runs_this_program_) options_.program = "/proc/self/exe";
    if (options_.program.empty()) options_.program = find_measurer();
    if (options_.memory_mib <= 0) options_.memory_mib = machine_memory() / 4 * 3 >> 20;
    page_file_ = memfd_create("kumiko-page", MFD_CLOEXEC);
    if (page_file_ >= 0 && ftruncate(page_file_, sizeof(measurer_page)) == 0)
        page_ = mmap(nullptr, sizeof(measurer_page), PROT_READ | PROT_WRITE, MAP_SHARED, page_file_, 0);
    try {
        if (!page_ || page_ == MAP_FAILED) throw UserError(std::string("cannot share memory: ") + std::strerror(errno));
        start();
    } catch (...) {
        close_page();
        throw;
    }
}

Measurer::~Measurer() {
    stop();
    close_page();
}

void Measurer::close_page() {
    if (page_ && page_ != MAP_FAILED) munmap(page_, sizeof(measurer_page));
    if (page_file_ >= 0) close(page_file_);
}

void Measurer::start() {
    // The previous process may have died during a call.
    static_cast<measurer_page *>(page_)->calls = 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        throw UserError(std::string("cannot make a socket: ") + std::strerror(errno));
    const int ours = moved_up(pair[0]), theirs = moved_up(pair[1]),
              file = fcntl(task_.descriptor(), F_DUPFD_CLOEXEC, 16), page = fcntl(page_file_, F_DUPFD_CLOEXEC, 16);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, theirs, MEASURER_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, file, MEASURER_TASK);
    posix_spawn_file_actions_adddup2(&actions, page, MEASURER_PAGE);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none; // the measurer must not inherit blocked signals
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    // A separate process group, so that Ctrl-C reaches only the tuner, which then ends cleanly.
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    std::string threads = std::to_string(options_.threads), memory = std::to_string(options_.memory_mib),
                cold = options_.cold ? "1" : "0", name = runs_this_program_ ? measurer_name : options_.program;
    char *arguments[] = {name.data(), threads.data(), memory.data(), cold.data(), nullptr};
    pid_t process = 0;
    const int failed = posix_spawn(&process, options_.program.c_str(), &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(theirs);
    close(file);
    close(page);
    if (failed) {
        close(ours);
        throw UserError("cannot start the measurer " + options_.program + ": " + std::strerror(failed));
    }
    process_ = process;
    socket_ = ours;
    restarts_++;
    measurer_reply hello{};
    const Stopwatch watch;
    const Io io = receive_all(socket_, &hello, sizeof hello, watch, 20, nullptr);
    std::string wrong;
    if (io != Io::Done)
        wrong = "it does not answer";
    else if (hello.magic != MEASURER_MAGIC || hello.version != MEASURER_VERSION)
        wrong = "it has another version";
    else if (hello.status != MEASURER_OK)
        wrong = hello.text;
    if (!wrong.empty()) {
        stop();
        if (hello.status == MEASURER_NO_MEMORY)
            throw UserError(wrong + memory_text() + "; give it more (--memory), or tune a smaller shape");
        throw UserError("cannot use the measurer " + options_.program + ": " + wrong);
    }
    clock_hz_ = std::max(clock_hz_, hello.clock_hz);
}

// A text with the memory limit and the task's fixed memory.
std::string Measurer::memory_text() const {
    if (options_.memory_mib <= 0) return ""; // unknown
    return fmt::format(": the measuring process may take {}, of which arrays and their expected values need {}",
                       bytes_text(static_cast<double>(options_.memory_mib) * (1 << 20)),
                       bytes_text(static_cast<double>(task_.bytes())));
}

void Measurer::stop() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    if (process_ > 0) {
        kill(process_, SIGKILL);
        while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    process_ = 0;
}

// Determines why the process ended, and reaps it, so that the next request starts another.
Measured Measurer::lost(bool timed_out, double timeout) {
    Measured result;
    result.slot = std::min<size_t>(static_cast<measurer_page *>(page_)->running, slots);
    if (timed_out) {
        result.outcome = Outcome::TimedOut;
        result.reason = "still running after " + duration_text(timeout);
        stop();
        return result;
    }
    // The socket is closed because the process is dead or dying; its exit status has the reason.
    int status = 0;
    pid_t done = 0;
    const Stopwatch watch;
    while ((done = waitpid(process_, &status, WNOHANG)) == 0 && watch.seconds() < 5) usleep(200);
    if (done == process_) process_ = 0;
    stop();
    result.outcome = Outcome::Crashed;
    if (done > 0 && WIFSIGNALED(status))
        result.reason = signal_name(WTERMSIG(status));
    else if (done > 0 && WIFEXITED(status))
        result.reason = "the process ended with status " + std::to_string(WEXITSTATUS(status));
    else
        result.reason = "the process closed its socket";
    return result;
}

Measured Measurer::exchange(const void *request, size_t bytes, const std::string *object, double timeout, size_t n,
                            double call_timeout) {
    if (process_ == 0) start();
    measurer_page &page = *static_cast<measurer_page *>(page_);
    page.running = slots;
    bool call_over = false;
    CallWatch call(page, call_timeout);
    std::function<bool()> over = over_;
    if (call_timeout > 0) over = [&] { return (call_over = call.over()) || (over_ && over_()); };
    const Stopwatch watch;
    measurer_reply reply;
    Io io = send_all(socket_, request, bytes, watch, timeout, over);
    if (io == Io::Done && object) io = send_all(socket_, object->data(), object->size(), watch, timeout, over);
    if (io == Io::Done) io = receive_all(socket_, &reply, sizeof reply, watch, timeout, over);
    cut_short_ = io == Io::Over && !call_over;
    if (call_over) return lost(true, call_timeout);
    if (io == Io::Closed) return lost(false, timeout);
    if (io != Io::Done) {
        Measured late = lost(true, timeout);
        if (!object) late.slot = slots; // no slot is at fault: all together took too long
        return late;
    }
    if (reply.magic != MEASURER_MAGIC) throw InternalError("the measurer's reply is malformed");
    Measured result;
    result.outcome = outcome_of(reply.status);
    reply.text[MEASURER_TEXT - 1] = 0;
    if (result.outcome != Outcome::Ok) result.reason = reply.text;
    result.slot = reply.slot;
    result.no_room = reply.status == MEASURER_NO_MEMORY;
    if (result.no_room) result.reason += memory_text();
    for (size_t i = 0; i < n; i++) {
        const measurer_time &t = reply.times[i];
        result.timings.push_back({t.least, t.median, t.spread, static_cast<int>(t.samples), t.ratio, t.ratio_error});
    }
    return result;
}

Measured Measurer::load(size_t slot, const std::string &object, const std::string &symbol, double timeout,
                        const std::vector<PackedInput> &packs) {
    measurer_request request{};
    request.magic = MEASURER_MAGIC;
    request.command = MEASURER_LOAD;
    request.object_bytes = object.size();
    if (symbol.size() >= MEASURER_NAME || slot >= slots)
        throw InternalError(fmt::format("the measurer takes shorter names, and {} slots", slots));
    std::memcpy(request.kernel, symbol.data(), symbol.size());
    request.count = 1;
    request.slots[0] = static_cast<uint32_t>(slot);
    for (size_t i = 0; i < packs.size(); i++) {
        const PackedInput &p = packs[i];
        if (p.symbol.size() >= MEASURER_NAME || p.sizes.size() > MEASURER_PACK_SIZES || i >= MEASURER_PACKS)
            throw InternalError(fmt::format("the measurer takes shorter names, {} inputs that are packed, and {} sizes",
                                            Measurer::packs, int{MEASURER_PACK_SIZES}));
        measurer_pack &asked = request.packs[i];
        std::memcpy(asked.entry, p.symbol.data(), p.symbol.size());
        asked.bytes = static_cast<uint64_t>(p.bytes);
        asked.tensor = static_cast<uint32_t>(p.tensor);
        std::copy(p.sizes.begin(), p.sizes.end(), asked.size);
    }
    return exchange(&request, sizeof request, &object, timeout, 1);
}

Measured Measurer::run(const std::vector<size_t> &which, const RunOptions &options) {
    measurer_request request{};
    request.magic = MEASURER_MAGIC;
    request.command = MEASURER_RUN;
    if (which.empty() || which.size() > slots)
        throw InternalError(fmt::format("the measurer times 1 to {} kernels at a time", slots));
    request.count = static_cast<uint32_t>(which.size());
    for (size_t i = 0; i < which.size(); i++) request.slots[i] = static_cast<uint32_t>(which[i]);
    request.budget = options.budget;
    request.tight = options.tight;
    request.give_up_above = options.give_up_above;
    request.paired = options.paired;
    return exchange(&request, sizeof request, nullptr, options.timeout, which.size(), options.call_timeout);
}

} // namespace kumiko

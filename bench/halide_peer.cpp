#include "bench/halide_peer.h"

#include "support/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kumiko::bench {

namespace {

const char *scheduler = KUMIKO_HALIDE_AUTOSCHEDULER;
const char *function_name = "scheduled_by_halide";

std::string first_line(const std::filesystem::path &file) {
    std::ifstream text(file);
    std::string line;
    std::getline(text, line);
    return line;
}

void write_object(const HalidePipeline &made, int beam, const std::filesystem::path &file) {
    const Halide::Target target = Halide::get_host_target();
    Halide::Pipeline pipeline = made.pipeline;
    pipeline.apply_autoscheduler(target, {"Adams2019", {{"parallelism", "1"}, {"beam_size", std::to_string(beam)}}});
    Halide::Module module =
        pipeline.compile_to_module(made.arguments, function_name, target, Halide::LinkageType::ExternalPlusArgv);
    module.compile({{Halide::OutputFileType::object, file.string()}});
}

// Runs in the separate process. A failure is one line in folder/failure.
int run_scheduler(const Op &op, const HalideForm &form, int beam, const std::filesystem::path &folder) {
    const auto fail = [&](const std::string &why) {
        std::ofstream(folder / "failure") << why << "\n";
        return 1;
    };
    try {
        Halide::load_plugin(scheduler);
        write_object(halide_pipeline(op, form), beam, folder / "kernel.o");
    } catch (const Halide::Error &e) {
        return fail(std::string("Halide: ") + e.what());
    } catch (const std::exception &e) {
        return fail(e.what());
    }
    return 0;
}

enum class Outcome { Written, Failed, TookTooLong };

Outcome write_object_in_process(const Op &op, const HalideForm &form, int beam, int limit_seconds,
                                const std::filesystem::path &folder) {
    const pid_t child = fork();
    if (child < 0) throw UserError("the process of Halide's autoscheduler could not be started");
    if (child == 0) {
        const rlim_t seconds = static_cast<rlim_t>(limit_seconds);
        const rlimit limit = {seconds, seconds};
        setrlimit(RLIMIT_CPU, &limit);
        if (!freopen((folder / "messages").c_str(), "w", stdout)) _exit(1);
        dup2(fileno(stdout), 2);
        _exit(run_scheduler(op, form, beam, folder));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? Outcome::Written : Outcome::Failed;
    const bool ended = WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL;
    return ended ? Outcome::TookTooLong : Outcome::Failed;
}

// The message of the last call that failed.
std::string &halide_message() {
    thread_local std::string message;
    return message;
}
void keep_message(void *, const char *message) { halide_message() = message; }

} // namespace

HalidePeer::HalidePeer(const Op &op, HalideForm form, int limit_seconds) {
    if (access(scheduler, R_OK) != 0)
        throw Unsupported(fmt::format("Halide's autoscheduler is missing: there is no file {}", scheduler));
    std::string pattern = (std::filesystem::temp_directory_path() / "kumiko-halide-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw UserError("a temporary folder for Halide's kernel could not be created");
    folder_ = pattern;
    std::string failure;
    // Most schedules stay inside, and clamps and copies take time.
    for (const bool beyond_edges : {false, true}) {
        form.beyond_edges = beyond_edges;
        failure = make(op, form, limit_seconds);
        if (failure.empty()) return;
        unload();
    }
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
    throw Unsupported(failure);
}

std::string HalidePeer::make(const Op &op, const HalideForm &form, int limit_seconds) {
    Outcome outcome = Outcome::TookTooLong;
    for (const int beam : {32, 1}) { // the scheduler's default beam, then a greedy search
        if (outcome != Outcome::TookTooLong) break;
        beam_ = beam;
        outcome = write_object_in_process(op, form, beam, limit_seconds, folder_);
    }
    if (outcome == Outcome::TookTooLong)
        return fmt::format("Halide's autoscheduler took more than {} s", limit_seconds);
    if (outcome == Outcome::Failed) {
        const std::string why = first_line(folder_ / "failure");
        return why.empty() ? "the process of Halide's autoscheduler crashed" : why;
    }
    try {
        load(op);
        std::vector<void *> arrays;
        for (const Buffer<> &b : shapes_) {
            std::memset(b.data(), 0, b.size_in_bytes());
            arrays.push_back(b.data());
        }
        call(arrays.data());
    } catch (const std::exception &e) {
        return e.what();
    }
    return "";
}

void HalidePeer::load(const Op &op) {
    const char *named = std::getenv("CXX");
    const std::string compiler = named ? named : "c++", object = (folder_ / "kernel.so").string();
    // Halide's runtime is in the object; it must call itself and not the runtime of another
    // library.
    const std::string command = fmt::format("{} -shared -Wl,-Bsymbolic -o '{}' '{}/kernel.o' > '{}/messages' 2>&1",
                                            compiler, object, folder_.string(), folder_.string());
    if (std::system(command.c_str()) != 0)
        throw Unsupported(
            fmt::format("Halide's kernel was not linked by {}: {}", compiler, first_line(folder_ / "messages")));
    object_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!object_) throw Unsupported(std::string("Halide's kernel could not be loaded: ") + dlerror());
    function_ = reinterpret_cast<int (*)(void **)>(dlsym(object_, (std::string(function_name) + "_argv").c_str()));
    using SetHandler = void *(*)(void (*)(void *, const char *));
    const auto set_handler = reinterpret_cast<SetHandler>(dlsym(object_, "halide_set_error_handler"));
    if (!function_ || !set_handler) throw InternalError("Halide's kernel of " + op.name() + " has no entry");
    set_handler(keep_message); // Halide's own handler ends the process
    for (const Input &in : op.inputs()) shapes_.push_back(make_input(in, {}));
    for (const std::string &out : op.separate_outputs()) shapes_.push_back(make_output(op, out, {}));
}

HalidePeer::~HalidePeer() {
    unload();
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
}

void HalidePeer::unload() {
    if (object_) dlclose(object_);
    object_ = nullptr;
    shapes_.clear();
}

void HalidePeer::call(void **arrays) const {
    halide_buffer_t buffers[32];
    void *arguments[32];
    if (shapes_.size() > 32) throw Unsupported("Halide's kernel has more than 32 arrays");
    for (size_t i = 0; i < shapes_.size(); i++) {
        buffers[i] = *shapes_[i].raw_buffer();
        buffers[i].host = static_cast<uint8_t *>(arrays[i]);
        arguments[i] = &buffers[i];
    }
    if (function_(arguments) != 0) throw UserError("Halide: " + halide_message());
}

} // namespace kumiko::bench

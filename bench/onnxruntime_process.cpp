#include "bench/onnxruntime_process.h"

#include "support/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

// The script, and where `./run setup` put the Python modules.
#ifndef KUMIKO_ONNXRUNTIME_PEER
#define KUMIKO_ONNXRUNTIME_PEER ""
#endif
#ifndef KUMIKO_DEPS
#define KUMIKO_DEPS ""
#endif

namespace kumiko::bench {

OnnxRuntimeProcess::OnnxRuntimeProcess() {
    const std::string modules = std::string(KUMIKO_DEPS) + "/python";
    if (!std::filesystem::exists(modules + "/onnxruntime")) {
        reason_ = "there is no " + modules + "/onnxruntime; ./run setup fetches it";
        return;
    }
    start();
    if (!reason_.empty()) return;
    try {
        version_ = ask({{"do", "hello"}}).at("version").get<std::string>();
    } catch (const std::exception &) {
        reason_ = "python3 could not load onnxruntime from " + modules;
    }
}

OnnxRuntimeProcess::~OnnxRuntimeProcess() {
    if (socket_ >= 0) close(socket_); // its input ends, and so does it
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void OnnxRuntimeProcess::start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        reason_ = std::string("no socket for its process: ") + std::strerror(errno);
        return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::string script = KUMIKO_ONNXRUNTIME_PEER, command = "python3",
                path = std::string("PYTHONPATH=") + KUMIKO_DEPS + "/python";
    std::vector<char *> environment = {path.data()}, arguments = {command.data(), script.data(), nullptr};
    for (char **e = environ; *e; e++) {
        if (std::strncmp(*e, "PYTHONPATH=", 11) != 0) environment.push_back(*e);
    }
    environment.push_back(nullptr);
    const int failed = posix_spawnp(&pid_, command.c_str(), &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    if (failed) {
        pid_ = -1;
        reason_ = std::string("python3 could not be started: ") + std::strerror(failed);
    }
}

Json OnnxRuntimeProcess::ask(const Json &request) {
    const std::string line = request.dump() + "\n";
    for (size_t at = 0; at < line.size();) {
        const ssize_t n = send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw UserError("ONNX Runtime's process has ended");
        at += static_cast<size_t>(n);
    }
    for (;;) {
        if (const size_t end = unread_.find('\n'); end != std::string::npos) {
            const Json answer = parse_json(unread_.substr(0, end), "ONNX Runtime's answer");
            unread_.erase(0, end + 1);
            return answer;
        }
        char text[4096];
        const ssize_t n = recv(socket_, text, sizeof text, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw UserError("ONNX Runtime's process has ended");
        unread_.append(text, static_cast<size_t>(n));
    }
}

SharedFile::SharedFile(size_t bytes) : file_(memfd_create("kumiko", MFD_CLOEXEC)), bytes_(bytes) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0)
        throw UserError(std::string("no memory to share with another process: ") + std::strerror(errno));
}

SharedFile::~SharedFile() {
    if (file_ >= 0) close(file_);
}

std::string SharedFile::path() const { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_); }

void SharedFile::write(const void *from) {
    for (size_t at = 0; at < bytes_;) {
        const ssize_t n = pwrite(file_, static_cast<const char *>(from) + at, bytes_ - at, static_cast<off_t>(at));
        if (n <= 0) throw UserError(std::string("writing memory shared with another process: ") + std::strerror(errno));
        at += static_cast<size_t>(n);
    }
}

void SharedFile::read(void *to) const {
    for (size_t at = 0; at < bytes_;) {
        const ssize_t n = pread(file_, static_cast<char *>(to) + at, bytes_ - at, static_cast<off_t>(at));
        if (n <= 0) throw UserError(std::string("reading memory shared with another process: ") + std::strerror(errno));
        at += static_cast<size_t>(n);
    }
}

} // namespace kumiko::bench

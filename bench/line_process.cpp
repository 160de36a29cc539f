#include "bench/line_process.h"

#include "support/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace kumiko::bench {

namespace {

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> all;
    for (std::string &t : texts) all.push_back(t.data());
    all.push_back(nullptr);
    return all;
}

std::string variable(const std::string &assignment) { return assignment.substr(0, assignment.find('=')); }

} // namespace

LineProcess::LineProcess(std::string name, std::vector<std::string> command, std::vector<std::string> environment)
    : name_(std::move(name)) {
    const auto replaced = [&, own = environment](const std::string &assignment) {
        return std::any_of(own.begin(), own.end(),
                           [&](const std::string &o) { return variable(o) == variable(assignment); });
    };
    for (char **e = environ; *e; e++) {
        if (!replaced(*e)) environment.push_back(*e);
    }
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw UserError("a socket could not be created for the process of " + name_ + ": " + std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int failed = posix_spawnp(&pid_, command.at(0).c_str(), &actions, nullptr, pointers(command).data(),
                                    pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        throw UserError(command[0] + " could not be started: " + std::strerror(failed));
    }
    socket_ = ends[0];
}

LineProcess::~LineProcess() {
    close(socket_);
    waitpid(pid_, nullptr, 0);
}

std::string LineProcess::ask(const std::string &question) {
    const std::string line = question + "\n";
    for (size_t at = 0; at < line.size();) {
        const ssize_t n = send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw UserError("the process of " + name_ + " has ended");
        at += static_cast<size_t>(n);
    }
    for (;;) {
        if (const size_t end = unread_.find('\n'); end != std::string::npos) {
            std::string answer = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return answer;
        }
        char text[4096];
        const ssize_t n = recv(socket_, text, sizeof text, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw UserError("the process of " + name_ + " has ended");
        unread_.append(text, static_cast<size_t>(n));
    }
}

} // namespace kumiko::bench

// A Redis server for one test, on a socket in a temporary folder; its data is discarded.
#pragma once

#include "autotune/redis.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace kumiko::e2e {

// A program that a test starts and ends.
class Process {
public:
    Process(const std::vector<std::string> &words, const std::string &log) {
        std::vector<char *> arguments;
        for (const std::string &w : words) arguments.push_back(const_cast<char *>(w.c_str()));
        arguments.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        REQUIRE(posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), environ) == 0);
        posix_spawn_file_actions_destroy(&actions);
    }
    ~Process() {
        if (id_ > 0) end(SIGKILL);
    }
    Process(const Process &) = delete;

    pid_t id() const { return id_; }
    void signal(int number) const { kill(id_, number); }
    // Sends the signal and returns the exit status; −1 if a signal ended the process.
    int end(int number) {
        kill(id_, number);
        int status = 0;
        waitpid(id_, &status, 0);
        id_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t id_ = 0;
};

inline bool redis_installed() {
    if (std::system("redis-server --version >/dev/null 2>&1") == 0) return true;
    MESSAGE("left out: redis-server is not installed (./run setup installs it)");
    return false;
}

// Requires redis_installed().
class RedisServer {
public:
    RedisServer() {
        char folder[] = "/tmp/kumiko-redis-XXXXXX"; // a socket's path must be short
        REQUIRE(mkdtemp(folder));
        folder_ = folder;
        start();
    }
    ~RedisServer() {
        process_.reset();
        std::filesystem::remove_all(folder_);
    }
    // Ends the server, discards its data, and starts another.
    void start() {
        process_.reset();
        process_ = std::make_unique<Process>(std::vector<std::string>{"redis-server", "--port", "0", "--unixsocket",
                                                                      folder_ + "/redis.sock", "--save", "",
                                                                      "--appendonly", "no", "--dir", folder_},
                                             folder_ + "/log");
        for (int i = 0; i < 200; i++) {
            try {
                connect();
                return;
            } catch (const ServerLost &) { // not yet
            }
            usleep(50000);
        }
        FAIL("redis-server does not come up");
    }
    void stop() { process_.reset(); }
    std::string url() const { return "unix://" + folder_ + "/redis.sock"; }
    Redis connect() const { return Redis(RedisAddress::parse(url())); }
    const std::string &folder() const { return folder_; }

private:
    std::string folder_;
    std::unique_ptr<Process> process_;
};

} // namespace kumiko::e2e

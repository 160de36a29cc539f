// A child process that answers each line on its standard input by one line on its standard output.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace kumiko::bench {

class LineProcess {
public:
    // `name` is for messages: "ONNX Runtime". `environment`: variables "NAME=value" that are added
    // to those of this process, or replace them. Throws UserError if the program cannot be started.
    LineProcess(std::string name, std::vector<std::string> command, std::vector<std::string> environment = {});
    ~LineProcess(); // closes its input and waits for its end
    LineProcess(const LineProcess &) = delete;
    LineProcess &operator=(const LineProcess &) = delete;

    // `line` without its end; so is the answer. Throws UserError if the process has ended.
    std::string ask(const std::string &line);

private:
    std::string name_, unread_;
    int socket_ = -1;
    pid_t pid_ = -1;
};

} // namespace kumiko::bench

// A peer that is a Python module, because its wheel has no C headers: a child process that answers
// lines of JSON (bench/peer_process.py).
#pragma once

#include "bench/line_process.h"
#include "support/json.h"

#include <optional>
#include <string>

namespace kumiko::bench {

class PythonPeer {
public:
    enum class Library { OnnxRuntime, OpenVino };

    // Starts the process and reads its version. If that fails, reason() has the cause, and no other
    // member but name() may be called.
    explicit PythonPeer(Library library);

    const char *name() const; // "ONNX Runtime"
    const std::string &reason() const { return reason_; }
    const std::string &version() const { return version_; }
    // Throws UserError if the process has ended.
    Json ask(const Json &request);

private:
    Library library_;
    std::optional<LineProcess> process_;
    std::string reason_, version_;
};

// An unnamed file that the process can open while this object exists; it transfers arrays in both
// directions.
class SharedFile {
public:
    // Throws UserError if there is not enough memory.
    explicit SharedFile(size_t bytes);
    ~SharedFile();
    SharedFile(const SharedFile &) = delete;
    SharedFile &operator=(const SharedFile &) = delete;

    std::string path() const; // for another process of the same user
    void write(const void *from);
    void read(void *to) const;

private:
    int file_ = -1;
    size_t bytes_ = 0;
};

} // namespace kumiko::bench

#include "bench/python_peer.h"

#include "support/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

// The folder of the scripts, and the one in which `./run setup` put the Python modules.
#ifndef KUMIKO_PEER_SCRIPTS
#define KUMIKO_PEER_SCRIPTS ""
#endif
#ifndef KUMIKO_DEPS
#define KUMIKO_DEPS ""
#endif

namespace kumiko::bench {

namespace {

struct Description {
    const char *name, *module, *script;
};

const Description &describe(PythonPeer::Library library) {
    static const Description onnxruntime = {"ONNX Runtime", "onnxruntime", "onnxruntime_peer.py"},
                             openvino = {"OpenVINO", "openvino", "openvino_peer.py"};
    return library == PythonPeer::Library::OnnxRuntime ? onnxruntime : openvino;
}

} // namespace

PythonPeer::PythonPeer(Library library) : library_(library) {
    const Description &d = describe(library);
    const std::string modules = std::string(KUMIKO_DEPS) + "/python";
    if (!std::filesystem::exists(modules + "/" + d.module)) {
        reason_ = fmt::format("there is no {}/{}; ./run setup fetches it", modules, d.module);
        return;
    }
    try {
        process_.emplace(d.name, std::vector<std::string>{"python3", std::string(KUMIKO_PEER_SCRIPTS) + "/" + d.script},
                         std::vector<std::string>{"PYTHONPATH=" + modules});
    } catch (const UserError &e) {
        reason_ = e.what();
        return;
    }
    try {
        version_ = ask({{"do", "hello"}}).at("version").get<std::string>();
    } catch (const std::exception &) {
        reason_ = fmt::format("python3 could not load {} from {}", d.module, modules);
    }
}

const char *PythonPeer::name() const { return describe(library_).name; }

Json PythonPeer::ask(const Json &request) {
    return parse_json(process_.value().ask(request.dump()), std::string(name()) + "'s answer");
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

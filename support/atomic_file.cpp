#include "support/atomic_file.h"

#include "support/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kumiko {

namespace {

[[noreturn]] void fail(const std::string &path, int error) {
    throw UserError("cannot write " + path + ": " + std::strerror(error) + "; no file was changed");
}

// A file beside its place, removed unless it is moved there.
class TemporaryFile {
public:
    TemporaryFile(const std::string &path, std::string_view bytes) : path_(path), name_(path + ".XXXXXX") {
        int file = mkstemp(name_.data());
        if (file < 0) {
            name_.clear();
            fail(path, errno);
        }
        int error = 0;
        while (!bytes.empty() && !error) {
            ssize_t written = ::write(file, bytes.data(), bytes.size());
            if (written >= 0) {
                bytes.remove_prefix(size_t(written));
            } else if (errno != EINTR) {
                error = errno;
            }
        }
        // mkstemp makes private files; give this one the usual permissions.
        mode_t mask = umask(0);
        umask(mask);
        if (!error && (fchmod(file, 0666 & ~mask) || fsync(file))) {
            error = errno;
        }
        if (close(file) && !error) {
            error = errno;
        }
        if (error) {
            remove();
            fail(path, error);
        }
    }
    TemporaryFile(TemporaryFile &&other) noexcept : path_(std::move(other.path_)), name_(std::move(other.name_)) {
        other.name_.clear();
    }
    TemporaryFile &operator=(TemporaryFile &&) = delete;
    ~TemporaryFile() { remove(); }

    void move_into_place() {
        if (std::rename(name_.c_str(), path_.c_str())) {
            fail(path_, errno);
        }
        name_.clear();
    }

private:
    void remove() {
        if (!name_.empty()) {
            unlink(name_.c_str());
            name_.clear();
        }
    }
    std::string path_, name_;
};

} // namespace

void write_file_atomically(const std::string &path, std::string_view bytes) {
    TemporaryFile(path, bytes).move_into_place();
}

void write_files_atomically(const std::vector<std::pair<std::string, std::string>> &files) {
    std::vector<TemporaryFile> written;
    written.reserve(files.size());
    for (const auto &[path, bytes] : files) {
        written.emplace_back(path, bytes);
    }
    for (TemporaryFile &file : written) {
        file.move_into_place();
    }
}

} // namespace kumiko

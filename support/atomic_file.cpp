#include "support/atomic_file.h"

#include "support/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace kumiko {

namespace {

[[noreturn]] void fail(const std::string &path, int error) {
    throw UserError("cannot write " + path + ": " + std::strerror(error) + "; no file was changed");
}

// Writes all bytes. Returns an error number, or 0.
int write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written >= 0) {
            bytes.remove_prefix(size_t(written));
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

// Follows symbolic links to the file that is to change.
std::string target_of(const std::string &path) {
    std::error_code none;
    if (!std::filesystem::is_symlink(path, none)) return path;
    const auto target = std::filesystem::weakly_canonical(path, none);
    return none ? path : target.string();
}

// Writes directly to devices and pipes, which must not be replaced. Returns false for other files.
bool write_through(const std::string &path, std::string_view bytes) {
    std::error_code none;
    const auto status = std::filesystem::status(path, none);
    if (none || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return false;
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) fail(path, errno);
    int error = write_all(file, bytes);
    if (close(file) && !error) error = errno;
    if (error) throw UserError("cannot write " + path + ": " + std::strerror(error));
    return true;
}

// A temporary file next to its destination, removed unless it is moved there.
class TemporaryFile {
public:
    TemporaryFile(const std::string &path, std::string_view bytes) : path_(target_of(path)), name_(path_ + ".XXXXXX") {
        int file = mkstemp(name_.data());
        if (file < 0) {
            name_.clear();
            fail(path, errno);
        }
        int error = write_all(file, bytes);
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
    if (!write_through(path, bytes)) TemporaryFile(path, bytes).move_into_place();
}

void write_files_atomically(const std::vector<std::pair<std::string, std::string>> &files) {
    std::vector<TemporaryFile> written;
    written.reserve(files.size());
    for (const auto &[path, bytes] : files) {
        if (!write_through(path, bytes)) written.emplace_back(path, bytes);
    }
    for (TemporaryFile &file : written) {
        file.move_into_place();
    }
}

} // namespace kumiko

// A folder in the system's folder of temporary files, deleted with its contents by the destructor.
#pragma once

#include <filesystem>

namespace kumiko {

class TemporaryFolder {
public:
    // Throws UserError if it cannot be made.
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace kumiko

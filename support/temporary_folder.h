// A temporary folder, which the destructor deletes with its contents.
#pragma once

#include <filesystem>

namespace kumiko {

class TemporaryFolder {
public:
    // Throws UserError if it cannot be created.
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace kumiko

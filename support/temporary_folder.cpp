#include "support/temporary_folder.h"

#include "support/error.h"

#include <cstdlib>

namespace kumiko {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "kumiko-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw UserError("cannot make a folder in " + fs::temp_directory_path().string());
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

} // namespace kumiko
